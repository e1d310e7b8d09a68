"""What is known of a model's mistakes on held-out inputs, and the thresholds that follow from a wish."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.abstention import INPUT_MEASURES, LABEL_MEASURES, Abstention, certainty, input_doubts
from hedgerow.inputs import take
from hedgerow.judgement import judge
from hedgerow.risk_control import GRID, RiskCurve, TooFewRows, Unreachable, as_share, rows_needed
from hedgerow.training_record import MOST_SEEN, hash_data
from hedgerow.uncertainty import label_uncertainty
from hedgerow.vote_batches import vote_batches
from hedgerow.votes import Votes

if TYPE_CHECKING:
    from hedgerow.estimator import HedgerowClassifier

__all__ = [
    "CAP",
    "PREDICTED",
    "LabelGroup",
    "Policy",
    "PolicyLearner",
    "label_groups",
    "learn_policy",
    "search_of",
]

Floats = npt.NDArray[np.float64]

CAP = 100  # labels in a set whose size is promised
PREDICTED = 0.5  # the probability from which on other measures of doubt decide
_GROUPS = 5
_FINEST = 0.01  # groups of labels are large enough for this risk
_WRONG, _WITHHELD = "wrong.", "withheld."


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Labels that are about as frequent in training, and how many of them are missed.

    Attributes
    ----------
    lowest, highest : int
        How often they occur in training.
    missed : RiskCurve
        Over the inputs that have such a label: the share of these labels whose probability is below the
        threshold.
    unknown : float
        The mean share of these labels that the model does not know.
    """

    lowest: int
    highest: int
    missed: RiskCurve
    unknown: float

    @property
    def name(self) -> str:
        """The group in words."""
        if self.lowest == self.highest:
            return f"labels that occur {self.lowest} times in training"
        return f"labels that occur {self.lowest} to {self.highest} times in training"


@dataclass(frozen=True, eq=False)
class Policy:
    """Curves of mistakes on held-out inputs, from which every promise is read.

    Promises hold on average over inputs that are like the held-out ones: for any one more such input and the
    held-out ones together. They do not hold for a single label, nor for inputs of another kind.

    Attributes
    ----------
    missed : RiskCurve
        Over inputs that have labels: the share of the true labels whose probability is below the threshold,
        or that are no candidates. Inputs without labels do not count here.
    unknown : float
        The mean share of the true labels that the model does not know.
    wrong : dict of str to RiskCurve
        By measure of certainty, over all inputs: the share of wrong ones among the labels that reach the
        threshold; 0 where none does. Measures other than the probability look only at labels with a
        probability of at least one half.
    withheld : dict of str to RiskCurve
        By measure: the share of the labels with a probability of at least one half that do not reach the
        threshold; 0 where there is none.
    size : RiskCurve
        How many labels, at most 100, reach the threshold.
    proven : float64 array, shape (knots,), or None
        The share of inputs for which a search through all labels would find no further label at the
        threshold, by the certificates of the search.
    groups : tuple of LabelGroup
        By frequency in training, rarest first; empty where the model does not know it.
    inputs : dict of str to Abstention
        By doubt of whole inputs; an answer is wrong if the most probable label is.
    rows : int
        Number of held-out inputs.
    left_out : int
        Further ones that were not used, because the model was trained on them.
    fingerprint : str
        Of the held-out inputs and their labels.
    search : dict
        How the model searched: promises hold for this search only.
    notes : tuple of str
        What else there is to know.
    """

    missed: RiskCurve
    unknown: float
    wrong: dict[str, RiskCurve]
    withheld: dict[str, RiskCurve]
    size: RiskCurve
    proven: Floats | None
    groups: tuple[LabelGroup, ...]
    inputs: dict[str, Abstention]
    rows: int
    left_out: int
    fingerprint: str
    search: dict[str, Any]
    notes: tuple[str, ...]

    def reject_below(self, risk: float) -> float:
        """The threshold below which labels may be rejected: at most this share of true ones is, on average.

        Parameters
        ----------
        risk : float
            The mean share of an input's true labels that may be rejected.

        Returns
        -------
        float
        """
        return _conformal(self.missed, as_share("risk", risk), self.unknown, "true labels", self.proven)

    def reject_below_by_group(self, risk: float) -> list[float]:
        """The same for each group of labels: over inputs that have such labels, for these labels.

        Parameters
        ----------
        risk : float
            The mean share of an input's true labels of the group that may be rejected.

        Returns
        -------
        list of float
        """
        risk = as_share("risk", risk)
        if not self.groups:
            raise ValueError("the model does not know how frequent its labels are, so there are no groups")
        return [_conformal(group.missed, risk, group.unknown, group.name, None) for group in self.groups]

    def accept_from(self, risk: float, confidence: float = 0.9, by: str = "probability") -> float:
        """The certainty from which on labels are accepted: at most this share of them is wrong, on average.

        Parameters
        ----------
        risk : float
            The mean share of wrong labels among those that an input is given; 0 for an input without any.
        confidence : float
            The chance, over the held-out inputs, that the promise is kept.
        by : {"probability", "total", "data", "knowledge", "variance"}
            What certainty is measured by, see `certainty`.

        Returns
        -------
        float
            Infinite where only accepting nothing keeps the promise.
        """
        risk, confidence = as_share("risk", risk), as_share("confidence", confidence)
        curve = self.wrong[_known_measure(by)]
        place = curve.tested(risk, confidence)
        if place is None:
            needed = rows_needed(risk, confidence)
            raise TooFewRows(
                f"the policy was learned from {curve.rows} inputs; a risk of {risk:g} with a confidence of"
                f" {confidence:g} needs at least {needed}: learn from more, or ask for more risk"
            )
        return float(curve.thresholds[place])

    def accept_share(self, coverage: float, by: str = "probability") -> float:
        """The certainty from which on labels are accepted, so that this share of the predicted ones is.

        Parameters
        ----------
        coverage : float
            The mean share, over inputs, of the labels with a probability of at least one half.
        by : {"probability", "total", "data", "knowledge", "variance"}
            What certainty is measured by.

        Returns
        -------
        float
        """
        curve = self.withheld[_known_measure(by)]
        risk = 1 - as_share("coverage", coverage)
        place = curve.largest(risk)
        if place is None:
            raise TooFewRows(
                f"the policy was learned from {curve.rows} inputs; a coverage of {coverage:g} needs at least"
                f" {_conformal_rows(risk)}"
            )
        return float(curve.thresholds[place])

    def shortlist_from(self, size: float) -> float:
        """The probability from which on labels are listed, so that at most so many are on average.

        Parameters
        ----------
        size : float
            The mean number of labels of an input, of which no one gets more than 100.

        Returns
        -------
        float
        """
        _check_size(size)
        place = self.size.smallest(float(size))
        if place is None:
            raise TooFewRows(
                f"the policy was learned from {self.size.rows} inputs; a size of {float(size):g} needs at"
                f" least {math.ceil(CAP / float(size)) - 1}"
            )
        return float(self.size.thresholds[place])

    def proven_at(self, threshold: float) -> float | None:
        """The share of inputs for which no label at or above the threshold can have been lost by the beam."""
        if self.proven is None:
            return None
        return float(self.proven[np.searchsorted(self.missed.thresholds, np.float32(threshold))])

    def lowest_risk(self) -> float:
        """The lowest share of rejected true labels that can be promised."""
        return self.missed.ceiling

    def promise(self, risk: float, confidence: float = 0.9) -> str:
        """What `decide` promises at this risk, in words."""
        reject = self.reject_below(risk)
        accept = self.accept_from(risk, confidence)
        percent = f"{100 * risk:g} %"
        accepted = (
            f"Labels from {accept:.4g} on are accepted: with a confidence of {100 * confidence:g} %, on"
            f" average"
            f" at most {percent} of what an input is given is wrong."
            if accept <= 1
            else f"No label can be accepted with at most {percent} wrong."
        )
        return (
            f"Labels with a probability below {min(reject, accept):.3g} are rejected: on average at most"
            f" {percent} of the true labels of an input are. {accepted} Learned from {self.rows:,} inputs; it"
            " holds on average over inputs like these, not for each label, and not for inputs of"
            " another kind."
        )

    def without_unfamiliarity(self) -> Policy:
        """The same without what it knows of the scores of inputs; they change with what is familiar."""
        kept = {name: rule for name, rule in self.inputs.items() if name != "unfamiliarity"}
        return replace(self, inputs=kept)

    def describe(self) -> dict[str, Any]:
        """What it was learned from and what it can promise, for people and programs."""
        found: dict[str, Any] = {
            "inputs": self.rows,
            "inputs_with_labels": self.missed.rows,
            "left_out_as_seen_in_training": self.left_out,
            "fingerprint": self.fingerprint,
            "lowest_risk": self.lowest_risk(),
            "unknown_labels": self.unknown,
            "lost_by_the_beam": float(self.missed.losses[0]) - self.unknown,
            "search": ", ".join(f"{name} {value}" for name, value in self.search.items()),
        }
        for risk in (0.05, 0.1, 0.2):
            try:
                found[f"at_{100 * risk:g}_%"] = self.promise(risk)
            except ValueError as error:
                found[f"at_{100 * risk:g}_%"] = f"not possible: {error}"
        for number, group in enumerate(self.groups):
            found[f"group_{number + 1}"] = (
                f"{group.name}: {group.missed.rows:,} inputs, lowest risk {group.missed.ceiling:.3g}"
            )
        for number, note in enumerate(self.notes):
            found[f"note_{number + 1}"] = note
        return found

    def to_sections(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Header and arrays for a model file."""
        curves = self._curves()
        header = {
            "curves": [[name, curve.rows, float(curve.highest)] for name, curve in curves.items()],
            "groups": [[group.lowest, group.highest, group.unknown] for group in self.groups],
            "inputs": list(self.inputs),
            "unknown": self.unknown,
            "rows": self.rows,
            "left_out": self.left_out,
            "fingerprint": self.fingerprint,
            "search": dict(self.search),
            "notes": list(self.notes),
        }
        sections: dict[str, npt.NDArray[Any]] = {
            "policy.thresholds": self.missed.thresholds,
            "policy.totals": np.stack([curve.totals for curve in curves.values()]),
        }
        if self.proven is not None:
            sections["policy.proven"] = self.proven
        for name, rule in self.inputs.items():
            sections[f"policy.inputs.{name}"] = rule.to_arrays()
        return header, sections

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]]) -> Policy:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(header, dict):
            raise ValueError("the policy is not an object")
        thresholds, totals = sections["policy.thresholds"], sections["policy.totals"]
        _check_thresholds(thresholds)
        if totals.dtype != np.float64 or totals.shape != (len(header["curves"]), len(thresholds)):
            raise ValueError("the curves of the policy have another type or number")
        curves: dict[str, RiskCurve] = {}
        for (name, rows, highest), losses in zip(header["curves"], totals, strict=True):
            curves[str(name)] = _checked_curve(name, thresholds, losses, rows, highest)
        groups = header["groups"]
        expected = {"missed", "size", *(f"{_WRONG}{by}" for by in LABEL_MEASURES)}
        expected |= {f"{_WITHHELD}{by}" for by in LABEL_MEASURES}
        expected |= {f"group.{number}" for number in range(len(groups))}
        if set(curves) != expected:
            raise ValueError("the policy lacks curves, or has others")
        if not all(_is_whole(low) and _is_whole(high) and low <= high for low, high, _ in groups) or not all(
            before[1] < after[0] for before, after in itertools.pairwise(groups)
        ):
            raise ValueError("the groups of labels of the policy do not ascend")
        names = header["inputs"]
        if not isinstance(names, list) or not set(names) <= set(INPUT_MEASURES):
            raise ValueError("the policy has unknown doubts of inputs")
        fingerprint, search, notes = header["fingerprint"], header["search"], header["notes"]
        if not isinstance(fingerprint, str) or not re.fullmatch("[0-9a-f]{32}", fingerprint):
            raise ValueError("the fingerprint of the policy is none")
        if not isinstance(search, dict) or set(search) != {"beam", "candidates", "missing", "tolerance"}:
            raise ValueError("the policy does not tell its search")
        if not all(value is None or isinstance(value, str | int | float) for value in search.values()):
            raise ValueError("the policy has an odd search")
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise ValueError("the notes of the policy are no texts")
        for count in ("rows", "left_out"):
            if not _is_whole(header[count]):
                raise ValueError(f"the policy has {header[count]!r} as {count}")
        for share in (header["unknown"], *(group[2] for group in groups)):
            if isinstance(share, bool) or not isinstance(share, float | int) or not 0 <= share <= 1:
                raise ValueError(f"the policy has {share!r} as a share of unknown labels")
        proven = sections.get("policy.proven")
        if proven is not None:
            if proven.dtype != np.float64 or proven.shape != thresholds.shape:
                raise ValueError("the certificates of the policy have another type or number")
            if not ((proven >= 0) & (proven <= 1)).all():
                raise ValueError("the certificates of the policy are no shares")
        return cls(
            curves["missed"],
            float(header["unknown"]),
            {by: curves[f"{_WRONG}{by}"] for by in LABEL_MEASURES},
            {by: curves[f"{_WITHHELD}{by}"] for by in LABEL_MEASURES},
            curves["size"],
            proven,
            tuple(
                LabelGroup(low, high, curves[f"group.{number}"], float(unknown))
                for number, (low, high, unknown) in enumerate(groups)
            ),
            {name: Abstention.from_arrays(sections[f"policy.inputs.{name}"]) for name in names},
            header["rows"],
            header["left_out"],
            fingerprint,
            search,
            tuple(notes),
        )

    def _curves(self) -> dict[str, RiskCurve]:
        return {
            "missed": self.missed,
            "size": self.size,
            **{f"{_WRONG}{by}": curve for by, curve in self.wrong.items()},
            **{f"{_WITHHELD}{by}": curve for by, curve in self.withheld.items()},
            **{f"group.{number}": group.missed for number, group in enumerate(self.groups)},
        }


def learn_policy(
    model: HedgerowClassifier,
    X: Any,
    Y: Any,
    *,
    tolerance: float | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Policy:
    """Learn a policy from inputs that a model was not trained on; see `HedgerowClassifier.learn_policy`."""
    X, truth = model._inputs_and_truth(X, Y)
    hashes = model._hashes(X)
    seen = model._is_seen(hashes)
    if seen.sum() > MOST_SEEN * len(seen):
        raise ValueError(
            f"the model was trained on {int(seen.sum())} of the {len(seen)} inputs, where it is surer than it"
            " will be elsewhere; learn the policy from other data"
        )
    kept = np.flatnonzero(~seen)
    if len(kept) < len(seen):
        X, truth, hashes = take(X, kept), truth[kept], hashes[kept]
    odd = model.unfamiliarity(X).score if hasattr(model, "familiar_") else None
    learner = PolicyLearner(truth, model.label_counts_, model.n_jobs)
    for rows, votes in vote_batches(model, X, "learning", tolerance=tolerance, progress=progress):
        learner.add(votes, None if odd is None else odd[rows])
    return learner.finish(hash_data(hashes, truth), search_of(model, tolerance), int(seen.sum()))


def search_of(model: HedgerowClassifier, tolerance: float | None) -> dict[str, Any]:
    """What decides which labels are candidates, and what is said of them."""
    search = {"beam": model.beam, "candidates": model.candidates, "missing": model.missing}
    return {name: _plain(value) for name, value in {**search, "tolerance": tolerance}.items()}


def label_groups(
    counts: npt.NDArray[np.int64], truth: sp.csr_array, finest: float = _FINEST
) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Cut labels into groups by frequency, each with about a fifth of the labels of the training inputs.

    Parameters
    ----------
    counts : int array, shape (n_labels,)
        How often each label occurs in training.
    truth : csr_array, shape (n, n_labels or more)
        The labels of the held-out inputs. Columns after those of the counts never occurred.
    finest : float
        The least risk that may be asked for. A group with too few inputs for it is merged with the
        neighbour that has fewer.

    Returns
    -------
    list of pairs of int, tuple of str
        Lowest and highest frequency of each group, rarest first, and what was merged, in words. The rarest
        group begins at 0, for labels that the model does not know.
    """
    values, labels = np.unique(counts[counts > 0], return_counts=True)
    if not values.size:
        return [(0, 0)], ()
    share = np.cumsum(values * labels) / (values * labels).sum()
    fifth = np.minimum(np.ceil(share * _GROUPS - 1e-9).astype(np.int64), _GROUPS)
    lowest = values[np.unique(fifth, return_index=True)[1]].tolist()
    edges = [0, *lowest[1:]]
    groups = [(low, high - 1) for low, high in zip(edges, [*edges[1:], int(values[-1]) + 1], strict=True)]
    frequency = _frequencies(counts, truth.shape[1])[truth.indices]
    row_of = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    needed = _conformal_rows(finest)
    notes = []
    while len(groups) > 1:
        rows = [len(np.unique(row_of[(frequency >= low) & (frequency <= high)])) for low, high in groups]
        place = int(np.argmin(rows))
        if rows[place] >= needed:
            break
        neighbours = [other for other in (place - 1, place + 1) if 0 <= other < len(groups)]
        other = min(neighbours, key=lambda neighbour: rows[neighbour])
        first, second = sorted((place, other))
        low, high = groups[place]
        notes.append(
            f"Only {rows[place]} inputs have labels that occur {low} to {high} times in training, and a"
            f" risk of"
            f" {finest:g} needs {needed}; these labels are judged together with those that occur"
            f" {groups[other][0]} to {groups[other][1]} times."
        )
        groups[first : second + 1] = [(groups[first][0], groups[second][1])]
    return groups, tuple(notes)


class PolicyLearner:
    """Adds up the losses of held-out inputs, a batch of votes at a time.

    Memory grows with the candidates of a batch, and not with the number of labels.

    Parameters
    ----------
    truth : csr_array, shape (n, n_labels or more)
        The true labels of all inputs to come. Columns after those of the votes are labels that the model
        does not know.
    counts : int array, shape (n_labels,), optional
        How often each label occurs in training.
    n_jobs : int or None
        Threads. Results do not depend on it.
    """

    def __init__(
        self, truth: sp.csr_array, counts: npt.NDArray[np.int64] | None = None, n_jobs: int | None = None
    ) -> None:
        self._truth, self._n_jobs = truth, n_jobs
        self._counts = None if counts is None else _frequencies(counts, truth.shape[1])
        self._edges: list[tuple[int, int]] = []
        self._notes: tuple[str, ...] = ()
        if counts is not None:
            self._edges, self._notes = label_groups(counts, truth)
        self._done = 0
        names = ["missed", "size", *(f"group.{number}" for number in range(len(self._edges)))]
        names += [f"{part}{by}" for part in (_WRONG, _WITHHELD) for by in LABEL_MEASURES]
        self._totals = {name: np.zeros(len(GRID)) for name in names}
        self._rows = dict.fromkeys(names, 0)
        self._unknown = dict.fromkeys(names, 0.0)
        self._proven: Floats | None = np.zeros(len(GRID))
        self._doubts: dict[str, list[Floats]] = {}
        self._mistakes: list[npt.NDArray[np.bool_]] = []

    def add(self, votes: Votes, unfamiliarity: Floats | None = None) -> None:
        """Add the next inputs.

        Parameters
        ----------
        votes : Votes
            On inputs that the model was not trained on.
        unfamiliarity : array, shape (len(votes),), optional
            Their scores.
        """
        rows = len(votes)
        truth = self._truth[self._done : self._done + rows]
        if truth.shape[0] != rows:
            raise ValueError(f"there are more votes than the {self._truth.shape[0]} inputs with labels")
        self._done += rows
        found = Matched(votes, truth, self._known(votes.n_labels))
        self._add_missed("missed", found, np.ones(len(found.true_row), dtype=bool))
        for number, (low, high) in enumerate(self._edges):
            frequency = self._counts[truth.indices] if self._counts is not None else truth.indices
            self._add_missed(f"group.{number}", found, (frequency >= low) & (frequency <= high))
        everything = found.reached(found.row, found.mean)
        self._add("size", np.minimum(everything, CAP))
        self._add_wrong(
            "probability", everything, found.reached(found.row[found.right], found.mean[found.right])
        )
        self._add_by_doubt(votes, found)
        if votes.bound is None:
            self._proven = None
        elif self._proven is not None:
            self._proven += np.searchsorted(np.sort(votes.bound), GRID, side="left")
        judged = judge(votes, truth, k=1, n_jobs=self._n_jobs)
        for name, doubts in input_doubts(judged.inputs, judged.best.probability[:, 0], unfamiliarity).items():
            self._doubts.setdefault(name, []).append(doubts)
        wrong = np.ones(rows, dtype=bool)
        wrong[found.true_row[judged.rank == 1]] = False
        self._mistakes.append(wrong)

    def finish(self, fingerprint: str, search: Mapping[str, Any], left_out: int = 0) -> Policy:
        """All that was added.

        Parameters
        ----------
        fingerprint : str
            Of the inputs and their labels, 32 hexadecimal digits.
        search : mapping
            How the model searched.
        left_out : int
            Inputs that were not used.

        Returns
        -------
        Policy
        """
        if self._done != self._truth.shape[0] or not self._done:
            raise ValueError(f"there are votes on {self._done} inputs, but labels of {self._truth.shape[0]}")
        if not self._rows["missed"]:
            raise ValueError("no input has any label; there is nothing to learn a policy from")
        curves = {
            name: RiskCurve(GRID, totals, self._rows[name], float(CAP) if name == "size" else 1.0)
            for name, totals in self._totals.items()
        }
        unknown = {name: share / max(1, self._rows[name]) for name, share in self._unknown.items()}
        wrong = np.concatenate(self._mistakes)
        return Policy(
            curves["missed"],
            unknown["missed"],
            {by: curves[f"{_WRONG}{by}"] for by in LABEL_MEASURES},
            {by: curves[f"{_WITHHELD}{by}"] for by in LABEL_MEASURES},
            curves["size"],
            None if self._proven is None else self._proven / self._done,
            tuple(
                LabelGroup(low, high, curves[f"group.{number}"], unknown[f"group.{number}"])
                for number, (low, high) in enumerate(self._edges)
            ),
            {
                name: Abstention.learn(np.concatenate(doubts), wrong)
                for name, doubts in self._doubts.items()
                if len(doubts) == len(self._mistakes)
            },
            self._done,
            left_out,
            fingerprint,
            dict(search),
            self._notes,
        )

    def _known(self, n_labels: int) -> npt.NDArray[np.bool_]:
        known = np.arange(self._truth.shape[1]) < n_labels
        return known if self._counts is None else known & (self._counts > 0)

    def _add(self, name: str, losses: npt.NDArray[Any]) -> None:
        # One input after the other: sums over batches would round otherwise in other batches.
        total = self._totals[name]
        for loss in losses:
            total += loss
        self._rows[name] += len(losses)

    def _add_missed(self, name: str, found: Matched, chosen: npt.NDArray[np.bool_]) -> None:
        """The share of the chosen true labels that do not reach each threshold."""
        own = np.bincount(found.true_row[chosen], minlength=found.rows)
        has = own > 0
        met = chosen & found.met
        reached = found.reached(found.true_row[met], found.true_mean[met])
        self._add(name, 1 - reached[has] / own[has, None])
        strange = np.bincount(found.true_row[chosen & ~found.known], minlength=found.rows)
        for share in (strange[has] / own[has]).tolist():
            self._unknown[name] += share

    def _add_wrong(self, by: str, everything: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self._add(f"{_WRONG}{by}", (everything - right) / np.maximum(everything, 1))

    def _add_by_doubt(self, votes: Votes, found: Matched) -> None:
        """The same losses where something else than the probability decides on the labels it speaks for."""
        predicted = np.flatnonzero(found.mean >= PREDICTED)
        row, right = found.row[predicted], found.right[predicted]
        few = Votes(
            np.concatenate([[0], np.cumsum(np.bincount(row, minlength=found.rows))]),
            votes.labels[predicted],
            votes.probs[predicted],
            votes.n_labels,
        )
        measures = label_uncertainty(few)
        for by in LABEL_MEASURES:
            sure = found.mean[predicted] if by == "probability" else certainty(measures, by)
            reached = found.reached(row, sure)
            every = reached[:, :1]
            self._add(f"{_WITHHELD}{by}", np.where(every > 0, 1 - reached / np.maximum(every, 1), 0.0))
            if by != "probability":
                self._add_wrong(by, reached, found.reached(row[right], sure[right]))


class Matched:
    """Candidates beside the truth, entry by entry."""

    def __init__(self, votes: Votes, truth: sp.csr_array, known: npt.NDArray[np.bool_]) -> None:
        self.rows = len(votes)
        self.mean = votes.mean().data
        self.row = np.repeat(np.arange(self.rows), np.diff(votes.indptr))
        self.true_row = np.repeat(np.arange(self.rows), np.diff(truth.indptr))
        self.known = known[truth.indices]
        width = np.int64(truth.shape[1])
        entries = self.row * width + votes.labels
        wanted = self.true_row * width + truth.indices
        place = np.minimum(np.searchsorted(entries, wanted), max(0, len(entries) - 1))
        self.met = entries[place] == wanted if len(entries) else np.zeros(len(wanted), dtype=bool)
        self.true_mean = self.mean[place] if len(entries) else np.zeros(len(wanted), dtype=np.float32)
        self.right = np.zeros(len(entries), dtype=bool)
        self.right[place[self.met]] = True

    def reached(self, row: npt.NDArray[Any], values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """For each input and threshold, how many of the values are at least the threshold."""
        place = np.searchsorted(GRID, values, side="right") - 1
        counts = np.bincount(row * len(GRID) + place, minlength=self.rows * len(GRID))
        return np.cumsum(counts.reshape(self.rows, len(GRID))[:, ::-1], axis=1)[:, ::-1]


def _frequencies(counts: npt.NDArray[np.int64], columns: int) -> npt.NDArray[np.int64]:
    """Labels that the model does not know did not occur in training."""
    return np.concatenate([counts, np.zeros(columns - len(counts), dtype=np.int64)])


def _conformal_rows(risk: float) -> int:
    """How many inputs without any loss it takes to promise this risk."""
    return max(1, math.ceil(1 / risk - 1e-9) - 1)


def _known_measure(by: str) -> str:
    if by not in LABEL_MEASURES:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(LABEL_MEASURES)}")
    return by


def _conformal(curve: RiskCurve, risk: float, unknown: float, what: str, proven: Floats | None) -> float:
    """The largest threshold that keeps the risk, or the reason why there is none."""
    place = curve.largest(risk)
    if place is not None:
        return float(curve.thresholds[place])
    if risk * (curve.rows + 1) < 1:
        raise TooFewRows(
            f"{curve.rows} held-out inputs with {what} cannot promise a risk of {risk:g}: at least"
            f" {_conformal_rows(risk)} are needed; learn the policy from more, or ask for more risk"
        )
    lost = float(curve.losses[0]) - unknown
    certified = (
        ""
        if proven is None
        else f"; for {100 * proven[1]:.0f} % of the inputs the search is proven to have lost nothing"
    )
    margin = curve.ceiling - float(curve.losses[0])
    raise Unreachable(
        f"a risk of {risk:g} cannot be kept for {what}: {100 * unknown:.2f} % are unknown to the model (train"
        f" it on data that have them), {100 * lost:.2f} % are lost by the beam (a wider beam, or tolerance=,"
        f" finds more{certified}), and the margin for chance with {curve.rows} inputs is"
        f" {100 * margin:.2f} %,"
        f" at least 1/{curve.rows + 1}; ask for at least {_rounded_up(curve.ceiling)}"
    )


def _rounded_up(risk: float) -> str:
    return f"{math.ceil(risk * 1000) / 1000:g}"


def _check_size(size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, Real) or not 0 < float(size) < math.inf:
        raise ValueError(f"size is {size!r}; it must be a positive number of labels")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_thresholds(thresholds: npt.NDArray[Any]) -> None:
    if thresholds.dtype != np.float32 or thresholds.ndim != 1 or not 2 < len(thresholds) <= 4096:
        raise ValueError("the thresholds of the policy are no vector of floats")
    inner = thresholds[:-1]
    if thresholds[-1] != np.inf or inner[0] != 0 or not (inner <= 1).all() or not (np.diff(inner) > 0).all():
        raise ValueError("the thresholds of the policy do not ascend from 0")


def _checked_curve(
    name: Any, thresholds: npt.NDArray[np.float32], totals: npt.NDArray[Any], rows: Any, highest: Any
) -> RiskCurve:
    if not isinstance(name, str) or not _is_whole(rows) or highest != (CAP if name == "size" else 1):
        raise ValueError("the policy does not tell what its curves are")
    # Sums of shares may be a hair beside what they should be.
    slack = 1e-6 * max(1, rows)
    if not np.isfinite(totals).all() or totals.min() < -slack or totals.max() > rows * highest + slack:
        raise ValueError(f"the curve {name!r} of the policy has impossible losses")
    rising = name in ("missed",) or name.startswith(("group.", _WITHHELD))
    steps = np.diff(totals)
    if (rising and steps.min() < -slack) or (name == "size" and steps.max() > slack):
        raise ValueError(f"the curve {name!r} of the policy does not go one way")
    return RiskCurve(thresholds, totals, rows, float(highest))
