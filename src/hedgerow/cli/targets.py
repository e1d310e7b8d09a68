"""Files that a command is to write: refused before any long work, not after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hedgerow.storage.atomic_file import check_target

from .failures import ExitCode, Failure, reason

JSON_LINES = (".jsonl", ".ndjson")
_DATA = (*JSON_LINES, ".csv", ".parquet", ".txt", ".npz", ".npy")


def check_new_file(path: Path | str, overwrite: bool) -> None:
    """Refuse a file that cannot be written."""
    try:
        check_target(path, overwrite)
    except FileExistsError as error:
        if overwrite:
            raise Failure(ExitCode.WRITE, reason(error)) from error
        raise Failure(
            ExitCode.WRITE, f"{path} exists already; choose another name, or replace it with --overwrite"
        ) from error
    except OSError as error:
        raise Failure(ExitCode.WRITE, reason(error)) from error


def check_new_model(path: Path, overwrite: bool) -> None:
    """Refuse a model file that cannot be written, and data where a model file was forgotten after them."""
    if (
        path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst").endswith(_DATA)
        or path.is_dir()
    ):
        raise Failure(
            ExitCode.USAGE,
            f"the last name is that of the model file to write, and {path} looks like data; give a name such"
            " as model.hedgerow after the data",
        )
    check_new_file(path, overwrite)


def identity(path: Path) -> tuple[int, int] | None:
    """What differs once a file was replaced."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def check_table(path: str | None, overwrite: bool) -> None:
    """Refuse a table that cannot be written, or whose format cannot."""
    if path is not None:
        check_new_file(path, overwrite)
        check_format(path)


def check_format(path: str) -> None:
    """Refuse a file whose format cannot be written."""
    if table_format(path) == "parquet":
        load_pyarrow()


def table_format(path: str) -> str:
    """The format that the ending of a file names: jsonl, csv or parquet."""
    from hedgerow.data.compressed import SUFFIXES

    name = os.path.basename(path)
    stem, packing = os.path.splitext(name)
    if name.endswith(JSON_LINES) or (packing in SUFFIXES and stem.endswith(JSON_LINES)):
        return "jsonl"
    if name.endswith(".csv"):
        return "csv"
    if name.endswith(".parquet"):
        return "parquet"
    raise Failure(
        ExitCode.USAGE,
        f"--out {path}: the ending tells the format; use .jsonl (also .jsonl.gz, .jsonl.xz, .jsonl.zst),"
        " .csv or .parquet",
    )


def load_pyarrow() -> Any:
    """What writes Parquet, if it is installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Failure(
            ExitCode.USAGE, "Parquet needs pyarrow; install it with: pip install 'hedgerow[parquet]'"
        ) from None
    return pyarrow
