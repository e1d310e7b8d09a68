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

from .names import Name
from .reading import ENDINGS, ending
from .vocabulary import Vocabulary

__all__ = ["write_vocabulary"]

NO_URI = "urn:hedgerow:id:"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\xa0]+")
_ESCAPED = re.compile(r"[\x00-\x1f\"\\\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PREFIXES = """@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""
_BLOCK = 1000  # entries that are written together


def write_vocabulary(vocabulary: Vocabulary, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a vocabulary in the format that the ending of the file's name says."""
    kind = ENDINGS.get(ending(Path(path)))
    lines = {"turtle": _turtle, "json": _json, "csv": _csv, "tsv": _tsv}.get(kind or "")
    if lines is None:
        raise DataError(path, "is no format to write a vocabulary in; name it .ttl, .json, .csv or .tsv")
    with packed_file(path, overwrite) as file:
        waiting: list[str] = []
        for line in lines(vocabulary):
            waiting.append(line)
            if len(waiting) == _BLOCK:
                file.write("".join(waiting).encode())
                waiting.clear()
        file.write("".join(waiting).encode())


def _turtle(vocabulary: Vocabulary) -> Iterator[str]:
    yield _PREFIXES
    for id in vocabulary.ids:
        said = ["a skos:Concept"]
        names = vocabulary.names(id)
        for label, preferred in (("prefLabel", True), ("altLabel", False)):
            if texts := [_literal(name) for name in names if name.preferred is preferred]:
                said.append(f"skos:{label} {', '.join(texts)}")
        if notation := vocabulary.notation(id):
            said.append(f"skos:notation {_quoted(notation)}")
        if broader := vocabulary.broader(id):
            said.append(f"skos:broader {', '.join(map(_uri, broader))}")
        if scheme := vocabulary.scheme(id):
            said.append(f"skos:inScheme {_uri(scheme)}")
        if successor := vocabulary.successor(id):
            said.append(f"dcterms:isReplacedBy {_uri(successor)}")
        if vocabulary.deprecated(id):
            said.append("owl:deprecated true")
        said_of = " ;\n    ".join(said)
        yield f"\n{_uri(id)} {said_of} .\n"


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


def _json(vocabulary: Vocabulary) -> Iterator[str]:
    yield '{"entries": [\n'
    last = len(vocabulary) - 1
    for number, id in enumerate(vocabulary.ids):
        entry: dict[str, Any] = {"id": id}
        for name in vocabulary.names(id):
            texts = entry.setdefault("names" if name.preferred else "alternatives", {})
            texts.setdefault(name.language or "", []).append(name.text)
        found = {
            "notation": vocabulary.notation(id),
            "broader": vocabulary.broader(id),
            "scheme": vocabulary.scheme(id),
            "replaced_by": vocabulary.successor(id),
            "deprecated": vocabulary.deprecated(id),
        }
        entry |= {key: value for key, value in found.items() if value}
        yield json.dumps(entry, ensure_ascii=False) + (",\n" if number < last else "\n")
    yield "]}\n"


def _csv(vocabulary: Vocabulary) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for row in _rows(vocabulary):
        writer.writerow(row)
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def _tsv(vocabulary: Vocabulary) -> Iterator[str]:
    # Neither names nor ids hold tabs or line ends.
    for row in _rows(vocabulary):
        yield "\t".join(row) + "\n"


def _rows(vocabulary: Vocabulary) -> Iterator[list[str]]:
    """A header and a row per entry: as many columns of a kind as an entry has values at most, but no empty ones."""
    widths: dict[str, int] = {}
    for id in vocabulary.ids:
        for column, values in _cells(vocabulary, id).items():
            widths[column] = max(widths.get(column, 0), len(values))
    known = [f"_{language}" for language in vocabulary.languages] + [""]
    order = ["notation", *(f"label{of}" for of in known), *(f"alt{of}" for of in known)]
    order += ["broader", "scheme", "replaced_by", "deprecated"]
    columns = [column for column in order if column in widths]
    yield ["uri", *(column for column in columns for _ in range(widths[column]))]
    for id in vocabulary.ids:
        cells = _cells(vocabulary, id)
        row = [_bracketed(id)]
        for column in columns:
            values = cells.get(column, [])
            row += values + [""] * (widths[column] - len(values))
        yield row


def _cells(vocabulary: Vocabulary, id: str) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {}
    for name in vocabulary.names(id):
        kind = "label" if name.preferred else "alt"
        cells.setdefault(f"{kind}_{name.language}" if name.language else kind, []).append(name.text)
    if notation := vocabulary.notation(id):
        cells["notation"] = [notation]
    if broader := vocabulary.broader(id):
        cells["broader"] = [_bracketed(above) for above in broader]
    if scheme := vocabulary.scheme(id):
        cells["scheme"] = [_bracketed(scheme)]
    if successor := vocabulary.successor(id):
        cells["replaced_by"] = [_bracketed(successor)]
    if vocabulary.deprecated(id):
        cells["deprecated"] = ["true"]
    return cells


def _bracketed(id: str) -> str:
    """Brackets around an id are taken off when it is read, so an id that has its own gets more."""
    return f"<{id}>" if id.startswith("<") and id.endswith(">") else id
