"""Reading vocabularies for commands, from their own files or from models."""

from __future__ import annotations

from pathlib import Path

from hedgerow import saving
from hedgerow.data import DataError
from hedgerow.storage.container import ModelFileError, read_model
from hedgerow.vocabulary import Vocabulary, VocabularyWarning, read_vocabulary

from .failures import ExitCode, Failure, failing_as
from .warned import warnings_as_lines


def read_names(path: Path) -> Vocabulary:
    """Read the file of a vocabulary; what it warns of goes to stderr."""
    with warnings_as_lines(VocabularyWarning), failing_as(ExitCode.DATA, DataError):
        return read_vocabulary(path)


def read_names_or_model(path: Path) -> Vocabulary:
    """The same, or the vocabulary that a model file holds."""
    if not _looks_like_a_model(path):
        return read_names(path)
    with failing_as(ExitCode.MODEL, ModelFileError):
        file = read_model(path)
        with saving.sound(file):
            if "vocabulary" in file.header:
                return Vocabulary.from_sections(file.header["vocabulary"], file.sections)
    raise Failure(
        ExitCode.MODEL, f"{path} has no vocabulary; give it one with hedgerow vocabulary set {path} FILE"
    )


def _looks_like_a_model(path: Path) -> bool:
    """A model file begins with a number of eight bytes, small for a number, and then JSON."""
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False  # the reader says why
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < 1 << 32
