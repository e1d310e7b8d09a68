"""New data beside the held-out ones: inputs, words, labels given, and uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import fisher_exact, hypergeom, ks_2samp

from hedgerow.decisions.deciding import DecidingSource
from hedgerow.progress import Progress, stage
from hedgerow.shift.observing import SIGNALS, UNSEEN, Bins
from hedgerow.shift.reference import Reference, labels_given
from hedgerow.shift.report import ShiftReport
from hedgerow.shift.watch import NO_REFERENCE, ShiftWatch, UntestedShift
from hedgerow.votes.batches import answer_batches

__all__ = ["CHANCE", "Drift", "DriftSource", "LabelDrift", "SignalDrift", "UnknownLabels", "drift"]

CHANCE = 0.01  # that anything is said to have drifted, without drift
_SHOWN = 20
_LEAST = 1e-300  # p-values below are given as this


@dataclass(frozen=True, eq=False)
class SignalDrift:
    """One signal of held-out and of new inputs.

    `p_value` is that of the two-sample test of Kolmogorov and Smirnov. `values`, with the shares of held-out
    and new inputs that have at most such a value, draw the two distributions.
    """

    name: str
    words: str
    held_out: float
    new: float
    p_value: float
    drifted: bool
    values: npt.NDArray[np.float64] = field(repr=False)
    held_out_at_most: npt.NDArray[np.float64] = field(repr=False)
    new_at_most: npt.NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class LabelDrift:
    """A label with a probability of 0.5 or more: on which share of held-out and of new inputs it is given.

    `p_value` is that of Fisher's exact test, doubled on its smaller side.
    """

    label: Any
    held_out: float
    new: float
    p_value: float
    drifted: bool


@dataclass(frozen=True)
class UnknownLabels:
    """True labels of the new inputs that the model has never seen, beside those of the held-out ones.

    The shares are of true labels; `p_value` compares how many inputs have such a label (Fisher's exact test,
    one-sided). `not_in_vocabulary` counts true labels that the model's vocabulary lacks; None without one.
    """

    held_out: float
    new: float
    p_value: float
    drifted: bool
    not_in_vocabulary: int | None


@dataclass(frozen=True)
class Drift:
    """What `drift` finds.

    Attributes
    ----------
    shift : ShiftReport
        The test martingale over the new inputs as a set.
    signals : tuple of SignalDrift
        Inputs, words and uncertainty.
    labels : tuple of LabelDrift
        The labels whose share changed most surely, at most 20.
    labels_given, never_given : int
        Different labels given to the new inputs, and how many of these no held-out input was given.
    given_not_in_vocabulary : int or None
        Different labels given that the model's vocabulary lacks; None without a vocabulary.
    unknown : UnknownLabels or None
        Where the new inputs have labels.
    """

    shift: ShiftReport
    signals: tuple[SignalDrift, ...]
    labels: tuple[LabelDrift, ...]
    labels_given: int
    never_given: int
    given_not_in_vocabulary: int | None
    unknown: UnknownLabels | None

    @property
    def drifted(self) -> list[str]:
        """What has drifted, in words; tested so that without drift something is named in 1 of 100 cases."""
        found = [signal.words for signal in self.signals if signal.drifted]
        found += [f"label {label.label}" for label in self.labels if label.drifted]
        return found + (["labels never seen in training"] if self.unknown and self.unknown.drifted else [])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for programs; without the curves."""
        curves = ("values", "held_out_at_most", "new_at_most")
        return {
            "shift": self.shift.to_dict(),
            "drifted": self.drifted,
            "signals": [
                {name: value for name, value in vars(signal).items() if name not in curves}
                for signal in self.signals
            ],
            "labels": [asdict(label) for label in self.labels],
            "labels_given": self.labels_given,
            "never_given": self.never_given,
            "given_not_in_vocabulary": self.given_not_in_vocabulary,
            "unknown": None if self.unknown is None else asdict(self.unknown),
        }


class DriftSource(DecidingSource, Protocol):
    """A model that remembers its held-out inputs."""

    @property
    def reference(self) -> Reference | None:
        """What it remembers."""

    def watch(
        self, *, some_labels: bool = False, in_order: bool = False
    ) -> ShiftWatch | UntestedShift | None:
        """What compares inputs with those that the policy was learned from."""


def drift(
    source: DriftSource,
    X: Any,
    Y: Any = None,
    *,
    strange: Sequence[Any] = (),
    progress: Progress | None = None,
) -> Drift:
    """Compare new data with the held-out ones that the thresholds of a model were set on.

    Parameters
    ----------
    source : Model
        Of a calibrated classifier: ``model.source``.
    X : inputs
        New inputs, as the model takes them.
    Y : sparse indicator matrix, or list of lists of labels, optional
        Their labels, where they are known.
    strange : sequence, optional
        What the columns of Y after those of the model are called.
    progress : callable(share, what), optional
        Called after each batch.

    Returns
    -------
    Drift
    """
    reference, watch, policy = source.reference, source.watch(), source.policy
    if reference is None or policy is None or not isinstance(watch, ShiftWatch):
        raise ValueError(NO_REFERENCE if policy else "the model is not calibrated; run hedgerow calibrate")
    truth = None
    if Y is None:
        inputs = source.inputs(X)
    else:
        inputs, truth = source.inputs_and_truth(X, Y)
    tables: list[Bins] = []
    given = np.zeros(len(source.classes), dtype=np.int64)
    batches = answer_batches(
        source,
        inputs,
        tolerance=policy.search.tolerance,
        signals=source.ood is not None,
        progress=stage(progress, "comparing"),
    )
    for _, answer in batches:
        tables.append(watch.bins(answer))
        watch.add_bins(tables[-1])
        labels, counts = labels_given(answer.votes)
        given[labels] += counts
    if not tables:
        raise ValueError("there are no inputs to compare; give at least one")
    table = np.concatenate(tables)
    tests = len(reference.names) + 2  # one for all labels given together, one for labels never seen
    level = CHANCE / tests
    moved, never = _labels(source, reference, given, len(table), level)
    return Drift(
        watch.report(),
        tuple(_signal(name, reference, table, place, level) for place, name in enumerate(reference.names)),
        moved,
        int((given > 0).sum()),
        never,
        _not_in_vocabulary(source, source.classes[given > 0]),
        None if truth is None else _unknown(source, truth, strange, level),
    )


def _signal(name: str, reference: Reference, table: Bins, place: int, level: float) -> SignalDrift:
    signal = SIGNALS[name]
    before, after = reference.scores[place], np.sort(table[:, place][table[:, place] != UNSEEN])
    p_value = max(_LEAST, float(ks_2samp(before, after, method="asymp").pvalue)) if len(after) else 1.0
    bins = np.unique(np.concatenate([before, after]))
    held_out, new = (float(signal.values(of).mean()) if len(of) else math.nan for of in (before, after))
    at_most = [np.searchsorted(of, bins, side="right") / max(1, len(of)) for of in (before, after)]
    return SignalDrift(
        name=name,
        words=signal.words,
        held_out=held_out,
        new=new,
        p_value=p_value,
        drifted=p_value <= level,
        values=signal.values(bins),
        held_out_at_most=at_most[0],
        new_at_most=at_most[1],
    )


def _labels(
    source: DriftSource, reference: Reference, given: npt.NDArray[np.int64], rows: int, level: float
) -> tuple[tuple[LabelDrift, ...], int]:
    """The labels whose share changed most surely, and how many were never given before."""
    before = np.zeros(len(given), dtype=np.int64)
    before[reference.labels] = reference.counts
    some = np.flatnonzero((before > 0) | (given > 0))
    never = int(((given > 0) & (before == 0)).sum())
    if not some.size:
        return (), never
    held = reference.rows
    both, now = before[some] + given[some], given[some]
    low = hypergeom.cdf(now, held + rows, both, rows)
    high = hypergeom.sf(now - 1, held + rows, both, rows)
    p_values = np.minimum(1.0, 2 * np.minimum(low, high))
    order = np.argsort(p_values, kind="stable")[:_SHOWN]
    names = source.classes[some].tolist()
    return (
        tuple(
            LabelDrift(
                names[place],
                float(before[some[place]] / held),
                float(now[place] / rows),
                float(p_values[place]),
                bool(p_values[place] <= level / len(some)),
            )
            for place in order.tolist()
        ),
        never,
    )


def _not_in_vocabulary(source: DriftSource, labels: Any) -> int | None:
    vocabulary = source.vocabulary
    return None if vocabulary is None else sum(str(label) not in vocabulary for label in labels)


def _unknown(
    source: DriftSource, truth: sp.csr_array, strange_names: Sequence[Any], level: float
) -> UnknownLabels | None:
    reference = source.reference
    if reference is None:
        return None
    counts, known = source.label_counts, np.zeros(truth.shape[1], dtype=bool)
    known[: len(source.classes)] = True if counts is None else counts > 0
    labels = np.unique(truth.indices[truth.indices < len(source.classes)])
    strange = ~known[truth.indices]
    owners = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    rows = len(np.unique(owners[strange]))
    before = reference.unknown_rows
    table = np.array([[rows, truth.shape[0] - rows], [before, reference.rows - before]])
    p_value = float(fisher_exact(table, alternative="greater").pvalue)
    return UnknownLabels(
        reference.unknown_labels / max(1, reference.true_labels),
        float(strange.mean()) if strange.size else 0.0,
        p_value,
        p_value <= level,
        _not_in_vocabulary(source, [*source.classes[labels].tolist(), *strange_names]),
    )
