"""Accuracy against the cost of training: `python -m bench.frontier --datasets eurlex-4k --seeds 1`.

Hedgerow under several settings (`bench.frontier_plan`), PECOS, omikuji Bonsai and scikit-learn's LinearSVC,
on the same rows and features: accuracy, AUROC of finding wrong labels, CPU seconds of the fit and size of the
model. Finished runs are kept under `results/raw`; a benchmark that was stopped goes on from there. Writes
`results/frontier.json`, `results/frontier.md`, which the page docs/results/frontier.md shows, and pictures of
the first data set, docs/frontier.svg, and of all, docs/frontier-all.svg.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, frontier_picture, machine, measure, ranked
from bench.frontier_plan import HEDGEROW, NAMES, PEERS, Run, runs, stored_seeds
from bench.plan import PYTHONS, RESULTS, ROOT
from hedgerow import Votes
from hedgerow.evaluation import ndcg_at, precision_at
from hedgerow.votes.truth import Assessment, assess

PICTURE, PICTURE_OF_ALL = ROOT / "docs/frontier.svg", ROOT / "docs/frontier-all.svg"
DRAWN = {"p@1": "P@1", "auroc": "AUROC of finding wrong labels"}  # in percent
SEEDS = 5
TIMEOUT = 7200.0
# Title, key of the stored result, factor and format.
COLUMNS = (
    ("CPU s", "fit_cpu_seconds", 1.0, ".1f"),
    ("model MB", "model_disk_bytes", 1e-6, ".1f"),
    ("P@1", "p@1", 1.0, ".2f"),
    ("P@3", "p@3", 1.0, ".2f"),
    ("P@5", "p@5", 1.0, ".2f"),
    ("nDCG@5", "ndcg@5", 1.0, ".2f"),
    ("F1@5", "f1@5", 1.0, ".2f"),
    ("nDCG@20", "ndcg@20", 1.0, ".2f"),
    ("AUROC TU", "auroc", 1.0, ".2f"),
    ("AUROC PV", "auroc_variance", 1.0, ".2f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument(
        "--peers", choices=tuple(PEERS), default="few", help="all: with tfn+man of PECOS (default: few)"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    measure.add_limits(parser)
    parser.set_defaults(timeout=TIMEOUT)
    parser.add_argument(
        "--fresh", action="store_true", help="forget the stored measurements of the chosen runs"
    )
    arguments = parser.parse_args()
    for run in runs(arguments.datasets, arguments.peers, arguments.seeds):
        result = None if arguments.fresh else run.result()
        if result is None:
            folder = datasets.prepare(run.dataset, arguments.data, arguments.cache).resolve()
            result = measured(run, folder, (arguments.timeout, arguments.memory))
            run.keep(result)
        outcome = result.get("died") or f"{result['fit_cpu_seconds']:.1f} CPU s, P@1 {result['p@1']:.2f}"
        print(f"{run.dataset} {run.contender.name}, seed {run.seed}: {outcome}", flush=True)
    write(machine.describe(PYTHONS))


def measured(run: Run, folder: Path, limits: tuple[float, float]) -> dict[str, Any]:
    """Fit and predict in processes of their own; then compare the answers with the truth."""
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        answers = Path(work) / "answers.npz"
        result = run.measure(folder, answers, limits)
        Y = datasets.load(folder, "tst").Y
        result |= {"rows": datasets.load(folder, "trn").Y.shape[0], "labels": Y.shape[1]}
        return result if "died" in result else result | accuracy(ranked.load(answers), Y)


def accuracy(answers: ranked.Ranked, Y: sp.csr_matrix) -> dict[str, float]:
    """All figures in percent, means over inputs that have labels; labels unknown to the model count."""
    best = answers.best
    if best.shape[1] < ranked.BEST:
        best = np.pad(best, ((0, 0), (0, ranked.BEST - best.shape[1])), constant_values=-1)
    found = {f"p@{k}": precision_at(best, Y, k) for k in (1, 3, 5)}
    found |= {f"ndcg@{k}": ndcg_at(best, Y, k) for k in (5, 20)}
    areas = aurocs(answers, Y)
    found |= {"f1@5": f1_at(best, Y, 5), "auroc": areas["total"]}
    if answers.scored.probs.shape[1] > 1:
        found["auroc_variance"] = areas["variance"]
    return {name: 100 * value for name, value in found.items()}


def f1_at(best: np.ndarray, Y: sp.csr_matrix, k: int) -> float:
    """F1 of the best k labels of each input, mean over inputs that have labels."""
    Y = sp.csr_matrix(Y)
    true = Y.getnnz(axis=1)
    chosen = best[:, :k]
    rows = np.broadcast_to(np.arange(len(best))[:, None], chosen.shape)
    given = chosen >= 0
    hits = np.zeros(chosen.shape)
    hits[given] = np.asarray(Y[rows[given], chosen[given]]).ravel() != 0
    labelled = true > 0
    return float((2 * hits.sum(axis=1)[labelled] / (given.sum(axis=1) + true)[labelled]).mean())


def aurocs(answers: ranked.Ranked, Y: sp.csr_matrix) -> dict[str, float]:
    """How well each uncertainty finds the wrong labels of the sampled inputs, by `hedgerow.assess`."""
    truth = sp.csr_matrix(Y)[answers.rows]
    indptr, labels, probs = answers.scored
    parts = []
    for begin in range(0, len(answers.rows), ranked.BLOCK):
        ends = indptr[begin : begin + ranked.BLOCK + 1]
        inside = slice(ends[0], ends[-1])
        votes = Votes(ends - ends[0], labels[inside], probs[inside], truth.shape[1])
        parts.append(assess(votes, truth[begin : begin + ranked.BLOCK]))
    return Assessment.concatenate(parts).mean_auroc()


@dataclass(frozen=True)
class Figure:
    """Mean over seeds and, where there are several, the standard deviation."""

    mean: float
    deviation: float | None

    @staticmethod
    def of(values: list[float]) -> Figure:
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Figure(float(np.mean(values)), spread)

    def text(self, factor: float, style: str) -> str:
        shown = format(self.mean * factor, style)
        return shown if self.deviation is None else f"{shown} ± {format(self.deviation * factor, style)}"


@dataclass(frozen=True)
class Summary:
    """What a contender reached on a data set, over the seeds that lived."""

    name: str
    ours: bool
    seeds: int
    figures: dict[str, Figure]  # by the keys of COLUMNS; empty where no seed lived
    died: str


def collect(described: dict[str, Any]) -> dict[str, Any]:
    """All that is stored of those who take part: what tables and picture are made of."""
    found = [
        {"dataset": dataset, "name": contender.name, "ours": contender.ours, **result}
        for dataset in NAMES
        for contender in (*HEDGEROW, *PEERS["all"])
        for result in stored_seeds(dataset, contender)
    ]
    return {"machine": described, "threads": measure.THREADS, "runs": found}


def summarise(collected: dict[str, Any]) -> dict[str, list[Summary]]:
    """The contenders of each data set, cheapest first; those without a result last."""
    by_name: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run in collected["runs"]:
        by_name.setdefault(run["dataset"], {}).setdefault(run["name"], []).append(run)
    return {dataset: sorted(map(_summary, named.values()), key=_cost) for dataset, named in by_name.items()}


def _summary(found: list[dict[str, Any]]) -> Summary:
    lived = [run for run in found if "died" not in run]
    values = {key: [run[key] for run in lived if key in run] for _, key, _, _ in COLUMNS}
    figures = {key: Figure.of(own) for key, own in values.items() if own}
    died = "; ".join(sorted({run["died"] for run in found if "died" in run}))
    return Summary(found[0]["name"], found[0]["ours"], len(lived), figures, died)


def _cost(summary: Summary) -> float:
    return summary.figures["fit_cpu_seconds"].mean if summary.figures else float("inf")


def write(described: dict[str, Any]) -> None:
    """Write the numbers, the tables and the picture of all that is stored."""
    collected = collect(described)
    (RESULTS / "frontier.json").write_text(json.dumps(collected, indent=1) + "\n")
    (RESULTS / "frontier.md").write_text(markdown(collected))
    for path, drawn in pictures(collected).items():
        path.write_text(drawn)


def pictures(collected: dict[str, Any]) -> dict[Path, str]:
    """Of the first data set alone, and of all."""
    summaries = summarise(collected)
    return {PICTURE: picture(dict(list(summaries.items())[:1])), PICTURE_OF_ALL: picture(summaries)}


def picture(summaries: dict[str, list[Summary]]) -> str:
    """Accuracy and AUROC against CPU seconds, two panels for each data set."""
    panels = []
    for dataset, found in summaries.items():
        lived = [each for each in found if each.figures]
        for key, name in DRAWN.items():
            points = [
                frontier_picture.Point(
                    each.name,
                    each.figures["fit_cpu_seconds"].mean,
                    each.figures[key].mean,
                    each.figures[key].deviation or 0.0,
                    each.ours,
                )
                for each in lived
            ]
            if points:
                panels.append(frontier_picture.Panel(f"{dataset}: {name}, %", points))
    return frontier_picture.draw(panels)


def shape(collected: dict[str, Any], dataset: str) -> str:
    """Labels and training rows, in words."""
    run = next(run for run in collected["runs"] if run["dataset"] == dataset)
    return f"{run['labels']:,} labels, {run['rows']:,} training rows"


def markdown(collected: dict[str, Any]) -> str:
    """Machine, versions and tables."""
    machine = collected["machine"]
    versions = (
        f"{environment}: " + ", ".join(f"{name} {version}" for name, version in packages.items())
        for environment, packages in machine["environments"].items()
    )
    loads = [run["load_before"] for run in collected["runs"]]
    lines = [
        f"**Machine**: {machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB,"
        f" {machine['os']}, SIMD {machine['simd']}, {machine['date']}; {collected['threads']} threads"
        " (LinearSVC: 1). Load average before a run:"
        f" {min(loads):.1f} to {max(loads):.1f}.",
        "",
        f"**Versions**: {'; '.join(versions)}.",
    ]
    for dataset, found in summarise(collected).items():
        lines += ["", f"## {dataset}", "", f"{shape(collected, dataset)}.", "", *table(found)]
    return "\n".join(lines) + "\n"


def table(summaries: list[Summary]) -> Iterator[str]:
    """One row for each contender."""
    deaths = any(each.died for each in summaries)
    titles = ["", *(title for title, *_ in COLUMNS), "seeds", *(["died"] if deaths else [])]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for each in summaries:
        cells = [each.figures[key].text(*how) if key in each.figures else "n/a" for _, key, *how in COLUMNS]
        cells = [each.name, *cells, str(each.seeds), *([each.died] if deaths else [])]
        yield "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
