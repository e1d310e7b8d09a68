"""Records whose labels appear over time and whose words change, in order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PERIODS, ROWS = 4, 520  # of each period
FIRST_LABELS, MORE_LABELS = 6, 4


@dataclass(frozen=True)
class ChangingStream:
    """Texts, labels and years; a text names its own row."""

    texts: list[str]
    labels: list[list[str]]
    years: list[int]


def changing_stream(seed: int = 0, periods: int = PERIODS) -> ChangingStream:
    """Each year brings labels, and half of the old ones are written about in other words."""
    draw = np.random.default_rng(seed)
    texts, labels, years = [], [], []
    for year in range(periods):
        known = FIRST_LABELS + MORE_LABELS * year
        for _ in range(ROWS):
            own = sorted(draw.choice(known, size=draw.integers(1, 3), replace=False).tolist())
            # Labels of even number change their words every year.
            words = [f"w{label}v{year if label % 2 == 0 else 0}" for label in own for _ in range(2)]
            noise = [f"n{word}" for word in draw.integers(0, 30, size=4)]
            texts.append(" ".join([f"row{len(texts)}", *words, *noise]))
            labels.append([f"label{label}" for label in own])
            years.append(2000 + year)
    return ChangingStream(texts, labels, years)
