"""The model file: an input is a file, whose checksums are made right first, or no change would get past them.

Either it is refused with a `ModelFileError`, or the model answers: with labels, or with a `ValueError`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from xxhash import xxh3_128

from hedgerow import HedgerowTextClassifier, load
from hedgerow.deep.extra import load_torch
from hedgerow.storage.container import ALIGNMENT, CHECKSUMS, DIGEST_BYTES, METADATA, PADDING, ModelFileError

TEXTS = ["ash elm hazel", "", "oak oak ivy unheard"]
ODD_VALUES = (
    0,
    1,
    -1,
    2,
    3,
    255,
    2**31 - 1,
    2**31,
    2**63,
    2**64,
    10**40,
    0.5,
    -0.0,
    1e308,
    True,
    None,
    "",
    "x",
    [],
    {},
)
ODD_NAMES = ("bagging", "mc-dropout", "isotonic", "sigmoid", "text", "features", "transformer", "str", "int")
DTYPES = ("BOOL", "U8", "I8", "U16", "I16", "F16", "U32", "I32", "F32", "U64", "I64", "F64")

Mutate = Callable[[bytes, int], bytes]


def prepare() -> None:
    """Import what takes seconds, or the first input that asks for it seems to hang."""
    with contextlib.suppress(ImportError):
        load_torch()
        importlib.import_module("hedgerow.deep.encoder")
        importlib.import_module("hedgerow.deep.passes")


def run(data: bytes, folder: Path) -> None:
    """Load one input, and ask the model, if there is one."""
    path = folder / "model.hedgerow"
    path.write_bytes(sealed(data))
    try:
        model = load(path)
    except ModelFileError:
        return
    ask(model)


def ask(model: Any) -> None:
    """Have a model do all that it can."""
    if isinstance(model, HedgerowTextClassifier):
        X: Any = TEXTS
    else:
        few = min(model.n_features_in_, 12)
        X = sp.csr_array(
            (np.linspace(-1, 1, few, dtype=np.float32), np.arange(few), [0, few, few]),
            shape=(2, model.n_features_in_),
        )
    questions: list[Callable[[], object]] = [
        lambda: model.top(X, k=2),
        lambda: model.predict_uncertain(X, k=1),
        lambda: model.describe(),
        lambda: model.seen_in_training(X),
    ]
    if hasattr(model, "ood_detector_"):
        questions.append(lambda: model.ood_scores(X))
    if hasattr(model, "policy_"):
        questions.append(lambda: model.decide(X, missed_at_most=0.3))
    for question in questions:
        with contextlib.suppress(ValueError):
            question()


# --- changing a file ------------------------------------------------------------------------------------


def taken_apart(data: bytes) -> tuple[dict[str, Any], int] | None:
    """The JSON at the front of a file and where it ends, if it is there."""
    start = 8 + int.from_bytes(data[:8], "little")
    if not 8 < start <= len(data):
        return None
    try:
        entries = json.loads(data[8:start])
    except (ValueError, RecursionError):
        return None
    return (entries, start) if isinstance(entries, dict) else None


def places(entries: dict[str, Any], start: int, size: int) -> dict[str, tuple[int, int]]:
    """Where the sections lie that are within the file, in its order."""
    found = {}
    for name, entry in entries.items():
        match entry:
            case {"data_offsets": [int(begin), int(end)]} if 0 <= begin <= end <= size - start:
                found[name] = (start + begin, start + end)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def sealed(data: bytes) -> bytes:
    """The same file with checksums that are right, if it has room for them where they belong."""
    parts = taken_apart(data)
    if parts is None:
        return data
    entries, start = parts
    found = places(entries, start, len(data))
    begin, end = found.pop(CHECKSUMS, (0, 0))
    digests = [xxh3_128(data[:start]).digest()]
    digests += [xxh3_128(data[first:last]).digest() for first, last in found.values()]
    digests.append(xxh3_128(b"".join(digests)).digest())
    whole = b"".join(digests)
    return data[:begin] + whole + data[end:] if len(whole) == end - begin else data


def put_together(sections: dict[str, tuple[str, list[int], bytes]], told: dict[str, Any]) -> bytes:
    """A file of sections, each a dtype, a shape and bytes that need not fit it; with no checksums yet."""
    entries: dict[str, Any] = {METADATA: told}
    data = b""

    def add(name: str, dtype: str, shape: list[int], content: bytes) -> None:
        nonlocal data
        entries[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content

    for number, (name, section) in enumerate(sections.items()):
        add(name, *section)
        if missing := -len(data) % ALIGNMENT:
            add(f"{PADDING}{number}", "U8", [missing], bytes(missing))
    checksums = len(entries) + 1
    add(CHECKSUMS, "U8", [checksums, DIGEST_BYTES], bytes(checksums * DIGEST_BYTES))
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text + data


def mutated(data: bytes, largest: int, seed: int, mutate: Mutate) -> bytes:
    """Another file: one section or one value of the header is changed, seldom any byte."""
    drawn = random.Random(seed)
    parts = taken_apart(data)
    if parts is None or drawn.random() < 0.05:
        return mutate(data, largest)
    entries, start = parts
    told = entries.get(METADATA)
    sections = {
        name: (entries[name].get("dtype"), entries[name].get("shape"), data[begin:end])
        for name, (begin, end) in places(entries, start, len(data)).items()
        if name != CHECKSUMS and not name.startswith(PADDING) and isinstance(entries[name].get("shape"), list)
    }
    if not isinstance(told, dict) or not isinstance(told.get("header"), str) or not sections:
        return mutate(data, largest)
    kind = drawn.random()
    if kind < 0.35:
        told = {**told, "header": with_odd_value(told["header"], drawn, mutate)}
    else:
        name = drawn.choice(list(sections))
        sections[name] = with_odd_section(*sections[name], drawn, mutate)
        if kind > 0.97:
            del sections[name]
    made = put_together(sections, told)
    return made if len(made) <= largest else data


def with_odd_value(header: str, drawn: random.Random, mutate: Mutate) -> str:
    """The header with one of its values changed, or gone."""
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        return mutate(header.encode(), 2 * len(header) + 8).decode("latin-1")
    here, key = None, None
    value = found
    while isinstance(value, dict | list) and value and (here is None or drawn.random() < 0.9):
        here = value
        key = drawn.choice(list(here)) if isinstance(here, dict) else drawn.randrange(len(here))
        value = here[key]
    if here is None:
        return header
    kind = drawn.random()
    if kind < 0.1:
        del here[key]
    elif kind < 0.3 and isinstance(value, int) and not isinstance(value, bool):
        here[key] = value + drawn.choice([-1, 1])
    elif kind < 0.5 and isinstance(value, str):
        here[key] = mutate(value.encode(), len(value) + 8).decode("latin-1")
    elif kind < 0.6:
        here[key] = drawn.choice(ODD_NAMES)
    else:
        here[key] = drawn.choice(ODD_VALUES)
    return json.dumps(found)


def with_odd_section(
    dtype: str, shape: list[int], content: bytes, drawn: random.Random, mutate: Mutate
) -> tuple[str, list[int], bytes]:
    """A section with other bytes, as many or with a shape that fits; seldom with one that does not."""
    kind = drawn.random()
    if kind < 0.6:
        other = mutate(content, max(len(content), 1))
        return dtype, shape, other[: len(content)].ljust(len(content), b"\0")
    if kind < 0.9 and shape and shape[0]:
        row = max(len(content) // shape[0], 1)
        other = mutate(content, len(content) + 4 * row)
        rows = len(other) // row
        return dtype, [rows, *shape[1:]], other[: rows * row]
    if kind < 0.95:
        return drawn.choice(DTYPES), shape, content
    return dtype, [*shape[1:], drawn.choice([0, 1, 2, 2**31, 2**62])], content
