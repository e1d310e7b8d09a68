"""Stems of words: those of Snowball, for all its languages."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import Stemmer

from hedgerow import _native
from hedgerow.inputs.parameters import ParameterError

__all__ = [
    "AUTO",
    "StemmerWarning",
    "check_language",
    "check_stemmer",
    "guess_language",
    "guess_languages",
    "is_auto",
    "language_name",
    "language_number",
    "stemmer_version",
    "stems_for",
    "usual_language",
]

AUTO = "auto"


class StemmerWarning(UserWarning):
    """The stems of a model may be others than those that are made now."""


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


def language_number(tag: str | None) -> int:
    """The engine's number of a language, by name or a tag such as "en-GB"; NO_LANGUAGE where it has no stems.

    Examples
    --------
    >>> language_number("de") == language_number("de-AT") == language_number("German")
    True
    >>> language_number("la") == language_number(None)
    True
    """
    code = "" if tag is None else tag.lower().replace("_", "-").partition("-")[0]
    name = _codes().get(code, code)
    return _names().index(name) if name in _names() else _native.NO_LANGUAGE


def is_auto(language: Any) -> bool:
    """Whether the language is decided for each text."""
    return isinstance(language, str) and language.lower() == AUTO


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


def guess_languages(parts: Sequence[tuple[str, ...]], threads: int) -> npt.NDArray[np.int8]:
    """The number of the language of each record, whose texts are at the same place of all parts."""
    return _native.guess_languages(list(parts), _native.Analyzer(marks=True), threads)


def stemmer_version() -> str:
    """The version of PyStemmer, which is that of Snowball; a fourth number says how it is packed."""
    version: str = Stemmer.version()
    return version


def check_stemmer(trained: Any) -> None:
    """Warn, once, if the stems of a model may be others than those that are made now.

    Parameters
    ----------
    trained : str or None
        The version of PyStemmer that the model was trained with; None where its file does not say.
    """
    if trained is None:
        return
    if not isinstance(trained, str) or not re.fullmatch(r"\d+(\.\w+){0,5}", trained, re.ASCII):
        raise ValueError(f"the analyzer has the stemmer {trained!r:.60}, which is not a version")
    if trained.split(".")[:3] != stemmer_version().split(".")[:3]:
        _warn_of_stems(trained)


@cache
def _warn_of_stems(trained: str) -> None:
    warnings.warn(
        f"the model was trained with PyStemmer {trained}, and {stemmer_version()} is installed, which may"
        " stem some words differently; install that version, or fit again",
        StemmerWarning,
        stacklevel=2,
    )


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
