"""From an evaluation to what a report says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.evaluation.results import Evaluation
from hedgerow.inputs.rows import count, take
from hedgerow.inputs.training_record import MOST_SEEN
from hedgerow.paper.efficiency import TheoremChecks, check_theorems
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.votes import Votes

from .content import Content, Example, Figure, Headline, KnownLabel, Prediction, Series, Setting

__all__ = ["compose"]

_EXAMPLES = 15
_LABELS = 200
_PREDICTED = 8
_THEOREM_LABELS = 1_000_000
_TEXT = 4000
_MEASURES = {
    "variance": "variance",
    "total": "total",
    "knowledge": "knowledge",
    "data": "data",
    "energy": "Energy",
}
_SCORES = {
    "ood": "ood",
    "variance": "variance",
    "total": "total",
    "knowledge": "knowledge",
    "joint_energy": "JointEnergy",
    "expected": "expected number of labels",
}


def compose(
    model: HedgerowClassifier,
    X: Any,
    evaluation: Evaluation,
    *,
    title: str,
    subtitle: str = "",
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    unknown: Sequence[Any] = (),
) -> Content:
    """Choose what to show of an evaluation.

    Parameters
    ----------
    model : HedgerowClassifier
        The model that was evaluated.
    X : inputs
        What it was evaluated on.
    evaluation : Evaluation
        What came out.
    title, subtitle : str
        Over the page.
    texts : sequence of str, optional
        The inputs as people read them.
    ids : sequence of str, optional
        What the inputs are called.
    unknown : sequence
        Names of the labels that the model does not know, in the order of their columns.

    Returns
    -------
    Content
    """
    names = [str(name) for name in (*model.classes_.tolist(), *unknown)]
    examples = _Examples(model, X, evaluation, names, texts, ids)
    return Content(
        title=title,
        subtitle=subtitle,
        headline=_headline(evaluation),
        figures=_figures(evaluation, _theorems(model, X)),
        uncertain=examples.uncertain(),
        wrong=examples.wrong(),
        labels=_labels(model, evaluation, names),
        settings=_settings(evaluation.settings),
        notes=_notes(evaluation),
    )


def _settings(found: Mapping[str, Any]) -> list[Setting]:
    """What the model is, then its parameters; those that say the same go once."""
    plain = {name: value for name, value in found.items() if not isinstance(value, dict | None)}
    parameters = {name: value for name, value in found["parameters"].items() if value is not None}
    return [Setting(name.replace("_", " "), str(value)) for name, value in {**parameters, **plain}.items()]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _headline(found: Evaluation) -> list[Headline]:
    ranking = found.ranking
    headline = [
        Headline("Precision at 1", _percent(ranking.precision[1]), "how often the best label is right"),
        Headline(
            "Precision at 5", _percent(ranking.precision[5]), "share of right labels among the best five"
        ),
        Headline("Recall at 5", _percent(ranking.recall[5]), "share of the true labels among the best five"),
    ]
    measure = "total"
    area = found.misclassification[measure].auroc
    headline.append(
        Headline(
            "Doubt finds errors",
            _percent(area),
            "how often a wrong label of an input has more total uncertainty than a right one (AUROC)",
        )
    )
    headline.append(
        Headline(
            "Calibration error",
            _percent(found.reliability[5].ece),
            "mean distance of the best five probabilities from how often they are right",
        )
    )
    for name, scores in found.ood.items():
        if "ood" in scores:
            headline.append(
                Headline(
                    f"Knows {name} as other",
                    _percent(scores["ood"].detection.auroc),
                    "how often an out-of-distribution input is more out-of-distribution than an"
                    " input of this kind (AUROC)",
                )
            )
    return headline


def _figures(found: Evaluation, checks: TheoremChecks | None) -> list[Figure]:
    figures = [_long_tail(found), _error_areas(found), _risk_coverage(found), _reliability(found)]
    if found.by_frequency:
        figures += _frequency(found)
    if any(of.outcome for of in found.decisions):
        figures += _guarantees(found)
    figures += [_roc(name, found) for name in found.ood]
    if checks:
        figures += _theorem_figures(checks)
    return figures


def _long_tail(found: Evaluation) -> Figure:
    mean, deviation = found.long_tail.T
    ranks = np.arange(1, len(mean) + 1)
    kept = mean > 0
    low = np.maximum(mean - deviation, mean * 1e-3)
    return Figure(
        "long-tail",
        "The long tail",
        "Probability of the labels by their rank, over all inputs: a few labels have almost all of it. The"
        " band is one standard deviation wide to each side.",
        "rank of the label",
        "probability",
        [
            Series("± deviation", ranks[kept], (), "band", low[kept], (mean + deviation)[kept]),
            Series("mean", ranks[kept], mean[kept]),
        ],
        x_scale="log",
        y_scale="log",
    )


def _error_areas(found: Evaluation) -> Figure:
    edges = np.linspace(0.5, 1, 26)
    series = []
    for measure in ("total", "knowledge"):
        if measure not in found.misclassification:
            continue
        place = {"total": 1, "knowledge": 3}[measure]
        areas = found.judgement.auroc[:, place]
        areas = np.clip(areas[~np.isnan(areas)], edges[0], edges[-1])
        shares = np.histogram(areas, edges)[0] / max(1, len(areas))
        series.append(
            Series(measure, (edges[:-1] + edges[1:]) / 2, shares, "bars" if measure == "total" else "line")
        )
    return Figure(
        "error-areas",
        "Does doubt find the errors of an input?",
        "AUROC of each input: how well uncertainty puts its wrong labels above its right ones. One half is"
        " chance, and what is below counts there.",
        "AUROC of an input",
        "share of inputs",
        series,
        x_limits=(0.5, 1.0),
    )


def _risk_coverage(found: Evaluation) -> Figure:
    return Figure(
        "risk-coverage",
        "Answer less, err less",
        "Of the five best labels of every input, only the less doubtful ones are kept: how many of these"
        " are wrong. Entropy and variance are low for what is surely absent, too, so here the probability"
        " alone (Energy) sorts best.",
        "share of labels kept",
        "share of wrong ones",
        [
            Series(_MEASURES[name], of.risk_coverage.coverage, of.risk_coverage.risk)
            for name, of in found.misclassification.items()
        ],
        x_limits=(0.0, 1.0),
    )


def _reliability(found: Evaluation) -> Figure:
    series = [Series("as it should be", kind="diagonal")]
    series += [
        Series(f"best {k}", of.mean_probability, of.share_right, "points")
        for k, of in found.reliability.items()
    ]
    return Figure(
        "reliability",
        "Are probabilities what they say?",
        "How often labels are right, by the probability that the model gives them. Below the diagonal it is"
        " too sure of itself, above it too modest.",
        "probability",
        "share of right labels",
        series,
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )


def _frequency(found: Evaluation) -> list[Figure]:
    groups = found.by_frequency
    places = list(range(1, len(groups) + 1))
    ticks = [
        (place, _span(int(group["lowest"]), int(group["highest"])))
        for place, group in zip(places, groups, strict=True)
    ]
    title = "how often the label occurs in training"
    return [
        Figure(
            "frequency",
            "Uncertainty by label frequency",
            "Mean over the true labels of the test inputs, cut into ten groups of about equal size by how"
            " often they occur in training.",
            title,
            "mean over true labels",
            [
                Series(name, places, [group[name] for group in groups])
                for name in ("probability", "total", "knowledge")
            ],
            x_ticks=ticks,
        ),
        Figure(
            "coverage",
            "Which labels are found",
            "Share of the true labels that are among the best five, in the same ten groups: rare labels are"
            " the hard ones.",
            title,
            "share found",
            [Series("found among the best five", places, [group["found"] for group in groups], "bars")],
            x_ticks=ticks,
            y_limits=(0.0, 1.0),
        ),
    ]


def _guarantees(found: Evaluation) -> list[Figure]:
    kept = [(of, of.outcome) for of in found.decisions if of.outcome is not None]
    places = list(range(1, len(kept) + 1))
    ticks = [(place, f"{100 * of.risk:g} %") for place, (of, _) in zip(places, kept, strict=True)]
    return [
        Figure(
            "guarantees",
            "Guaranteed and kept",
            "At each risk asked for: the mean share of an input's true labels that were rejected, and"
            " of wrong labels among those it was given, where an input that was given none counts as 0. Both"
            " are guaranteed to stay at the risk or below, on average over inputs like those that the policy"
            " was learned from, the second with a confidence of 90 %; chance moves them a little on any one"
            " set of data.",
            "risk asked for",
            "mean share",
            [
                Series("guaranteed", places, [of.risk for of, _ in kept]),
                Series("true labels rejected", places, [outcome.missed for _, outcome in kept], "points"),
                Series("wrong of what is given", places, [outcome.wrong for _, outcome in kept], "points"),
            ],
            x_ticks=ticks,
        ),
        Figure(
            "work",
            "What is left for people",
            "Labels of an input that are accepted, and that a person should look at, on average. All others"
            " are rejected.",
            "risk asked for",
            "labels of an input",
            [
                Series("accepted", places, [outcome.accepted for _, outcome in kept], "points"),
                Series("to review", places, [outcome.reviewed for _, outcome in kept], "points"),
            ],
            x_ticks=ticks,
        ),
    ]


def _span(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}\N{EN DASH}{highest}"


def _roc(name: str, found: Evaluation) -> Figure:
    series = [Series("chance", kind="diagonal")]
    for score, title in _SCORES.items():
        if score in found.ood[name]:
            roc = found.ood[name][score].roc
            series.append(Series(title, roc.false_positive, roc.true_positive))
    return Figure(
        f"roc-{list(found.ood).index(name)}",
        f"Telling {name} apart",
        "Share of out-of-distribution inputs that are flagged against the share of inputs of this"
        " kind that are flagged with"
        " them. Sums over labels are low for out-of-distribution inputs, OOD score is high.",
        "insiders flagged",
        "out-of-distribution inputs flagged",
        series,
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )


def _theorem_figures(checks: TheoremChecks) -> list[Figure]:
    regrets = np.array(checks.regret)
    return [
        Figure(
            "regret",
            "What the beam passes by",
            "How much probability the nodes in the beam lack against the best ones of the layer: it falls"
            " to nothing as the beam widens.",
            "beam",
            "average regret",
            [
                Series(f"layer {number + 1}", checks.beams, _floor(regrets[:, number]))
                for number in range(regrets.shape[1])
            ],
            x_scale="log",
            y_scale="log",
        ),
        Figure(
            "uncertainty-error",
            "What the beam does to uncertainty",
            "Distance of total uncertainty from the one over all labels, and what the search itself says it"
            " is at most.",
            "beam",
            "error",
            [
                Series("of a label", checks.beams, _floor(checks.label_error)),
                Series("of an input", checks.beams, _floor(checks.input_error)),
                Series("certificate", checks.beams, _floor(checks.certificate)),
            ],
            x_scale="log",
            y_scale="log",
        ),
    ]


def _floor(values: Any) -> npt.NDArray[np.float64]:
    """Differences that are only rounding are no points of a logarithmic axis."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(values > 1e-9, values, np.nan)


def _theorems(model: HedgerowClassifier, X: Any) -> TheoremChecks | None:
    rows = np.linspace(0, count(X) - 1, min(count(X), _THEOREM_LABELS // len(model.classes_))).astype(int)
    return check_theorems(model, take(X, rows)) if rows.size else None


class _Examples:
    """Chooses inputs and lets the members vote on them once more."""

    def __init__(
        self,
        model: HedgerowClassifier,
        X: Any,
        found: Evaluation,
        names: list[str],
        texts: Sequence[str] | None,
        ids: Sequence[str] | None,
    ) -> None:
        self._model, self._X, self._found, self._names = model, X, found, names
        self._texts, self._ids = texts, ids

    def uncertain(self) -> list[Example]:
        """The inputs with the most total uncertainty."""
        total = self._found.judgement.inputs.total
        rows = np.argsort(-total, kind="stable")[:_EXAMPLES]
        return self._make(rows, [self._why_uncertain(row) for row in rows])

    def _why_uncertain(self, row: int) -> str:
        sums = self._found.judgement.inputs
        if not sums.total[row]:
            return "The model sees no doubt here."
        share = float(sums.knowledge[row] / sums.total[row])
        expected = float(sums.probability[row])
        return (
            f"The model expects {expected:.1f} labels, and {100 * share:.0f} % of its doubt is that the"
            " members disagree."
        )

    def wrong(self) -> list[Example]:
        """The inputs whose best label is wrong and sure."""
        judged = self._found.judgement
        labelled = np.diff(judged.truth.indptr) > 0
        rows_of = np.repeat(np.arange(len(judged)), np.diff(judged.truth.indptr))
        right = np.zeros(len(judged), dtype=bool)
        right[rows_of[judged.rank == 1]] = True
        probability = np.where(labelled & ~right, judged.best.probability[:, 0], -1)
        rows = np.argsort(-probability, kind="stable")[:_EXAMPLES]
        rows = rows[probability[rows] > 0]
        whys = [
            f"The best label has a probability of {100 * float(probability[row]):.0f} %, and is not among"
            " the true ones."
            for row in rows
        ]
        return self._make(rows, whys)

    def _make(self, rows: npt.NDArray[np.integer[Any]], whys: list[str]) -> list[Example]:
        if not rows.size:
            return []
        votes = self._model.predict_votes(take(self._X, rows))
        return [
            self._example(votes[place], row, why)
            for place, (row, why) in enumerate(zip(rows.tolist(), whys, strict=True))
        ]

    def _example(self, votes: Votes, row: int, why: str) -> Example:
        judged = self._found.judgement
        measures = label_uncertainty(votes)
        true = judged.truth.indices[judged.truth.indptr[row] : judged.truth.indptr[row + 1]].tolist()
        best = np.argsort(-measures.probability, kind="stable")[:_PREDICTED]
        p_values = self._found.p_values
        return Example(
            id=self._ids[row] if self._ids is not None else f"input {row}",
            text=None if self._texts is None else self._texts[row][:_TEXT],
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
                )
                for at in best.tolist()
            ],
            expected=float(judged.inputs.probability[row]),
            total=float(judged.inputs.total[row]),
            knowledge=float(judged.inputs.knowledge[row]),
            ood=None if p_values is None else float(p_values[row]),
            why=why,
        )


def _labels(model: HedgerowClassifier, found: Evaluation, names: list[str]) -> list[KnownLabel]:
    """Labels that are seldom found although they are true, worst first."""
    judged = found.judgement
    columns, place, tests = np.unique(judged.truth.indices, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=(judged.rank > 0) & (judged.rank <= 5))
    probability = np.bincount(place, weights=judged.true.probability) / tests
    knowledge = np.bincount(place, weights=judged.true.knowledge) / tests
    known = columns < len(model.classes_)
    counts = np.zeros(len(columns), dtype=np.int64)
    if model.label_counts_ is not None:
        counts[known] = model.label_counts_[columns[known]]
    # What occurs once or twice in the test says little of a label.
    often = tests >= min(3, int(tests.max()))
    order = np.lexsort((-tests, probability, hits / tests, ~often))[:_LABELS]
    return [
        KnownLabel(
            names[columns[at]],
            int(counts[at]),
            int(tests[at]),
            float(hits[at] / tests[at]),
            float(probability[at]),
            float(knowledge[at]),
        )
        for at in order.tolist()
        if often[at]
    ]


def _notes(found: Evaluation) -> list[str]:
    notes = [
        "A label is wrong for an input if it is either true or among as many best labels as there are true"
        " ones, but not both. AUROC is the mean over inputs, each over all labels there are.",
        "Total uncertainty is the entropy of the mean probability. Data uncertainty is what the members"
        " agree to be doubtful; knowledge uncertainty is the rest, that they disagree.",
    ]
    for of in found.decisions:
        if of.refused:
            notes.append(f"At a risk of {100 * of.risk:g} % the policy guarantees nothing: {of.refused}.")
            continue
        flags = (
            "" if of.flagged is None else f" Flagged as out-of-distribution inputs: {100 * of.flagged:.1f} %."
        )
        outcome = of.outcome
        if outcome is not None:
            notes.append(
                f"At a risk of {100 * of.risk:g} % the policy guarantees that on average at most that"
                f" share of an"
                f" input's true labels is rejected; achieved here: {100 * outcome.missed:.1f} %. With a"
                " confidence of 90 %, at most that share of what an input is given is wrong; achieved here:"
                f" {100 * outcome.wrong:.1f} %.{flags}"
            )
    if (seen := found.settings["seen_in_training"]) > MOST_SEEN * found.settings["inputs"]:
        notes.append(
            f"The model was trained on {seen:,} of these inputs, so this page says little about others."
        )
    if unknown := found.settings["unknown_labels"]:
        notes.append(
            f"{unknown:,} of {found.settings['true_labels']:,} true labels never occur in training; they"
            " count as missed."
        )
    return notes
