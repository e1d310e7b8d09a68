"""Guarantees, abstention and costs on held-out data: `python -m bench.decisions`.

For each data set ten bagged members, whose votes on the test set are made once. A third of it teaches the
calibration map; the rest is cut in two at random many times: one half sets the thresholds, the other tells
what came of them. Also: which doubt finds mistakes best, what asking a person saves, and the memory and time
of 10,000 inputs with 670,000 labels. Models and finished parts are kept; writes `results/decisions.json` and
`results/decisions.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine, measure, memory
from bench.plan import PYTHONS, RAW, RESULTS, store
from hedgerow import Calibration, HedgerowClassifier, Votes, load
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.given import RATIOS, Given, most_labels, pairs_of
from hedgerow.decisions.learning import PolicyLearner, label_groups
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.outcomes import CostTally
from hedgerow.decisions.policy import BEST as RANKED
from hedgerow.decisions.risk import GRID, RiskCurve, least_risk
from hedgerow.decisions.rules import best_places
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.search import SearchSettings
from hedgerow.votes.truth import assess

NAMES = ("eurlex-4k", "tibkat-en")
MEMBERS = 10
SPLITS = 1000
RISKS = (0.05, 0.1, 0.15, 0.2, 0.3)
CONFIDENCE = 0.9
BLOCK = 64
COSTS = (Costs(1, 1, 0.1), Costs(1, 1, 0.2), Costs(1, 2, 0.2), Costs(1, 5, 0.2), Costs(5, 1, 0.2))
RESAMPLES = 200
BEST = 5
NUMBERS = (5, 10, 20, 50)
COST_ROWS = 1000
LARGE_NAME = "large"
LARGE = {"inputs": 10_000, "labels": 670_000, "candidates": 3000, "true": 5}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    parser.add_argument("--fresh", action="store_true", help="forget the stored measurements")
    arguments = parser.parse_args()
    for part, (work, names) in PARTS.items():
        for name in names:
            stored = RAW / f"{name}.{part}.json"
            if name in (*arguments.datasets, LARGE_NAME) and (arguments.fresh or not stored.exists()):
                store(stored, work(name, arguments.data, arguments.cache))
                print(f"{name}: {stored.read_text()[:200]!r}", flush=True)
    found: dict[str, Any] = {}
    for part, (_, names) in PARTS.items():
        for name in names:
            if (path := RAW / f"{name}.{part}.json").exists():
                found[name] = found.get(name, {}) | json.loads(path.read_text())
    described = machine.describe(PYTHONS)
    (RESULTS / "decisions.json").write_text(json.dumps({"machine": described} | found, indent=1) + "\n")
    (RESULTS / "decisions.md").write_text(markdown(found))


def prepared(name: str, data: Path, cache: Path, most: int) -> tuple[Any, ...]:
    """The model, a map learned from a third of the test rows, and the others; at most so many of either."""
    folder = datasets.prepare(name, data, cache)
    test = datasets.load(folder, "tst")
    model = fitted(folder, cache / "decisions" / f"{name}.hedgerow")
    order = np.random.default_rng(0).permutation(test.X.shape[0])
    third = len(order) // 3
    first, second = np.sort(order[:third][:most]), np.sort(order[third:][:most])
    truth = as_truth(test.Y, test.X.shape[0], len(model.classes_))
    calibration = Calibration.learn(
        (votes for votes, _ in batches(model, test.X[first], truth[first])),
        truth[first],
        n_jobs=measure.THREADS,
    )
    return model, calibration, len(first), test.X[second], truth[second]


def guarantees(name: str, data: Path, cache: Path) -> dict[str, Any]:
    """Guarantees and what came of them, and which doubt finds mistakes."""
    model, calibration, rows, X, truth = prepared(name, data, cache, 10**9)
    raw, calibrated, doubts = Losses(model, truth), Losses(model, truth), Doubts()
    for votes, own in batches(model, X, truth):
        raw.add(votes, own)
        moved = calibration.apply(votes, n_jobs=measure.THREADS)
        calibrated.add(moved, own)
        doubts.add(moved, own)
    return {
        "rows": {"map": rows, "cut in two": X.shape[0]},
        "guarantee": {"as they are": raw.splits(), "calibrated": calibrated.splits()},
        "ratios": calibrated.ratios(),
        "best": calibrated.best_splits(),
        "groups": calibrated.group_splits(),
        "ceiling": calibrated.ceiling(),
        "aurc": doubts.areas(),
    }


def costs(name: str, data: Path, cache: Path) -> dict[str, Any]:
    """Costs that were expected and that came, on fewer rows: every candidate counts several times."""
    model, calibration, _, X, truth = prepared(name, data, cache, COST_ROWS)
    tallies = [(wanted, CostTally(wanted)) for wanted in COSTS]
    for votes, own in batches(model, X, truth):
        moved = calibration.apply(votes, n_jobs=measure.THREADS)
        for _, tally in tallies:
            tally.add(moved, own)
    return {
        "costs": [
            {"costs": vars(wanted)} | {part: vars(of) for part, of in vars(tally.finish()).items()}
            for wanted, tally in tallies
        ]
    }


def fitted(folder: Path, path: Path) -> HedgerowClassifier:
    """The model, from the cache if it is there: the seed fixes every byte of it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train = datasets.load(folder, "trn")
        model = HedgerowClassifier(method="bagging", members=MEMBERS, random_state=0, n_jobs=measure.THREADS)
        model.fit(train.X, train.Y).save(path)
    return load(path, verify=False).set_params(n_jobs=measure.THREADS)


def batches(model: HedgerowClassifier, X: Any, truth: sp.csr_array) -> Iterator[tuple[Votes, sp.csr_array]]:
    for begin in range(0, X.shape[0], BLOCK):
        rows = slice(begin, begin + BLOCK)
        yield model.predict_votes(X[rows]), truth[rows]


class Losses:
    """The losses of each input at each threshold."""

    def __init__(self, model: HedgerowClassifier, truth: sp.csr_array) -> None:
        counts = model.label_counts_
        assert counts is not None
        self._counts = np.concatenate([counts, np.zeros(truth.shape[1] - len(counts), dtype=np.int64)])
        self._edges = label_groups(counts, truth)[0]
        self._missed: list[np.ndarray] = []
        self._wrong: list[np.ndarray] = []
        self._most = most_labels(counts, model.model_.n_samples)
        self._pairs: list[np.ndarray] = []
        self._best: list[np.ndarray] = []
        self._size: list[np.ndarray] = []
        self._groups: list[list[np.ndarray]] = [[] for _ in self._edges]
        self._unknown: list[np.ndarray] = []
        self._bounds: list[np.ndarray] = []

    def add(self, votes: Votes, truth: sp.csr_array) -> None:
        found = Matched(votes, truth, self._counts > 0)
        everything = found.reached(found.row, found.mean)
        right = found.reached(found.row[found.right], found.mean[found.right])
        self._wrong.append(((everything - right) / np.maximum(everything, 1)).astype(np.float32))
        self._size.append(everything.astype(np.float32))
        true = np.diff(truth.indptr)
        self._missed.append(share_missed(found, found.known))
        places, rank = best_places(votes, found.mean, RANKED)
        few = places[rank < self._most]
        parts = {"row": found.row, "value": found.mean, "right": found.right}
        self._pairs.append(
            pairs_of(found.rows, {name: of[few] for name, of in parts.items()}).astype(np.int16)
        )
        hits = np.zeros((found.rows, RANKED))
        good = found.right[places]
        hits[found.row[places[good]], rank[good]] = 1
        known = np.bincount(found.true_row[found.known], minlength=found.rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            self._best.append(1 - np.cumsum(hits, axis=1) / known[:, None])
        strange = np.bincount(found.true_row[~found.known], minlength=found.rows)
        self._unknown.append(np.where(true > 0, strange / np.maximum(true, 1), np.nan))
        frequency = self._counts[truth.indices]
        for group, (low, high) in zip(self._groups, self._edges, strict=True):
            group.append(share_missed(found, found.known & (frequency >= low) & (frequency <= high)))
        if votes.bound is not None:
            self._bounds.append(votes.bound)

    def splits(self) -> dict[str, Any]:
        """Guarantees and what came of them, over random halves."""
        missed, wrong = Halves(np.concatenate(self._missed)), Halves(np.concatenate(self._wrong))
        size = Halves(np.concatenate(self._size))
        return {
            f"{risk:g}": {"missed": missed.conformal(risk, size), "wrong": wrong.tested(risk, size)}
            for risk in RISKS
        }

    def ratios(self) -> dict[str, Any]:
        """The share of wrong ones among all accepted labels, and of an answered input, over random halves."""
        pairs = np.concatenate(self._pairs).astype(np.int64)
        random = np.random.default_rng(1)
        found: dict[str, Any] = {of: {f"{share:g}": [] for share in RISKS} for of in RATIOS}
        for _ in range(SPLITS):
            order = random.permutation(len(pairs))
            own, others = (
                counted(pairs[rows], self._most)
                for rows in (order[: len(order) // 2], order[len(order) // 2 :])
            )
            for of in RATIOS:
                for share in RISKS:
                    accept = own.accept_from(of, share, CONFIDENCE)
                    reached = others.reached(of, accept)
                    if reached is not None:
                        found[of][f"{share:g}"].append((reached, others.accepted(accept)))
        return {
            of: {
                share: summary([one for one, _ in cuts], SPLITS - len(cuts))
                | {
                    "above": float(np.mean([one > float(share) for one, _ in cuts])) if cuts else None,
                    "given": float(np.mean([number for _, number in cuts])) if cuts else None,
                }
                for share, cuts in by_share.items()
            }
            for of, by_share in found.items()
        }

    def best_splits(self) -> dict[str, Any]:
        """What the best labels are said to contain, and contain, over random halves."""
        lost = np.concatenate(self._best)
        lost = lost[np.isfinite(lost[:, 0])]
        random = np.random.default_rng(1)
        found: dict[int, list[tuple[float, float]]] = {number: [] for number in NUMBERS}
        for _ in range(SPLITS):
            order = random.permutation(len(lost))
            own, others = lost[order[: len(order) // 2]], lost[order[len(order) // 2 :]]
            for number, cuts in found.items():
                promised = 1 - least_risk(float(own[:, number - 1].mean()), len(own), 1 - CONFIDENCE)
                cuts.append((promised, 1 - float(others[:, number - 1].mean())))
        return {
            str(number): {
                "promised": float(np.mean([one for one, _ in cuts])),
                "achieved": float(np.mean([other for _, other in cuts])),
                "below": float(np.mean([other < one for one, other in cuts])),
            }
            for number, cuts in found.items()
        }

    def group_splits(self) -> list[dict[str, Any]]:
        result = []
        for (low, high), parts in zip(self._edges, self._groups, strict=True):
            halves = Halves(np.concatenate(parts))
            result.append(
                {
                    "lowest": low,
                    "highest": high,
                    "inputs": halves.rows,
                    "lowest risk": halves.lowest,
                    "missed": {f"{risk:g}": halves.conformal(risk) for risk in RISKS},
                }
            )
        return result

    def ceiling(self) -> dict[str, float]:
        """What no threshold finds, and what the search proves."""
        missed, unknown = np.concatenate(self._missed)[:, 0], np.concatenate(self._unknown)
        result = {"unknown": float(np.nanmean(unknown)), "lost by the beam": float(np.nanmean(missed))}
        if self._bounds:
            bounds = np.concatenate(self._bounds)
            result |= {f"proven at {t:g}": float((bounds < t).mean()) for t in (0.001, 0.01, 0.1)}
        return result


def counted(pairs: np.ndarray, most: int) -> Given:
    """Counts of inputs by their pairs."""
    width = (most + 1) * (most + 2) // 2
    entries = np.arange(pairs.shape[1]) * width + pairs
    return Given(np.bincount(entries.ravel(), minlength=pairs.shape[1] * width).reshape(-1, width), most)


def share_missed(found: Matched, chosen: np.ndarray) -> np.ndarray:
    """The share of the chosen true labels below each threshold; NaN for inputs without any."""
    own = np.bincount(found.true_row[chosen], minlength=found.rows)
    met = chosen & found.met
    reached = found.reached(found.true_row[met], found.true_mean[met])
    with np.errstate(invalid="ignore", divide="ignore"):
        return (1 - reached / own[:, None]).astype(np.float32)


class Halves:
    """Losses summed over one half and the other, for every cut; inputs with NaN do not count."""

    def __init__(self, losses: np.ndarray) -> None:
        random = np.random.default_rng(1)
        halves = np.zeros((SPLITS, len(losses)))
        for half in halves:
            half[random.permutation(len(losses))[: len(losses) // 2]] = 1
        has = ~np.isnan(losses[:, 0])
        known = losses[has].astype(np.float64)
        self.rows = int(has.sum())
        self.lowest = RiskCurve(GRID, known.sum(axis=0), self.rows).ceiling
        self.own = halves[:, has] @ known
        self.own_rows = halves[:, has].sum(axis=1).astype(int)
        self.others = (known.sum(axis=0) - self.own) / (self.rows - self.own_rows)[:, None]

    def conformal(self, risk: float, size: Halves | None = None) -> dict[str, Any]:
        places = [
            RiskCurve(GRID, own, rows).largest(risk)
            for own, rows in zip(self.own, self.own_rows.tolist(), strict=True)
        ]
        found = self._summary(places)
        return found if size is None else found | {"kept": size._mean(places)}

    def tested(self, risk: float, size: Halves) -> dict[str, Any]:
        places = [
            RiskCurve(GRID, own, rows).tested(risk, CONFIDENCE)
            for own, rows in zip(self.own, self.own_rows.tolist(), strict=True)
        ]
        achieved = np.array(
            [self.others[cut, place] for cut, place in enumerate(places) if place is not None]
        )
        above = float((achieved > risk).mean()) if achieved.size else None
        return self._summary(places) | {"above": above, "given": size._mean(places)}

    def _mean(self, places: list[int | None]) -> float | None:
        found = [self.others[cut, place] for cut, place in enumerate(places) if place is not None]
        return float(np.mean(found)) if found else None

    def _summary(self, places: list[int | None]) -> dict[str, Any]:
        achieved = [self.others[cut, place] for cut, place in enumerate(places) if place is not None]
        return summary([float(value) for value in achieved], sum(place is None for place in places))


def summary(achieved: list[float], refused: int) -> dict[str, Any]:
    if not achieved:
        return {"mean": None, "error": None, "deviation": None, "refused": refused}
    return {
        "mean": float(np.mean(achieved)),
        "error": float(np.std(achieved) / np.sqrt(len(achieved))),
        "deviation": float(np.std(achieved)),
        "refused": refused,
    }


class Doubts:
    """What could tell mistakes: of the five best labels of an input, and of its best one."""

    def __init__(self) -> None:
        self._labels: list[dict[str, np.ndarray]] = []
        self._inputs: list[dict[str, np.ndarray]] = []

    def add(self, votes: Votes, truth: sp.csr_array) -> None:
        judged = assess(votes, truth, k=BEST, n_jobs=measure.THREADS)
        n = len(judged)
        right = np.zeros(judged.labels.shape, dtype=bool)
        row = np.repeat(np.arange(n), np.diff(truth.indptr))
        high = (judged.rank > 0) & (judged.rank <= BEST)
        right[row[high], judged.rank[high] - 1] = True
        width = np.int64(votes.n_labels)
        entries = np.repeat(np.arange(n), np.diff(votes.indptr)) * width + votes.labels
        place = np.searchsorted(entries, (np.arange(n)[:, None] * width + judged.labels).ravel())
        members = votes.probs[place].astype(np.float64).reshape(n, BEST, -1)
        best, p = judged.best, judged.best.probability.astype(np.float64)
        spread = np.sqrt(best.variance.astype(np.float64))
        self._labels.append(
            {
                "wrong": ~right,
                "probability": 1 - p,
                "total": best.total,
                "data": best.data,
                "knowledge": best.knowledge,
                "variance": best.variance,
                "probability less one deviation": -(p - spread),
                "probability less half a deviation": -(p - spread / 2),
                "lowest member": -members.min(axis=2),
                "median member": -np.median(members, axis=2),
                "geometric mean of the members": -np.log(np.maximum(members, 1e-9)).mean(axis=2),
                "probability less knowledge": -(p - best.knowledge),
            }
        )
        sums = judged.inputs
        expected = np.maximum(np.asarray(sums.probability, dtype=np.float64), 1e-9)
        margin = p[:, 0] - p[:, 1]
        self._inputs.append(
            {
                "wrong": ~right[:, 0],
                "1 - highest probability": 1 - p[:, 0],
                "expected labels (few)": -expected,
                "total": sums.total,
                "data": sums.data,
                "knowledge": sums.knowledge,
                "variance": sums.variance,
                "total of an expected label": sums.total / expected,
                "knowledge of an expected label": sums.knowledge / expected,
                "margin of the two best (small)": -margin,
                "highest probability less its deviation": -(p[:, 0] - spread[:, 0]),
                "lowest member on the best label": -members[:, 0].min(axis=1),
                "geometric mean on the best label": -np.log(np.maximum(members[:, 0], 1e-9)).mean(axis=1),
            }
        )

    def areas(self) -> dict[str, Any]:
        """AURC of each, and how far it is from that of the probability, with a bootstrap over inputs."""
        result = {}
        for level, parts in (("labels", self._labels), ("inputs", self._inputs)):
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            wrong = columns.pop("wrong")
            areas = {name: area(values, wrong) for name, values in columns.items()}
            own = next(iter(areas))
            random = np.random.default_rng(0)
            chosen = [random.integers(0, len(wrong), len(wrong)) for _ in range(RESAMPLES)]
            base = [area(columns[own][rows], wrong[rows]) for rows in chosen]
            # Only where it could matter: the bootstrap takes its time.
            near = [name for name in areas if name != own and areas[name] < 1.05 * areas[own]]
            gains = {
                name: np.quantile(
                    [
                        area(columns[name][rows], wrong[rows]) - b
                        for rows, b in zip(chosen, base, strict=True)
                    ],
                    [0.025, 0.975],
                ).tolist()
                for name in near
            }
            result[level] = {
                "area": areas,
                "difference": gains,
                "wrong": float(wrong.mean()),
                "by chance the best": area(wrong.astype(float), wrong),
            }
        return result


def area(doubt: np.ndarray, wrong: np.ndarray) -> float:
    """The area of `risk_coverage`; of equal doubts, the first counts first."""
    doubts, failures = np.ravel(doubt), np.ravel(wrong)
    order = np.argsort(doubts, kind="stable")
    made = np.arange(1, len(order) + 1)
    return float((np.cumsum(failures[order]) / made).mean())


def large(name: str, data: Path, cache: Path) -> dict[str, Any]:
    """Memory and time of learning a policy, and a map, from made-up votes."""
    n, labels, candidates = LARGE["inputs"], LARGE["labels"], LARGE["candidates"]
    random = np.random.default_rng(0)
    steps = np.cumsum(random.integers(1, labels // candidates, candidates)).astype(np.int64)
    shift = random.integers(0, labels - steps[-1], n)
    probs = random.random((BLOCK * candidates, MEMBERS), dtype=np.float32) ** 8
    truth = made_up_truth(steps, shift, labels, random)
    counts = random.integers(1, 20, labels)

    def votes() -> Iterator[Votes]:
        for begin in range(0, n, BLOCK):
            own = (steps[None, :] + shift[begin : begin + BLOCK, None]).astype(np.int32)
            ends = np.arange(0, own.size + 1, candidates)
            yield Votes(ends, own.ravel(), probs[: own.size], labels)

    result: dict[str, Any] = dict(LARGE)
    for what in ("nothing", "map", "policy"):
        before = memory.start_peak()
        start = time.perf_counter()
        if what == "nothing":
            for _ in votes():
                pass
        elif what == "map":
            Calibration.learn(votes(), truth, n_jobs=measure.THREADS)
        else:
            learner = PolicyLearner(truth, counts, measure.THREADS)
            for batch in votes():
                learner.add(batch)
            learner.finish("0" * 32, SearchSettings()).standard()
        result[what] = {
            "seconds": time.perf_counter() - start,
            "bytes above": memory.peak_bytes() - before,
            "bytes": memory.peak_bytes(),
        }
    return result


def made_up_truth(
    steps: np.ndarray, shift: np.ndarray, labels: int, random: np.random.Generator
) -> sp.csr_array:
    """Most true labels are candidates."""
    places = np.sort(random.integers(0, len(steps), (len(shift), LARGE["true"])), axis=1)
    columns = steps[places] + shift[:, None]
    ends = np.arange(0, columns.size + 1, LARGE["true"])
    truth = sp.csr_array(
        (np.ones(columns.size, dtype=np.int8), columns.ravel(), ends), shape=(len(shift), labels)
    )
    return as_truth(truth, len(shift), labels)


def markdown(found: dict[str, Any]) -> str:
    """The page `results/decisions.md`."""
    sets = {name: found[name] for name in NAMES if name in found}
    lines = [
        "# Decisions",
        "",
        f"{MEMBERS} bagged members with the default search. A third of the test set teaches the"
        f" calibration map"
        f" (isotonic, of the mean); the rest is cut in two {SPLITS:,} times, one half to set thresholds"
        f" and one"
        " to see what comes of them. Percent unless told.",
        "",
        "## True labels that are rejected",
        "",
        "Of those that the model knows. Guaranteed: on average over cuts and inputs, at most the risk."
        " Achieved: mean ± its standard"
        " error over"
        " cuts, and the deviation of a single cut. Kept: labels of an input that are not rejected. Where some"
        " cuts"
        " are refused, the others are those whose first half happened to lose little; their second half then"
        " loses more than the risk. The guarantee counts a refusal as no loss, for then nothing is rejected.",
        "",
        "| data | probabilities | risk | achieved | one cut | kept | refused cuts |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, of, risk, losses in rows_of(sets, "missed"):
        if losses["mean"] is None:
            lines.append(f"| {name} | {of} | {percent(float(risk))} | refused | | | all |")
            continue
        lines.append(
            f"| {name} | {of} | {percent(float(risk))} | {100 * losses['mean']:.2f} ±"
            f" {100 * losses['error']:.2f} | ± {100 * losses['deviation']:.2f} | {losses['kept']:.1f} |"
            f" {losses['refused'] or ''} |"
        )
    lines += [
        "",
        "What the model does not know, which is said apart, and what no threshold finds, which is why low"
        " risks are refused; and the share of inputs for which the"
        " search proves that no label above a probability was lost:",
        "",
        "| data | unknown to the model | lost by the beam | proven above 0.001 | 0.01 | 0.1 |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        ceiling = result["ceiling"]
        cells = [f"{100 * ceiling[part]:.2f}" for part in ("unknown", "lost by the beam")]
        cells += [percent(ceiling.get(f"proven at {t:g}")) for t in (0.001, 0.01, 0.1)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Wrong labels among those accepted",
        "",
        f"Guaranteed with a confidence of {percent(CONFIDENCE)}: the mean share, 0 for an input that is given"
        " nothing, is at most the risk. Above: cuts in which the other half shows more, chance included.",
        "",
        "| data | probabilities | risk | achieved | one cut | above | labels given | refused cuts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, of, risk, losses in rows_of(sets, "wrong"):
        if losses["mean"] is None:
            lines.append(f"| {name} | {of} | {percent(float(risk))} | refused | | | | all |")
            continue
        lines.append(
            f"| {name} | {of} | {percent(float(risk))} | {100 * losses['mean']:.2f} | ±"
            f" {100 * losses['deviation']:.2f} | {100 * losses['above']:.1f} | {losses['given']:.2f} |"
            f" {losses['refused'] or ''} |"
        )
    lines += [
        "",
        "The same for all accepted labels, whatever input they are on, and for the mean over the inputs that"
        " are given any; calibrated probabilities.",
        "",
        "| data | share of | risk | achieved | one cut | above | labels given | refused cuts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        for of, by_share in result["ratios"].items():
            for share, losses in by_share.items():
                cells = ["nothing accepted", "", "", ""]
                if losses["mean"] is not None:
                    cells = [f"{100 * losses['mean']:.2f}", f"± {100 * losses['deviation']:.2f}"]
                    cells += [f"{100 * losses['above']:.1f}", f"{losses['given']:.2f}"]
                lines.append(
                    f"| {name} | {of} | {percent(float(share))} | "
                    + " | ".join(cells)
                    + f" | {losses['refused'] or ''} |"
                )
    lines += [
        "",
        "## Right labels among the best",
        "",
        f"Guaranteed with a confidence of {percent(CONFIDENCE)}: the mean share of an input's right labels"
        " that the model knows among its best. Below: cuts in which the other half has less, chance"
        " included.",
        "",
        "| data | best | guaranteed | achieved | below |",
        "|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        lines += [
            f"| {name} | {number} | "
            + " | ".join(f"{100 * of[what]:.1f}" for what in ("promised", "achieved", "below"))
            + " |"
            for number, of in result["best"].items()
        ]
    lines += [
        "",
        "## Rare and frequent labels",
        "",
        "Rejected true labels by how often they occur in training, each group with a threshold of its own."
        " The mean is over cuts that are not refused.",
        "",
        "| data | occurs | inputs | lowest risk | "
        + " | ".join(f"at {percent(risk)}" for risk in RISKS)
        + " |",
        "|---|---|---|---|" + "---|" * len(RISKS),
    ]
    for name, result in sets.items():
        for group in result["groups"]:
            cells = [
                "refused"
                if of["mean"] is None
                else f"{100 * of['mean']:.2f}" + (f" ({of['refused']} cuts refused)" if of["refused"] else "")
                for of in group["missed"].values()
            ]
            lines.append(
                f"| {name} | {group['lowest']} to {group['highest']} | {group['inputs']:,} |"
                f" {100 * group['lowest risk']:.1f} | " + " | ".join(cells) + " |"
            )
    lines += [
        "",
        "## Which doubt finds mistakes",
        "",
        f"Area under risk and coverage (AURC, low is good): of the {BEST} best labels of each input,"
        f" and of inputs"
        " by whether their best label is wrong; calibrated probabilities. In brackets the 95 % bootstrap"
        " interval of the difference to the first line, where it is near.",
        "",
    ]
    for level in ("labels", "inputs"):
        lines += [f"| {level} | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
        for doubt in next(iter(sets.values()))["aurc"][level]["area"]:
            cells = []
            for result in sets.values():
                of = result["aurc"][level]
                best = of["area"][doubt] == min(of["area"].values())
                text = f"{100 * of['area'][doubt]:.2f}"
                text = f"**{text}**" if best else text
                if doubt in of["difference"]:
                    low, high = of["difference"][doubt]
                    text += f" ({100 * low:+.2f} to {100 * high:+.2f})"
                cells.append(text)
            lines.append(f"| {doubt} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "## What asking saves",
        "",
        f"Cost of an input, on {COST_ROWS:,} rows that the map has not seen: expected and achieved by"
        f" the policy of least"
        " expected cost, beside never asking and always asking before anything is accepted.",
        "",
        "| data | wrong, missed, look | expected | achieved | never asking | always asking | looks |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        for row in result["costs"]:
            best = row["best"]
            lines.append(
                f"| {name} | {', '.join(f'{cost:g}' for cost in row['costs'].values())} |"
                f" {best['expected_cost']:.3f} | {best['cost']:.3f} | {row['never_asking']['cost']:.3f} |"
                f" {row['always_asking']['cost']:.3f} | {best['reviewed']:.2f} |"
            )
    lines += ["", *large_lines(found["large"])] if "large" in found else []
    return "\n".join([*lines, ""])


def rows_of(sets: dict[str, Any], what: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for name, result in sets.items():
        for of, by_risk in result["guarantee"].items():
            for risk, losses in by_risk.items():
                yield name, of, risk, losses[what]


def large_lines(result: dict[str, Any]) -> list[str]:
    lines = [
        "## Many labels",
        "",
        f"{result['inputs']:,} inputs with {result['labels']:,} labels, {result['candidates']:,}"
        f" candidates and"
        f" {MEMBERS} members each; made-up votes in batches. Memory is that of the whole process at its"
        f" highest.",
        "",
        "| | seconds | memory, GB |",
        "|---|---|---|",
    ]
    for what, title in (
        ("nothing", "making up the votes"),
        ("map", "with the map"),
        ("policy", "with the policy"),
    ):
        lines.append(f"| {title} | {result[what]['seconds']:.1f} | {result[what]['bytes'] / 1e9:.2f} |")
    return lines


PARTS: dict[str, tuple[Callable[[str, Path, Path], dict[str, Any]], tuple[str, ...]]] = {
    "decisions": (guarantees, NAMES),
    "decision-costs": (costs, NAMES),
    "decision-memory": (large, (LARGE_NAME,)),
}


def percent(share: float | None) -> str:
    return (
        ""
        if share is None
        else f"{100 * share:g} %"
        if share in (*RISKS, CONFIDENCE)
        else f"{100 * share:.1f} %"
    )


if __name__ == "__main__":
    main()
