"""Cut the embedded sample out of a dump of the Debian package index.

    python tests/make_sample.py packages.jsonl.xz

Each line of the dump is a JSON record: ``id``, ``split`` ("train" or "test", by source package), ``text``
(name, synopsis and description) and ``tags`` (debtags). The choice of records depends on their ids alone.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

TRAIN_RECORDS = 4_000
TEST_RECORDS = 500
MIN_TEXT, MAX_TEXT = 150, 1_200
# Nearly half of the packages are libraries with the same two or three tags, whose texts differ in a word.
MIN_TAGS = 3
FREQUENT = 20


def choose(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choose records with some text and several tags, training records first, each part by id."""
    usable = [
        record
        for record in records
        if MIN_TEXT <= len(record["text"]) <= MAX_TEXT and len(record["tags"]) >= MIN_TAGS
    ]
    count = Counter(tag for record in usable for tag in record["tags"])
    # A record needs one tag that occurs often enough to be learned; its rare tags stay: they are the tail.
    usable = [record for record in usable if max(count[tag] for tag in record["tags"]) >= FREQUENT]
    usable.sort(key=lambda record: sha256(record["id"].encode()).digest())
    chosen = []
    for split, size in (("train", TRAIN_RECORDS), ("test", TEST_RECORDS)):
        part = [record for record in usable if record["split"] == split][:size]
        chosen += sorted(part, key=lambda record: record["id"])
    return [
        {"id": r["id"], "split": r["split"], "text": r["text"], "labels": sorted(r["tags"])} for r in chosen
    ]


def main(source: str, target: str) -> None:
    """Read `source`, write `target`, both JSONL compressed with xz."""
    with lzma.open(source, "rt", encoding="utf-8") as lines:
        chosen = choose(json.loads(line) for line in lines)
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in chosen)
    Path(target).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    sample = Path(__file__).parents[1] / "src" / "hedgerow" / "data" / "sample" / "debian.jsonl.xz"
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else str(sample))
