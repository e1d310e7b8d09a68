"""A small real data set that comes with the package; see ``NOTE.md`` beside this file for its origin."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from importlib import resources

__all__ = ["Sample", "load_sample"]


@dataclass(frozen=True)
class Sample:
    """Debian packages: name, synopsis and description as the text, sorted tags as labels, the name as id.

    No source package has packages in both parts.
    """

    train_texts: list[str]
    train_labels: list[list[str]]
    train_ids: list[str]
    test_texts: list[str]
    test_labels: list[list[str]]
    test_ids: list[str]


def load_sample() -> Sample:
    """Load the embedded sample: 4,000 training and 500 test texts with about 540 labels.

    Examples
    --------
    >>> sample = load_sample()
    >>> len(sample.train_texts), len(sample.test_texts)
    (4000, 500)
    >>> sample.test_ids[3], sample.test_labels[3][-1]
    ('abook', 'works-with::pim')
    """
    packed = resources.files(__name__).joinpath("debian.jsonl.xz").read_bytes()
    sample = Sample([], [], [], [], [], [])
    parts = {
        "train": (sample.train_texts, sample.train_labels, sample.train_ids),
        "test": (sample.test_texts, sample.test_labels, sample.test_ids),
    }
    for line in lzma.decompress(packed).splitlines():
        record = json.loads(line)
        texts, labels, ids = parts[record["split"]]
        texts.append(record["text"])
        labels.append(record["labels"])
        ids.append(record["id"])
    return sample
