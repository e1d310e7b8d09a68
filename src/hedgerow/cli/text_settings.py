"""The options for texts, as the estimators take them."""

from __future__ import annotations

from typing import Any

import typer

import hedgerow.cli.options as options

from .options import given, refuse_without, values_of


def text_settings(context: typer.Context) -> dict[str, Any]:
    """Settings for texts from the command line."""
    texts = values_of(context, [name for name in options.TEXTS if name != "fields"])
    fields = dict(map(options.parse_field, context.params["text_field"]))
    plain = all(weight == 1 for weight in fields.values())
    texts["fields"] = (list(fields) if plain else fields) or None
    if texts["language"] == options.NO_STEMS:
        texts["language"] = None
    first, last = texts["char_ngrams"].split("-")
    texts |= {"ngrams": (1, texts["ngrams"]), "char_ngrams": (int(first), int(last))}
    if texts["analyzer"] == "char_wb":
        asked = given(context)
        for name in ("language", "ngrams"):
            if name in asked:
                raise typer.BadParameter(
                    "it is for words, not for --analyzer char_wb", ctx=context, param_hint=f"--{name}"
                )
    elif texts["analyzer"] == "word" and not any(name.endswith("~chars") for name in fields):
        refuse_without(context, {"char_ngrams"}, "--analyzer char_wb or word+char_wb")
    return texts
