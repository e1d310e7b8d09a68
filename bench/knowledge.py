"""Does more training data help where the members disagree? `python -m bench.knowledge`.

Models of a quarter of the training data say of test inputs what is uncertain, and how much of that is
knowledge uncertainty. Models of all the data then show what the other three quarters were good for, in thirds
of the labels (candidates of an input) and of the inputs. Both models are calibrated with one half of the test
inputs and compared on the other. Writes `results/knowledge.json` and `results/knowledge.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import datasets, machine, measure
from hedgerow import HedgerowClassifier, Votes, label_uncertainty

RESULTS = Path(__file__).parent / "results"
NAMES = ("eurlex-4k", "debian-tags", "debian-depends", "tibkat-en")
MEMBERS = 10
# Members of the paper's settings, each with a tree of its own; and members that tell a label from all others.
SHAPES: dict[str, dict[str, Any]] = {
    "paper": {},
    "wide": {"leaf_size": 10**6, "tolerance": 1.0},
}
LISTED = 20  # candidates of an input: the best by the model of a quarter
BEST = 5
# What is alike is at the same of so many levels.
LEVELS = 20
GROUPS = ("low", "middle", "high")
LEAST = 1e-4  # of a label that a model does not find

Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=["eurlex-4k", "debian-tags"])
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=4000, help="test inputs at most (default: %(default)s)")
    arguments = parser.parse_args()
    path = RESULTS / "knowledge.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = machine.describe({"hedgerow": Path(sys.executable)})
    for name in arguments.datasets:
        train, test = (datasets.load(datasets.prepare(name), part) for part in ("trn", "tst"))
        for shape in arguments.shapes:
            for seed in arguments.seeds:
                run = {"seed": seed, "rows": train.X.shape[0]}
                run |= compared(train, test, SHAPES[shape], arguments.rows, seed)
                runs = found.setdefault("datasets", {}).setdefault(name, {}).setdefault(shape, [])
                runs[:] = sorted(
                    [one for one in runs if one["seed"] != seed] + [run], key=lambda one: one["seed"]
                )
                path.write_text(json.dumps(found, indent=1) + "\n")
                (RESULTS / "knowledge.md").write_text(markdown(found))


def compared(train: Any, test: Any, shape: dict[str, Any], most: int, seed: int) -> dict[str, Any]:
    """What the other three quarters are good for, by the share of knowledge under a model of the first."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(train.X.shape[0])
    quarter = order[: len(order) // 4]
    asked = draw.permutation(test.X.shape[0])[:most]
    ours, others = asked[: len(asked) // 2], asked[len(asked) // 2 :]
    votes = []
    for part in (quarter, order):
        model = HedgerowClassifier(method="bagging", members=MEMBERS, random_state=seed, **shape)
        model.set_params(n_jobs=measure.THREADS).fit(train.X[part], train.Y[part]).calibrate(
            test.X[ours], test.Y[ours]
        )
        votes.append(model.predict_votes(test.X[others]))
    few, all_ = votes
    labels = listed(few, all_, test.Y[others])
    labels["examples"] = np.asarray(train.Y[quarter].sum(axis=0)).ravel()[labels.pop("label").astype(int)]
    return {
        "labels": gains_of_labels(labels),
        "inputs": gains_of_inputs(few, all_, test.Y[others]),
        "uncertainty": {"quarter": of_best(few), "all": of_best(all_)},
    }


def listed(few: Votes, all_: Votes, Y: Any) -> dict[str, Floats]:
    """The best candidates of all inputs: measures by the first votes, probability by both, and the truth."""
    measures = label_uncertainty(few)
    other = all_.mean().tocsr()
    Y = Y.tocsr()
    parts: list[list[Floats]] = []
    for row in range(len(few)):
        begin, end = few.indptr[row : row + 2]
        at = begin + np.argsort(-measures.probability[begin:end], kind="stable")[:LISTED]
        columns = few.labels[at]
        parts.append(
            [
                columns.astype(float),
                measures.probability[at].astype(float),
                measures.total[at].astype(float),
                measures.knowledge[at].astype(float),
                np.asarray(other[[row]][:, columns].todense(), dtype=float).ravel(),
                np.asarray(Y[[row]][:, columns].todense(), dtype=float).ravel(),
            ]
        )
    names = ("label", "probability", "total", "knowledge", "after", "right")
    return dict(zip(names, (np.concatenate(part) for part in zip(*parts, strict=True)), strict=True))


def gains_of_labels(labels: dict[str, Floats]) -> dict[str, Any]:
    """How much lower the losses of labels are with all data, in thirds by several things."""
    p, q, right = labels["probability"], labels["after"], labels["right"]
    share = labels["knowledge"] / np.maximum(labels["total"], 1e-12)
    gains = {
        "log loss": log_loss(p, right) - log_loss(q, right),
        "Brier": (p - right) ** 2 - (q - right) ** 2,
    }
    anything = np.zeros(len(p))
    return {
        "share of knowledge, same total": by_group(
            grouped(share, p), share, gains
        ),  # same probability, same total
        "share of knowledge": by_group(grouped(share, anything, 1), share, gains),
        "knowledge uncertainty": by_group(
            grouped(labels["knowledge"], anything, 1), labels["knowledge"], gains
        ),
        "data uncertainty": by_group(
            grouped(labels["total"] - labels["knowledge"], anything, 1),
            labels["total"] - labels["knowledge"],
            gains,
        ),
        "training examples, same total": by_group(grouped(labels["examples"], p), labels["examples"], gains),
    }


def gains_of_inputs(few: Votes, all_: Votes, Y: Any) -> dict[str, Any]:
    """How much better inputs are ranked with all data, in thirds by several things."""
    measures = label_uncertainty(few)
    sums = {}
    for which, best in (("all", None), ("best five", BEST)):
        total, knowledge = np.zeros(len(few)), np.zeros(len(few))
        for row in range(len(few)):
            part = slice(*few.indptr[row : row + 2].tolist())
            at = (
                slice(None) if best is None else np.argsort(-measures.probability[part], kind="stable")[:best]
            )
            total[row] = measures.total[part][at].sum()
            knowledge[row] = measures.knowledge[part][at].sum()
        sums[which] = (total, knowledge, knowledge / np.maximum(total, 1e-12))
    before, after = (ranked(votes, Y) for votes in (few, all_))
    gains = {name: after[name] - before[name] for name in before}
    anything = np.zeros(len(few))
    total, knowledge, share = sums["all"]
    best_total, _, best_share = sums["best five"]
    return {
        "share of knowledge, same total": by_group(grouped(share, total), share, gains),
        "share of the best five, same total": by_group(grouped(best_share, best_total), best_share, gains),
        "share of knowledge": by_group(grouped(share, anything, 1), share, gains),
        "knowledge uncertainty": by_group(grouped(knowledge, anything, 1), knowledge, gains),
        "data uncertainty": by_group(grouped(total - knowledge, anything, 1), total - knowledge, gains),
    }


def of_best(votes: Votes) -> dict[str, float]:
    """Mean data and knowledge uncertainty of the best five labels of an input, summed."""
    measures = label_uncertainty(votes)
    found = {"data": 0.0, "knowledge": 0.0}
    for row in range(len(votes)):
        part = slice(*votes.indptr[row : row + 2].tolist())
        at = np.argsort(-measures.probability[part], kind="stable")[:BEST]
        found["data"] += float(measures.data[part][at].sum()) / len(votes)
        found["knowledge"] += float(measures.knowledge[part][at].sum()) / len(votes)
    return found


def ranked(votes: Votes, Y: Any) -> dict[str, Floats]:
    """P@5 and nDCG@5 of each input."""
    means, Y = votes.mean().tocsr(), Y.tocsr()
    discounts = 1 / np.log2(np.arange(2, BEST + 2))
    precision, ndcg = np.zeros(len(votes)), np.zeros(len(votes))
    for row in range(len(votes)):
        part = slice(*means.indptr[row : row + 2].tolist())
        best = means.indices[part][np.argsort(-means.data[part], kind="stable")[:BEST]]
        true = Y.indices[slice(*Y.indptr[row : row + 2].tolist())]
        right = np.isin(best, true)
        precision[row] = right.mean()
        ndcg[row] = (right * discounts[: len(best)]).sum() / max(1e-12, discounts[: len(true)].sum())
    return {"P@5": precision, "nDCG@5": ndcg}


def grouped(by: Floats, like: Floats, levels: int = LEVELS) -> npt.NDArray[np.int64]:
    """The third of each, among those that are alike in something else."""
    level = np.argsort(np.argsort(like, kind="stable"), kind="stable") * levels // len(like)
    group = np.zeros(len(by), dtype=np.int64)
    for one in range(levels):
        here = np.flatnonzero(level == one)
        group[here] = np.argsort(np.argsort(by[here], kind="stable")) * len(GROUPS) // max(1, len(here))
    return group


def by_group(group: npt.NDArray[np.int64], by: Floats, gains: dict[str, Floats]) -> dict[str, Any]:
    """Means of each group."""
    found: dict[str, Any] = {}
    for number, name in enumerate(GROUPS):
        here = group == number
        found[name] = {"by": float(by[here].mean())}
        found[name] |= {gain: float(values[here].mean()) for gain, values in gains.items()}
    return found


def log_loss(p: Floats, right: Floats) -> Floats:
    inside = np.clip(p, LEAST, 1 - LEAST)
    return -(right * np.log(inside) + (1 - right) * np.log1p(-inside))


def markdown(found: dict[str, Any]) -> str:
    """The page `results/knowledge.md`."""
    lines = [
        "# Where more training data help",
        "",
        "Ten bagged members learn from a quarter of the training data, ten others from all of it. Both are"
        " calibrated with one half of the test inputs and compared on the other. Labels: the best"
        f" {LISTED} candidates of each input under the model of a quarter. Thirds of them, from low to high,"
        " and how much the loss falls (labels) or the ranking rises (inputs) with all data. *Same total*:"
        f" thirds are made among those of about the same total uncertainty ({LEVELS} levels). Mean ±"
        " deviation over seeds: other samples, trees and halves.",
        "",
    ]
    parts = [(name, shape, of[shape]) for name, of in found.get("datasets", {}).items() for shape in of]
    for name, shape, runs in parts:
        rows = runs[0]["rows"]
        seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
        lines += [f"## {name}, {shape} members, {rows // 4:,} and {rows:,} training inputs, {seeds}", ""]
        for kind, gains, factor in (
            ("labels", ("log loss", "Brier"), 1000.0),
            ("inputs", ("P@5", "nDCG@5"), 100.0),
        ):
            unit = "thousandths" if kind == "labels" else "points"
            lines += [
                f"| {kind}, by | "
                + " | ".join(f"{gain}: {', '.join(GROUPS)} ({unit})" for gain in gains)
                + " |",
                "|---|" + "---|" * len(gains),
            ]
            for title in runs[0][kind]:
                cells = []
                for gain in gains:
                    table = factor * np.array([[run[kind][title][g][gain] for g in GROUPS] for run in runs])
                    spread = table.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(len(GROUPS))
                    pairs = zip(table.mean(axis=0), spread, strict=True)
                    cells.append(
                        ", ".join(f"{mean:.1f}" + (f" ± {off:.1f}" if off else "") for mean, off in pairs)
                    )
                lines.append(f"| {title} | " + " | ".join(cells) + " |")
            lines.append("")
        changes = [
            f"{part} {np.mean([run['uncertainty']['quarter'][part] for run in runs]):.2f} ->"
            f" {np.mean([run['uncertainty']['all'][part] for run in runs]):.2f}"
            for part in ("data", "knowledge")
        ]
        lines += [
            f"Uncertainty of the best five labels of an input, in nats, from a quarter to all:"
            f" {', '.join(changes)}.",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
