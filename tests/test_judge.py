"""The judge: trees find candidates, scorers and members are heard, one polynomial decides."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, _native
from hedgerow.cli.app import main
from hedgerow.data.sample import load_sample
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.parameters import ParameterError
from hedgerow.judge import judging
from hedgerow.judge.judge_fitting import Candidates, learn_judge
from hedgerow.judge.judging import (
    HEADROOM,
    Judge,
    LeftOut,
    NoJudge,
    judged_each,
    surprise,
    term_count,
    terms,
)
from hedgerow.storage.container import ModelFileError
from hedgerow.training.asked import train_asked
from hedgerow.training.data import TrainingData
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import (
    EnsembleSettings,
    Method,
    SolverSettings,
    TrainingSettings,
    TreeSettings,
)
from hedgerow.training.shape import wide_plan, wide_shape

SEEN = 4  # members, wide, centroid, frequency
TERMS = term_count(SEEN)


@pytest.fixture(scope="module")
def problem() -> tuple[sp.csr_array, sp.csr_array]:
    """Inputs with words of their labels, and words of none."""
    draw = np.random.default_rng(0)
    labels, words, rows = 60, 300, 3000
    popularity = 1 / np.arange(1, labels + 1)
    Y = np.zeros((rows, labels), dtype=np.float32)
    X = np.zeros((rows, words), dtype=np.float32)
    own = draw.integers(0, words, (labels, 6))
    for row in range(rows):
        for label in draw.choice(labels, draw.integers(1, 4), replace=False, p=popularity / popularity.sum()):
            Y[row, label] = 1
            X[row, draw.choice(own[label], 3)] += 1
        X[row, draw.integers(0, words, 8)] += 1
    return sp.csr_array(X), sp.csr_array(Y)


@pytest.fixture(scope="module")
def judged(problem: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    X, Y = problem
    settings = {"method": "bagging", "members": 4, "leaf_size": 8, "random_state": 0}
    return HedgerowClassifier(**settings, judge=True, wide=1000).fit(X[:2500], Y[:2500])


def some_judge(coefficients: np.ndarray, labels: int = 10) -> Judge:
    known = np.array([[0.0, 4.4], [0.0, 4.4], [0.0, 2.0], [0.0, 8.0]])
    counts = np.arange(labels, dtype=np.int64)
    return Judge(("wide", "centroid"), coefficients, known, counts, "held-out", 10, 0.5, 0.6)


def test_given_candidates_are_scored_as_a_search_through_all_labels_scores_them(
    problem: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = problem
    for leaf_size in (8, 1000):
        model = HedgerowClassifier(method="bagging", members=3, leaf_size=leaf_size, random_state=0)
        model.fit(X, Y).set_params(candidates="all")
        votes = model.predict_votes(X[:200])
        forest = model.source.forest
        scores = forest.score(as_rows(X[:200]), votes.indptr, votes.labels, 2)
        np.testing.assert_array_equal(scores.probs, votes.probs)


def test_scores_of_candidates_do_not_depend_on_batch_or_threads(
    judged: HedgerowClassifier, problem: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, _ = problem
    draw = np.random.default_rng(1)
    lists = [np.unique(draw.integers(0, 60, draw.integers(0, 9))).astype(np.int32) for _ in range(50)]
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in lists])])
    scorers = judged.source.scorers
    assert scorers is not None
    together = scorers.score(as_rows(X[:50]), indptr, np.concatenate(lists), 2)
    assert together.shape == (indptr[-1], 3)
    for row, own in enumerate(lists):
        alone = scorers.score(as_rows(X[[row]]), np.array([0, len(own)]), own, 1)
        np.testing.assert_array_equal(alone, together[indptr[row] : indptr[row + 1]])


def test_a_centroid_scores_the_cosine(
    judged: HedgerowClassifier, problem: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = problem
    scorers = judged.source.scorers
    assert scorers is not None
    dense, truth = X.toarray().astype(np.float64), Y.toarray()[:2500]
    unit = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    centroids = truth.T @ unit[:2500]
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    largest = np.sort(centroids, axis=1)[:, [-100]]
    centroids[centroids < largest] = 0
    labels = np.arange(60, dtype=np.int32)
    scores = scorers.score(as_rows(X[:5]), np.arange(0, 301, 60), np.tile(labels, 5), 1)
    # Of features that are equally large, either may be kept.
    cosine = 1 + HEADROOM - surprise(scores[:, -1])
    np.testing.assert_allclose(cosine.reshape(5, 60), unit[:5] @ centroids.T, atol=0.03)


def test_candidates_outside_are_refused(judged: HedgerowClassifier) -> None:
    forest = judged.source.forest
    row = as_rows(sp.csr_array((1, 300), dtype=np.float32))
    for indptr, labels in (([0, 1], [60]), ([0, 1], [-1]), ([0, 2], [1]), ([0], [])):
        with pytest.raises(ValueError, match=r"candidate|indptr|rows|row"):
            forest.score(row, np.array(indptr), np.array(labels, dtype=np.int32), 1)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_engine_judges_as_the_formula_says(seed: int, members: int) -> None:
    draw = np.random.default_rng(seed)
    judge = some_judge(draw.normal(size=TERMS) / 4)
    labels = draw.integers(0, 10, 50).astype(np.int32)
    probs = draw.random((50, members), dtype=np.float32) ** np.float32(draw.integers(1, 20))
    scores = draw.random((50, 2), dtype=np.float32) ** 4
    found = judge.apply(labels, probs, scores, 1)
    wanted = expit(np.clip(terms(judge.evidence(labels, probs, scores)) @ judge.coefficients, -20, 13.5))
    np.testing.assert_allclose(found.mean(axis=1, dtype=np.float64), wanted, rtol=1e-5)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_members_keep_their_distance_in_log_odds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    judge = some_judge(draw.normal(size=TERMS) / 4)
    probs = (0.05 + 0.9 * draw.random((20, 5))).astype(np.float32)
    found = judge.apply(np.zeros(20, dtype=np.int32), probs, np.full((20, 2), 0.5, dtype=np.float32), 1)
    inside = ((found > 1e-4) & (found < 1 - 1e-4)).all(axis=1)
    shift = logit(found[inside].astype(np.float64)) - logit(probs[inside].astype(np.float64))
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape), atol=2e-3)


def test_certain_members_are_judged_too() -> None:
    judge = some_judge(np.zeros(TERMS))
    probs = np.array([[0, 0], [1, 1], [0, 1]], dtype=np.float32)
    found = judge.apply(np.zeros(3, dtype=np.int32), probs, np.ones((3, 2), dtype=np.float32), 1)
    np.testing.assert_allclose(found.mean(axis=1), 0.5, rtol=3e-6)
    assert found[2, 0] < found[2, 1]


def test_wrong_shapes_are_refused() -> None:
    ones = np.ones((3, 2), dtype=np.float32)
    labels, counts = np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.float32)
    known = np.tile([0.0, 1.0], SEEN)
    _native.judge_candidates(labels, ones, ones, np.zeros(TERMS), known, counts, 1)
    for broken in (
        (labels[:2], ones, ones, np.zeros(TERMS), known, counts),
        (labels, ones, ones[:2], np.zeros(TERMS), known, counts),
        (labels, ones, ones, np.zeros(TERMS - 1), known, counts),
        (labels, ones, ones, np.zeros(TERMS), known[:-2], counts),
        (labels, ones, ones, np.zeros(TERMS), known[::-1].copy(), counts),
        (labels + 2, ones, ones, np.zeros(TERMS), known, counts),
    ):
        with pytest.raises(ValueError, match=r"judge|labels|candidate"):
            _native.judge_candidates(*broken, 1)


def assert_never_rises(judge: Judge, seed: int = 0) -> None:
    """No more surprise of any one, from one place to another or by a small step, raises the log-odds."""
    draw = np.random.default_rng(seed)
    low, high = judge.range.T
    # Half of all numbers are close to an end of their range, where cubes bend most; some are at the end.
    shares = [draw.random((10_000, len(low))), draw.beta(0.1, 0.1, (20_000, len(low)))]
    evidence = low + np.concatenate(shares) * (high - low)
    for column in range(len(low) - 1):
        below = evidence[:, column] - low[column]
        for step in (draw.random(len(evidence)) * below, np.minimum(1e-2, below)):
            less = evidence.copy()
            less[:, column] -= step
            change = (terms(less) - terms(evidence)) @ judge.coefficients
            assert change.min() > -1e-6


def test_a_learned_judge_never_likes_a_label_less_for_more_evidence(judged: HedgerowClassifier) -> None:
    assert judged.source.judge is not None
    assert_never_rises(judged.source.judge)


@pytest.mark.parametrize("turn", [0.3, 1.0, 1.7])
def test_a_judge_does_not_follow_where_more_surprise_is_more_often_true(turn: float) -> None:
    draw = np.random.default_rng(0)
    evidence = np.column_stack([draw.random((20_000, 3)) * 2, draw.random(20_000) * 6])
    # Truth that rises and falls with the surprise of one scorer: only cubes and squares can follow.
    bend = 6 * (evidence[:, 1] - turn) ** 3 - 4 * (evidence[:, 1] - turn)
    true = draw.random(20_000) < expit(3 - 4 * evidence[:, 0] - bend - evidence[:, 2])
    judge = learn_judge(
        Candidates(evidence, true, np.arange(20_000) // 10),
        ("label", "centroid"),
        np.array([400]),
        "held-out",
    )
    assert judge is not None
    assert_never_rises(judge)
    # The constraint is what keeps it from following.
    free = LogisticRegression(C=1.0, max_iter=5000).fit(terms(evidence)[:, 1:], true)
    coefficients = np.concatenate([free.intercept_, free.coef_[0]])
    with pytest.raises(AssertionError):
        assert_never_rises(replace(judge, coefficients=coefficients))


def test_a_judge_that_does_not_rank_better_is_left_out() -> None:
    draw = np.random.default_rng(0)
    members = draw.random((20_000, 1)) * 2
    noise = draw.random((20_000, 2))
    true = draw.random(20_000) < np.exp(-(members[:, 0] ** 3))
    # Frequency and scorer say nothing, so nothing can be gained over the members.
    candidates = Candidates(np.column_stack([members, noise]), true, np.arange(20_000))
    judge = learn_judge(candidates, ("centroid",), np.array([5]), "held-out")
    assert isinstance(judge, NoJudge) or judge.after - judge.before < 1e-3
    few = Candidates(np.zeros((100, 3)), np.ones(100, dtype=bool), np.arange(100))
    assert learn_judge(few, ("centroid",), np.array([5]), "held-out") == NoJudge(LeftOut.TOO_LITTLE)


def test_a_judge_that_could_only_rank_as_the_members_do_is_left_out_with_both_figures() -> None:
    # Within an input, all that a judge sees but the members is the same: their order cannot be bettered.
    draw = np.random.default_rng(0)
    members = draw.random(4_000) * 2
    same = np.repeat(draw.random((400, 2)), 10, axis=0)
    true = draw.random(4_000) < np.exp(-(members**3))
    candidates = Candidates(np.column_stack([members, same]), true, np.arange(4_000) // 10)
    found = learn_judge(candidates, ("centroid",), np.array([5]), "held-out")
    assert isinstance(found, NoJudge)
    assert found.reason is LeftOut.NOT_BETTER
    assert found.before is not None
    assert found.after is not None
    assert found.after <= found.before


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (NoJudge(LeftOut.NOT_BETTER, 0.51, 0.5), "did not rank better than the trees alone"),
        (NoJudge(LeftOut.TOO_LITTLE), "too little data"),
        (NoJudge(LeftOut.NOT_ASKED), "not asked for"),
    ],
)
def test_a_file_says_why_a_judge_was_left_out(
    left_out: NoJudge, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = left_out.reason is not LeftOut.NOT_ASKED
    model = HedgerowClassifier(judge=asked, random_state=0).fit(np.eye(4), [[0], [1], [2], [3]])
    assert model.source.no_judge == NoJudge(LeftOut.TOO_LITTLE if asked else LeftOut.NOT_ASKED)
    model.model_ = replace(model.model_, no_judge=left_out)
    path = tmp_path / "m.hedgerow"
    model.save(path)
    loaded = HedgerowClassifier.load(path)
    assert loaded.source.no_judge == left_out
    assert loaded.describe()["no_judge"] == left_out.describe()
    assert main(["inspect", str(path)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_file_from_before_reasons_were_kept_says_that_it_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = HedgerowClassifier(judge=True, random_state=0).fit(np.eye(4), [[0], [1], [2], [3]])
    model.model_ = replace(model.model_, no_judge=None)  # so that the file has no entry, as before
    model.save(tmp_path / "m.hedgerow")
    assert HedgerowClassifier.load(tmp_path / "m.hedgerow").source.no_judge is None
    assert main(["inspect", str(tmp_path / "m.hedgerow")]) == 0
    assert "the file does not say why" in capsys.readouterr().out


@pytest.mark.parametrize(
    "header",
    [
        {"reason": "it was tired", "before": None, "after": None},
        {"reason": "not better on validation", "before": "0.5", "after": 0.4},
        {"reason": "too little data"},
    ],
)
def test_a_reason_that_makes_no_sense_is_refused(header: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError)):
        NoJudge.from_header(header)


@pytest.mark.parametrize("method", ["single", "bagging", "boosting"])
def test_a_judge_ranks_and_calibrates_better(problem: tuple[sp.csr_array, sp.csr_array], method: str) -> None:
    X, Y = problem
    settings = {"method": method, "members": 3, "leaf_size": 8, "random_state": 0}
    plain = HedgerowClassifier(**settings).fit(X[:2500], Y[:2500])
    better = HedgerowClassifier(**settings, judge=True, wide=1000).fit(X[:2500], Y[:2500])
    about = better.describe()["judge"]
    assert about["sees"] == ["members", "wide", "label", "centroid", "frequency"]
    assert about["source"] == ("out-of-bag" if method == "bagging" else "held-out")
    assert about["ndcg"] > about["ndcg_before"]
    before, after = (hedgerow.evaluate(model, X[2500:], Y[2500:]) for model in (plain, better))
    assert after.ranking.precision[1] >= before.ranking.precision[1]
    assert after.reliability[5].ece < before.reliability[5].ece


def test_all_ways_to_predict_agree(
    judged: HedgerowClassifier, problem: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X = problem[0][2500:2550]
    votes = judged.predict_votes(X)
    top, uncertain = judged.top(X, k=3), judged.predict_uncertain(X, k=3)
    assert votes.probs.shape[1] == judged.source.members == 4
    np.testing.assert_array_equal(top.labels, uncertain.labels)
    means = votes.mean().toarray()
    np.testing.assert_allclose(top.probability, -np.sort(-means, axis=1)[:, :3], rtol=1e-6)
    assert (uncertain.knowledge > 0).any()


def test_a_judged_model_is_the_same_from_its_file_and_at_any_number_of_threads(
    judged: HedgerowClassifier, problem: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    X, Y = problem
    alone = HedgerowClassifier(**judged.get_params() | {"n_jobs": 1}).fit(X[:2500], Y[:2500])
    for name, model in (("two", judged), ("one", alone)):
        model.save(tmp_path / f"{name}.hedgerow")
    assert (tmp_path / "two.hedgerow").read_bytes() == (tmp_path / "one.hedgerow").read_bytes()
    loaded = HedgerowClassifier.load(tmp_path / "two.hedgerow")
    assert loaded.describe()["judge"] == judged.describe()["judge"]
    wanted, found = judged.top(X[:9], k=5), loaded.top(X[:9], k=5)
    np.testing.assert_array_equal(wanted.labels, found.labels)
    np.testing.assert_array_equal(wanted.probability, found.probability)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("judge.coefficients", np.zeros(3)),
        ("judge.coefficients", np.full(term_count(5), np.nan)),
        ("judge.range", np.ones((5, 2)) * [2, 1]),
        ("judge.range", np.zeros((2, 2))),
    ],
)
def test_a_file_with_a_broken_judge_is_refused(
    judged: HedgerowClassifier, tmp_path: Path, part: str, value: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(own: Judge) -> dict[str, np.ndarray]:
        return {"judge.coefficients": own.coefficients, "judge.range": own.range, part: value}

    monkeypatch.setattr(Judge, "to_sections", broken)
    judged.save(tmp_path / "broken.hedgerow")
    with pytest.raises(ModelFileError, match="judge"):
        HedgerowClassifier.load(tmp_path / "broken.hedgerow")


def test_texts_are_judged_too(tmp_path: Path) -> None:
    sample = load_sample()
    model = HedgerowTextClassifier(judge=True, random_state=0).fit(sample.train_texts, sample.train_labels)
    assert model.describe()["judge"]["sees"] == ["members", "label", "centroid", "frequency"]
    model.save(tmp_path / "m.hedgerow")
    assert hedgerow.load(tmp_path / "m.hedgerow").top(["a compiler for C"], k=1).labels.size == 1


def test_a_single_tree_is_stored_once(problem: tuple[sp.csr_array, sp.csr_array], tmp_path: Path) -> None:
    X, Y = problem
    model = HedgerowClassifier(leaf_size=8, judge=True, random_state=0).fit(X[:2500], Y[:2500])
    assert model.source.judge is not None
    model.save(tmp_path / "m.hedgerow")
    HedgerowClassifier(leaf_size=8, random_state=0).fit(X[:2500], Y[:2500]).save(tmp_path / "plain.hedgerow")
    size, plain = ((tmp_path / f"{name}.hedgerow").stat().st_size for name in ("m", "plain"))
    # Of a centroid 100 features are kept: their numbers and values.
    centroids = 60 * 100 * (4 + 2)
    assert size < plain + centroids + 10_000 < 2 * plain
    loaded = HedgerowClassifier.load(tmp_path / "m.hedgerow")
    scorers = loaded.source.scorers
    assert scorers is not None
    assert scorers.names == ("label", "centroid")
    assert scorers.classifier is loaded.source.forest.trees[0]
    wanted, found = model.predict_votes(X[2500:2550]), loaded.predict_votes(X[2500:2550])
    np.testing.assert_array_equal(wanted.labels, found.labels)
    np.testing.assert_array_equal(wanted.probs, found.probs)


def test_a_judge_hears_the_best_labels_of_each_member_unless_candidates_are_given(
    judged: HedgerowClassifier,
    problem: tuple[sp.csr_array, sp.csr_array],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = problem[0][2500:2510]
    source = judged.source
    assert source.finding.candidates == judged_each(4) == 400
    assert judged_each(1) == 1000
    assert replace(source, judge=None, scorers=None).finding == source.search
    for given_candidates in ("all", 7):
        chosen = replace(source, search=replace(source.search, candidates=given_candidates))
        assert chosen.finding == chosen.search
    everything = copy.copy(judged).set_params(candidates="all").predict_votes(X)
    assert np.diff(everything.indptr).tolist() == [60] * 10
    monkeypatch.setattr(judging, "_JUDGED_EACH", 5)
    monkeypatch.setattr(judging, "_JUDGED_TOGETHER", 20)
    plain = source.forest.votes(as_rows(X), 1, source.search, 1)
    fewer = judged.predict_votes(X)
    for row in range(10):
        own = slice(*plain.indptr[row : row + 2])
        best = np.argsort(-plain.probs[own], axis=0, kind="stable")[:5]
        assert set(fewer[row].labels.tolist()) == set(plain.labels[own][best].ravel().tolist())


@pytest.mark.parametrize(
    ("labels", "rivals"),
    [
        *itertools.product([1, 2], [1, 2, 10]),
        *itertools.product([100], [1, 9, 10, 33, 99, 100, 101, 100_000]),
        *itertools.product([4000], [1, 1000, 10_000]),
        *itertools.product([30_000], [1, 300, 2**31]),
    ],
)
def test_wide_classifiers_of_few_and_many_labels_can_be_trained(labels: int, rivals: int) -> None:
    shape = wide_shape(labels, rivals)
    TreeSettings(shape.branching, shape.leaf_size, True)
    if rivals >= labels:
        assert (shape.leaf_size, shape.negatives) == (labels, "tfn")
    elif labels <= 20_000:  # each is told apart from the labels of the leaves that a matcher finds
        size = labels / shape.branching
        assert shape.negatives == "tfn+man"
        assert abs(shape.matcher_beam * size - rivals) <= size + rivals * 0.05
        assert shape.leaf_size >= size
    else:
        assert shape.negatives == "tfn"
        assert rivals <= shape.leaf_size <= rivals * 1.05 + 1
    if labels * min(rivals, labels) > 20_000_000:
        return  # minutes
    draw = np.random.default_rng(0)
    rows = 30
    X = sp.csr_array((draw.random((rows, 20)) * (draw.random((rows, 20)) < 0.3)).astype(np.float32))
    Y = sp.csr_array((np.ones(labels), (np.arange(labels) % rows, np.arange(labels))), shape=(rows, labels))
    solver = SolverSettings("squared_hinge", 1.0, 1.0, 1.0, 0.1, 20, 0.05, "tfn", 20, 1.0, True)
    settings = TrainingSettings(
        EnsembleSettings(Method.SINGLE, 1, None, 0.5, 10), TreeSettings(8, 100, True), solver
    )
    plan = TrainingPlan(TrainingData(as_rows(X), as_rows(Y), Y, 20, None), settings, 0)
    trained, votes = train_asked(wide_plan(plan, rivals), np.arange(0, rows, 5), None, 2)
    assert sorted(trained.tree.labels.tolist()) == list(range(labels))
    assert np.diff(trained.tree.begins[-1]).max() <= shape.leaf_size
    # At most 100 labels, of at most 20 leaves.
    sizes = np.diff(trained.tree.begins[-1])
    least, most = (min(labels, 100, 20 * int(size)) for size in (sizes.min(), sizes.max()))
    found = np.diff(votes.indptr)
    assert len(found) == 6
    assert ((found >= least) & (found <= most)).all()


def test_what_a_judge_cannot_do_is_said(
    judged: HedgerowClassifier, problem: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = problem
    with pytest.raises(ParameterError, match="judge=True"):
        HedgerowClassifier(wide=10).fit(X, Y)
    with pytest.raises(ValueError, match="judge and memory cannot be combined"):
        HedgerowClassifier(judge=True, memory="1GB").fit(X, Y)
    with pytest.raises(ValueError, match="judge and cluster cannot be combined"):
        HedgerowClassifier(judge=True, cluster="ray://somewhere:10001").fit(X, Y)
    with pytest.raises(ValueError, match="fit again"):
        judged.add_members(X[:2500], Y[:2500], 1)
    with pytest.raises(ValueError, match="held-out"):
        judged.calibrate_out_of_bag(X[:2500], Y[:2500])
    judged.uncalibrated().calibrate(X[2500:], Y[2500:])
