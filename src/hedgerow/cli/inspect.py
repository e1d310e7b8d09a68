"""``hedgerow inspect``."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from .failures import ExitCode, failing_as
from .fit_summary import why_no_judge
from .options import AsJson, Lang, ModelFile
from .terminal import cell, print_json

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier
    from hedgerow.storage.container import ModelFile as File
    from hedgerow.vocabulary.naming import Naming


_LISTED = 10  # of a list among facts
_COLUMNS = 7  # of a table that fits a terminal


_FREQUENT = 10  # labels that are shown


def inspect(model: ModelFile, json: AsJson = False, lang: Lang = None) -> None:
    """Check a model file and show what is in it, with its most frequent labels.

    \b
    Examples:
      hedgerow inspect tags.hedgerow
      hedgerow inspect subjects.hedgerow --lang de
      hedgerow inspect tags.hedgerow --json | jq .parameters
    """  # noqa: D301
    from hedgerow.storage.container import ModelFileError, read_model

    from .inputs import OpenModel, load_model

    with failing_as(ExitCode.MODEL, ModelFileError):
        file = read_model(model)
    classifier = load_model(model)
    frequent = _most_frequent(classifier, OpenModel(model, classifier).naming(lang))
    description: dict[str, Any] = {**classifier.describe(), "most_frequent_labels": frequent}
    if json:
        print_json({**_about_file(file), **description})
    else:
        _print(file, description)


def _most_frequent(classifier: HedgerowClassifier, naming: Naming | None) -> list[dict[str, Any]]:
    """The labels of most training inputs with their names; the first of all, where that is not known."""
    import numpy as np

    labels, counts = classifier.classes_, classifier.label_counts_
    places = range(min(_FREQUENT, len(labels)))
    if counts is not None:
        places = np.argsort(-counts, kind="stable")[:_FREQUENT].tolist()
    shown = []
    for place in places:
        label = labels[place].item() if isinstance(labels[place], np.generic) else labels[place]
        entry: dict[str, Any] = {"label": label}
        if naming is not None:
            entry["name"] = naming.of(label)
        if counts is not None:
            entry["examples"] = int(counts[place])
        shown.append(entry)
    return shown


def _about_file(file: File) -> dict[str, Any]:
    return {
        "file": file.path,
        "format_version": file.version,
        "written_by": file.writer,
        "bytes": file.size,
        "sections": {
            name: {"dtype": str(section.dtype), "shape": list(section.shape), "bytes": section.nbytes}
            for name, section in file.sections.items()
        },
    }


def _print(file: File, description: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(cell(file.path, "bold"))
    description = dict(description)
    why = description.pop("no_judge")
    if why is not None:
        description["judge"] = why_no_judge(why)
    elif description["judge"] is None:
        description["judge"] = "none; the file does not say why"
    facts = _facts(
        {
            "format": f"hedgerow {file.version}, written by hedgerow {file.writer}, all checksums match",
            "size": decimal(file.size),
            **{
                key: value for key, value in description.items() if not isinstance(value, (dict, list, tuple))
            },
        }
    )
    console.print(facts)
    for key, value in description.items():
        if isinstance(value, dict):
            console.print(cell(f"\N{BULLET} {key}", "bold"))
            console.print(_facts(value))
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, dict) for item in value):
            console.print(cell(f"\N{BULLET} {key}", "bold"))
            if max(map(len, value)) > _COLUMNS:
                for record in value:
                    console.print(_facts(record), "")
            else:
                console.print(_records(list(value)))
        elif isinstance(value, (list, tuple)):
            console.print(cell(f"\N{BULLET} {key}:", "bold"), cell(", ".join(map(_shown, value))))
    console.print(cell("\N{BULLET} sections of the file", "bold"))
    console.print(
        _records(
            [
                {"section": name, "type": section.dtype, "shape": section.shape, "bytes": section.nbytes}
                for name, section in file.sections.items()
            ]
        )
    )


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(one, dict) and "words" in one for one in value):
        return "\n".join(one["words"] for one in value)  # what is guaranteed
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_shown, value[:_LISTED]))
        return shown if len(value) <= _LISTED else f"{shown}, ... ({len(value):,}; --json has all)"
    if isinstance(value, bool) or not isinstance(value, Integral):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{int(value):,}"


def _facts(facts: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        table.add_row(cell(f"  {key}", "dim"), cell(_shown(value)))
    return table


def _records(records: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    table = Table(box=None, padding=(0, 1), pad_edge=True)
    for name in names:
        numbers = all(isinstance(record.get(name, 0), Integral) for record in records)
        table.add_column(cell(name, "dim"), justify="right" if numbers else "left")
    for record in records:
        table.add_row(*(cell(_shown(record[name]) if name in record else "") for name in names))
    return table
