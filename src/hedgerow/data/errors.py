from __future__ import annotations

import contextlib
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from os import PathLike, fspath

# What NumPy raises for arrays that are broken, cut short, or declare more entries than there can be.
_BROKEN_ARRAY: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    EOFError,
    MemoryError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


class DataError(ValueError):
    """Data that cannot be read or written as asked.

    Parameters
    ----------
    path : path-like
        The file or folder.
    message : str
        What is wrong, with the value, and the way out.
    line : int, optional
        The line (of a table: the row) that is wrong, counted from 1.

    Examples
    --------
    >>> print(DataError("train.txt", "label '9' is out of range", line=3))
    train.txt:3: label '9' is out of range
    """

    def __init__(self, path: str | PathLike[str], message: str, line: int | None = None) -> None:
        # The arguments as given, so that the error survives pickling on its way out of a worker process.
        super().__init__(fspath(path), message, line)
        self.path = fspath(path)
        self.message = message
        self.line = line

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


class LeftOutWarning(UserWarning):
    """Files of a folder that look like data and were not read."""


@contextlib.contextmanager
def reading_arrays(path: str | PathLike[str], failure: str, way_out: str) -> Iterator[None]:
    """Turn whatever NumPy raises for a broken array into a `DataError`."""
    try:
        yield
    except DataError:
        raise
    except _BROKEN_ARRAY as error:
        raise DataError(path, f"{failure}: {error}; {way_out}") from error


def reading_matrix(path: str | PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """The same for a sparse matrix."""
    return reading_arrays(path, "cannot be read as a sparse matrix", "write it with scipy.sparse.save_npz")
