"""The paper's figures and some more, as SVG files; they need matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.storage.atomic_file import atomic_file

from .experiment import Experiment

_MEASURES = {
    "variance": "prediction variance",
    "total": "total uncertainty",
    "knowledge": "knowledge uncertainty",
    "energy": "Energy",
    "joint_energy": "JointEnergy",
    "ood": "OOD score",
}
_DOTS: dict[str, Any] = {"marker": "o", "markersize": 3}
_BEST = ("boosted-bagging", "bagging", "boosting", "mc-dropout", "single")


def write_figures(experiments: Sequence[Experiment], folder: Path) -> str | None:
    """Draw one model of each data set, the one of the strongest method with the first seed.

    Returns why there are no figures, or None.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return "no figures were drawn because matplotlib is missing; install hedgerow[figures]"
    folder.mkdir(parents=True, exist_ok=True)
    for data, found in _chosen(experiments).items():
        for name, (key, draw) in _FIGURES.items():
            if not found.get(key):
                continue
            figure = Figure(figsize=(5.2, 3.6), layout="constrained")
            axes = figure.subplots()
            draw(axes, found[key])
            axes.legend(fontsize="small")
            # A fixed salt: the same figures give the same bytes.
            with (
                rc_context({"svg.hashsalt": "hedgerow"}),
                atomic_file(folder / f"{data}-{name}.svg", overwrite=True) as file,
            ):
                figure.savefig(file, format="svg", metadata={"Date": None})
    return None


def _chosen(experiments: Sequence[Experiment]) -> dict[str, Mapping[str, Any]]:
    chosen: dict[str, Mapping[str, Any]] = {}
    for method in _BEST:
        for experiment in experiments:
            if experiment.method == method and experiment.seed == 0:
                chosen.setdefault(experiment.data, experiment.found)
    return chosen


def _long_tail(axes: Any, tail: Mapping[str, Any]) -> None:
    mean, deviation = np.array(tail["mean"]), np.array(tail["deviation"])
    ranks = np.arange(1, len(mean) + 1)
    shown = mean > 0
    axes.plot(ranks[shown], mean[shown], label="mean")
    low = np.maximum(mean - deviation, mean * 1e-3)
    high = mean + deviation
    axes.fill_between(ranks[shown], low[shown], high[shown], alpha=0.25, label="± standard deviation")
    axes.set(xscale="log", yscale="log", xlabel="rank of the label", ylabel="probability")


def _risk_coverage(axes: Any, curves: Mapping[str, Any]) -> None:
    for measure, curve in curves.items():
        if curve and measure in _MEASURES:
            axes.plot(curve["coverage"], curve["risk"], label=_MEASURES[measure])
    axes.set(xlabel="share of the five best labels that is kept", ylabel="share of these that is wrong")


def _reliability(axes: Any, curves: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":")
    for k, of in curves.items():
        axes.plot(of["mean_probability"], of["share_right"], **_DOTS, label=f"best {k}")
    axes.set(xlabel="probability", ylabel="share of right labels", xlim=(0, 1), ylim=(0, 1))


def _frequency(axes: Any, groups: Sequence[Mapping[str, Any]]) -> None:
    places = np.arange(1, len(groups) + 1)
    for measure in ("total", "knowledge"):
        axes.plot(places, [group[measure] for group in groups], **_DOTS, label=_MEASURES[measure])
    axes.plot(places, [group["probability"] for group in groups], linestyle="--", label="probability")
    axes.set(
        xlabel="labels by tenths of frequency in training, rarest first",
        ylabel="mean over true labels",
        xticks=places,
    )


def _roc(axes: Any, details: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.5)
    for (other, scores), style in zip(details.items(), ("-", "--", ":", "-."), strict=False):
        for number, score in enumerate(("ood", "total", "joint_energy")):
            if score in scores:
                roc = scores[score]["roc"]
                across, up = roc["false_positive"], roc["true_positive"]
                axes.plot(across, up, style, color=f"C{number}", label=f"{other}: {_MEASURES[score]}")
    axes.set(
        xlabel="in-distribution inputs flagged",
        ylabel="out-of-distribution inputs flagged",
        xlim=(0, 1),
        ylim=(0, 1),
    )


def _regret(axes: Any, checks: Mapping[str, Any]) -> None:
    for layer, regrets in enumerate(np.array(checks["regret"]).T, 1):
        axes.plot(checks["beams"], np.maximum(regrets, 1e-9), **_DOTS, label=f"layer {layer}")
    axes.set(xscale="log", yscale="log", xlabel="beam", ylabel="average regret")


def _uncertainty_error(axes: Any, checks: Mapping[str, Any]) -> None:
    titles = {
        "label_error": "per label",
        "input_error": "per input",
        "certificate": "certified bound per input",
    }
    for name, title in titles.items():
        axes.plot(checks["beams"], np.maximum(checks[name], 1e-9), **_DOTS, label=title)
    axes.set(xscale="log", yscale="log", xlabel="beam", ylabel="error of total uncertainty")


# What each shows of an experiment, and how.
_FIGURES: dict[str, tuple[str, Callable[[Any, Any], None]]] = {
    "long-tail": ("long_tail", _long_tail),
    "risk-coverage": ("risk_coverage", _risk_coverage),
    "reliability": ("reliability", _reliability),
    "frequency": ("by_frequency", _frequency),
    "roc": ("ood_details", _roc),
    "regret": ("theorems", _regret),
    "uncertainty-error": ("theorems", _uncertainty_error),
}
