"""From an evaluation to what a report says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.evaluation.results import Evaluation
from hedgerow.inputs.rows import count, take
from hedgerow.inputs.training_record import MOST_SEEN
from hedgerow.judge.name_verdict import NameVerdict
from hedgerow.judge.verdict import Verdict, percent
from hedgerow.paper.efficiency import TheoremChecks, check_theorems
from hedgerow.verdicts import label_name_verdicts, label_verdicts
from hedgerow.vocabulary.naming import Naming
from hedgerow.votes.measures import Measures, label_uncertainty
from hedgerow.votes.votes import Votes

from .content import Content, Example, Headline, KnownLabel, LabelName, Prediction, Setting
from .figures import figures

_EXAMPLES = 15
_LABELS = 200
_PREDICTED = 8
_BEST = 5
_THEOREM_LABELS = 1_000_000
_TEXT = 4000


@dataclass(frozen=True)
class EvaluatedData:
    """What a model was evaluated on, with its texts and ids where there are any.

    `unknown` names the labels that the model does not know, in the order of their columns.
    """

    inputs: Any
    texts: Sequence[str] | None = None
    ids: Sequence[str | None] | None = None
    unknown: Sequence[Any] = ()


def compose(
    model: HedgerowClassifier,
    data: EvaluatedData,
    found: Evaluation,
    title: str,
    subtitle: str = "",
    *,
    naming: Naming | None = None,
) -> Content:
    """Choose what to show of an evaluation of a model on data."""
    names = [str(name) for name in (*model.classes_.tolist(), *data.unknown)]
    examples = _Examples(model, data, found, names)
    uncertain, wrong = examples.uncertain(), examples.wrong()
    labels = _labels(model, found, names)
    return Content(
        title=title,
        subtitle=subtitle,
        headline=_headline(found),
        figures=figures(found, _theorems(model, data.inputs)),
        uncertain=uncertain,
        wrong=wrong,
        labels=labels,
        names=_names([*uncertain, *wrong], labels, naming),
        settings=_settings(found.settings),
        notes=_notes(found),
    )


def _names(examples: list[Example], labels: list[KnownLabel], naming: Naming | None) -> list[LabelName]:
    """The names of all labels that are shown, each once."""
    if naming is None:
        return []
    shown = [one.label for one in labels]
    for example in examples:
        shown += [*example.true_labels, *(one.label for one in example.predicted)]
    return [
        LabelName(label, name) for label in dict.fromkeys(shown) if (name := naming.of(label)) is not None
    ]


def _settings(found: Mapping[str, Any]) -> list[Setting]:
    """What the model is, then its parameters; those that say the same go once."""
    plain = {
        name: f"{value:,}" if type(value) is int else value
        for name, value in found.items()
        if not isinstance(value, dict | None)
    }
    parameters = {name: value for name, value in found["parameters"].items() if value is not None}
    return [Setting(name.replace("_", " "), str(value)) for name, value in {**parameters, **plain}.items()]


def _headline(found: Evaluation) -> list[Headline]:
    ranking = found.ranking
    shares = [
        ("Precision at 1", ranking.precision[1], "how often the most probable label is right"),
        ("Precision at 5", ranking.precision[5], "share of right labels among the best five"),
        ("Recall at 5", ranking.recall[5], "share of the true labels that are among the best five"),
        (
            "Uncertainty finds errors",
            found.misclassification["total"].auroc,
            "how often a wrong label of an input is more uncertain (total) than a right one (AUROC)",
        ),
        (
            "Calibration error",
            found.reliability[5].ece,
            "mean difference between the best five probabilities and how often they are right",
        ),
        *(
            (
                f"OOD detection: {name}",
                scores["ood"].detection.auroc,
                "how often an out-of-distribution input has a higher OOD score than an in-distribution one"
                " (AUROC)",
            )
            for name, scores in found.ood.items()
            if "ood" in scores
        ),
    ]
    return [Headline(name, f"{100 * share:.1f} %", explanation) for name, share, explanation in shares]


def _theorems(model: HedgerowClassifier, X: Any) -> TheoremChecks | None:
    rows = np.linspace(0, count(X) - 1, min(count(X), _THEOREM_LABELS // len(model.classes_))).astype(int)
    return check_theorems(model, take(X, rows)) if rows.size else None


@dataclass(frozen=True, eq=False)
class _Shown:
    """What is known of an example: votes and measures, the places of the best labels, and why they are.

    `expected` says how many of the best are expected to be right; empty where the model has not learned it.
    """

    votes: Votes
    measures: Measures
    best: npt.NDArray[np.intp]
    reasons: list[list[str]]
    expected: str


def _reasons(
    model: HedgerowClassifier, inputs: Any, listed: Sequence[npt.NDArray[np.int32]]
) -> list[list[list[str]]]:
    """What judge and names say of labels of each input, in sentences; none where there are neither."""
    source = model.source
    read = source.inputs(inputs)
    reasons = [[list[str]() for _ in labels] for labels in listed]
    verdicts: list[Sequence[Sequence[Verdict | NameVerdict | None]] | None] = [
        label_verdicts(source, read, listed),
        label_name_verdicts(source, read, listed),
    ]
    for said in verdicts:
        for own, of_labels in zip(reasons, said or [], strict=said is not None):
            for sentences, verdict in zip(own, of_labels, strict=True):
                sentences += [] if verdict is None else verdict.sentences()
    return reasons


class _Examples:
    """Chooses inputs and lets the members vote on them once more."""

    def __init__(
        self, model: HedgerowClassifier, data: EvaluatedData, found: Evaluation, names: list[str]
    ) -> None:
        self._model, self._data, self._found, self._names = model, data, found, names

    def uncertain(self) -> list[Example]:
        """The inputs whose best label is least probable.

        Not those with the highest sum over all labels: that grows with the number of improbable ones, and
        inputs whose labels are surely right can have the most.
        """
        best = self._found.judgement.best.probability[:, 0]
        rows = np.argsort(best, kind="stable")[:_EXAMPLES]
        return self._make(rows, [self._why_uncertain(row) for row in rows])

    def _why_uncertain(self, row: int) -> str:
        judged = self._found.judgement
        best = (
            f"The best label has a probability of {percent(float(judged.best.probability[row, 0]))}; the"
            f" model expects {float(judged.inputs.probability[row]):.1f} labels."
        )
        total, knowledge = self._best_five(row)
        if not total:
            return best
        return (
            f"{best} Of its uncertainty about the best five, {100 * knowledge / total:.0f} % is knowledge"
            " uncertainty."
        )

    def _best_five(self, row: int) -> tuple[float, float]:
        """Total and knowledge uncertainty of the best five labels of an input."""
        best = self._found.judgement.best
        return float(best.total[row, :_BEST].sum()), float(best.knowledge[row, :_BEST].sum())

    def wrong(self) -> list[Example]:
        """The inputs whose most probable label is wrong, the highest probability first."""
        judged = self._found.judgement
        labelled = np.diff(judged.truth.indptr) > 0
        rows_of = np.repeat(np.arange(len(judged)), np.diff(judged.truth.indptr))
        right = np.zeros(len(judged), dtype=bool)
        right[rows_of[judged.rank == 1]] = True
        probability = np.where(labelled & ~right, judged.best.probability[:, 0], -1)
        rows = np.argsort(-probability, kind="stable")[:_EXAMPLES]
        rows = rows[probability[rows] > 0]
        whys = [
            f"The best label has a probability of {100 * float(probability[row]):.0f} %, and it is wrong."
            for row in rows
        ]
        return self._make(rows, whys)

    def _make(self, rows: npt.NDArray[np.integer[Any]], whys: list[str]) -> list[Example]:
        if not rows.size:
            return []
        inputs = take(self._data.inputs, rows)
        votes = self._model.predict_votes(inputs)
        measured = [label_uncertainty(votes[place]) for place in range(len(rows))]
        best = [np.argsort(-one.probability, kind="stable")[:_PREDICTED] for one in measured]
        listed = [votes[place].labels[at] for place, at in enumerate(best)]
        reasons = _reasons(self._model, inputs, listed)
        expected = _expected(self._model, inputs)
        return [
            self._example(
                _Shown(votes[place], measured[place], best[place], reasons[place], expected[place]), row, why
            )
            for place, (row, why) in enumerate(zip(rows.tolist(), whys, strict=True))
        ]

    def _example(self, shown: _Shown, row: int, why: str) -> Example:
        judged, data, p_values = self._found.judgement, self._data, self._found.p_values
        votes, measures = shown.votes, shown.measures
        total, knowledge = self._best_five(row)
        true = judged.truth.indices[judged.truth.indptr[row] : judged.truth.indptr[row + 1]].tolist()
        return Example(
            id=f"input {row}" if (id := data.ids and data.ids[row]) is None else str(id),
            text=None if data.texts is None else data.texts[row][:_TEXT],
            true_labels=[self._names[label] for label in true],
            predicted=[
                Prediction(
                    self._names[votes.labels[at]],
                    float(measures.probability[at]),
                    float(measures.total[at]),
                    float(measures.data[at]),
                    float(measures.knowledge[at]),
                    votes.probs[at].tolist(),
                    int(votes.labels[at]) in true,
                    shown.reasons[place],
                )
                for place, at in enumerate(shown.best.tolist())
            ],
            expected=float(judged.inputs.probability[row]),
            total=total,
            knowledge=knowledge,
            ood=None if p_values is None else float(p_values[row]),
            why=f"{why}{shown.expected}",
        )


def _expected(model: HedgerowClassifier, inputs: Any) -> list[str]:
    """How many of the best labels of each input are expected to be right, in words."""
    if not model.source.forecasts:
        return [""] * count(inputs)
    found = model.expected_quality(inputs)
    return [f" Expected before the truth was known: {found.words(row).lower()}" for row in range(len(found))]


def _labels(model: HedgerowClassifier, found: Evaluation, names: list[str]) -> list[KnownLabel]:
    """Labels that are seldom found although they are true, worst first."""
    judged = found.judgement
    columns, place, tests = np.unique(judged.truth.indices, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=(judged.rank > 0) & (judged.rank <= 5)) / tests
    probability = np.bincount(place, weights=judged.true.probability) / tests
    knowledge = np.bincount(place, weights=judged.true.knowledge) / tests
    known = columns < len(model.classes_)
    counts = np.zeros(len(columns), dtype=np.int64)
    if model.label_counts_ is not None:
        counts[known] = model.label_counts_[columns[known]]
    # What occurs once or twice in the test says little of a label.
    often = tests >= min(3, int(tests.max()))
    order = np.lexsort((-tests, probability, hits, ~often))[:_LABELS]
    return [
        KnownLabel(
            names[columns[at]],
            int(counts[at]),
            int(tests[at]),
            float(hits[at]),
            float(probability[at]),
            float(knowledge[at]),
        )
        for at in order.tolist()
        if often[at]
    ]


def _notes(found: Evaluation) -> list[str]:
    notes = [
        "A label counts as wrong for an input if it is either true or among the N best labels, but"
        " not both, where N is the number of true labels. AUROC is a mean over inputs, each over all labels.",
        "Total uncertainty is the entropy of the mean probability. Data (aleatoric) uncertainty is the mean"
        " entropy of the members, each by itself. Knowledge (epistemic) uncertainty is the difference: the"
        " members disagree.",
    ]
    if found.shift is not None:
        notes.insert(0, found.shift.words)
    for of in found.decisions:
        achieved = "" if of.achieved is None else f" Here: {100 * of.achieved:.1f} %."
        notes.append(f"{of.guarantee.words}{achieved}")
    if found.flagged is not None:
        notes.append(
            f"Flagged as out-of-distribution: {100 * found.flagged:.1f} % of the inputs; 5 % are expected."
        )
    if (seen := found.settings["seen_in_training"]) > MOST_SEEN * found.settings["inputs"]:
        notes.append(
            f"The model was trained on {seen:,} of these inputs, so this page says little about new inputs."
        )
    if unknown := found.settings["unknown_labels"]:
        notes.append(
            f"{unknown:,} of {found.settings['true_labels']:,} true labels never occur in training; they"
            " count as missed."
        )
    return notes
