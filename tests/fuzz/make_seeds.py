"""What the fuzzers start from: `python tests/fuzz/make_seeds.py FOLDER` writes a folder for each target.

Made once; what the fuzzers found since lies in `corpus/`. A new field or form of chunk needs a new seed.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
XMC_TEXTS = {
    "plain": "3 5 4\n0,2 1:0.5 3:1\n3 0:2.25\n 4:1e-3\n",
    "unsorted": "2 9 9\n8,1,4 7:1 2:-3.5 0:123456789\n1 8:1e-45 3:0.1234567\n",
    "empty rows": "4 2 2\n\n0\n 1:1\n\n\n\n",
    "line ends": "2 3 3\r\n0 1:1\r\n1,2 2:.5",
    "no space": "1 3 3\n0:1 2:2\n",
    "too large": "1 2 2\n1 0:1e39\n",
    "too small": "1 2 2\n1 0:1e-400 1:-0\n",
    "not finite": "1 2 2\n1 0:nan 1:inf\n",
    "out of range": "1 2 2\n2 7:1\n",
    "twice": "1 2 2\n1,1 0:1 0:2\n",
    "too few rows": "9 2 2\n1 0:1\n",
    "too many rows": "1 2 2\n1 0:1\n0 1:1\n",
    "no header": "0,1 1:1\n",
}
RECORDS = {
    "plain": '{"text": "red fox", "labels": ["a", "b"], "id": 1}\n{"text": "", "labels": [], "id": "x"}\n',
    "split": '{"text": "a", "tags": ["x"], "split": "train"}\n{"text": "b", "split": "test"}\n',
    "numbers": '{"text": "\\u00e9\\ud83d\\ude00", "labels": [1, -2, 18446744073709551615]}\n\n  \n',
    "no text": '{"labels": ["a"]}\n',
    "odd labels": '{"text": "t", "labels": {"a": 1.5e300}}\n{"text": "t", "labels": [true, null, ""]}',
    "array": "[1, 2]\n",
    "not JSON": '{"text": "a"\r\n',
    "nested": '{"text": ' + "[" * 40 + "]" * 40 + "}\n",
    "mark": '\ufeff{"text": "a"}\r\n{"text": "b", "id": null}\r\n',
}


def sections(path: Path) -> tuple[dict[str, bytes], dict]:
    """The bytes of each section of a model file, and the model's header."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    header = json.loads(entries.pop("__metadata__")["header"])
    places = {name: entry["data_offsets"] for name, entry in entries.items()}
    return {name: data[start + begin : start + end] for name, (begin, end) in places.items()}, header


def model_structures() -> dict[str, bytes]:
    """The trees of the golden files, as model_structure.cpp reads them."""
    found = {}
    for path in sorted(GOLDEN.glob("*.hedgerow")):
        arrays, header = sections(path)
        for number, tree in enumerate(header["trees"][:2]):
            transform = int(tree["transform"] == "sigmoid")
            out = struct.pack(
                "<BBBBI", tree["depth"], tree["members"], tree["parts"], transform, tree["features"]
            )
            for name in [*(f"begins.{layer}" for layer in range(tree["depth"])), "labels"]:
                array = arrays[f"tree.{number}.{name}"]
                out += struct.pack("<H", len(array) // 4) + array
            table = arrays[f"tree.{number}.chunks"]
            out += struct.pack("<H", len(table) // 48) + table + arrays[f"tree.{number}.weights"]
            found[f"{path.stem}-{number}"] = out
    return found


def sparse_rows() -> dict[str, bytes]:
    """Sound matrices, small, empty and with extreme values, as sparse_rows.cpp reads them."""
    drawn = random.Random(0)
    found = {}
    for number, extremes in enumerate([(), (), (0.0, 3e38, 1e-45), (-3e38, 1e20, 1e-20)] * 4):
        indptr, indices, values = [0], [], []
        for _ in range(number):
            columns = sorted(drawn.sample(range(64), drawn.randrange(6)))
            indices += columns
            values += [drawn.choice([drawn.uniform(-2, 2), *extremes]) for _ in columns]
            indptr.append(len(indices))
        rows, entries = len(indptr) - 1, len(indices)
        found[f"rows-{number}"] = struct.pack(
            f"<BBHi{rows + 1}q{entries}i{entries}f",
            2 * number % 32, rows, entries, 64, *indptr, *indices, *values,
        )  # fmt: skip
    return found


def records() -> dict[str, bytes]:
    """Files of records after a fit, after updates, and with held-out texts."""
    from hedgerow import HedgerowClassifier, HedgerowTextClassifier

    texts, labels = ["ash elm", "oak ivy", "elm", "oak"] * 3, [["a"], ["b"], ["c", "a"], []] * 3
    found = {}
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "model"

        def keep(name: str, model: Any) -> None:
            model.save(path, overwrite=True)
            found[name] = Path(f"{path}.data").read_bytes()

        ids = [*map(str, range(10)), None, None]
        model = HedgerowTextClassifier(random_state=0, leaf_size=1, branching=2)
        model.fit(texts, labels, ids=ids, keep_records=True)
        keep("fitted", model)
        model.update(["yew"], [["d"]], ids=["1"], rename={"a": "b"}, at="2030")
        model.update(remove=["2"], remove_labels=["c"], at="2031")
        keep("updated", model)
        model.keep_held_out(["new ash", "new oak"], [["b"], []], {"method": "platt", "seed": 1})
        keep("held-out", model)
        features = HedgerowClassifier(random_state=0)
        features.fit([[1.0, 0, 2], [0, 1, 0], [3, 0, 0]], [[7], [-9], [7, 8]], keep_records=True)
        keep("features", features)
    return found


def make_seeds(folder: Path) -> None:
    """Write all seeds below a folder."""
    seeds = {
        "xmc_text": {name: text.encode() for name, text in XMC_TEXTS.items()},
        "sparse_rows": sparse_rows(),
        "model_structure": model_structures(),
        "jsonl": {
            f"{name}-{options}": bytes([options]) + text.encode()
            for options, (name, text) in enumerate(RECORDS.items())
        },
        "records": records(),
        "model_file": {path.stem: path.read_bytes() for path in GOLDEN.glob("*.hedgerow")},
    }
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / target / name.replace(" ", "-")).write_bytes(data)


if __name__ == "__main__":
    make_seeds(Path(sys.argv[1]))
