"""Reads vocabularies, whatever format they have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hedgerow.data.compressed import SUFFIXES
from hedgerow.data.errors import DataError

from .building import EntryError
from .columns import Columns
from .files import first_bytes

__all__ = ["ENDINGS", "ending", "read_columns"]

ENDINGS = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".nt": "turtle",  # each N-Triples file is Turtle
    ".rdf": "xml",
    ".xml": "xml",
    ".owl": "xml",
    ".skos": "xml",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
}


def read_columns(path: str | os.PathLike[str]) -> Columns:
    """What the file of a vocabulary says; see `hedgerow.read_vocabulary`."""
    path = Path(path)
    kind = ENDINGS.get(ending(path)) or _guessed(path)
    try:
        return _reader(path, kind)(path)
    except EntryError as error:
        raise DataError(path, str(error), error.line) from None


def ending(path: Path) -> str:
    """The ending of a file's name that says what it holds, without that which says how it is packed."""
    name = path.name.lower()
    for suffix in filter(None, SUFFIXES):
        name = name.removesuffix(suffix)
    return Path(name).suffix


def _reader(path: Path, kind: str) -> Callable[[Path], Columns]:
    if kind == "json":
        from .json_file import read_json

        return read_json
    if kind in ("tsv", "csv"):
        from .tables import read_csv, read_tsv

        return read_csv if kind == "csv" else read_tsv
    try:
        from .skos import read_rdf_xml, read_turtle
    except ImportError as error:
        raise DataError(path, f"to read SKOS, run pip install 'hedgerow[skos]' ({error})") from error
    return read_turtle if kind == "turtle" else read_rdf_xml


def _guessed(path: Path) -> str:
    """What a file holds whose name does not say so."""
    start = first_bytes(path, 4096).lstrip()
    lowered = start[:64].lower()
    if start[:1] in (b"{", b"["):
        return "json"
    if lowered.startswith((b"@prefix", b"@base", b"prefix ", b"base ")):
        return "turtle"
    if lowered.startswith((b"<?xml", b"<!doctype", b"<rdf:")):
        return "xml"
    line = start.partition(b"\n")[0]
    if b"\t" in line:
        return "tsv"
    if b"," in line and line.lower().startswith((b"id,", b"uri,")):
        return "csv"
    raise DataError(
        path,
        "is not recognised as a vocabulary; name it .ttl or .rdf (SKOS), .tsv, .csv or .json",
    )
