"""The charts of a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.evaluation.results import Evaluation
from hedgerow.paper.efficiency import TheoremChecks

from .content import Figure, Kind, Series

_SCORES = ("ood", "variance", "total", "knowledge", "joint_energy", "expected")
_NAMES = {
    "energy": "Energy",
    "ood": "OOD score",
    "joint_energy": "JointEnergy",
    "expected": "expected number of labels",
}


def figures(found: Evaluation, checks: TheoremChecks | None) -> list[Figure]:
    """All charts that an evaluation has the numbers for."""
    made = [_long_tail(found), _error_areas(found), _risk_coverage(found), _reliability(found)]
    if found.by_frequency:
        made += _frequency(found)
    if any(of.outcome for of in found.decisions):
        made += _guarantees(found)
    made += [_roc(name, place, found) for place, name in enumerate(found.ood)]
    if checks:
        made += _theorems(checks)
    return made


def _long_tail(found: Evaluation) -> Figure:
    mean, deviation = found.long_tail.T
    ranks = np.arange(1, len(mean) + 1)
    kept = mean > 0
    low = np.maximum(mean - deviation, mean * 1e-3)
    return Figure(
        "long-tail",
        "The long tail",
        "Mean probability of the labels by their rank, over all inputs: a few labels have almost all of it."
        " The band is one standard deviation to each side.",
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
    kinds: dict[str, tuple[int, Kind]] = {"total": (1, "bars"), "knowledge": (3, "line")}
    for measure, (place, kind) in kinds.items():
        if measure in found.misclassification:
            areas = found.judgement.auroc[:, place]
            areas = np.clip(areas[~np.isnan(areas)], edges[0], edges[-1])
            shares = np.histogram(areas, edges)[0] / max(1, len(areas))
            series.append(Series(measure, (edges[:-1] + edges[1:]) / 2, shares, kind))
    return Figure(
        "error-areas",
        "Does uncertainty find wrong labels?",
        "AUROC per input: how often one of its wrong labels is more uncertain than a right one. 0.5 is"
        " chance, and lower values count there.",
        "AUROC of an input",
        "share of inputs",
        series,
        x_limits=(0.5, 1.0),
    )


def _risk_coverage(found: Evaluation) -> Figure:
    return Figure(
        "risk-coverage",
        "Fewer labels, fewer errors",
        "Of the five most probable labels of every input, only the least uncertain ones are kept: the share"
        " of them that is wrong. Entropy and variance are also low for labels that are certainly absent, so"
        " here the probability alone (Energy) is the best order.",
        "share of labels kept",
        "share of wrong labels",
        [
            Series(_NAMES.get(name, name), of.risk_coverage.coverage, of.risk_coverage.risk)
            for name, of in found.misclassification.items()
        ],
        x_limits=(0.0, 1.0),
    )


def _reliability(found: Evaluation) -> Figure:
    return Figure(
        "reliability",
        "Are the probabilities calibrated?",
        "How often labels are right, by their probability. Below the diagonal the model is overconfident,"
        " above it underconfident.",
        "probability",
        "share of right labels",
        [
            Series("perfectly calibrated", kind="diagonal"),
            *(
                Series(f"best {k}", of.mean_probability, of.share_right, "points")
                for k, of in found.reliability.items()
            ),
        ],
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
    title = "training examples of the label"
    return [
        Figure(
            "frequency",
            "Uncertainty by label frequency",
            "Mean over the true labels of the test inputs, in ten groups of about equal size by how often the"
            " label occurs in training.",
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
            "Share of the true labels that are among the five most probable ones, in the same ten groups."
            " Rare labels are hard.",
            title,
            "share found",
            [Series("among the best five", places, [group["found"] for group in groups], "bars")],
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
            "Guaranteed and achieved",
            "Two shares are guaranteed to be at most the risk, on average over inputs like the calibration"
            " data: the share of an input's true labels that are rejected (conformal risk control), and, with"
            " a confidence of 90 %, the share of its accepted labels that are wrong (Learn then Test), which"
            " is 0 if none is accepted. On one data set, chance moves them a little.",
            "risk",
            "mean share",
            [
                Series("guaranteed: at most", places, [of.risk for of, _ in kept]),
                Series("true labels rejected", places, [outcome.missed for _, outcome in kept], "points"),
                Series("accepted labels wrong", places, [outcome.wrong for _, outcome in kept], "points"),
            ],
            x_ticks=ticks,
        ),
        Figure(
            "work",
            "How much needs review",
            "Labels per input, on average, that are accepted, and that the model defers to a human. All"
            " others are rejected.",
            "risk",
            "labels per input",
            [
                Series("accepted", places, [outcome.accepted for _, outcome in kept], "points"),
                Series("needs review", places, [outcome.reviewed for _, outcome in kept], "points"),
            ],
            x_ticks=ticks,
        ),
    ]


def _span(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}\N{EN DASH}{highest}"


def _roc(name: str, place: int, found: Evaluation) -> Figure:
    rocs = {score: found.ood[name][score].roc for score in _SCORES if score in found.ood[name]}
    return Figure(
        f"roc-{place}",
        f"Out-of-distribution detection: {name}",
        "Share of out-of-distribution (OOD) inputs that are flagged, against the share of in-distribution"
        " inputs that are flagged by mistake. OOD inputs have a high OOD score, and low sums over labels.",
        "in-distribution inputs flagged",
        "OOD inputs flagged",
        [
            Series("chance", kind="diagonal"),
            *(
                Series(_NAMES.get(score, score), roc.false_positive, roc.true_positive)
                for score, roc in rocs.items()
            ),
        ],
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )


def _theorems(checks: TheoremChecks) -> list[Figure]:
    regrets = np.array(checks.regret)
    return [
        Figure(
            "regret",
            "What the beam misses",
            "How much less probability the nodes in the beam have than the best nodes of the layer. A wider"
            " beam misses less.",
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
            "Difference of total uncertainty from that over all labels, and the upper bound that the search"
            " itself gives (certificate).",
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
    """Differences that are only rounding are gaps on a logarithmic axis."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(values > 1e-9, values, np.nan)
