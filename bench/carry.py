"""Take data and an encoder along to a machine without a network, in little room.

python -m bench.carry pack FOLDER --encoder PATH --data PATH
python -m bench.carry unpack FOLDER INTO

Weights are rounded to half precision; what is unpacked is an encoder with those weights in full precision,
so a comparison must use the same on both machines. Of the records only texts, labels and the split are kept.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets import SOURCE

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
RECORDS = {"tibkat-en/records.jsonl.xz": "labels", "debian/packages.jsonl.xz": "tags"}
OUTSIDERS = ("reuters/articles.jsonl.xz",)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("pack", "unpack"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("into", type=Path, nargs="?", help="where to unpack the encoder")
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--data", type=Path, default=SOURCE)
    arguments = parser.parse_args()
    if arguments.action == "pack":
        pack_encoder(arguments.encoder, arguments.folder / "encoder")
        for name, field in RECORDS.items():
            pack_records(arguments.data / name, arguments.folder / "data" / name, field)
        for name in OUTSIDERS:
            pack_texts(arguments.data / name, arguments.folder / "data" / name)
    else:
        unpack_encoder(arguments.folder / "encoder", arguments.into)


def pack_encoder(source: Path, folder: Path) -> None:
    from safetensors.numpy import load_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    # A buffer of numbers from 0 on is no weight.
    weights = {name: array for name, array in sorted(weights.items()) if array.dtype.kind == "f"}
    table = {name: array.shape for name, array in weights.items()}
    halves = np.concatenate([array.astype(np.float16).ravel() for array in weights.values()])
    # All low bytes, then all high bytes: those have few values each, and pack well.
    planes = halves.view(np.uint8).reshape(-1, 2).T.copy()
    (folder / "weights.json").write_text(json.dumps(table))
    (folder / "weights.xz").write_bytes(lzma.compress(planes.tobytes(), preset=6))
    for name in FILES:
        if (source / name).exists() and name != "vocab.txt":
            shutil.copy(source / name, folder)


def unpack_encoder(folder: Path, into: Path) -> None:
    from safetensors.numpy import save_file

    into.mkdir(parents=True, exist_ok=True)
    table = json.loads((folder / "weights.json").read_text())
    planes = np.frombuffer(lzma.decompress((folder / "weights.xz").read_bytes()), dtype=np.uint8)
    halves = planes.reshape(2, -1).T.copy().view(np.float16).ravel()
    weights, begin = {}, 0
    for name, shape in table.items():
        size = int(np.prod(shape))
        weights[name] = halves[begin : begin + size].reshape(shape).astype(np.float32)
        begin += size
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    for name in FILES:
        if (folder / name).exists():
            shutil.copy(folder / name, into)


def pack_records(source: Path, target: Path, field: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(source, "rt", encoding="utf-8") as lines:
        kept = [
            {"split": record["split"], field: record[field], "text": record["text"]}
            for record in map(json.loads, lines)
            if record.get(field)
        ]
    write_records(kept, target)


def pack_texts(source: Path, target: Path) -> None:
    """The test texts alone, which serve as out-of-distribution inputs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(source, "rt", encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if record["split"] == "test"]
    write_records([{"split": "test", "text": record["text"]} for record in records], target)


def write_records(records: list[dict[str, Any]], target: Path) -> None:
    text = "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records)
    target.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
