"""What the quality of an answer is expected from: numbers that a search gives anyway."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.signals import Signals

__all__ = ["OF_SIGNALS", "OF_VOTES", "evidence_of"]

Floats = npt.NDArray[np.float64]

# Of the best labels and of the input as a whole, in this order; "label_3" is the third best.
OF_VOTES = (
    "best",
    "share",
    "of_one",
    "expected",
    "total",
    "knowledge",
    "variance",
    "best_total",
    "best_knowledge",
    "best_variance",
)
OF_SIGNALS = (
    "first_layer",
    "second_layer",
    "third_layer",
    "words",
    "unknown_words",
    "unknown_pairs",
    "rarity",
)
_LEAST = 1e-3  # probabilities and sums below are alike
_LEAST_SQUARE = 1e-5  # and variances


def evidence_of(best: UncertainLabels, signals: Signals | None) -> dict[str, Floats]:
    """What is known of each input, by name. Arrays of shape (n,).

    Of the best labels: the log-odds of their mean probability, of their share of the expected labels, of the
    same where at least one label is expected, and of each. Sums of doubts are logarithms.
    """
    whole = best.instance
    expected = _wide(whole.expected)
    inside = _summed(best.probability)
    k = best.labels.shape[1]
    found = {
        "best": _log_odds(inside / k),
        "share": _log_odds(inside / np.maximum(expected, _LEAST)),
        "of_one": _log_odds(inside / np.maximum(expected, 1.0)),
        "expected": np.log(np.maximum(expected, _LEAST)),
        "total": np.log(_wide(whole.total) + _LEAST),
        "knowledge": np.log(np.maximum(_wide(whole.knowledge), 0) + _LEAST),
        "variance": np.log(_wide(whole.variance) + _LEAST_SQUARE),
        "best_total": np.log(_summed(best.total) + _LEAST),
        "best_knowledge": np.log(np.maximum(_summed(best.knowledge), 0) + _LEAST),
        "best_variance": np.log(_summed(best.variance) + _LEAST_SQUARE),
    }
    for place in range(k):
        found[f"label_{place + 1}"] = _log_odds(_wide(best.probability[:, place]))
    if signals is not None:
        of_signals = signals.columns()
        for name in OF_SIGNALS:
            if name in of_signals:
                values = of_signals[name].astype(np.float64)
                found[name] = np.log1p(values) if name == "words" else values
    return found


def _wide(values: npt.NDArray[np.float32]) -> Floats:
    return values.astype(np.float64)


# One column after the other: a sum along rows may round otherwise in another batch.
def _summed(values: npt.NDArray[np.float32]) -> Floats:
    total = np.zeros(len(values))
    for column in range(values.shape[1]):
        total += values[:, column]
    return total


def _log_odds(probability: Floats) -> Floats:
    inside = np.clip(probability, _LEAST, 1 - _LEAST)
    return np.log(inside) - np.log1p(-inside)
