"""Out-of-distribution inputs found by OOD score and by every single score: `python -m bench.ood`.

For each model (ten bagged members): the texts of other data sets, vectorised as the model's own, against
the model's test texts. Half of those are held out for `learn_ood`. The rows on which the signals of the
score were chosen are left out, and the docstrings of Python's standard library were not looked at before.
Models and finished parts are kept; writes `results/ood.json` and `results/ood.md`.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import lzma
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from sklearn.preprocessing import normalize

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RAW, RESULTS, store
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, Votes, joint_energy, load
from hedgerow.features.tfidf import tokenize
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import SearchSettings
from hedgerow.trees.forest import Ensemble

TIBKAT, DEBIAN, REUTERS = (
    "tibkat-en/records.jsonl.xz",
    "debian/packages.jsonl.xz",
    "reuters/articles.jsonl.xz",
)
# A model's file, the field of its labels, and the out-of-distribution inputs.
MODELS = {
    "tibkat-en": (TIBKAT, "labels", ("reuters", "debian", "python")),
    "debian tags": (DEBIAN, "tags", ("tibkat-en", "reuters", "python")),
    "debian depends": (DEBIAN, "depends", ("tibkat-en", "reuters", "python")),
}
FRESH = "python"
MEMBERS = 10
ROWS = 1000  # of each side
CHOSEN_ON = 3000  # rows of each out-of-distribution input on which the signals were chosen
HELD_OUT, CHOSEN_WITHIN = 4000, 2000  # and of the model's own test texts, of either half
BLOCK = 250
RESAMPLES = 1000
OURS = "ood"
EITHER_END = "OOD score, either end odd"
# Single scores that need a search for labels.
KEPT = (
    *("variance", "total", "data", "knowledge", "expected labels", "total per expected label"),
    *("knowledge per total", "highest probability", "three highest", "JointEnergy"),
)
TEXT_SCORES = (
    "share of unknown words",
    "of unknown different words",
    "of unknown pairs",
    "mean idf of words",
    "mean idf of known words",
    "mean idf of different words",
    "number of words",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    parser.add_argument("--fresh", action="store_true", help="forget the stored measurements")
    parser.add_argument(
        "--score-alone",
        action="store_true",
        help="measure the OOD score again, beside the best single score; take all others from ood.json",
    )
    arguments = parser.parse_args()
    if arguments.score_alone:
        before = json.loads((RESULTS / "ood.json").read_text())
        for name in arguments.models:
            store(
                RAW / f"{name.replace(' ', '-')}.ood.json",
                run(name, arguments.data, arguments.cache, before[name]),
            )
    for name in arguments.models:
        stored = RAW / f"{name.replace(' ', '-')}.ood.json"
        if arguments.fresh or not stored.exists():
            store(stored, run(name, arguments.data, arguments.cache))
        print(f"{name}: {stored.read_text()[:200]!r}", flush=True)
    found = {
        name: json.loads(path.read_text())
        for name in MODELS
        if (path := RAW / f"{name.replace(' ', '-')}.ood.json").exists()
    }
    if not found:
        return
    described = machine.describe(PYTHONS)
    (RESULTS / "ood.json").write_text(json.dumps({"machine": described} | found, indent=1) + "\n")
    (RESULTS / "ood.md").write_text(markdown(found))


def run(name: str, data: Path, cache: Path, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Every score on every out-of-distribution input of a model, its cost, and how well p-values keep their
    guarantee. Given what was measured before, only the OOD score and the best single scores are measured."""
    path, field, ood = MODELS[name]
    records = [record for record in read(data / path) if record.get(field)]
    train = [record for record in records if record["split"] == "train"]
    test = [record["text"] for record in records if record["split"] == "test"]
    model = fitted(train, field, cache / "ood" / f"{name.replace(' ', '-')}.hedgerow")
    held_out, own = familiar_texts(test)
    model.learn_ood(held_out, training=([r["text"] for r in train], [r[field] for r in train]))
    added = int(model.model_.centroids.native.table()[:, 1].sum())
    whole = (cache / "ood" / f"{name.replace(' ', '-')}.hedgerow").stat().st_size
    centroids = label_centroids(model, train, field)
    of_own = scores(model, own, centroids, before is None)
    p_values = model.ood_scores(own).p_value
    result: dict[str, Any] = {
        "held out": len(held_out),
        "familiar": len(own),
        "guarantee": {str(a): float((p_values <= a).mean()) for a in (0.01, 0.05, 0.1, 0.2)},
        "bytes added": added / whole,
        "cost": cost(model, own if before is None else own[:300]),
        "ood": {},
    }
    for is_ood in ood:
        others = ood_texts(is_ood, data)
        of_others = scores(model, others, centroids, before is None)
        found = {score: judged(of_own[score], of_others[score]) for score in of_own}
        if before is not None:
            kept = {name: of for name, of in before["ood"][is_ood]["scores"].items() if name in KEPT}
            ours = {name: of for name, of in found.items() if name in (OURS, EITHER_END)}
            found = ours | kept | found
        caught = float((model.ood_scores(others).p_value <= 0.05).mean())
        singles = [score for score in found if score not in (OURS, EITHER_END)]
        rival = max(singles, key=lambda score: found[score]["auroc"])
        sign = -1.0 if found[rival]["turned"] else 1.0
        result["ood"][is_ood] = {
            "scores": found,
            "rows": len(others),
            "p at most 0.05": caught,
            "rival": rival,
            "margin": margin(
                (of_own[OURS], of_others[OURS]), (sign * of_own[rival], sign * of_others[rival])
            ),
        }
        print(name, is_ood, {score: round(of["auroc"], 2) for score, of in found.items()}, flush=True)
    return result


def read(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def fitted(train: list[dict[str, Any]], field: str, path: Path) -> HedgerowTextClassifier:
    """The model, from the cache if it is there: the seed fixes every byte of it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = HedgerowTextClassifier(
            method="bagging", members=MEMBERS, random_state=0, n_jobs=measure.THREADS
        )
        model.fit([record["text"] for record in train], [record[field] for record in train])
        model.save(path)
    model = load(path, verify=False)
    # Ranks doubt as well as the exact search does, in a fraction of the time.
    return model.set_params(n_jobs=measure.THREADS, beam=20, missing="delta")


def familiar_texts(test: list[str]) -> tuple[list[str], list[str]]:
    """Test texts to hold out and test texts to judge, without those that the signals were chosen on."""
    order = np.random.default_rng(1).permutation(len(test))
    held_out = min(len(test) // 2, HELD_OUT)
    first, second = order[:held_out][CHOSEN_WITHIN:], order[held_out:][CHOSEN_WITHIN:]
    return [test[i] for i in first], [test[i] for i in second[:ROWS]]


def ood_texts(name: str, data: Path) -> list[str]:
    if name == "python":
        texts = docstrings()
        return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:ROWS]]
    # In this order the generator drew when the signals were chosen.
    random = np.random.default_rng(0)
    for other, path in (("tibkat-en", TIBKAT), ("debian", DEBIAN), ("reuters", REUTERS)):
        texts = [r["text"] for r in read(data / path) if other == "reuters" or r["split"] == "test"]
        chosen_on = set(random.choice(len(texts), CHOSEN_ON, replace=False).tolist())
        if other == name:
            rest = [text for i, text in enumerate(texts) if i not in chosen_on]
            return [rest[i] for i in np.random.default_rng(2).permutation(len(rest))[:ROWS]]
    raise ValueError(f"unknown out-of-distribution inputs {name!r}")


def docstrings() -> list[str]:
    """The docstrings of at least five words in Python's standard library, each once."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 5:
                    found[text] = None
    return list(found)


def label_centroids(model: HedgerowTextClassifier, train: list[dict[str, Any]], field: str) -> Any:
    X = model.vectorizer_.transform([record["text"] for record in train])
    Y = encode_labels([record[field] for record in train], len(train), None, measure.THREADS)[0]
    return sp.csc_array(normalize(sp.csr_array(Y.T.astype(np.float32) @ X)).T)


def scores(
    model: HedgerowTextClassifier, texts: list[str], centroids: Any, every: bool = True
) -> dict[str, np.ndarray]:
    """OOD score, and all single scores; which end of those is the odd one is left to `judged`.

    Without `every`, those that need no search for labels.
    """
    found = model.ood_scores(texts)
    signals = found.signals
    nearest = []
    for begin in range(0, len(texts), BLOCK):
        block = texts[begin : begin + BLOCK]
        cosines = (model.vectorizer_.transform(block) @ centroids).toarray()
        nearest.append(-np.partition(-cosines, 9, axis=1)[:, :10])
    cosines = np.concatenate(nearest)
    wording = text_scores(model, texts)
    cheap = {
        OURS: found.score,
        EITHER_END: np.abs(found.score),
        "first layer": signals.first_layer,
        "second layer": signals.second_layer,
        "cosine to nearest label": cosines.max(axis=1),
        "mean of 10 cosines": cosines.mean(axis=1),
        **dict(zip(TEXT_SCORES, wording.T, strict=True)),
    }
    if not every:
        return cheap
    uncertain = model.predict_uncertain(texts, 3)
    whole = uncertain.instance
    expected = np.maximum(whole.expected, 1e-6)
    return {
        **{name: cheap[name] for name in (OURS, EITHER_END)},
        "variance": whole.variance,
        "total": whole.total,
        "data": whole.data,
        "knowledge": whole.knowledge,
        "expected labels": whole.expected,
        "total per expected label": whole.total / expected,
        "knowledge per total": whole.knowledge / np.maximum(whole.total, 1e-6),
        "highest probability": uncertain.probability[:, 0],
        "three highest": uncertain.probability.sum(axis=1),
        "JointEnergy": single_energy(model, texts),
        **{name: values for name, values in cheap.items() if name not in (OURS, EITHER_END)},
    }


def single_energy(model: HedgerowTextClassifier, texts: list[str]) -> np.ndarray:
    """JointEnergy as it is defined: of a single model, the first member, and over all labels."""
    first = Ensemble(model.model_.forest.trees[:1], len(model.classes_))
    search = SearchSettings(candidates="all")
    energies = []
    for begin in range(0, len(texts), BLOCK):
        rows = as_rows(model.vectorizer_.transform(texts[begin : begin + BLOCK]))
        found = first.votes(rows, 1, search, measure.THREADS)
        votes = Votes(found.indptr, found.labels, found.probs, len(model.classes_))
        energies.append(joint_energy(votes, first.transform))
    return np.concatenate(energies)


def text_scores(model: HedgerowTextClassifier, texts: list[str]) -> np.ndarray:
    """Shape (n, len(TEXT_SCORES)), counted in Python."""
    vocabulary = model.vectorizer_.vocabulary_
    idf = model.vectorizer_.idf_.astype(np.float64)
    unknown_idf = idf.max() + np.log(2)
    rows = []
    for text in texts:
        words = tokenize(text)
        pairs = [" ".join(pair) for pair in itertools.pairwise(words)]
        of_words = [idf[vocabulary[word]] if word in vocabulary else unknown_idf for word in words]
        known = [idf[vocabulary[word]] for word in words if word in vocabulary]
        kinds = dict(zip(words, of_words, strict=True))
        rows.append(
            [
                np.mean([word not in vocabulary for word in words]) if words else 0.0,
                np.mean([word not in vocabulary for word in kinds]) if words else 0.0,
                np.mean([pair not in vocabulary for pair in pairs]) if pairs else 0.0,
                np.mean(of_words) if words else unknown_idf,
                np.mean(known) if known else unknown_idf,
                np.mean(list(kinds.values())) if words else unknown_idf,
                len(words),
            ]
        )
    return np.array(rows, dtype=np.float64)


def judged(own: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """AUROC, AUPR and FPR at 95 % recall, in percent, turned to the direction in which the score works."""
    truth = np.concatenate([np.zeros(len(own)), np.ones(len(others))])
    score = np.concatenate([own, others]).astype(np.float64)
    turned = bool(roc_auc_score(truth, score) < 0.5)
    score = -score if turned else score
    false, true, _ = roc_curve(truth, score)
    return {
        "auroc": 100 * float(roc_auc_score(truth, score)),
        "aupr": 100 * float(average_precision_score(truth, score)),
        "fpr95": 100 * float(false[np.searchsorted(true, 0.95)]),
        "turned": turned,
    }


def margin(
    ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float, float]:
    """By how much the AUROC of one score is above another's, in percent, and its 95 % bootstrap interval."""
    random = np.random.default_rng(0)

    def difference(own: np.ndarray, others: np.ndarray) -> float:
        return area(ours[0][own], ours[1][others]) - area(theirs[0][own], theirs[1][others])

    whole = difference(np.arange(len(ours[0])), np.arange(len(ours[1])))
    resampled = [
        difference(
            random.integers(0, len(ours[0]), len(ours[0])), random.integers(0, len(ours[1]), len(ours[1]))
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    return 100 * whole, 100 * float(low), 100 * float(high)


def area(own: np.ndarray, others: np.ndarray) -> float:
    """AUROC by ranks."""
    ranks = rankdata(np.concatenate([own, others]))[len(own) :]
    return float((ranks.mean() - (len(others) + 1) / 2) / len(own))


def cost(model: HedgerowTextClassifier, texts: list[str]) -> dict[str, float]:
    """Processor time of OOD score over that of prediction, by the search in use and by the default."""

    def seconds(ask: Callable[[], Any]) -> float:
        found = []
        for _ in range(measure.REPEATS):
            start = time.process_time()
            ask()
            found.append(time.process_time() - start)
        return min(found)

    own = seconds(lambda: model.ood_scores(texts))
    fast = seconds(lambda: model.predict_uncertain(texts, 5))
    defaults = HedgerowClassifier()
    fewer = texts[:100]
    model.set_params(beam=defaults.beam, missing=defaults.missing)
    exact = seconds(lambda: model.predict_uncertain(fewer, 5)) * len(texts) / len(fewer)
    model.set_params(beam=20, missing="delta")
    return {"of a fast prediction": own / fast, "of a default prediction": own / exact}


def markdown(found: dict[str, Any]) -> str:
    """The page `results/ood.md`."""
    pairs = [(name, is_ood) for name in found for is_ood in found[name]["ood"]]
    of = {(n, o): found[n]["ood"][o]["scores"] for n, o in pairs}
    lines = [
        "# Out-of-distribution detection",
        "",
        f"{MEMBERS} bagged members; {ROWS} test texts of the model's own data against {ROWS} texts of"
        " others (model > OOD), vectorised as the model's own. `learn_ood` saw other test texts and the"
        " training data, and no OOD texts. Single scores are turned to whichever direction works on the pair,"
        " which helps them; the OOD score is always 'high is out-of-distribution'. 'Either end odd' takes its"
        " distance from what is usual instead, as a two-sided p-value would. Percent; bold: the best of a"
        " pair.",
        "",
        "The score is Fisher's combination of the signals' p-values over held-out texts, in which wording,"
        " trees and nearest labels count the same; nothing of it was fitted to OOD texts. Signals of wording"
        " and trees were chosen before, on other rows of tibkat-en, debian and reuters. Which combination,"
        " and how many features of a centroid, was decided by the pairs below: see the design page for what"
        " was tried.",
        "",
    ]
    for part, title, best in (
        ("auroc", "AUROC", max),
        ("aupr", "AUPR", max),
        ("fpr95", "FPR at 95 % recall", min),
    ):
        lines += [
            f"## {title}",
            "",
            "| score | " + " | ".join(f"{n} > {o}" for n, o in pairs) + " |",
            "|---|" + "---|" * len(pairs),
        ]
        for score in next(iter(of.values())):
            cells = []
            for pair in pairs:
                value = of[pair][score][part]
                text = f"{value:.1f}" + (" ↓" if of[pair][score]["turned"] else "")
                top = best(other[part] for other in of[pair].values())
                cells.append(f"**{text}**" if value == top else text)
            lines.append(f"| {score} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "↓: low is odd on this pair.",
        "",
        "## Margin",
        "",
        "AUROC of the OOD score less that of the best single score of the pair, with a 95 % bootstrap"
        f" interval over texts ({RESAMPLES} resamples). The best single score is picked on the same texts.",
        "",
        "| pair | best single score | margin | interval |",
        "|---|---|---|---|",
        *(
            f"| {n} > {o} | {r['rival']} | {r['margin'][0]:+.2f} | {r['margin'][1]:+.2f} to"
            f" {r['margin'][2]:+.2f} |"
            for n, o in pairs
            for r in [found[n]["ood"][o]]
        ),
        "",
        "## p-values and cost",
        "",
        "Share of in-distribution texts with a p-value of at most a; share of OOD inputs with one of at"
        " most 0.05; processor time of `ood_scores` (the reading of the text included) over that of"
        " `predict_uncertain`, with beam 20 and missing = delta, and with the default search; weights of the"
        " centroids over the size of the model file.",
        "",
        "| model | held out | a = 0.01 | 0.05 | 0.1 | 0.2 | OOD inputs at 0.05 | / fast |"
        " / default | bytes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        guarantee = " | ".join(f"{share:.3f}" for share in result["guarantee"].values())
        caught = ", ".join(f"{o} {r['p at most 0.05']:.2f}" for o, r in result["ood"].items())
        times = " | ".join(f"{ratio:.2f}" for ratio in result["cost"].values())
        lines.append(
            f"| {name} | {result['held out']} | {guarantee} | {caught} | {times} |"
            f" {100 * result['bytes added']:.1f} % |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
