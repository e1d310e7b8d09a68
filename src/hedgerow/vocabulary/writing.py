"""Writes vocabularies in formats that others read; nothing is lost on the way."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hedgerow.data.compressed import packed_file
from hedgerow.data.errors import DataError

from .columns import Columns
from .names import NO_URI, Entry, Name
from .reading import ENDINGS, ending

__all__ = ["write_columns"]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\xa0]+")
_ESCAPED = re.compile(r"[\x00-\x1f\"\\\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PREFIXES = """@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""
_BLOCK = 1000  # entries that are written together


def write_columns(columns: Columns, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a vocabulary in the format that the ending of the file's name says."""
    kind = ENDINGS.get(ending(Path(path)))
    lines = {"turtle": _turtle, "json": _json, "csv": _csv, "tsv": _tsv}.get(kind or "")
    if lines is None:
        raise DataError(path, "is no format to write a vocabulary in; name it .ttl, .json, .csv or .tsv")
    with packed_file(path, overwrite) as file:
        waiting: list[str] = []
        for line in lines(columns):
            waiting.append(line)
            if len(waiting) == _BLOCK:
                file.write("".join(waiting).encode())
                waiting.clear()
        file.write("".join(waiting).encode())


def _turtle(vocabulary: Columns) -> Iterator[str]:
    yield _PREFIXES
    for entry in vocabulary.entries():
        said = ["a skos:Concept"]
        for label, preferred in (("prefLabel", True), ("altLabel", False)):
            if texts := [_literal(name) for name in entry.names if name.preferred is preferred]:
                said.append(f"skos:{label} {', '.join(texts)}")
        if entry.notation:
            said.append(f"skos:notation {_quoted(entry.notation)}")
        if entry.broader:
            said.append(f"skos:broader {', '.join(map(_uri, entry.broader))}")
        if entry.scheme:
            said.append(f"skos:inScheme {_uri(entry.scheme)}")
        if entry.successor:
            said.append(f"dcterms:isReplacedBy {_uri(entry.successor)}")
        if entry.deprecated:
            said.append("owl:deprecated true")
        statement = " ;\n    ".join(said)
        yield f"\n{_uri(entry.id)} {statement} .\n"


def _uri(id: str) -> str:
    """An id as a URI; those that are none become one, and `vocabulary.skos` reads them back."""
    if _URI.fullmatch(id) and not id.startswith(NO_URI):
        return f"<{id}>"
    return f"<{NO_URI}{quote(id, safe='')}>"


def _literal(name: Name) -> str:
    return _quoted(name.text) + (f"@{name.language}" if name.language else "")


def _quoted(text: str) -> str:
    escaped = _ESCAPED.sub(
        lambda found: f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04X}", text
    )
    return f'"{escaped}"'


def _json(vocabulary: Columns) -> Iterator[str]:
    yield '{"entries": ['
    for number, entry in enumerate(vocabulary.entries()):
        written: dict[str, Any] = {"id": entry.id}
        for name in entry.names:
            texts = written.setdefault("names" if name.preferred else "alternatives", {})
            texts.setdefault(name.language or "", []).append(name.text)
        found = {
            "notation": entry.notation,
            "broader": entry.broader,
            "scheme": entry.scheme,
            "replaced_by": entry.successor,
            "deprecated": entry.deprecated,
        }
        written |= {key: value for key, value in found.items() if value}
        yield ("," if number else "") + "\n" + json.dumps(written, ensure_ascii=False)
    yield "\n]}\n"


def _csv(vocabulary: Columns) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for row in _rows(vocabulary):
        writer.writerow(row)
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def _tsv(vocabulary: Columns) -> Iterator[str]:
    # Neither names nor ids hold tabs or line ends.
    for row in _rows(vocabulary):
        yield "\t".join(row) + "\n"


def _rows(vocabulary: Columns) -> Iterator[list[str]]:
    """A header and a row per entry. Of each kind there are as many columns as an entry has values at most."""
    widths: dict[str, int] = {}
    for entry in vocabulary.entries():
        for column, values in _cells(entry).items():
            if len(values) > widths.get(column, 0):
                widths[column] = len(values)
    known = [f"_{language}" for language in vocabulary.languages] + [""]
    order = ["notation", *(f"label{of}" for of in known), *(f"alt{of}" for of in known)]
    order += ["broader", "scheme", "replaced_by", "deprecated"]
    kinds = [column for column in order if column in widths]
    yield ["uri", *(column for column in kinds for _ in range(widths[column]))]
    for entry in vocabulary.entries():
        cells = _cells(entry)
        row = [_bracketed(entry.id)]
        for column in kinds:
            values = cells.get(column, [])
            row += values + [""] * (widths[column] - len(values))
        yield row


def _cells(entry: Entry) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {}
    for name in entry.names:
        kind = "label" if name.preferred else "alt"
        cells.setdefault(f"{kind}_{name.language}" if name.language else kind, []).append(name.text)
    if entry.notation:
        cells["notation"] = [entry.notation]
    if entry.broader:
        cells["broader"] = [_bracketed(above) for above in entry.broader]
    if entry.scheme:
        cells["scheme"] = [_bracketed(entry.scheme)]
    if entry.successor:
        cells["replaced_by"] = [_bracketed(entry.successor)]
    if entry.deprecated:
        cells["deprecated"] = ["true"]
    return cells


def _bracketed(id: str) -> str:
    """Brackets around an id are taken off when it is read, so an id that has its own gets more."""
    return f"<{id}>" if id.startswith("<") and id.endswith(">") else id
