"""What to do with each label: accept it, let a person look, or reject it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.abstention import answer_limit, certainty, input_doubts
from hedgerow.decisions.policy import CAP, PREDICTED, Policy, search_of
from hedgerow.decisions.risk import as_share
from hedgerow.votes.batches import vote_batches
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.truth import assess
from hedgerow.votes.votes import Votes

if TYPE_CHECKING:
    from hedgerow.estimators.features import HedgerowClassifier

__all__ = [
    "ACCEPT",
    "DECISIONS",
    "REJECT",
    "REVIEW",
    "Costs",
    "Decisions",
    "InputDecision",
    "Rule",
    "Wish",
    "check_search",
    "decide",
    "rule_for",
]

Floats = npt.NDArray[np.float32]

DECISIONS = ("reject", "review", "accept")
REJECT, REVIEW, ACCEPT = range(3)


@dataclass(frozen=True)
class Costs:
    """What mistakes and looks cost, in any unit.

    Attributes
    ----------
    wrong : float
        A label that is accepted and wrong.
    missed : float
        A true label that is rejected.
    look : float
        A person who looks at one label of one input. They find out the truth.

    Examples
    --------
    >>> Costs(wrong=1, missed=2, look=0.2).thresholds()
    (0.1, 0.8)
    """

    wrong: float = 1.0
    missed: float = 1.0
    look: float = 0.2

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise ValueError(f"the cost {part.name} is {value!r}; costs are finite and not negative")

    def of_choices(self, probability: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Expected costs of rejecting, reviewing and accepting labels, shape (n, 3)."""
        p = np.asarray(probability, dtype=np.float64)
        return np.stack([p * self.missed, np.full(p.shape, float(self.look)), (1 - p) * self.wrong], axis=-1)

    def thresholds(self) -> tuple[float, float]:
        """Below the first probability labels are rejected, from the second on accepted."""
        even = self.wrong / (self.wrong + self.missed) if self.wrong + self.missed else 0.0
        reject = min(even, self.look / self.missed) if self.missed else even
        accept = max(even, 1 - self.look / self.wrong) if self.wrong else even
        return reject, accept


@dataclass(frozen=True, eq=False)
class Rule:
    """How to decide on candidates.

    Attributes
    ----------
    reject_below : float, or float32 array of shape (n_labels,)
        Labels with a lower mean probability are rejected, if they are not accepted.
    accept_from : float
        Labels that are at least so certain are accepted.
    by : str
        What certainty is measured by. Only the probability speaks for labels below one half.
    costs : Costs or None
        Decides in place of the thresholds.
    choices : tuple of int
        With costs: what may be chosen.
    most : int or None
        So many labels of an input are accepted at most, the most probable ones.
    """

    reject_below: float | npt.NDArray[np.float32] = 0.0
    accept_from: float = math.inf
    by: str = "probability"
    costs: Costs | None = None
    choices: tuple[int, ...] = (REJECT, REVIEW, ACCEPT)
    most: int | None = None

    def codes(self, votes: Votes, mean: Floats) -> npt.NDArray[np.int8]:
        """What to do with each candidate.

        Parameters
        ----------
        votes : Votes
            What the members say.
        mean : float32 array
            The mean probability of each candidate.

        Returns
        -------
        int8 array
            Places in `DECISIONS`.
        """
        if self.costs is not None:
            choices = np.array(self.choices)
            # Of equal costs the first counts: no look where it gains nothing, and rather accept than reject.
            order = choices[np.argsort([{ACCEPT: 0, REJECT: 1, REVIEW: 2}[code] for code in choices])]
            costs = self.costs.of_choices(mean)[:, order]
            return np.asarray(order[np.argmin(costs, axis=1)], dtype=np.int8)
        below = self.reject_below
        if isinstance(below, np.ndarray):
            below = below[votes.labels]
        codes = np.where(mean < np.asarray(below, dtype=np.float32), REJECT, REVIEW).astype(np.int8)
        codes[self._accepted(votes, mean)] = ACCEPT
        if self.most is not None:
            codes[(codes == ACCEPT) & ~_among_best(votes.indptr, mean, self.most)] = REJECT
        return codes

    def expected_cost(
        self, votes: Votes, mean: Floats, codes: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """The expected cost of each input: the sum over its candidates."""
        costs = (self.costs or Costs()).of_choices(mean)[np.arange(len(codes)), codes]
        rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
        return np.bincount(rows, weights=costs, minlength=len(votes)).astype(np.float64)

    def _accepted(self, votes: Votes, mean: Floats) -> npt.NDArray[np.intp]:
        if self.by == "probability":
            return np.flatnonzero(mean >= np.float32(self.accept_from))
        predicted = np.flatnonzero(mean >= PREDICTED)
        sure = certainty(label_uncertainty(_entries(votes, predicted)), self.by)
        return predicted[sure >= np.float32(self.accept_from)]


@dataclass(frozen=True)
class InputDecision:
    """The decisions on one input, labels by name and best first.

    Attributes
    ----------
    accept, review, reject : list
        Labels; of those to reject, only the best few. All labels that are not named are rejected.
    answered : bool
        False where the input as a whole is too doubtful, so that nothing is accepted.
    is_ood : bool or None
        If the input is unlike the training data.
    p_value : float or None
        The share of familiar inputs that are at least as odd.
    """

    accept: list[Any]
    review: list[Any]
    reject: list[Any]
    answered: bool
    is_ood: bool | None
    p_value: float | None


@dataclass(frozen=True, eq=False)
class Decisions:
    """What to do with the labels of each input.

    All labels that are to be accepted or reviewed are listed, and the best k of each input, best first; all
    others are rejected.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The labels of input `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    labels : array, shape (entries,)
        Labels as in `classes_`: names, or columns of Y.
    columns : int32 array, shape (entries,)
        Their places in `classes_`.
    probability, total, data, knowledge, variance : float32 array, shape (entries,)
        As of `UncertainLabels`.
    decision : int8 array, shape (entries,)
        0, 1 or 2: places in ``("reject", "review", "accept")``.
    answered : bool array, shape (n,)
        False where the input as a whole is too doubtful: what would have been accepted is to be reviewed.
    is_ood : bool array, shape (n,), or None
        If the input is unlike the training data; None where the model has not learned what is familiar.
    p_value : float64 array, shape (n,), or None
        The share of familiar inputs that are at least as odd.
    bound : float32 array, shape (n,), or None
        How far the probability of any label may be from the one that a search through all labels gives. Where
        it is below `reject_below`, no label that such a search would keep has been lost by the beam.
    expected_cost : float64 array, shape (n,), or None
        With costs: what the decisions on all candidates cost on average.
    reject_below, accept_from : float
        The thresholds; with groups of labels, the lowest of theirs. `accept_from` is infinite where nothing
        is accepted.
    guarantee : str
        What is guaranteed, in words.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    columns: npt.NDArray[np.int32]
    probability: Floats
    total: Floats
    data: Floats
    knowledge: Floats
    variance: Floats
    decision: npt.NDArray[np.int8]
    answered: npt.NDArray[np.bool_]
    is_ood: npt.NDArray[np.bool_] | None
    p_value: npt.NDArray[np.float64] | None
    bound: Floats | None
    expected_cost: npt.NDArray[np.float64] | None
    reject_below: float
    accept_from: float
    guarantee: str

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> InputDecision:
        """The decisions on one input."""
        n = len(self)
        if not -n <= row < n:
            raise IndexError(f"there is no input {row}; there are {n}")
        row %= n
        own = slice(self.indptr[row], self.indptr[row + 1])
        labels, codes = self.labels[own].tolist(), self.decision[own].tolist()
        chosen = {
            name: [label for label, decided in zip(labels, codes, strict=True) if decided == code]
            for code, name in enumerate(DECISIONS)
        }
        return InputDecision(
            **chosen,
            answered=bool(self.answered[row]),
            is_ood=None if self.is_ood is None else bool(self.is_ood[row]),
            p_value=None if self.p_value is None else float(self.p_value[row]),
        )

    def __iter__(self) -> Iterator[InputDecision]:
        return (self[row] for row in range(len(self)))

    def count(self, decision: str) -> npt.NDArray[np.int64]:
        """How many labels of each input are to be treated so.

        Parameters
        ----------
        decision : {"reject", "review", "accept"}
            Of those to reject, only the listed ones count.

        Returns
        -------
        int64 array, shape (n,)
        """
        if decision not in DECISIONS:
            raise ValueError(f"decision is {decision!r}; it must be one of {', '.join(DECISIONS)}")
        rows = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        return np.bincount(rows[self.decision == DECISIONS.index(decision)], minlength=len(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries: the guarantee, the thresholds, and for each input what `iter`
        gives.
        """
        inputs: list[dict[str, Any]] = [asdict(of_input) for of_input in self]
        for row, of_input in enumerate(inputs):
            if self.expected_cost is not None:
                of_input["expected_cost"] = float(self.expected_cost[row])
        return {
            "guarantee": self.guarantee,
            "reject_below": self.reject_below,
            "accept_from": self.accept_from if math.isfinite(self.accept_from) else None,
            "inputs": inputs,
        }

    @staticmethod
    def concatenate(parts: Sequence[Decisions]) -> Decisions:
        """The decisions of several batches, one after the other."""
        if not parts:
            raise ValueError("there is nothing to concatenate")
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        joined: dict[str, Any] = {
            "indptr": np.concatenate(
                [[0], *(part.indptr[1:] + begin for part, begin in zip(parts, ends, strict=False))]
            ).astype(np.int64)
        }
        for part in fields(Decisions):
            values = [getattr(own, part.name) for own in parts]
            if part.name != "indptr" and isinstance(values[0], np.ndarray):
                joined[part.name] = np.concatenate(values)
        return replace(parts[0], **joined)


def decide_on(
    votes: Votes,
    rule: Rule,
    classes: npt.NDArray[Any],
    k: int,
    answered: npt.NDArray[np.bool_],
    guarantee: str,
) -> Decisions:
    """Decide on a batch.

    Parameters
    ----------
    votes : Votes
        What the members say.
    rule : Rule
        How to decide.
    classes : array, shape (n_labels,)
        Names of the labels.
    k : int
        List at least so many labels of each input, if it has so many candidates.
    answered : bool array, shape (n,)
        Whether labels of the input may be accepted.
    guarantee : str
        What follows from the rule.

    Returns
    -------
    Decisions
        Without what is known of the inputs' familiarity.
    """
    mean = votes.mean().data
    codes = rule.codes(votes, mean)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    codes[(codes == ACCEPT) & ~answered[rows]] = REVIEW
    listed = np.flatnonzero((codes != REJECT) | _among_best(votes.indptr, mean, k))
    few = _entries(votes, listed)
    measures = label_uncertainty(few)
    order = np.lexsort((few.labels, -mean[listed], rows[listed]))
    chosen = listed[order]
    of_labels = {
        part.name: getattr(measures, part.name)[order].astype(np.float32) for part in fields(measures)
    }
    of_labels["probability"] = mean[chosen]
    below = rule.reject_below
    reject, accept = rule.costs.thresholds() if rule.costs else (float(np.min(below)), rule.accept_from)
    return Decisions(
        indptr=few.indptr,
        labels=classes[votes.labels[chosen]],
        columns=votes.labels[chosen],
        **of_labels,
        decision=codes[chosen],
        answered=answered,
        is_ood=None,
        p_value=None,
        bound=votes.bound,
        expected_cost=None if rule.costs is None else rule.expected_cost(votes, mean, codes),
        reject_below=reject,
        accept_from=accept,
        guarantee=guarantee,
    )


@dataclass(frozen=True)
class Wish:
    """What is asked of decisions; see `HedgerowClassifier.decide` for the meaning of each."""

    risk: float | None = None
    costs: Costs | None = None
    size: float | None = None
    by: str = "probability"
    coverage: float | None = None
    groups: bool = False
    confidence: float = 0.9
    inputs_by: str | None = None
    inputs_risk: float | None = None
    inputs_coverage: float | None = None

    def __post_init__(self) -> None:
        asked = [name for name in ("risk", "costs", "size") if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ValueError(f"{' and '.join(asked)} are given; decide by one of them")
        if self.risk is None and self.costs is None and self.size is None:
            object.__setattr__(self, "risk", 0.1)  # the one time that a frozen object changes
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise TypeError(f"costs is {self.costs!r}; give Costs(wrong=..., missed=..., look=...)")
        if self.risk is None and (self.groups or self.coverage is not None or self.by != "probability"):
            raise ValueError("groups, coverage and by go with risk, and not with costs or size")
        if self.coverage is not None and self.inputs_by is not None:
            raise ValueError("coverage counts the labels of all inputs, and inputs_by leaves some; use one")
        if self.inputs_by is None and (self.inputs_risk is not None or self.inputs_coverage is not None):
            raise ValueError("inputs_risk and inputs_coverage need inputs_by: what inputs are doubted by")


def rule_for(wish: Wish, policy: Policy | None, counts: npt.NDArray[np.int64] | None) -> tuple[Rule, str]:
    """The rule that fulfils a wish, and what it guarantees.

    Parameters
    ----------
    wish : Wish
        What is asked for.
    policy : Policy or None
        What was learned of the model's mistakes; costs do without.
    counts : int array, shape (n_labels,), or None
        How often labels occur in training, for groups.

    Returns
    -------
    Rule, str
    """
    if wish.costs is not None:
        reject, accept = wish.costs.thresholds()
        return Rule(costs=wish.costs), (
            f"Each label is treated as costs least on average: rejected below {reject:.3g}, accepted from"
            f" {accept:.3g} on. That is as good as the probabilities are; nothing is guaranteed."
        )
    if policy is None:
        raise NotFittedError(
            "the model has no policy; call learn_policy with inputs that it was not trained on, or hedgerow"
            " calibrate"
        )
    if wish.size is not None:
        least = policy.shortlist_from(wish.size)
        return Rule(least, least, most=CAP), (
            f"Labels from {least:.3g} on are accepted, at most {CAP} of an input: on average at most"
            f" {wish.size:g}."
        )
    risk = as_share("risk", wish.risk)
    if wish.coverage is not None:
        accept = policy.accept_share(wish.coverage, wish.by)
        accepted = (
            f"on average at least {100 * wish.coverage:g} % of the labels of an input that have a probability"
            " of one half or more are accepted, over inputs that have such labels"
        )
    else:
        accept = policy.accept_from(risk, wish.confidence, wish.by)
        accepted = (
            f"with a confidence of {100 * wish.confidence:g} %, on average at most {100 * risk:g} % of the"
            " labels that an input is given are wrong, where an input that is given none counts as 0"
        )
    least_sure = accept if wish.by == "probability" else PREDICTED
    below: float | npt.NDArray[np.float32]
    if wish.groups:
        thresholds = policy.reject_below_by_group(risk)
        if counts is None:
            raise ValueError("the model does not know how frequent its labels are, so there are no groups")
        edges = [group.lowest for group in policy.groups]
        place = np.searchsorted(edges, counts, side="right") - 1
        below = np.minimum(np.array(thresholds, dtype=np.float32)[place], np.float32(least_sure))
        rejected = "true labels of each group of frequency, over inputs that have such labels,"
    else:
        below = min(policy.reject_below(risk), least_sure)
        rejected = "true labels of an input"
    return Rule(below, accept, wish.by), (
        f"On average at most {100 * risk:g} % of the {rejected} are rejected; {accepted}. This holds on"
        f" average"
        " over inputs like the held-out ones, not for each label, and not for inputs of another kind."
    )


def decide(
    model: HedgerowClassifier,
    X: Any,
    wish: Wish,
    *,
    false_alarm: float | None = 0.05,
    k: int = 5,
    progress: Callable[[float, str], None] | None = None,
) -> Decisions:
    """Decide on the labels of inputs; see `HedgerowClassifier.decide`."""
    policy: Policy | None = getattr(model, "policy_", None)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise ValueError(f"k is {k!r}; it must be a number of labels")
    if wish.costs is not None and getattr(model, "calibration_", None) is None:
        raise NotFittedError(
            "costs weigh probabilities, and those of this model are not calibrated; call calibrate with"
            " inputs"
            " that it was not trained on"
        )
    rule, guarantee = rule_for(wish, policy, model.label_counts_)
    tolerance = None
    if policy is not None:
        tolerance = policy.search["tolerance"]
        check_search(policy, search_of(model, tolerance))
    limit = math.inf
    if wish.inputs_by is not None:
        if policy is None:
            raise NotFittedError("the model has no policy to withhold answers by; call learn_policy")
        limit = answer_limit(
            policy.inputs, wish.inputs_by, wish.inputs_risk, wish.inputs_coverage, wish.confidence
        )
        guarantee += _about_inputs(wish)
    if not hasattr(X, "shape") and not isinstance(X, list | tuple):
        X = list(X)
    is_ood = p_value = odd = None
    if hasattr(model, "ood_detector_"):
        found = model.ood_scores(X)
        odd, p_value = found.score, found.p_value
        is_ood = None if false_alarm is None else p_value <= _false_alarm(false_alarm, model)
    elif wish.inputs_by == "ood":
        raise NotFittedError("the model has not learned what is familiar; call learn_ood")
    parts = []
    for rows, votes in vote_batches(model, X, "deciding", tolerance=tolerance, progress=progress):
        answered = np.ones(len(votes), dtype=bool)
        if wish.inputs_by is not None:
            own = None if odd is None else odd[rows]
            answered = _doubts(votes, own, model)[wish.inputs_by] <= limit
        parts.append(decide_on(votes, rule, model.classes_, int(k), answered, guarantee))
    if not parts:
        nothing = np.empty((0, 1), dtype=np.float32)
        empty = Votes(np.zeros(1, np.int64), np.empty(0, np.int32), nothing, len(model.classes_))
        parts = [decide_on(empty, rule, model.classes_, int(k), np.ones(0, dtype=bool), guarantee)]
    return replace(Decisions.concatenate(parts), is_ood=is_ood, p_value=p_value)


def _about_inputs(wish: Wish) -> str:
    """What is guaranteed of inputs that are answered, and of those that are not."""
    left = " What would have been accepted for the others is to be reviewed."
    if wish.inputs_coverage is not None:
        return f" On average at least {100 * wish.inputs_coverage:g} % of the inputs are answered.{left}"
    return (
        f" With a confidence of {100 * wish.confidence:g} %, at most {100 * (wish.inputs_risk or 0):g} % of"
        f" the inputs that are answered have a wrong best label.{left}"
    )


def _doubts(
    votes: Votes, odd: npt.NDArray[np.float64] | None, model: HedgerowClassifier
) -> dict[str, npt.NDArray[np.float64]]:
    nothing = sp.csr_array((len(votes), votes.n_labels), dtype=np.int8)
    judged = assess(votes, nothing, k=1, n_jobs=model.n_jobs)
    return input_doubts(judged.inputs, judged.best.probability[:, 0], odd)


def check_search(policy: Policy, search: dict[str, Any]) -> None:
    """Refuse another search than the one that the policy was learned with: its guarantees are about that."""
    for name, value in search.items():
        if policy.search.get(name) != value:
            raise ValueError(
                f"{name} is {value!r}, but the policy was learned with {policy.search.get(name)!r}: its"
                f" guarantees"
                " hold for that search only; set it back, or learn the policy anew"
            )


def _false_alarm(share: float, model: HedgerowClassifier) -> float:
    share = as_share("false_alarm", share)
    scores = len(model.ood_detector_.scores)
    if share * (scores + 1) < 1:
        raise ValueError(
            f"false_alarm is {share:g}, but what is familiar was learned from {2 * scores} inputs, and no"
            f" p-value is below {1 / (scores + 1):.3g}; learn it from at least {2 * math.ceil(1 / share)}"
        )
    return share


def _entries(votes: Votes, chosen: npt.NDArray[np.intp]) -> Votes:
    """Some of the candidates, by place."""
    ends = np.searchsorted(chosen, votes.indptr)
    return Votes(ends, votes.labels[chosen], votes.probs[chosen], votes.n_labels)


def _among_best(indptr: npt.NDArray[np.int64], mean: Floats, k: int) -> npt.NDArray[np.bool_]:
    """Whether a candidate is one of the k most probable of its input; of equals, the lower label is."""
    best = np.zeros(len(mean), dtype=bool)
    for begin, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        own = mean[begin:end]
        if len(own) <= k:
            best[begin:end] = True
        elif k:
            least = np.partition(own, len(own) - k)[len(own) - k]
            above, equal = np.flatnonzero(own > least), np.flatnonzero(own == least)
            best[begin + above] = True
            best[begin + equal[: k - len(above)]] = True
    return best
