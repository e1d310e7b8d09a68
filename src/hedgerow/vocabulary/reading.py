"""Reads vocabularies, whatever format they have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hedgerow.data.compressed import SUFFIXES
from hedgerow.data.errors import DataError

from .building import EntryError
from .files import first_bytes
from .vocabulary import Vocabulary

__all__ = ["read_vocabulary"]

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


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    r"""Read a vocabulary from a file, whose ending or beginning says what it holds.

    Parameters
    ----------
    path : path-like
        SKOS as Turtle (.ttl, .nt) or RDF/XML (.rdf, .xml), for which you ``pip install 'hedgerow[skos]'``;
        a table (.tsv, .csv), with a header or as Annif writes it; or JSON (.json). Packed files (.gz, .xz,
        .zst) work, too.

    Returns
    -------
    Vocabulary

    Raises
    ------
    DataError
        Where the file is broken, an id is missing or occurs twice, or broader entries form a cycle; it says
        where.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "trees.tsv"
    >>> _ = path.write_text("id\tname_en\tname_de\tbroader\nt:1\ttree\tBaum\nt:2\tholly\t\tt:1\n")
    >>> vocabulary = read_vocabulary(path)
    >>> vocabulary.name("t:1", lang="de"), vocabulary.broader("t:2")
    ('Baum', ['t:1'])
    """
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


def _reader(path: Path, kind: str) -> Callable[[Path], Vocabulary]:
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
