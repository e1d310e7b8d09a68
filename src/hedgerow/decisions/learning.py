"""Learns a policy: adds up the mistakes of a model on held-out inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.abstention import LABEL_MEASURES, Abstention, certainty, input_uncertainty
from hedgerow.decisions.coarser import CoarserLearner, CoarserPolicy
from hedgerow.decisions.deciding import DecidingSource
from hedgerow.decisions.given import GivenLearner, most_labels
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.policy import (
    BEST,
    CAP,
    PREDICTED,
    RANKS,
    WITHHELD,
    WRONG,
    LabelGroup,
    Policy,
    conformal_rows,
)
from hedgerow.decisions.risk import GRID, RiskCurve
from hedgerow.decisions.rules import best_places
from hedgerow.inputs.rows import take
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.training_record import hash_data, unseen_rows
from hedgerow.progress import Progress, stage
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.broader import broader_truth, known_labels
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.signals import OODScores
from hedgerow.votes.truth import assess
from hedgerow.votes.votes import Votes

__all__ = ["LearnedPolicies", "PolicyLearner", "frequencies", "label_groups", "learn_policy"]

Floats = npt.NDArray[np.float64]

_GROUPS = 5
_FINEST = 0.01  # groups of labels are large enough for this share of missed ones


@dataclass(frozen=True)
class LearnedPolicies:
    """What `learn_policy` learns; the second where the model votes on broader terms."""

    policy: Policy
    coarser: CoarserPolicy | None


def learn_policy(
    source: DecidingSource,
    X: Any,
    Y: Any,
    *,
    tolerance: float | None = None,
    least_depth: int = 1,
    watch: Callable[[Votes, OODScores | None, sp.csr_array], None] | None = None,
    progress: Progress | None = None,
) -> LearnedPolicies:
    """Learn policies from inputs that a model was not trained on; see `HedgerowClassifier.learn_policy`.

    `watch` sees the same votes, OOD scores and true labels of each batch.
    """
    broader = source.broader
    search = replace(source.search, tolerance=tolerance)
    inputs, truth = source.inputs_and_truth(X, Y)
    hashes = source.hashes(inputs)
    kept = unseen_rows(
        source.seen(hashes),
        "where it makes fewer mistakes than on new data; learn the policy from other data",
    )
    left_out = len(hashes) - len(kept)
    if left_out:
        inputs, truth, hashes = take(inputs, kept), truth[kept], hashes[kept]
    detector = source.ood
    most = most_labels(source.label_counts, source.n_samples)
    learner = PolicyLearner(truth, source.label_counts, source.threads or None, most)
    coarser = None if broader is None else CoarserLearner(broader.ancestry, least_depth)
    batches = answer_batches(
        source,
        inputs,
        tolerance=tolerance,
        signals=detector is not None,
        progress=stage(progress, "learning"),
    )
    for rows, answer in batches:
        scored = detector.judge(answer.signals) if detector and answer.signals is not None else None
        learner.add(answer.votes, None if scored is None else scored.score, answer.ranking)
        if watch is not None:
            watch(answer.votes, scored, truth[rows])
        if coarser is not None and broader is not None:
            # What is broader than a label that the model does not know does not count as right for it.
            known = known_labels(truth[rows], answer.votes.n_labels)
            true_terms = broader_truth(known, broader.ancestry)
            coarser.add(answer.votes, broader.apply(answer.votes), truth[rows], true_terms)
    mark = hash_data(hashes, truth)
    return LearnedPolicies(
        learner.finish(mark, search, left_out), None if coarser is None else coarser.finish()
    )


def label_groups(
    counts: npt.NDArray[np.int64], truth: sp.csr_array, finest: float = _FINEST
) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Cut labels into groups by frequency, each with about a fifth of the label occurrences in training.

    A group with too few inputs for the `finest` share of missed labels is merged with the neighbour that
    has fewer. Gives the lowest and highest frequency of each group, rarest first from 0 (labels that the
    model does not know), and what was merged, in words.
    """
    values, labels = np.unique(counts[counts > 0], return_counts=True)
    if not values.size:
        return [(0, 0)], ()
    share = np.cumsum(values * labels) / (values * labels).sum()
    fifth = np.minimum(np.ceil(share * _GROUPS - 1e-9).astype(np.int64), _GROUPS)
    lowest = values[np.unique(fifth, return_index=True)[1]].tolist()
    edges = [0, *lowest[1:]]
    groups = [(low, high - 1) for low, high in zip(edges, [*edges[1:], int(values[-1]) + 1], strict=True)]
    frequency = frequencies(counts, truth.shape[1])[truth.indices]
    row_of = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    needed = conformal_rows(finest)
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
            f"Labels that occur {low} to {high} times in training share a group with those that occur"
            f" {groups[other][0]} to {groups[other][1]} times: only {rows[place]} inputs have them, and a"
            f" share of {finest:g} missed needs {needed}."
        )
        groups[first : second + 1] = [(groups[first][0], groups[second][1])]
    return groups, tuple(notes)


class PolicyLearner:
    """Adds up the losses of held-out inputs, batch by batch.

    Memory grows with the candidates of a batch, not with the number of labels. Columns of the truth after
    those of the votes are labels that the model does not know.
    """

    def __init__(
        self,
        truth: sp.csr_array,
        counts: npt.NDArray[np.int64] | None = None,
        n_jobs: int | None = None,
        most: int | None = None,
    ) -> None:
        self._truth, self._n_jobs = truth, n_jobs
        self._counts = None if counts is None else frequencies(counts, truth.shape[1])
        self._edges: list[tuple[int, int]] = []
        self._notes: tuple[str, ...] = ()
        if counts is not None:
            self._edges, self._notes = label_groups(counts, truth)
        self._done = 0
        self._given = GivenLearner(most_labels(None, None) if most is None else most)
        self._most = most_labels(None, None) if most is None else most
        self._ranks = np.zeros(BEST)
        names = ["missed", "size", *(f"group.{number}" for number in range(len(self._edges)))]
        names += [f"{part}{by}" for part in (WRONG, WITHHELD) for by in LABEL_MEASURES]
        self._totals = {name: np.zeros(len(GRID)) for name in names}
        self._rows = dict.fromkeys(names, 0)
        self._unknown = dict.fromkeys(names, 0.0)
        self._labelled = dict.fromkeys(names, 0)
        self._named = 0.0
        self._proven: Floats | None = np.zeros(len(GRID))
        self._uncertainty: dict[str, list[Floats]] = {}
        self._mistakes: list[npt.NDArray[np.bool_]] = []

    def add(
        self, votes: Votes, ood: Floats | None = None, ranking: npt.NDArray[np.float32] | None = None
    ) -> None:
        """Add votes on the next inputs, which the model was not trained on, and their OOD scores.

        `ranking` is by what the best labels are chosen; the mean of the votes, if not given.
        """
        rows = len(votes)
        truth = self._truth[self._done : self._done + rows]
        if truth.shape[0] != rows:
            raise ValueError(
                f"there are votes on more inputs than the {self._truth.shape[0]} that have labels"
            )
        self._done += rows
        found = Matched(votes, truth, self._known(votes.n_labels))
        by_name = np.bincount(found.true_row[found.met & ~found.known], minlength=rows)
        has = np.diff(truth.indptr) > 0
        for share in (by_name[has] / np.diff(truth.indptr)[has]).tolist():
            self._named += share
        found.known |= found.met  # what its name proposes is not unknown, though training has no example
        self._add_missed("missed", found, found.known)
        for number, (low, high) in enumerate(self._edges):
            frequency = self._counts[truth.indices] if self._counts is not None else truth.indices
            own = (frequency >= low) & (frequency <= high)
            self._add_missed(f"group.{number}", found, own & found.known)
            self._add_unknown(f"group.{number}", found, own)
        self._add_unknown("missed", found, np.ones(len(found.true_row), dtype=bool))
        self._add_best(votes, found, found.mean if ranking is None else ranking)
        everything = found.reached(found.row, found.mean)
        self._add("size", np.minimum(everything, CAP))
        self._add_wrong(
            "probability", everything, found.reached(found.row[found.right], found.mean[found.right])
        )
        self._add_by_uncertainty(votes, found)
        if votes.bound is None:
            self._proven = None
        elif self._proven is not None:
            self._proven += np.searchsorted(np.sort(votes.bound), GRID, side="left")
        assessed = assess(votes, truth, k=1, n_jobs=self._n_jobs)
        for name, values in input_uncertainty(votes, ood).items():
            self._uncertainty.setdefault(name, []).append(values)
        wrong = np.ones(rows, dtype=bool)
        wrong[found.true_row[assessed.rank == 1]] = False
        self._mistakes.append(wrong)

    def finish(self, fingerprint: str, search: SearchSettings, left_out: int = 0) -> Policy:
        """The policy from all inputs added; the fingerprint is that of the inputs and their labels."""
        if self._done != self._truth.shape[0] or not self._done:
            raise ValueError(f"there are votes on {self._done} inputs, but labels for {self._truth.shape[0]}")
        if not self._rows["missed"]:
            raise ValueError(
                "no input has a label that the model knows, so no policy can be learned; give held-out inputs"
                " with such labels"
            )
        curves = {
            name: RiskCurve(GRID, totals, self._rows[name], float(CAP) if name == "size" else 1.0)
            for name, totals in self._totals.items()
        }
        unknown = {name: share / max(1, self._labelled[name]) for name, share in self._unknown.items()}
        wrong = np.concatenate(self._mistakes)
        return Policy(
            curves["missed"],
            unknown["missed"],
            {by: curves[f"{WRONG}{by}"] for by in LABEL_MEASURES},
            {by: curves[f"{WITHHELD}{by}"] for by in LABEL_MEASURES},
            curves["size"],
            None if self._proven is None else self._proven / self._done,
            tuple(
                LabelGroup(low, high, curves[f"group.{number}"], unknown[f"group.{number}"])
                for number, (low, high) in enumerate(self._edges)
            ),
            {
                name: Abstention.learn(np.concatenate(values), wrong)
                for name, values in self._uncertainty.items()
                if len(values) == len(self._mistakes)
            },
            self._done,
            left_out,
            fingerprint,
            search,
            self._notes,
            self._given.finish(),
            RiskCurve(RANKS, self._ranks, self._rows["missed"]),
            self._named / max(1, self._labelled["missed"]),
        )

    def _known(self, n_labels: int) -> npt.NDArray[np.bool_]:
        known = np.arange(self._truth.shape[1]) < n_labels
        return known if self._counts is None else known & (self._counts > 0)

    def _add(self, name: str, losses: npt.NDArray[Any]) -> None:
        # One input after the other, so that the sum does not depend on the size of batches.
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

    def _add_unknown(self, name: str, found: Matched, chosen: npt.NDArray[np.bool_]) -> None:
        """The share of the chosen true labels that the model does not know."""
        own = np.bincount(found.true_row[chosen], minlength=found.rows)
        has = own > 0
        unknown = np.bincount(found.true_row[chosen & ~found.known], minlength=found.rows)
        for share in (unknown[has] / own[has]).tolist():
            self._unknown[name] += share
        self._labelled[name] += int(has.sum())

    def _add_best(self, votes: Votes, found: Matched, order: npt.NDArray[np.float32]) -> None:
        """What the best labels are right about, and what they miss."""
        places, rank = best_places(votes, order, max(BEST, self._most))
        few = rank < self._most
        parts: dict[str, npt.NDArray[Any]] = {"row": found.row, "value": found.mean, "right": found.right}
        self._given.add(found.rows, {name: of[places[few]] for name, of in parts.items()})
        known = np.bincount(found.true_row[found.known], minlength=found.rows)
        hits = np.zeros((found.rows, BEST), dtype=np.int64)
        good = (rank < BEST) & found.right[places]
        hits[found.row[places[good]], rank[good]] = 1
        has = known > 0
        lost = 1 - np.cumsum(hits[has], axis=1) / known[has, None]
        for loss in lost:
            self._ranks += loss

    def _add_wrong(self, by: str, everything: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self._add(f"{WRONG}{by}", (everything - right) / np.maximum(everything, 1))

    def _add_by_uncertainty(self, votes: Votes, found: Matched) -> None:
        """The same losses where a measure of uncertainty decides on the predicted labels."""
        predicted = np.flatnonzero(found.mean >= PREDICTED)
        row, right = found.row[predicted], found.right[predicted]
        few = votes.chosen(predicted)
        measures = label_uncertainty(few)
        for by in LABEL_MEASURES:
            sure = found.mean[predicted] if by == "probability" else certainty(measures, by)
            reached = found.reached(row, sure)
            every = reached[:, :1]
            has = every[:, 0] > 0  # an input without such labels has nothing to withhold
            self._add(f"{WITHHELD}{by}", 1 - reached[has] / every[has])
            if by != "probability":
                self._add_wrong(by, reached, found.reached(row[right], sure[right]))


def frequencies(counts: npt.NDArray[np.int64], columns: int) -> npt.NDArray[np.int64]:
    """Label counts for all columns of the truth; labels that the model does not know have 0."""
    return np.concatenate([counts, np.zeros(columns - len(counts), dtype=np.int64)])
