"""What broader terms add where labels are unsure: `python -m bench.broader`.

Tags of Debian packages: "works-with::audio" is narrower than its facet "works-with". A third of the test rows
fits the calibration of labels and of broader terms; the others are cut in two many times, one half sets the
threshold, the other shows what comes of it. Writes `results/broader.json` and `results/broader.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine
from bench.plan import PYTHONS, RESULTS
from hedgerow import Calibration, HedgerowTextClassifier, Votes
from hedgerow.decisions.coarser import Ladder
from hedgerow.decisions.risk import GRID, RiskCurve
from hedgerow.evaluation.hierarchical import hierarchical_scores
from hedgerow.inputs.labels import truth_for
from hedgerow.inputs.matrices import as_truth
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import broader_truth

RISKS = (0.05, 0.1)
CONFIDENCE = 0.9
CUTS = 100
WAYS = ("labels", "labels and broader terms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--cuts", type=int, default=CUTS)
    arguments = parser.parse_args()
    texts, labels = read(arguments.data / "debian" / "packages.jsonl.xz")
    model = HedgerowTextClassifier(method="bagging", members=arguments.members, random_state=0)
    model.fit(texts["train"], labels["train"])
    measured = Measured(model, texts["test"], labels["test"])
    found = {
        "machine": machine.describe(PYTHONS),
        "members": arguments.members,
        **measured.about(),
        "risks": {f"{risk:g}": measured.cut(risk, arguments.cuts) for risk in RISKS},
    }
    (RESULTS / "broader.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "broader.md").write_text(markdown(found))


def read(path: Path) -> tuple[dict[str, list[str]], dict[str, list[list[str]]]]:
    """Descriptions and tags of the packages that have tags, by split."""
    texts: dict[str, list[str]] = {"train": [], "test": []}
    labels: dict[str, list[list[str]]] = {"train": [], "test": []}
    for record in datasets.records(path):
        if record.get("tags"):
            texts[record["split"]].append(record["text"])
            labels[record["split"]].append(record["tags"])
    return texts, labels


def broader(tag: str) -> str | None:
    """The broader term of a tag: "devel::lang" of "devel::lang:c", "devel" of that, and nothing of that."""
    facet, colons, rest = tag.partition("::")
    if not colons:
        return None
    wider, colon, _ = rest.rpartition(":")
    return f"{facet}::{wider}" if colon else facet


def hierarchy_of(tags: list[str]) -> tuple[Ancestry, list[str]]:
    """The tags in their order, then all that is broader."""
    place = {tag: number for number, tag in enumerate(tags)}
    child, parent = [], []
    for tag in (names := list(tags)):
        wider = broader(tag)
        if wider is None:
            continue
        if wider not in place:
            place[wider] = len(names)
            names.append(wider)  # and its own broader term is looked up in turn
        child.append(place[tag])
        parent.append(place[wider])
    return Ancestry(len(names), np.array(child), np.array(parent)), names


class Measured:
    """Votes on the test rows, calibrated on a third of them, and the losses of the others."""

    def __init__(self, model: HedgerowTextClassifier, texts: list[str], labels: list[list[str]]) -> None:
        self.ancestry, self.names = hierarchy_of(model.classes_.tolist())
        n_labels = len(model.classes_)
        votes = model.predict_votes(texts)
        wide = truth_for(labels, model.classes_)
        self.unknown = int((wide.indices >= n_labels).sum())
        truth = as_truth(wide, len(texts), n_labels)
        order = np.random.default_rng(0).permutation(len(texts))
        first, rest = np.sort(order[: len(order) // 3]), np.sort(order[len(order) // 3 :])
        self.calibrated_on = len(first)
        labels_map = Calibration.learn(votes[first], truth[first])
        known = sp.csr_array(truth[:, :n_labels])  # tags that the model does not know are at no place
        terms_map = BroaderCalibration.learn([labels_map.apply(votes[first])], known[first], self.ancestry)
        self.votes = labels_map.apply(votes[rest])
        self.terms = terms_map.apply(self.votes)
        self.truth, self.known = truth[rest], known[rest]
        self.true_terms = broader_truth(self.known, self.ancestry)
        # Most tags are one step below their facet, so facets must count.
        self.ladder = Ladder.of(self.votes, self.terms, self.ancestry, 0)
        nothing = Ladder.of(self.votes, self.terms, self.ancestry, len(self.names))
        self.losses = {
            way: ladder.losses(self.truth, self.true_terms)
            for way, ladder in zip(WAYS, (nothing, self.ladder), strict=True)
        }

    def about(self) -> dict[str, Any]:
        inner = self.ancestry.inner
        return {
            "tags": self.votes.n_labels,
            "broader terms": int(inner.sum()),
            "deepest": int(self.ancestry.depths.max()),
            "calibrated on": self.calibrated_on,
            "cut in two": len(self.votes),
            "true tags": int(self.truth.nnz),
        }

    def cut(self, risk: float, cuts: int) -> dict[str, Any]:
        """Means over cuts of what comes of the threshold at one risk."""
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        random = np.random.default_rng(1)
        n = len(self.votes)
        for _ in range(cuts):
            order = random.permutation(n)
            held, new = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
            for way in WAYS:
                losses, _ = self.losses[way]
                place = RiskCurve(GRID, losses[held].sum(axis=0), len(held)).tested(risk, CONFIDENCE)
                if place is None:
                    raise RuntimeError("there are too few rows to set a threshold")
                found[way].append(self.achieved(way, place, new))
        return {
            way: {name: float(np.mean([of[name] for of in each])) for name in each[0]}
            | {"above": float(np.mean([of["wrong"] > risk for of in each]))}
            for way, each in found.items()
        }

    def achieved(self, way: str, place: int, rows: np.ndarray) -> dict[str, float]:
        losses, every = self.losses[way]
        answers = self.accepted(float(GRID[place]), way == WAYS[1])[rows]
        scores = hierarchical_scores(answers, self.known[rows], self.ancestry)
        labels = answers[:, : self.votes.n_labels]
        return {
            "threshold": float(GRID[place]),
            "wrong": float(losses[rows, place].mean()),
            "answered": float((every[rows, place] > 0).mean()),
            "accepted": float(every[rows, place].mean()),
            "labels": float(labels.sum() / len(rows)),
            "precision": scores.precision,
            "recall": scores.recall,
            "f1": scores.f1,
        }

    def accepted(self, threshold: float, broader: bool) -> sp.csr_array:
        """Labels, and broader terms if wanted, that are accepted, as an indicator matrix over entries."""
        chosen = self.votes.chosen(np.flatnonzero(self.votes.means() >= np.float32(threshold)))
        made = indicator(chosen, self.ancestry.entries)
        if broader:
            terms = self.terms.chosen(self.ladder.answers(threshold))
            made = made + indicator(terms, self.ancestry.entries)
        return sp.csr_array(made > 0).astype(np.int8)


def indicator(votes: Votes, entries: int) -> sp.csr_array:
    ones = np.ones(len(votes.labels), dtype=np.int8)
    return sp.csr_array((ones, votes.labels, votes.indptr), shape=(len(votes), entries))


def markdown(found: dict[str, Any]) -> str:
    """The page `results/broader.md`."""
    lines = [
        f"{found['members']} bagged members, {found['tags']:,} tags, {found['broader terms']:,} broader terms"
        f" (facets, and tags that have narrower ones). {found['calibrated on']:,} test rows fit the"
        f" calibration; the other {found['cut in two']:,} were cut in two {CUTS} times, one half for the"
        " threshold and one to measure. Means over cuts; wrong is guaranteed with a confidence of 90 %.",
        "",
        "| at most wrong, % | accepted | wrong, % | cuts above | inputs with an answer, % | answers |"
        " of these tags | hierarchical precision | recall | F1 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for risk, ways in found["risks"].items():
        for way, of in ways.items():
            shares = [f"{100 * of['wrong']:.2f}", f"{100 * of['above']:.0f} %", f"{100 * of['answered']:.1f}"]
            sizes = [f"{of['accepted']:.2f}", f"{of['labels']:.2f}"]
            scores = [f"{100 * of[name]:.1f}" for name in ("precision", "recall", "f1")]
            lines.append(f"| {' | '.join([f'{100 * float(risk):g}', way, *shares, *sizes, *scores])} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
