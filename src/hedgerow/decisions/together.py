"""Decides on the labels of many inputs together: for measures that count rare labels like frequent ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.deciding import DecidingSource, decide_on, flag_from
from hedgerow.decisions.macro import Choice, Objective, choose
from hedgerow.decisions.planning import Plan
from hedgerow.decisions.results import Decisions, Quality
from hedgerow.decisions.rules import ACCEPT, REJECT, Rule, best_places
from hedgerow.inputs.parameters import check_integer
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Progress, stage
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.source import Answer
from hedgerow.votes.votes import Votes

__all__ = ["REACH", "chosen_together", "decide_together", "what_is_optimised"]

# Of each input, so many of the most probable candidates can be chosen: the others are hardly ever right.
REACH = 100


@dataclass(frozen=True, eq=False)
class _Chosen(Rule):
    """Accept what was chosen, reject the rest."""

    chosen: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def codes(
        self, votes: Votes, mean: npt.NDArray[np.float32], order: npt.NDArray[np.float32] | None = None
    ) -> npt.NDArray[np.int8]:
        return np.where(self.chosen, ACCEPT, REJECT).astype(np.int8)


def decide_together(
    source: DecidingSource,
    inputs: Any,
    objective: Objective,
    *,
    false_alarm: float | None = 0.05,
    k: int = 5,
    subset: LabelSubset | None = None,
    progress: Progress | None = None,
) -> Decisions:
    """Accept k labels of each input, so that the expected measure of all inputs together is high."""
    check_integer("k", k, 0)
    if not source.calibrated:
        raise NotFittedError(
            f"to optimise {objective} needs calibrated probabilities, and this model is not calibrated; call"
            " calibrate with inputs that it was not trained on, or run hedgerow calibrate"
        )
    detector = source.ood
    flagged = flag_from(false_alarm, detector) if detector is not None else None
    expected = np.zeros(len(source.classes))
    kept: list[Votes] = []
    p_values: list[npt.NDArray[np.float64]] = []
    qualities: list[Quality] = []
    batches = answer_batches(
        source,
        inputs,
        k=objective.k,
        signals=detector is not None or (source.forecasts and subset is None),
        subset=subset,
        progress=stage(progress, "deciding"),
    )
    for rows, answer in batches:
        votes, mean = answer.votes, answer.votes.means()
        # One label after the other in the order of inputs, so that no batch changes the sum.
        np.add.at(expected, votes.labels, mean.astype(np.float64))
        best, _ = best_places(votes, mean, max(REACH, objective.k))
        kept.append(votes.chosen(np.sort(best)))
        if detector is not None and answer.signals is not None:
            p_values.append(detector.judge(answer.signals).p_value)
        if subset is None and (quality := source.expected(inputs[rows], answer, objective.k)) is not None:
            qualities.append(quality)
    if not kept:
        nothing = np.empty((0, 1), dtype=np.float32)
        kept = [Votes(np.zeros(1, np.int64), np.empty(0, np.int32), nothing, len(source.classes))]
    choice, means = _choose(kept, expected, objective)
    parts, begin = [], 0
    for votes, mean in zip(kept, means, strict=True):
        own = choice.chosen[begin : begin + len(mean)]
        begin += len(mean)
        everybody = np.ones(len(votes), dtype=bool)
        plan = Plan(_Chosen(chosen=own), (), ())
        parts.append(decide_on(Answer(votes), plan, source.classes, k, everybody))
    found = replace(Decisions.concatenate(parts), remarks=(_words(objective, choice, sum(map(len, kept))),))
    if qualities:
        found = replace(found, quality=qualities[0].concatenate(qualities))
    if not p_values:
        return found
    p_value = np.concatenate(p_values)
    return replace(found, p_value=p_value, is_ood=None if flagged is None else p_value <= flagged)


def chosen_together(votes: Votes, objective: Objective) -> npt.NDArray[np.int8]:
    """What to do with each candidate of some inputs together; all their votes are at hand."""
    mean = votes.means()
    expected = np.zeros(votes.n_labels)
    np.add.at(expected, votes.labels, mean.astype(np.float64))
    places = np.sort(best_places(votes, mean, max(REACH, objective.k))[0])
    choice, _ = _choose([votes.chosen(places)], expected, objective)
    codes = np.full(len(mean), REJECT, dtype=np.int8)
    codes[places[choice.chosen]] = ACCEPT
    return codes


def what_is_optimised(objective: Objective, inputs: int) -> str:
    """What was done, and that it guarantees nothing, in words."""
    return (
        f"Each input is given {objective.k} labels, chosen for the {inputs:,} inputs together so that the"
        f" expected {objective} is high. A label of one input depends on the other inputs. It is as good as"
        " the probabilities are; nothing is guaranteed."
    )


def _choose(
    kept: list[Votes], expected: npt.NDArray[np.float64], objective: Objective
) -> tuple[Choice, list[npt.NDArray[np.float32]]]:
    means = [votes.means() for votes in kept]
    ends = np.cumsum([0, *(len(mean) for mean in means)])
    indptr = np.concatenate(
        [[0], *(votes.indptr[1:] + begin for votes, begin in zip(kept, ends, strict=False))]
    ).astype(np.int64)
    labels = np.concatenate([votes.labels for votes in kept])
    return choose(indptr, labels, np.concatenate(means), kept[0].n_labels, objective, expected), means


def _words(objective: Objective, choice: Choice, inputs: int) -> str:
    return (
        f"Each input is given {objective.k} labels, chosen for the {inputs:,} inputs together: the expected"
        f" {objective} is {choice.value:.4f}, and {choice.start:.4f} with the most probable labels. A label"
        " of one input depends on the other inputs. It is as good as the probabilities are; nothing is"
        " guaranteed."
    )
