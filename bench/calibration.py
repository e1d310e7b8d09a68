"""How far probabilities can be trusted, before and after calibration: `python -m bench.calibration`.

For each data set and method of training: calibrate with one half of the test inputs, measure with the other,
over several splits; and calibrate out-of-bag, measured with all test inputs. Then memory and time of learning
at the size of Amazon-670K, with made-up votes, and what applying a map costs beside predicting. Fitted models
are kept in the cache; writes `results/calibration.json` and `results/calibration.md`.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine, measure
from hedgerow import Calibration, HedgerowClassifier, Votes
from hedgerow.evaluation import brier_score, reliability
from hedgerow.judge.calibration import METHODS
from hedgerow.judge.fitting import label_values
from hedgerow.votes.truth import assess

RESULTS = Path(__file__).parent / "results"
NAMES = ("eurlex-4k", "tibkat-en")
TRAINED = ("single", "bagging", "boosted-bagging")
HOW = [
    *(
        {"method": method, "by": by, "of": "mean"}
        for by in ("all", "depth", "frequency")
        for method in METHODS
    ),
    *({"method": method, "by": "all", "of": "members"} for method in METHODS),
]
CUTS = (1, 3, 5)
BATCH = 50
# Labels by groups are ranked anew among so many best ones: who was below them does not rise to the best five.
KEPT = 30
LABELS, INPUTS, CANDIDATES, MEMBERS, TRUE = 670_000, 10_000, 3000, 10, 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--methods", nargs="+", choices=TRAINED, default=list(TRAINED))
    parser.add_argument("--seeds", type=int, default=5, help="splits of the test set (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=4000, help="test inputs at most (default: %(default)s)")
    parser.add_argument("--only-global", action="store_true", help="only maps of the mean for all labels")
    parser.add_argument("--only-size", action="store_true", help="measure memory and time alone")
    arguments = parser.parse_args()
    path = RESULTS / "calibration.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = machine.describe({"hedgerow": Path(sys.executable)})
    if arguments.only_size or "size" not in found:
        found["size"] = size()
    for name in () if arguments.only_size else arguments.datasets:
        for method in arguments.methods:
            ways = HOW[: len(METHODS)] if arguments.only_global else HOW
            result = quality(name, method, arguments.seeds, arguments.rows, ways)
            key = f"{method}, {result['inputs']} inputs"
            before = found.setdefault("quality", {}).setdefault(name, {}).get(key, {"runs": []})
            done = [(run["seed"], run["how"]) for run in result["runs"]]
            kept = [run for run in before["runs"] if (run["seed"], run["how"]) not in done]
            result["runs"] = [*result["runs"], *kept]
            found["quality"][name][key] = result
            path.write_text(json.dumps(found, indent=1) + "\n")
            print(name, method, json.dumps(result["runs"][0]), flush=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "calibration.md").write_text(markdown(found))


def fitted(name: str, method: str) -> HedgerowClassifier:
    path = datasets.CACHE / "calibration" / f"{name}.{method}.hedgerow"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train = datasets.load(datasets.prepare(name), "trn")
        HedgerowClassifier(method=method, members=MEMBERS, random_state=0).fit(train.X, train.Y).save(path)
    return HedgerowClassifier.load(path).set_params(n_jobs=measure.THREADS)


def quality(name: str, method: str, seeds: int, most: int, ways: list[dict[str, str]]) -> dict[str, Any]:
    """Figures before and after, for each way to calibrate."""
    model = fitted(name, method)
    test = datasets.load(datasets.prepare(name), "tst")
    rows = np.random.default_rng(0).permutation(test.X.shape[0])[:most]
    begins = range(0, len(rows), BATCH)
    truths = [test.Y[rows[begin : begin + BATCH]] for begin in begins]
    votes, best = [], []
    predicting, entries = 0.0, 0
    for begin in begins:
        start = time.process_time()
        batch = model.predict_votes(test.X[rows[begin : begin + BATCH]])
        predicting += time.process_time() - start
        entries += len(batch.labels)
        best.append(_best(batch))
        # The mean alone takes a tenth of the memory.
        votes.append(_means(batch) if len(ways) == len(METHODS) else batch)
    rare = _rare(model, best)
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(votes))
        ours, others = order[: len(order) // 2], order[len(order) // 2 :]
        truth = sp.vstack([truths[i] for i in ours], format="csr")
        runs.append({"seed": seed, "how": None} | figures(best, truths, others, rare, None))
        for how in ways:
            if how["of"] == "members" and model.model_.forest.members == 1:
                continue
            learned = Calibration.learn(
                (votes[i] for i in ours),
                truth,
                label_values=label_values(model, how["by"]),
                n_jobs=measure.THREADS,
                **how,
            )
            runs.append({"seed": seed, "how": how} | figures(best, truths, others, rare, learned))
    everything = np.arange(len(votes))
    runs.append({"seed": None, "how": None} | figures(best, truths, everything, rare, None))
    learned = Calibration.learn(votes, sp.vstack(truths, format="csr"), n_jobs=measure.THREADS)
    learned.certificate(batch.bound)
    start = time.process_time()
    for _ in begins:
        learned.moved(batch.labels, batch.probs, measure.THREADS)
        learned.certificate(batch.bound)
    applying = (time.process_time() - start) * entries / (len(begins) * len(batch.labels))
    del votes
    if "bagging" in method:
        train = datasets.load(datasets.prepare(name), "trn")
        for how in ({"method": "isotonic", "of": "mean"}, {"method": "isotonic", "of": "members"}):
            learned = model.calibrate_out_of_bag(train.X, train.Y, most=3000, **how).calibration_
            runs.append({"seed": None, "how": how} | figures(best, truths, everything, rare, learned))
    return {"inputs": len(rows), "apply_share": applying / predicting, "runs": runs}


def _means(votes: Votes) -> Votes:
    return Votes(votes.indptr, votes.labels, votes.probs.mean(axis=1, keepdims=True), votes.n_labels)


def _best(votes: Votes) -> Votes:
    """The most probable candidates alone."""
    means = votes.probs.mean(axis=1)
    kept = []
    for begin, end in zip(votes.indptr[:-1], votes.indptr[1:], strict=True):
        own = np.argpartition(-means[begin:end], min(KEPT, end - begin - 1))[:KEPT]
        kept.append(begin + np.sort(own))
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in kept])])
    entries = np.concatenate(kept)
    return Votes(indptr, votes.labels[entries], votes.probs[entries], votes.n_labels)


def _rare(model: HedgerowClassifier, best: list[Votes]) -> np.ndarray:
    """Labels that are no more frequent in training than half of those that are predicted."""
    counts = model.label_counts_
    nothing = sp.csr_array((BATCH, len(counts)), dtype=np.int8)
    predicted = np.concatenate([assess(b, nothing[: len(b)], k=5).labels.ravel() for b in best])
    return counts <= np.median(counts[predicted])


def figures(
    best: list[Votes], truths: list[Any], batches: np.ndarray, rare: np.ndarray, learned: Calibration | None
) -> dict[str, Any]:
    probability, right, labels = [], [], []
    for i in batches:
        votes = best[i] if learned is None else learned.apply(best[i], n_jobs=measure.THREADS)
        judged = assess(votes, truths[i], k=5, n_jobs=measure.THREADS)
        hit = np.zeros(judged.labels.shape, dtype=bool)
        rows = np.repeat(np.arange(len(judged)), np.diff(judged.truth.indptr))
        high = (judged.rank > 0) & (judged.rank <= 5)
        hit[rows[high], judged.rank[high] - 1] = True
        probability.append(judged.best.probability)
        right.append(hit)
        labels.append(judged.labels)
    p, r = np.concatenate(probability), np.concatenate(right)
    few = rare[np.concatenate(labels)]
    return {
        "ece": [reliability(p[:, :k], r[:, :k]).ece for k in CUTS],
        "ece_rare": reliability(p[few], r[few]).ece,
        "brier": brier_score(p, r),
        "precision": [float(r[:, :k].mean()) for k in CUTS],
    }


def size() -> dict[str, Any]:
    """Memory and time to learn at the size of Amazon-670K, every batch of votes made anew."""
    draw = np.random.default_rng(0)
    steps = np.cumsum(draw.integers(1, LABELS // CANDIDATES, CANDIDATES)).astype(np.int32)
    shifts = draw.integers(0, LABELS - steps[-1], INPUTS)
    columns = steps[np.sort(draw.integers(0, CANDIDATES, (INPUTS, TRUE)), axis=1)] + shifts[:, None]
    Y = sp.csr_array(
        (np.ones(columns.size, dtype=np.int8), columns.ravel(), np.arange(0, columns.size + 1, TRUE)),
        shape=(INPUTS, LABELS),
    )
    Y.sum_duplicates()
    counts = draw.integers(1, 20, LABELS)
    making = 0.0

    def batches() -> Iterator[Votes]:
        nonlocal making
        for begin in range(0, INPUTS, 500):
            start = time.perf_counter()
            n = min(500, INPUTS - begin)
            labels = (steps[None, :] + shifts[begin : begin + n, None]).ravel().astype(np.int32)
            probs = draw.random((n * CANDIDATES, MEMBERS), dtype=np.float32) ** 8
            made = Votes(np.arange(0, n * CANDIDATES + 1, CANDIDATES), labels, probs, LABELS)
            making += time.perf_counter() - start
            yield made

    result: dict[str, Any] = {"labels": LABELS, "inputs": INPUTS, "candidates": INPUTS * CANDIDATES}
    for of in ("mean", "members"):
        making = 0.0
        start = time.perf_counter()
        Calibration.learn(batches(), Y, by="frequency", of=of, label_values=counts, n_jobs=measure.THREADS)
        seconds = time.perf_counter() - start
        result[of] = {
            "seconds": seconds - making,
            "seconds_with_votes": seconds,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    return result


def markdown(found: dict[str, Any]) -> str:
    """The page `results/calibration.md`."""
    lines = [
        "# Calibration",
        "",
        "ECE (15 bins of equal width) and Brier score of the best k labels, low is good, and P@k; percent."
        " Models have default settings and ten members. Learned from one half of the test inputs, measured"
        " with the other: mean over splits, for ECE@5 with its deviation. `rare`: ECE@5 of the rarer half of"
        " the predicted labels. With some 1,900 inputs, perfect probabilities have an ECE@5 of about 1.3 by"
        " chance. Maps by group, and of members, may change the order of labels; one of the mean does not.",
        "",
    ]
    for name, methods in found.get("quality", {}).items():
        for method, result in methods.items():
            lines += [
                f"## {name}, {method}",
                "",
                f"Test inputs: {result['inputs']}. Applying the default map takes"
                f" {100 * result['apply_share']:.1f} % of the processor time of `predict_votes`.",
                "",
                "| map | by | of | ECE@1 | ECE@3 | ECE@5 | rare | Brier@5 | P@1 | P@3 | P@5 | splits |",
                "|---|---|---|---|---|---|---|---|---|---|---|---|",
            ]
            ways: dict[str, list[dict[str, Any]]] = {}
            for run in result["runs"]:
                how = run["how"]
                title = (
                    "none | | " if how is None else f"{how['method']} | {how.get('by', 'all')} | {how['of']}"
                )
                if run["seed"] is None:
                    title = "none, all test inputs | | " if how is None else f"out-of-bag, {title}"
                ways.setdefault(title, []).append(run)
            for title, runs in ways.items():
                table = np.array([[*r["ece"], r["ece_rare"], r["brier"], *r["precision"]] for r in runs])
                cells = [f"{100 * value:.2f}" for value in table.mean(axis=0)]
                if len(runs) > 1:
                    cells[2] += f" ± {100 * table[:, 2].std(ddof=1):.2f}"
                splits = "" if runs[0]["seed"] is None else len(runs)
                lines.append(f"| {title} | {' | '.join(cells)} | {splits} |")
            lines.append("")
    if "size" in found:
        of = found["size"]
        lines += [
            "## Size",
            "",
            f"{of['inputs']:,} inputs, {of['labels']:,} labels, {of['candidates']:,} candidates of ten"
            " members, by frequency, 2 threads: "
            + "; ".join(
                f"{which}: {of[which]['seconds']:.1f} s beside making the votes up"
                f" ({of[which]['seconds_with_votes']:.0f} s with it), {of[which]['peak_bytes'] / 1e9:.2f} GB"
                for which in ("mean", "members")
            )
            + ".",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
