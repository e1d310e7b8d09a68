"""Stems of words: those of Snowball, for all its languages."""

from __future__ import annotations

import threading
from functools import cache, partial
from typing import Any

import Stemmer

from hedgerow import _native
from hedgerow.inputs.parameters import ParameterError

__all__ = ["AUTO", "check_language", "guess_language", "language_name", "stems_for", "usual_language"]

AUTO = "auto"
# Written forms of one language that have codes of their own.
_MORE_CODES = {"nb": "norwegian", "nn": "norwegian"}


@cache
def _names() -> tuple[str, ...]:
    """The languages that can be guessed, in the order of the engine's numbers."""
    return tuple(name for name, _ in _native.languages())


@cache
def _codes() -> dict[str, str]:
    """Name by ISO code."""
    return {code: name for name, code in _native.languages()} | _MORE_CODES


def language_name(language: str) -> str:
    """The name that Snowball has for a language, given by name or ISO code; "auto" stays.

    Examples
    --------
    >>> language_name("de"), language_name("English"), language_name("auto")
    ('german', 'english', 'auto')
    """
    if isinstance(language, str):
        name = _codes().get(language.lower(), language.lower())
        if name == AUTO or name in Stemmer.algorithms():
            return name
    raise ParameterError(
        f"language is {language!r}; it must be 'auto', None, or a language of Snowball by name or ISO code:"
        f" {', '.join(Stemmer.algorithms())}"
    )


def check_language(language: Any) -> None:
    """Raise unless texts can be stemmed in this language; None is the absence of stems."""
    if language is not None:
        language_name(language)


def guess_language(text: str) -> str | None:
    """The language of a text by its function words; None if it has none.

    Examples
    --------
    >>> guess_language("The hedge is as old as the house"), guess_language("Hecken und was in ihnen lebt")
    ('english', 'german')
    """
    number = _native.guess_language(text)
    return None if number == _native.NO_LANGUAGE else _names()[number]


def stems_for(language: str, usual: str | None) -> _native.Stems:
    """What the engine asks for stems.

    Parameters
    ----------
    language : str
        As of `language_name`.
    usual : str or None
        With "auto", the language of texts that show none; None leaves their words as they are.
    """
    if language == AUTO:
        number = _native.NO_LANGUAGE if usual is None else _names().index(usual)
        return _native.Stems(_native.EACH_TEXT, number, _stem_numbered)
    # The engine needs to know only that there is one language, not which.
    return _native.Stems(0, _native.NO_LANGUAGE, partial(_stem_named, language))


def usual_language(stems: _native.Stems) -> str | None:
    """The language of most of the texts that a vocabulary was fitted to."""
    return None if stems.usual == _native.NO_LANGUAGE else _names()[stems.usual]


_stemmers: dict[str, Any] = {}
_stemming = threading.Lock()  # a stemmer is not made to be shared


def _stem_named(language: str, number: int, words: list[bytes]) -> list[bytes]:
    with _stemming:
        if language not in _stemmers:
            _stemmers[language] = Stemmer.Stemmer(language, 0)  # the engine remembers the words it met
        stems: list[bytes] = _stemmers[language].stemWords(words)
    return stems


def _stem_numbered(number: int, words: list[bytes]) -> list[bytes]:
    name = _names()[number]
    if name not in Stemmer.algorithms():  # of another release than the one the list was made for
        return words
    return _stem_named(name, number, words)
