"""Every public entry point with every kind of wrong argument, in a process of its own, which may crash.

Prints, for each, whether it was refused (ValueError or TypeError, or a kind of these), answered, or failed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hedgerow
from hedgerow import Costs, HedgerowClassifier, HedgerowTextClassifier, Votes
from hedgerow import evaluation as metrics

sys.path.insert(0, str(Path(__file__).parent.parent))
from whole_model import some_texts, whole_model

WIDTH, LABELS, ROWS = 8, 5, 120


class Hostile:
    """An object that cannot be made an array."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no array")


def numbers(rows: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    random = np.random.default_rng(seed)
    X = sp.random_array((rows, WIDTH), density=0.6, rng=random, format="csr", dtype=np.float32)
    hidden = random.normal(size=(WIDTH, LABELS))
    Y = (X @ hidden > 0.8).astype(np.int8)
    Y[np.arange(rows), random.integers(0, LABELS, rows)] = 1
    return X, sp.csr_array(Y)


X, Y = numbers(ROWS, 0)
HELD, TRUTH = numbers(200, 1)
MODEL = HedgerowClassifier(method="bagging", members=2, random_state=0, n_jobs=1).fit(X, Y)
MODEL.learn_ood(HELD[::2]).calibrate(HELD[::2], TRUTH[::2]).learn_policy(HELD[1::2], TRUTH[1::2])
TEXT_MODEL = whole_model()
TEXTS, NAMES = some_texts(200, 7)
VOTES = MODEL.predict_votes(HELD)
TOP = MODEL.top(HELD, k=3).labels
DENSE = HELD.toarray()


def broken(indices: int) -> sp.csr_array:
    matrix = HELD.copy()
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = indices
    return matrix


def with_value(value: Any) -> Any:
    array = DENSE.astype(np.float64)
    array[3, 2] = value
    return array


# What is no matrix, no list of texts and no list of labels at all.
NONSENSE: dict[str, Any] = {
    "None": None,
    "a text": "hawthorn",
    "bytes": b"hawthorn",
    "a number": 3,
    "a function": len,
    "a mapping": {"a": 1},
    "an object": object(),
    "a hostile object": Hostile(),
    "ragged lists": [[1.0, 2.0], [1.0]],
    "a range": range(3),
}
BAD_X: dict[str, Any] = {
    **NONSENSE,
    "one dimension": np.ones(WIDTH),
    "three dimensions": np.ones((2, WIDTH, 1)),
    "no dimension": np.array(1.0),
    "NaN": with_value(np.nan),
    "infinity": with_value(np.inf),
    "too large for a float": with_value(1e300),
    "complex numbers": DENSE.astype(np.complex64),
    "objects": DENSE.astype(object) + 1j,
    "texts": DENSE.astype(str),
    "too narrow": DENSE[:, :-1],
    "too wide": sp.hstack([HELD, HELD]).tocsr(),
    "an index outside": broken(WIDTH),
    "a negative index": broken(-1),
    "no columns": np.ones((3, 0)),
}
BAD_TEXTS: dict[str, Any] = {
    **{name: value for name, value in NONSENSE.items() if name != "a mapping"},
    "numbers": [1, 2],
    "None among them": ["holly", None],
    "bytes among them": ["holly", b"yew"],
    "lists among them": [["holly"]],
    "half a character": ["\ud800"],
    "a matrix": HELD,
}
BAD_Y: dict[str, Any] = {
    **NONSENSE,
    "one dimension": np.ones(200),
    "three dimensions": np.ones((200, LABELS, 1)),
    "too few rows": TRUTH[:-1],
    "too many rows": sp.vstack([TRUTH, TRUTH]).tocsr(),
    "too few columns": TRUTH[:, :-1],
    "half a label": TRUTH.astype(np.float64) * 0.5,
    "NaN": np.full((200, LABELS), np.nan),
    "negative": -TRUTH,
    "texts in place of lists": ["holly"] * 200,
    "lists of floats": [[0.5]] * 200,
    "lists of lists": [[[0]]] * 200,
    "lists of true": [[True]] * 200,
    "lists of mixed kinds": [["holly", 1]] * 200,
    "numbers beyond 64 bits": [[2**70]] * 200,
    "unknown labels only": [[10**6]] * 200,
    "nothing": [[]] * 200,
}
BAD_SUBSET: dict[str, Any] = {
    **{n: v for n, v in NONSENSE.items() if n not in ("None", "a range")},
    "unknown": [10**6],
    "mixed": [0, "1"],
    "floats": [1.0],
    "true": [True],
    "beyond 64 bits": [2**70],
    "no dimension": np.array(1),
    "two dimensions": np.ones((2, 2), dtype=int),
    "a matrix": HELD,
}
BAD_K: dict[str, Any] = {
    "0": 0,
    "negative": -1,
    "a fraction": 1.5,
    "True": True,
    "a text": "5",
    "None": None,
    "NaN": float("nan"),
    "more than there are": LABELS + 1,
    "beyond 64 bits": 2**70,
    "a list": [5],
}
BAD_SHARE: dict[str, Any] = {
    "negative": -0.1,
    "above 1": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a text": "0.1",
    "True": True,
    "a list": [0.1],
    "an array": np.array([0.1, 0.2]),
    "an object": object(),
}
BAD_VECTOR: dict[str, Any] = {
    **{name: value for name, value in NONSENSE.items() if name != "a number"},
    "NaN": np.array([0.5, np.nan]),
    "infinity": np.array([0.5, np.inf]),
    "two dimensions": np.ones((2, 2)),
    "texts": np.array(["a", "b"]),
    "complex numbers": np.array([0.5 + 1j, 0.5]),
    "another length": np.ones(5) / 2,
    "nothing": [],
}
BAD_VOTES: dict[str, Any] = {
    **NONSENSE,
    "a matrix": HELD,
    "an array": DENSE,
}
FLAGS = np.array([True, False])
HALVES = np.array([0.5, 0.25])


def fitted(X: Any, Y: Any, **options: Any) -> Any:
    return HedgerowClassifier(random_state=0, n_jobs=1).fit(X, Y, **options)


def fitted_texts(texts: Any, labels: Any) -> Any:
    return HedgerowTextClassifier(random_state=0, n_jobs=1).fit(texts, labels)


def copied(model: Any) -> Any:
    return hedgerow.load(model)


def votes_of(**parts: Any) -> Votes:
    whole = {"indptr": [0, 2], "labels": [0, 1], "probs": [[0.5], [0.25]], "n_labels": 2}
    return Votes(**{**whole, **parts})


Entry = tuple[Callable[[Any], Any], dict[str, Any]]
ENTRIES: dict[str, Entry] = {
    "fit X": (
        lambda v: fitted(v, TRUTH),
        {n: v for n, v in BAD_X.items() if n not in ("too narrow", "too wide")},
    ),
    "fit Y": (
        lambda v: fitted(HELD, v),
        {n: v for n, v in BAD_Y.items() if n not in ("too few columns", "unknown labels only")},
    ),
    "fit sample_weight": (
        lambda v: fitted(HELD, TRUTH, sample_weight=v),
        {n: v for n, v in BAD_VECTOR.items() if n != "None"},
    ),
    "fit classes": (
        lambda v: fitted(HELD, TRUTH, classes=v),
        {n: v for n, v in NONSENSE.items() if n != "None"},
    ),
    "fit tree": (lambda v: fitted(HELD, TRUTH, tree=v), {n: v for n, v in NONSENSE.items() if n != "None"}),
    "top": (MODEL.top, BAD_X),
    "top k": (lambda v: MODEL.top(HELD, k=v), BAD_K),
    **{
        f"{method} {which}": (
            lambda v, method=method, which=which: getattr(MODEL, method)(HELD, **{which: v}),
            BAD_SUBSET | ({} if which == "only" else {"all of them": range(LABELS)}),
        )
        for method in ("top", "predict_proba", "predict_uncertain", "predict_votes", "decide")
        for which in ("only", "exclude")
    },
    "predict": (MODEL.predict, BAD_X),
    "predict_proba": (MODEL.predict_proba, BAD_X),
    "predict_proba k": (
        lambda v: MODEL.predict_proba(HELD, k=v),
        {n: v for n, v in BAD_K.items() if n not in ("more than there are", "beyond 64 bits")},
    ),
    "predict_uncertain": (MODEL.predict_uncertain, BAD_X),
    "predict_uncertain k": (lambda v: MODEL.predict_uncertain(HELD, k=v), BAD_K),
    "predict_votes": (MODEL.predict_votes, BAD_X),
    "predict_votes tolerance": (lambda v: MODEL.predict_votes(HELD, tolerance=v), BAD_SHARE),
    "score Y": (lambda v: MODEL.score(HELD, v), BAD_Y),
    "ood": (MODEL.ood_scores, BAD_X),
    "learn_ood": (MODEL.learn_ood, BAD_X),
    "seen_in_training": (MODEL.seen_in_training, BAD_X),
    "calibrate X": (lambda v: MODEL.calibrate(v, TRUTH), BAD_X),
    "calibrate Y": (lambda v: MODEL.calibrate(HELD, v), BAD_Y),
    "calibrate method": (lambda v: MODEL.calibrate(HELD, TRUTH, method=v), NONSENSE),
    "calibrate by": (lambda v: MODEL.calibrate(HELD, TRUTH, by=v), NONSENSE),
    "calibrate of": (lambda v: MODEL.calibrate(HELD, TRUTH, of=v), NONSENSE),
    "calibrate_out_of_bag": (lambda v: MODEL.calibrate_out_of_bag(v, Y), BAD_X),
    "learn_policy X": (lambda v: MODEL.learn_policy(v, TRUTH), BAD_X),
    "learn_policy Y": (lambda v: MODEL.learn_policy(HELD, v), BAD_Y),
    "learn_policy tolerance": (lambda v: MODEL.learn_policy(HELD, TRUTH, tolerance=v), BAD_SHARE),
    "decide X": (MODEL.decide, BAD_X),
    "decide wrong_at_most": (lambda v: MODEL.decide(HELD, wrong_at_most=v), BAD_SHARE),
    "decide missed_at_most": (lambda v: MODEL.decide(HELD, missed_at_most=v), BAD_SHARE),
    "decide review_at_most": (lambda v: MODEL.decide(HELD, review_at_most=v), BAD_SHARE),
    "decide wrong_of": (
        lambda v: MODEL.decide(HELD, wrong_of=v),
        {n: v for n, v in NONSENSE.items() if n != "None"},
    ),
    "decide coverage": (lambda v: MODEL.decide(HELD, coverage=v), BAD_SHARE),
    "decide confidence": (lambda v: MODEL.decide(HELD, confidence=v), BAD_SHARE),
    "decide false_alarm": (lambda v: MODEL.decide(HELD, false_alarm=v), BAD_SHARE),
    "decide inputs_coverage": (lambda v: MODEL.decide(HELD, inputs_by="top", inputs_coverage=v), BAD_SHARE),
    "decide by": (lambda v: MODEL.decide(HELD, by=v), NONSENSE),
    "decide inputs_by": (lambda v: MODEL.decide(HELD, inputs_by=v, inputs_wrong_at_most=0.2), NONSENSE),
    "decide costs": (
        lambda v: MODEL.decide(HELD, costs=v),
        {n: v for n, v in NONSENSE.items() if n != "None"},
    ),
    "decide size": (
        lambda v: MODEL.decide(HELD, size=v),
        {n: v for n, v in BAD_SHARE.items() if n != "above 1"},
    ),
    "decide k": (
        lambda v: MODEL.decide(HELD, k=v),
        {n: v for n, v in BAD_K.items() if n not in ("more than there are", "beyond 64 bits")},
    ),
    "add_members": (
        lambda v: MODEL.add_members(X, Y, v),
        {n: v for n, v in BAD_K.items() if n != "more than there are"},
    ),
    "evaluate model": (lambda v: hedgerow.evaluate(v, HELD, TRUTH), NONSENSE),
    "evaluate X": (lambda v: hedgerow.evaluate(MODEL, v, TRUTH), BAD_X),
    "evaluate Y": (lambda v: hedgerow.evaluate(MODEL, HELD, v), BAD_Y),
    "evaluate out-of-distribution inputs": (
        lambda v: hedgerow.evaluate(MODEL, HELD, TRUTH, ood={"a": v}),
        BAD_X,
    ),
    "explain model": (lambda v: hedgerow.explain(v, HELD[:1]), NONSENSE),
    "explain x": (
        lambda v: hedgerow.explain(MODEL, v),
        {n: v for n, v in BAD_X.items() if n != "one dimension"},
    ),
    "explain label": (
        lambda v: hedgerow.explain(MODEL, HELD[:1], v),
        {n: v for n, v in NONSENSE.items() if n not in ("None", "a number")},
    ),
    "explain names": (
        lambda v: hedgerow.explain(MODEL, HELD[:1], names=v),
        {n: v for n, v in NONSENSE.items() if n != "None"},
    ),
    "query model": (lambda v: hedgerow.query(v, HELD), NONSENSE),
    "query X": (lambda v: hedgerow.query(MODEL, v), BAD_X),
    "query n": (
        lambda v: hedgerow.query(MODEL, HELD, n=v),
        {n: v for n, v in BAD_K.items() if n not in ("more than there are", "beyond 64 bits")},
    ),
    "query diversity": (
        lambda v: hedgerow.query(MODEL, HELD, diversity=v),
        {n: v for n, v in BAD_SHARE.items() if n != "above 1"},
    ),
    "learn_from_held_out X": (lambda v: hedgerow.learn_from_held_out(MODEL, v, TRUTH), BAD_X),
    "learn_from_held_out Y": (lambda v: hedgerow.learn_from_held_out(MODEL, HELD, v), BAD_Y),
    "learn_from_held_out share": (
        lambda v: hedgerow.learn_from_held_out(MODEL, HELD, TRUTH, share=v),
        BAD_SHARE,
    ),
    "texts: fit": (lambda v: fitted_texts(v, NAMES), BAD_TEXTS),
    "texts: fit labels": (
        lambda v: fitted_texts(TEXTS, v),
        {n: v for n, v in BAD_Y.items() if n not in ("too few columns", "unknown labels only")},
    ),
    "texts: top": (TEXT_MODEL.top, BAD_TEXTS),
    "texts: predict_uncertain": (TEXT_MODEL.predict_uncertain, BAD_TEXTS),
    "texts: predict_votes": (TEXT_MODEL.predict_votes, BAD_TEXTS),
    "texts: OOD score": (TEXT_MODEL.ood_scores, BAD_TEXTS),
    "texts: decide": (TEXT_MODEL.decide, BAD_TEXTS),
    "texts: seen_in_training": (TEXT_MODEL.seen_in_training, BAD_TEXTS),
    "texts: calibrate": (lambda v: TEXT_MODEL.calibrate(v, NAMES), BAD_TEXTS),
    "texts: learn_policy": (lambda v: TEXT_MODEL.learn_policy(v, NAMES), BAD_TEXTS),
    "texts: evaluate": (lambda v: hedgerow.evaluate(TEXT_MODEL, v, NAMES), BAD_TEXTS),
    "texts: explain": (
        lambda v: hedgerow.explain(TEXT_MODEL, v),
        {n: v for n, v in BAD_TEXTS.items() if n not in ("a text", "half a character")},
    ),
    "texts: query": (lambda v: hedgerow.query(TEXT_MODEL, v), BAD_TEXTS),
    "vectorizer": (lambda v: hedgerow.TfidfVectorizer().fit_transform(v), BAD_TEXTS),
    "assess votes": (lambda v: hedgerow.assess(v, TRUTH), BAD_VOTES),
    "assess Y": (lambda v: hedgerow.assess(VOTES, v), BAD_Y),
    "assess k": (
        lambda v: hedgerow.assess(VOTES, TRUTH, k=v),
        {n: v for n, v in BAD_K.items() if n not in ("more than there are", "beyond 64 bits")},
    ),
    "label_uncertainty": (hedgerow.label_uncertainty, BAD_VOTES),
    "instance_uncertainty": (hedgerow.instance_uncertainty, BAD_VOTES),
    "energy": (lambda v: hedgerow.energy(VOTES, v), NONSENSE),
    "joint_energy": (lambda v: hedgerow.joint_energy(VOTES, v), NONSENSE),
    "Votes indptr": (
        lambda v: votes_of(indptr=v),
        {**BAD_VECTOR, "falling": [2, 0], "too far": [0, 9], "negative": [-1, 2]},
    ),
    "Votes labels": (
        lambda v: votes_of(labels=v),
        {**BAD_VECTOR, "outside": [0, 2], "negative": [-1, 0], "twice": [0, 0], "falling": [1, 0]},
    ),
    "Votes probs": (
        lambda v: votes_of(probs=v),
        {**BAD_VECTOR, "above 1": [[1.5], [0]], "negative": [[-1], [0]], "NaN": [[np.nan], [0]]},
    ),
    "Votes n_labels": (
        lambda v: votes_of(n_labels=v),
        {n: v for n, v in BAD_K.items() if n not in ("more than there are",)},
    ),
    "Votes bound": (lambda v: votes_of(bound=v), {n: v for n, v in BAD_VECTOR.items() if n != "None"}),
    "Votes classes": (lambda v: votes_of(classes=v), {n: v for n, v in NONSENSE.items() if n != "None"}),
    "Votes.from_members": (
        Votes.from_members,
        {
            **BAD_VOTES,
            "different shapes": [HELD, HELD[:3]],
            "above 1": [np.full((2, 2), 2.0)],
            "NaN": [np.full((2, 2), np.nan)],
        },
    ),
    "Votes.concatenate": (Votes.concatenate, {**NONSENSE, "nothing": [], "others": [3]}),
    "Votes.load": (
        Votes.load,
        {n: v for n, v in NONSENSE.items() if n not in ("a text", "bytes", "a number")},
    ),
    "compare_costs": (lambda v: hedgerow.compare_costs([(VOTES, TRUTH)], v), NONSENSE),
    "compare_costs batches": (lambda v: hedgerow.compare_costs(v, Costs()), BAD_VOTES),
    "Costs": (lambda v: Costs(wrong=v), {n: v for n, v in BAD_SHARE.items() if n != "above 1"}),
    "LabelTree.from_clusters": (
        hedgerow.LabelTree.from_clusters,
        {**NONSENSE, "a gap": [[0, 2]], "negative": [[-1, 0]]},
    ),
    "LabelTree.grow": (
        hedgerow.LabelTree.grow,
        {n: v for n, v in BAD_X.items() if n not in ("too narrow", "too wide")},
    ),
    "load": (copied, {n: v for n, v in NONSENSE.items() if n not in ("a text", "bytes", "a number")}),
}
for name, work in {
    "precision_at": metrics.precision_at,
    "recall_at": metrics.recall_at,
    "ndcg_at": metrics.ndcg_at,
    "macro_f1_at": metrics.macro_f1_at,
}.items():
    ENTRIES[f"{name} labels"] = (lambda v, work=work: work(v, TRUTH, 3), BAD_VOTES)
    ENTRIES[f"{name} Y"] = (
        lambda v, work=work: work(TOP, v, 3),
        {n: v for n, v in BAD_Y.items() if n not in ("too few columns",)},
    )
    ENTRIES[f"{name} k"] = (lambda v, work=work: work(TOP, TRUTH, v), BAD_K)
for name, pair in {
    "risk_coverage": metrics.risk_coverage,
    "reliability": metrics.reliability,
    "brier_score": metrics.brier_score,
}.items():
    ENTRIES[f"{name} first"] = (lambda v, work=pair: work(v, FLAGS), BAD_VECTOR)
    ENTRIES[f"{name} second"] = (lambda v, work=pair: work(HALVES, v), BAD_VECTOR)
ENTRIES["detection"] = (
    lambda v: metrics.detection(v, HALVES),
    {n: v for n, v in BAD_VECTOR.items() if n != "another length"},
)
ENTRIES["propensities"] = (
    lambda v: metrics.propensities(v, 10),
    {n: v for n, v in BAD_VECTOR.items() if n != "nothing"},
)


def outcome(work: Callable[[Any], Any], value: Any) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            work(value)
        return "answered"
    except (ValueError, TypeError) as error:
        return "refused" if str(error) else "refused without a word"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    for entry, (work, kinds) in ENTRIES.items():
        for kind, value in kinds.items():
            print(json.dumps([entry, kind, ""]), flush=True)
            print(json.dumps([entry, kind, outcome(work, value)]), flush=True)
