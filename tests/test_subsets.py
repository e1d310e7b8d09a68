"""Only some labels may be answered: as if all were answered and the others crossed out, and k of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import node_log_probabilities, random_problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import entr
from served_models import Open

import hedgerow
from hedgerow import HedgerowClassifier, UncertainLabels, Votes
from hedgerow.cli.app import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data.sample import load_sample
from hedgerow.decisions.rules import ACCEPT, REJECT
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import SURE_LABELS, SearchSettings
from hedgerow.serve.limits import Limits
from hedgerow.serve.prediction import Wanted
from hedgerow.serve.served_model import AllowedLabels, ServedModel
from hedgerow.trees.tree_model import TreeClassifier

pytestmark = pytest.mark.simd

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
LABELS = 90
WAYS: dict[str, dict[str, Any]] = {
    "single": {},
    "mc-dropout": {"method": "mc-dropout"},
    "bagging": {"method": "bagging", "members": 4},
    "boosting": {"method": "boosting", "members": 3},
    "shared trees": {"method": "bagging", "members": 4, "trees": 2},
    "one shared tree": {"method": "boosted-bagging", "members": 3, "trees": 1},
}
MEASURES = ("probability", "total", "data", "knowledge", "variance")
Ints = npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def problem() -> tuple[csr_array, csr_array]:
    return random_problem(3, 120, 40, LABELS)


@pytest.fixture(scope="module")
def fitted(problem: tuple[csr_array, csr_array]) -> dict[str, HedgerowClassifier]:
    shape: dict[str, Any] = {"random_state": 0, "branching": 3, "leaf_size": 4, "n_jobs": 1}
    return {name: HedgerowClassifier(**shape, **way).fit(*problem) for name, way in WAYS.items()}


@pytest.fixture(scope="module")
def judged() -> tuple[HedgerowClassifier, csr_array]:
    """A bagged model with a judge, and inputs."""
    draw = np.random.default_rng(0)
    Y = draw.random((1500, 30)) < 0.08
    Y[np.arange(1500), draw.integers(0, 30, 1500)] = True
    X = np.repeat(Y, 5, axis=1) * (draw.random((1500, 150)) < 0.6) + (draw.random((1500, 150)) < 0.03)
    settings: dict[str, Any] = {"method": "bagging", "members": 3, "leaf_size": 5, "random_state": 0}
    model = HedgerowClassifier(**settings, judge=True, wide=1000, n_jobs=1)
    model.fit(csr_array(X[:1300].astype(np.float32)), csr_array(Y[:1300].astype(np.int8)))
    assert model.source.judge is not None
    return model, csr_array(X[1300:].astype(np.float32))


def searching(model: HedgerowClassifier, **search: Any) -> HedgerowClassifier:
    """The same fitted model with another search."""
    again = HedgerowClassifier(**model.get_params()).set_params(**search)
    again.model_ = model.model_
    return again


def some_labels(seed: int, size: int, model: HedgerowClassifier) -> list[int]:
    """Labels, at least one of which the model knows."""
    draw = np.random.default_rng(seed)
    known = draw.choice(model.tree_.labels)
    others = draw.choice(len(model.classes_), size - 1, replace=False)
    return sorted({int(known), *others.tolist()})


def crossed_out(votes: Votes, allowed: list[int]) -> Votes:
    """Only the votes on allowed labels."""
    return votes.chosen(np.flatnonzero(np.isin(votes.labels, allowed)))


def assert_same_votes(found: Votes, expected: Votes) -> None:
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.probs, expected.probs)


# --- the same as all labels with the others crossed out ---


@FEW
@given(
    way=st.sampled_from(sorted(WAYS)),
    seed=st.integers(0, 2**31),
    size=st.integers(1, LABELS),
    floor=st.sampled_from([0.0, 1e-4, 0.5]),
)
def test_search_of_everything_then_votes_are_those_of_all_labels_crossed_out(
    way: str, seed: int, size: int, floor: float, fitted: Any, problem: Any
) -> None:
    model, X = searching(fitted[way], candidates="all", floor=floor), problem[0]
    allowed = some_labels(seed, size, model)
    whole = crossed_out(model.predict_votes(X), allowed)
    assert_same_votes(model.predict_votes(X, only=allowed), whole)
    # A beam as wide as the tree and no floor find the same.
    wide = searching(fitted[way], beam=10**6, floor=0.0)
    assert_same_votes(wide.predict_votes(X, only=allowed), whole)


@FEW
@given(way=st.sampled_from(sorted(WAYS)), seed=st.integers(0, 2**31), size=st.integers(1, LABELS))
def test_best_labels_and_measures_are_those_of_all_labels_crossed_out(
    way: str, seed: int, size: int, fitted: Any, problem: Any
) -> None:
    model, X = searching(fitted[way], candidates="all"), problem[0]
    allowed = some_labels(seed, size, model)
    k = min(5, model.source.known_of(model.source.subset(allowed)))
    every = model.source.known
    whole, ranked = model.top(X, every, exact=True), model.predict_uncertain(X, every)
    best = model.top(X, k, exact=True, only=allowed)
    uncertain = model.predict_uncertain(X, k, only=allowed)
    for row in range(X.shape[0]):
        for found, of_all in ((best, whole), (uncertain, ranked)):
            kept = np.flatnonzero(np.isin(of_all.labels[row], allowed))[:k]
            np.testing.assert_array_equal(found.labels[row], of_all.labels[row][kept])
            np.testing.assert_array_equal(found.probability[row], of_all.probability[row][kept])
        for name in MEASURES[1:]:
            kept = np.flatnonzero(np.isin(ranked.labels[row], allowed))[:k]
            np.testing.assert_array_equal(
                vars(uncertain)[name][row], vars(ranked)[name][row][kept], err_msg=name
            )


@FEW
@given(way=st.sampled_from(sorted(WAYS)), seed=st.integers(0, 2**31), size=st.integers(1, LABELS))
def test_uncertainty_of_inputs_then_it_is_the_sum_over_allowed_labels(
    way: str, seed: int, size: int, fitted: Any, problem: Any
) -> None:
    model, X = searching(fitted[way], candidates="all"), problem[0]
    allowed = some_labels(seed, size, model)
    found = model.predict_uncertain(X, 1, only=allowed).instance
    said = crossed_out(model.predict_votes(X), allowed)
    mean = np.zeros((X.shape[0], LABELS))
    mean[np.repeat(np.arange(X.shape[0]), np.diff(said.indptr)), said.labels] = said.probs.mean(
        axis=1, dtype=np.float64
    )
    np.testing.assert_allclose(found.expected, mean.sum(axis=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.total, (entr(mean) + entr(1 - mean)).sum(axis=1), rtol=1e-3, atol=1e-5)
    assert (found.bound == 0).all()
    assert (found.missed == 0).all()


def test_judge_and_calibration_then_votes_are_those_of_all_labels_crossed_out(judged: Any) -> None:
    model, X = judged
    random = np.random.default_rng(5)
    truth = csr_array((random.random((100, 30)) < 0.1).astype(np.int8))
    plain = searching(model, candidates="all")
    calibrated = searching(model, candidates="all").calibrate(X[:100], truth, method="isotonic")
    for own in (plain, calibrated):
        for size in (1, 4, 29):
            allowed = sorted(random.choice(30, size, replace=False).tolist())
            whole = crossed_out(own.predict_votes(X), allowed)
            assert_same_votes(own.predict_votes(X, only=allowed), whole)
            k = min(3, size)
            best = own.top(X, k, only=allowed)
            uncertain = own.predict_uncertain(X, k, only=allowed)
            np.testing.assert_array_equal(best.labels, uncertain.labels)
            np.testing.assert_array_equal(best.probability, uncertain.probability)
            np.testing.assert_array_equal(
                np.sort(best.probability), np.sort(UncertainLabels.from_votes(whole, k).probability)
            )


def test_judge_hears_the_best_allowed_labels_as_it_does_of_all(judged: Any) -> None:
    model, X = judged
    allowed = list(range(0, 30, 3))
    few = searching(model, candidates=2, missing="exact").predict_votes(X, only=allowed)
    whole = searching(model, candidates="all").predict_votes(X, only=allowed)
    assert (np.diff(few.indptr) >= 2).all()
    entries = [set(zip(*of, strict=True)) for of in (_entries(few), _entries(whole))]
    assert entries[0] <= entries[1]


def test_passes_of_an_encoder_then_votes_are_those_of_all_labels_crossed_out(
    fitted: Any, problem: Any
) -> None:
    from hedgerow.deep.passes import PassEnsemble

    model = fitted["single"]
    passes = PassEnsemble(model.model_.forest.trees, LABELS, 3)
    rows, allowed = as_rows(problem[0]), [2, 3, 40, 77]
    subset = model.source.subset(allowed)
    everything = SearchSettings(candidates="all")
    whole, few = (passes.votes(rows, 1, everything, 1, subset=of) for of in (None, subset))
    kept = np.isin(whole.labels, allowed)
    np.testing.assert_array_equal(few.labels, whole.labels[kept])
    np.testing.assert_array_equal(few.probs, whole.probs[kept])
    narrow = passes.votes(rows, 4, SearchSettings(beam=1), 1, subset=subset)
    assert (np.diff(narrow.indptr) == 4).all()


def _entries(votes: Votes) -> tuple[list[int], list[int], list[bytes]]:
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    return rows.tolist(), votes.labels.tolist(), [one.tobytes() for one in votes.probs]


# --- with a beam ---


def met_below(
    trained: TreeClassifier, X: csr_array, beam: int, allowed: list[int]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Which labels a beam through the nodes above allowed labels meets, (rows, labels), by brute force.

    Also the sum, over the allowed labels that it does not meet, of the probability of the node left behind.
    """
    below = [np.isin(trained.tree.labels, allowed).astype(np.int64)]
    for begins in reversed(trained.tree.begins):
        below.insert(0, np.add.reduceat(below[0], begins[:-1]))
    visited = np.ones((X.shape[0], 1), dtype=bool)
    missed = np.zeros(X.shape[0])
    for layer, begins in enumerate(trained.tree.begins):
        visited = np.repeat(visited, np.diff(begins), axis=1) & (below[layer + 1] > 0)
        if layer + 1 == trained.tree.depth:
            break
        logs = np.where(visited, node_log_probabilities(trained, X, layer + 1), -np.inf)
        best = np.argsort(-logs, axis=1, kind="stable")[:, :beam]
        chosen = np.zeros_like(visited)
        np.put_along_axis(chosen, best, True, axis=1)
        missed += (np.exp(logs) * below[layer + 1] * (visited & ~chosen)).sum(axis=1)
        visited &= chosen
    met = np.zeros((X.shape[0], LABELS), dtype=bool)
    met[:, trained.tree.labels] = visited
    return met, missed


@settings(FEW, max_examples=15)
@given(
    way=st.sampled_from(["single", "bagging"]),
    beam=st.integers(1, 6),
    seed=st.integers(0, 2**31),
    size=st.integers(1, LABELS),
)
def test_beam_then_it_holds_only_nodes_above_allowed_labels(
    way: str, beam: int, seed: int, size: int, fitted: Any, problem: Any
) -> None:
    model = searching(fitted[way], beam=beam, floor=0.0)
    X = problem[0][:25]
    allowed = some_labels(seed, size, model)
    votes = model.predict_votes(X, only=allowed)
    found = np.zeros((X.shape[0], LABELS), dtype=bool)
    found[np.repeat(np.arange(X.shape[0]), np.diff(votes.indptr)), votes.labels] = True
    expected, mass = np.zeros_like(found), np.zeros(X.shape[0])
    trees = model.model_.forest.trees
    for trained in trees:
        met, missed = met_below(trained, X, beam, allowed)
        expected |= met
        mass += missed / len(trees)
    # Nodes of nearly equal probability may be ranked otherwise in float32.
    same = (found == expected).all(axis=1)
    assert same.mean() >= 0.9
    # The most total uncertainty that such a mass can hide, spread over the allowed labels.
    share = np.minimum(0.5, mass / len(allowed))
    hidden = len(allowed) * (entr(share) + entr(1 - share))
    assert votes.missed is not None
    np.testing.assert_allclose(votes.missed[same], hidden[same], rtol=1e-3, atol=1e-5)
    # What they say is what they say with all labels.
    whole = searching(fitted[way], candidates="all").predict_votes(X)
    assert set(zip(*_entries(votes), strict=True)) <= set(zip(*_entries(whole), strict=True))


@FEW
@given(
    way=st.sampled_from(sorted(WAYS)),
    search=st.sampled_from(
        [
            {"beam": 1},
            {"beam": 1, "floor": 0.9},
            {"beam": 1, "missing": "bound"},
            {"beam": 2, "missing": "delta", "candidates": 1},
            {"beam": 1, "candidates": 3},
        ]
    ),
    seed=st.integers(0, 2**31),
    size=st.integers(1, LABELS),
    share=st.floats(0, 1),
)
def test_any_search_then_k_allowed_labels_come_back(
    way: str, search: Any, seed: int, size: int, share: float, fitted: Any, problem: Any
) -> None:
    model, X = searching(fitted[way], **search), problem[0][:30]
    allowed = some_labels(seed, size, model)
    known = model.source.known_of(model.source.subset(allowed))
    k = max(1, round(share * known))
    for found in (
        model.top(X, k, only=allowed),
        model.top(X, k, only=allowed, exact=True),
        model.predict_uncertain(X, k, only=allowed),
    ):
        assert found.labels.shape == (30, k)
        assert np.isin(found.labels, allowed).all()
        assert all(len(set(row)) == k for row in found.labels.tolist())
        assert (np.diff(found.probability, axis=1) <= 0).all()
    matrix = model.predict_proba(X, k, only=allowed)
    np.testing.assert_array_equal(np.diff(matrix.indptr), k)
    np.testing.assert_array_equal(
        matrix.max(axis=1).toarray(), model.top(X, k, only=allowed).probability[:, 0]
    )


@FEW
@given(seed=st.integers(0, 2**31), size=st.integers(1, LABELS), each=st.integers(1, 8))
def test_best_of_each_member_then_they_are_its_best_allowed_labels(
    seed: int, size: int, each: int, fitted: Any, problem: Any
) -> None:
    model, X = fitted["bagging"], problem[0][:30]
    allowed = some_labels(seed, size, model)
    whole = searching(model, candidates="all").predict_votes(X)
    wide: dict[str, Any] = {"beam": 10**6, "floor": 0.0}
    found = searching(model, candidates=each, missing="delta", **wide).predict_votes(X, only=allowed)
    said = np.stack([whole.member(member).toarray() for member in range(4)])
    for row in range(30):
        expected = np.zeros((4, LABELS))
        for member, trained in enumerate(model.model_.forest.trees):
            own = np.intersect1d(trained.tree.labels, allowed)
            best = own[np.lexsort((own, -said[member, row, own]))][:each]
            expected[member, best] = said[member, row, best]
        told = np.stack([found.member(member).toarray()[row] for member in range(4)])
        np.testing.assert_allclose(told, expected, rtol=1e-6)


@FEW
@given(
    way=st.sampled_from(sorted(WAYS)),
    beam=st.integers(1, 4),
    floor=st.sampled_from([0.0, 0.1]),
    missing=st.sampled_from(["exact", "delta", "bound"]),
    seed=st.integers(0, 2**31),
    size=st.integers(1, LABELS),
)
def test_certificates_hold_for_the_allowed_labels(
    way: str, beam: int, floor: float, missing: str, seed: int, size: int, fitted: Any, problem: Any
) -> None:
    model, X = searching(fitted[way], beam=beam, floor=floor, missing=missing), problem[0][:40]
    allowed = some_labels(seed, size, model)
    found = model.predict_votes(X, only=allowed)
    whole = searching(fitted[way], candidates="all").predict_votes(X, only=allowed)
    assert found.bound is not None
    off = np.abs(found.mean().toarray() - whole.mean().toarray()).max(axis=1)
    assert (off <= found.bound + 1e-6).all()
    if missing == "bound" or way == "mc-dropout":
        return  # votes that are not the members' own have no total to compare
    assert found.missed is not None
    totals = []
    for votes in (found, whole):
        mean = votes.mean().toarray().astype(np.float64)
        totals.append((entr(mean) + entr(1 - mean)).sum(axis=1))
    assert (np.abs(totals[0] - totals[1]) <= found.missed + 1e-4).all()


def test_one_leaf_then_nothing_is_missed_though_all_labels_together_are(fitted: Any, problem: Any) -> None:
    X = problem[0]
    model = searching(fitted["single"], beam=1)
    tree = model.tree_
    leaf = tree.labels[tree.begins[-1][0] : tree.begins[-1][1]].tolist()
    assert (model.predict_uncertain(X, 1).instance.bound > 0).mean() > 0.5
    found = model.predict_uncertain(X, len(leaf), only=leaf)
    assert (found.instance.bound == 0).all()
    assert (found.instance.missed == 0).all()


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.1])
def test_tolerance_then_no_allowed_label_above_it_is_missed(
    tolerance: float, fitted: Any, problem: Any
) -> None:
    X, allowed = problem[0], list(range(0, LABELS, 4))
    model = searching(fitted["bagging"], beam=1, floor=0.0)
    found = model.predict_votes(X, tolerance=tolerance, only=allowed)
    whole = searching(fitted["bagging"], candidates="all").predict_votes(X, only=allowed)
    assert (found.bound <= tolerance * (1 + 1e-4)).all()
    missed = whole.mean().toarray() - found.mean().toarray()
    assert missed.max() <= tolerance * (1 + 1e-4)


# --- the same bits ---


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("search", [{"beam": 3}, {"beam": 2, "floor": 0.1}, {"candidates": "all"}])
def test_threads_and_batches_then_the_same_bits(way: str, search: Any, fitted: Any, problem: Any) -> None:
    X, allowed = problem[0], list(range(0, LABELS, 3))
    ask: list[Callable[[HedgerowClassifier, csr_array], Any]] = [
        lambda model, rows: model.top(rows, 4, only=allowed),
        lambda model, rows: model.top(rows, 4, only=allowed, exact=True),
        lambda model, rows: model.predict_uncertain(rows, 4, only=allowed),
    ]
    model = searching(fitted[way], **search)
    for question in ask:
        whole = question(model, X)
        for threads, batch in ((3, 120), (1, 1), (4, 1), (2, 7)):
            model.set_params(n_jobs=threads)
            for begin in range(0, 40, batch):
                part = question(model, X[begin : begin + batch])
                rows = slice(begin, begin + len(part.labels))
                for name in set(vars(whole)) - {"instance"}:
                    np.testing.assert_array_equal(vars(part)[name], vars(whole)[name][rows])
        model.set_params(n_jobs=1)


@pytest.mark.parametrize("method", ["single", "bagging"])
def test_one_long_input_then_threads_that_share_its_trees_find_the_same(method: str) -> None:
    X, Y = random_problem(1, 150, 1500, 300, density=0.6)
    model = HedgerowClassifier(
        method=method, members=4, random_state=0, branching=4, leaf_size=6, n_jobs=1, weight_threshold=0.0
    ).fit(X, Y)
    allowed = some_labels(0, 90, model)
    for row in range(8):
        one = X[[row]]
        model.set_params(n_jobs=1)
        best, votes = model.top(one, 20, only=allowed), model.predict_votes(one, only=allowed)
        model.set_params(n_jobs=4)
        again = model.top(one, 20, only=allowed)
        np.testing.assert_array_equal(again.labels, best.labels)
        np.testing.assert_array_equal(again.probability, best.probability)
        assert_same_votes(model.predict_votes(one, only=allowed), votes)


def test_different_subsets_at_the_same_time_then_each_gets_its_own(fitted: Any, problem: Any) -> None:
    X, model = problem[0], searching(fitted["bagging"], beam=2, n_jobs=2)
    subsets = [some_labels(seed, 1 + 5 * seed, model) for seed in range(16)]

    def ask(allowed: list[int]) -> bytes:
        found = model.predict_votes(X, only=allowed)
        return found.labels.tobytes() + found.probs.tobytes()

    expected = [ask(allowed) for allowed in subsets]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, subsets * 3)) == expected * 3


def test_without_a_subset_then_nothing_changes_after_one_was_used(fitted: Any, problem: Any) -> None:
    X, model = problem[0], fitted["bagging"]
    before = model.predict_votes(X[:1])
    model.predict_votes(X[:1], only=[3, 4])
    assert_same_votes(model.predict_votes(X[:1]), before)
    whole = model.predict_votes(X)
    assert_same_votes(model.predict_votes(X, exclude=[]), whole)
    assert_same_votes(model.predict_votes(X, only=range(LABELS)), whole)


@pytest.mark.parametrize("way", ["single", "bagging", "mc-dropout"])
def test_ood_signals_do_not_depend_on_the_subset(way: str, fitted: Any, problem: Any) -> None:
    source = fitted[way].source
    for rows in (problem[0], problem[0][:1]):
        plain = source.answer(rows, signals=True).signals
        few = source.answer(rows, signals=True, subset=source.subset([7, 30])).signals
        for name, values in vars(plain).items():
            np.testing.assert_array_equal(values, vars(few)[name])


# --- who is allowed ---


@FEW
@given(
    only=st.none() | st.lists(st.integers(0, LABELS - 1), min_size=1),
    exclude=st.none() | st.lists(st.integers(0, LABELS - 1)),
)
def test_only_and_exclude_then_only_minus_exclude(
    only: list[int] | None, exclude: list[int] | None, fitted: Any
) -> None:
    source = fitted["single"].source
    left = set(range(LABELS) if only is None else only) - set(exclude or [])
    if only is None and exclude is None:
        assert source.subset(only, exclude) is None
    elif not left & set(source.forest.tree.labels.tolist()):
        with pytest.raises(ValueError, match="allow"):
            source.subset(only, exclude)
    else:
        subset = source.subset(only, exclude)
        assert subset.columns.tolist() == sorted(left)
        assert not subset.columns.flags.writeable


def test_names_and_other_kinds_of_lists_then_the_same_answer(problem: Any) -> None:
    X, Y = problem
    names = [f"label {number}" for number in range(LABELS)]
    model = HedgerowClassifier(random_state=0).fit(X, Y, classes=names)
    plain = HedgerowClassifier(random_state=0).fit(X, Y)
    expected = plain.top(X, 2, only=[3, 5, 8]).labels
    assert model.top(X, 2, only=["label 8", "label 3", "label 5", "label 3"]).labels.tolist() == [
        [names[label] for label in row] for row in expected.tolist()
    ]
    for only in (np.array([3, 5, 8]), {3, 5, 8}, iter([8, 5, 3]), range(3, 9)):
        exclude = [4, 6, 7] if isinstance(only, range) else None
        np.testing.assert_array_equal(plain.top(X, 2, only=only, exclude=exclude).labels, expected)


@pytest.mark.parametrize(
    ("only", "exclude", "error", "words"),
    [
        ([3, 1000], None, ValueError, ["only", "does not know: 1000", "spelling"]),
        (None, [-1], ValueError, ["exclude", "does not know: -1"]),
        ([1000, 1001, 1002, 1003, 1004], None, ValueError, ["1000, 1001, 1002 and 2 more"]),
        ([], None, ValueError, ["only is empty", "at least one label"]),
        ([3], [3], ValueError, ["exclude leaves no label"]),
        (None, range(LABELS), ValueError, ["exclude leaves no label"]),
        ("3", None, TypeError, ["only is '3'", "list of labels"]),
        (3, None, TypeError, ["only is 3", "list of labels"]),
        (["3"], None, TypeError, ["only[0] is '3'", "integers"]),
        ([True], None, TypeError, ["only[0] is True"]),
        ([3.0], None, TypeError, ["only[0] is 3.0"]),
        (None, [[3]], TypeError, ["exclude[0] is [3]"]),
        (np.array(3), None, TypeError, ["only is array(3)"]),
        ({3: 4}, None, TypeError, ["only is {3: 4}"]),
    ],
)
def test_bad_labels_then_an_error_says_what_is_wrong(
    only: Any, exclude: Any, error: type[Exception], words: list[str], fitted: Any, problem: Any
) -> None:
    model, X = fitted["bagging"], problem[0]
    for method in (model.top, model.predict_uncertain, model.predict_votes, model.predict_proba):
        with pytest.raises(error) as caught:
            method(X, only=only, exclude=exclude)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_k_beyond_the_subset_then_an_error_says_how_many_there_are(fitted: Any, problem: Any) -> None:
    model, X = fitted["single"], problem[0]
    allowed = model.tree_.labels[:3].tolist()
    for method in (model.top, model.predict_uncertain):
        with pytest.raises(ValueError, match=r"k is 4, but only and exclude leave 3 labels .* ask for 3 or"):
            method(X, 4, only=allowed)
    assert np.diff(model.predict_proba(X, 4, only=allowed).indptr).tolist() == [3] * X.shape[0]


def test_labels_that_nobody_learned_then_they_cannot_be_all_that_is_allowed() -> None:
    X, Y = random_problem(0, 40, 10, 6)
    wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(40, 8))  # the last two are on no input
    model = HedgerowClassifier(random_state=0).fit(X, wide)
    with pytest.raises(ValueError, match="none of the 2 allowed labels is on an input"):
        model.top(X, 1, only=[6, 7])
    assert (model.top(X, 1, only=[5, 6, 7]).labels == 5).all()
    with pytest.raises(ValueError, match="leave 1 labels"):
        model.top(X, 2, only=[5, 6, 7])


def test_engine_refuses_a_subset_of_another_model(fitted: Any, problem: Any) -> None:
    rows = as_rows(problem[0])
    one, other = (fitted[way].model_.forest for way in ("single", "bagging"))
    native = [forest._forest.subset(np.array([3], dtype=np.int32)) for forest in (one, other)]
    with pytest.raises(ValueError, match="another tree"):
        one.trees[0].native.top(rows, 1, 5, True, False, 1, None, native[1])
    with pytest.raises(ValueError, match="fewer than k"):
        one.trees[0].native.top(rows, 2, 5, True, False, 1, None, native[0])
    with pytest.raises(ValueError, match="another forest"):
        other._forest.votes(rows, 1, 5, 0, "exact", np.inf, 0.0, True, 1, None, [], native[0])
    with pytest.raises(ValueError, match="not a label"):
        one._forest.subset(np.array([LABELS], dtype=np.int32))


def test_pickled_model_then_it_answers_the_same_and_carries_no_index(fitted: Any, problem: Any) -> None:
    model, X = fitted["bagging"], problem[0]
    expected = model.top(X, 2, only=[3, 5, 8])
    assert "column" in vars(model.model_)
    again = pickle.loads(pickle.dumps(model))
    assert "column" not in vars(again.model_)
    np.testing.assert_array_equal(again.top(X, 2, only=[3, 5, 8]).probability, expected.probability)


# --- decisions ---

OWN, NOISE = 12, 4  # labels that features show, and labels that nothing shows


def noisy(rows: int, seed: int) -> tuple[csr_array, Ints]:
    draw = np.random.default_rng(seed)
    Y = draw.random((rows, OWN + NOISE)) < np.repeat([0.2, 0.02], [OWN, NOISE])
    Y[np.flatnonzero(~Y.any(axis=1)), 0] = True
    shown = np.repeat(Y[:, :OWN], 5, axis=1) & (draw.random((rows, 5 * OWN)) < 0.7)
    X = shown | (draw.random(shown.shape) < 0.03)
    return csr_array(X.astype(np.float32)), Y.astype(np.int64)


@pytest.fixture(scope="module")
def deciding() -> HedgerowClassifier:
    model = HedgerowClassifier(
        method="bagging", members=4, leaf_size=4, random_state=0, n_jobs=1, candidates="all"
    )
    return model.fit(*noisy(800, 0)).learn_policy(*noisy(2000, 1)).learn_ood(noisy(300, 4)[0])


def decided(model: HedgerowClassifier, X: csr_array, **how: Any) -> npt.NDArray[np.int8]:
    """The decision on every label; what is not listed is rejected."""
    found = model.decide(X, k=0, **how)
    codes = np.full((X.shape[0], len(model.classes_)), REJECT, dtype=np.int8)
    codes[np.repeat(np.arange(len(found)), np.diff(found.indptr)), found.columns] = found.decision
    return codes


def mean_share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> float:
    """The mean over inputs of the share, 0 where there is nothing."""
    return float((part.sum(axis=1) / np.maximum(1, whole.sum(axis=1))).mean())


@pytest.mark.parametrize(
    "how", [{"missed_at_most": 0.1}, {"missed_at_most": 0.2, "groups": True}, {"size": 2.0}]
)
@pytest.mark.parametrize("seed", range(4))
def test_decisions_on_a_subset_are_those_on_all_labels_where_all_are_searched(
    how: dict[str, Any], seed: int, deciding: HedgerowClassifier
) -> None:
    X, _ = noisy(300, 2)
    allowed = np.sort(np.random.default_rng(seed).choice(OWN + NOISE, 3 + 3 * seed, replace=False))
    among_all, alone = decided(deciding, X, **how), decided(deciding, X, only=allowed, **how)
    np.testing.assert_array_equal(alone[:, allowed], among_all[:, allowed])
    others = np.setdiff1d(np.arange(OWN + NOISE), allowed)
    assert (alone[:, others] == REJECT).all()


def test_guarantee_is_kept_of_all_true_labels_and_not_of_the_allowed_ones(
    deciding: HedgerowClassifier,
) -> None:
    X, Y = noisy(4000, 3)
    risk, hidden = 0.2, np.arange(OWN, OWN + NOISE)
    everything = decided(deciding, X, wrong_at_most=risk, wrong_of="inputs", missed_at_most=risk)
    noise = 0.02  # of a mean over 4,000 inputs
    assert mean_share((everything == REJECT) & (Y == 1), Y) <= risk + noise
    alone = decided(deciding, X, wrong_at_most=risk, wrong_of="inputs", missed_at_most=risk, only=hidden)
    rejected = (alone[:, hidden] == REJECT) & (Y[:, hidden] == 1)
    # Of all true labels of an input: at most the risk.
    assert mean_share(rejected, Y) <= risk + noise
    # Of its allowed true labels: nearly all.
    having = Y[:, hidden].any(axis=1)
    assert mean_share(rejected[having], Y[having][:, hidden]) > 0.9
    # And of what is accepted of a label that is not true, all is wrong.
    wrong = (everything == ACCEPT) & (Y == 0)
    assert mean_share(wrong, everything == ACCEPT) <= risk + noise
    worst = int(np.argmax(wrong.sum(axis=0) / np.maximum(1, (everything == ACCEPT).sum(axis=0))))
    few = decided(deciding, X, wrong_at_most=risk, wrong_of="inputs", missed_at_most=risk, only=[worst])
    accepted = few[:, worst] == ACCEPT
    of_all = (wrong.sum() / (everything == ACCEPT).sum()).item()
    assert accepted.any()
    assert (Y[accepted, worst] == 0).mean() > of_all


def test_decisions_on_a_subset_say_what_is_guaranteed(deciding: HedgerowClassifier) -> None:
    X, _ = noisy(20, 2)
    found = deciding.decide(X, wrong_at_most=0.2, missed_at_most=0.2, only=[1, 2, 3])
    plain = deciding.decide(X, wrong_at_most=0.2, missed_at_most=0.2)
    assert found.guarantee.startswith(plain.guarantee)
    assert "Only 3 labels were allowed" in found.guarantee
    assert "of the allowed labels alone, a larger share can be missed or wrong" in found.guarantee
    assert "Only" not in plain.guarantee
    with pytest.raises(ValueError, match=r"inputs_by is 'total'.*over all labels"):
        deciding.decide(
            X, wrong_at_most=0.2, missed_at_most=0.2, inputs_by="total", inputs_coverage=0.5, only=[1]
        )


def test_withheld_by_ood_score_then_the_subset_changes_nothing(deciding: HedgerowClassifier) -> None:
    X, _ = noisy(300, 2)
    model = deciding.learn_policy(*noisy(2000, 1))
    how: dict[str, Any] = {
        "wrong_at_most": 0.2,
        "missed_at_most": 0.2,
        "inputs_by": "ood",
        "inputs_coverage": 0.5,
    }
    np.testing.assert_array_equal(
        model.decide(X, only=[1, 2], **how).answered, model.decide(X, **how).answered
    )


# --- command line ---


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "new.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in load_sample().test_texts[:12]))
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_predict_with_only_then_lines_have_the_labels_of_the_library(
    text_model: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = hedgerow.load(text_model)
    names = model.classes_.tolist()
    (tmp_path / "wanted.txt").write_bytes(("\ufeff" + "\r\n".join(names[2:9]) + "\n\n").encode())
    command = ["predict", str(text_model), str(texts), "--k", "4"]
    assert (
        main([*command, "--only", f"@{tmp_path}/wanted.txt", "--only", names[0], "--exclude", names[3]]) == 0
    )
    expected = model.top(
        load_sample().test_texts[:12], 4, only=[names[0], *names[2:9]], exclude=[names[3]]
    ).labels.tolist()
    assert [[label["label"] for label in line["labels"]] for line in printed(capsys)] == expected
    # Fewer than the default k.
    assert main([*command[:3], "--only", names[0], "--uncertainty"]) == 0
    lines = printed(capsys)
    assert [[label["label"] for label in line["labels"]] for line in lines] == [[names[0]]] * 12
    sums = model.predict_uncertain(load_sample().test_texts[:12], 1, only=names[:1]).instance.total
    np.testing.assert_allclose([line["input"]["total"] for line in lines], sums, rtol=1e-6)


def test_decide_and_explain_with_only_then_no_other_label_shows(
    deciding_model: Path, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = hedgerow.load(deciding_model).classes_.tolist()[:5]
    only = [part for name in names for part in ("--only", name)]
    assert main(["decide", str(deciding_model), str(texts), "--json", *only]) == 0
    shown = {label["label"] for line in printed(capsys) for label in line["labels"]}
    assert shown
    assert shown <= set(names)
    assert main(["decide", str(deciding_model), str(texts), *only]) == 0
    assert "of the allowed labels alone" in " ".join(capsys.readouterr().out.split())
    text = load_sample().test_texts[0]
    assert main(["explain", str(deciding_model), text, "--json", *only]) == 0
    best = hedgerow.load(deciding_model).top([text], 1, only=names).labels[0, 0]
    assert printed(capsys)[0]["label"] == best


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--only", "no such label"], ExitCode.USAGE, "--only has labels that the model does not know"),
        (["--only", "@missing.txt"], ExitCode.DATA, "missing.txt: No such file"),
        (["--only", "@empty.txt"], ExitCode.DATA, "has no labels"),
        (["--only", "@broken.txt"], ExitCode.DATA, "is not UTF-8"),
        (["--exclude", "@all.txt"], ExitCode.USAGE, "--exclude leaves no label"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "decide"])
def test_bad_labels_on_the_command_line_then_one_line_says_so(
    command: str,
    options: list[str],
    code: ExitCode,
    words: str,
    text_model: Path,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n")
    Path("broken.txt").write_bytes(b"caf\xe9\n")
    Path("all.txt").write_text("\n".join(hedgerow.load(text_model).classes_.tolist()))
    assert main([command, str(text_model), str(texts), *options, "--out", "out.jsonl"]) == code
    shown = capsys.readouterr()
    assert words in " ".join(shown.err.split())
    assert shown.out == ""
    assert not Path("out.jsonl").exists()


def test_labels_that_are_numbers_then_the_command_line_takes_numbers(
    feature_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.txt").write_text("2 40 15\n3 1:0.5 7:1\n4 2:1 8:1\n")
    command = ["predict", str(feature_model), str(tmp_path / "x.txt"), "--k", "2"]
    assert main([*command, "--only", "3", "--only", "11", "--only", "7"]) == 0
    labels = {label["label"] for line in printed(capsys) for label in line["labels"]}
    assert labels <= {3, 7, 11}
    assert main([*command, "--only", "three"]) == ExitCode.USAGE
    assert "labels of this model are numbers" in capsys.readouterr().err


# --- server ---


def test_server_with_only_then_it_answers_as_the_library(open_client: Open, deciding_model: Path) -> None:
    client, model = open_client(deciding_model), hedgerow.load(deciding_model)
    texts, names = load_sample().test_texts[:6], model.classes_.tolist()
    asked = {"texts": texts, "k": 4, "only": names[1:12], "exclude": names[3:5]}
    left = [*names[1:3], *names[5:12]]
    results = client.post("/predict", json=asked).json()["results"]
    expected = model.predict_uncertain(texts, 4, only=left)
    assert [[label["label"] for label in result["labels"]] for result in results] == expected.labels.tolist()
    for name in ("expected", "total"):
        np.testing.assert_allclose(
            [result["input"][name] for result in results], vars(expected.instance)[name], rtol=1e-5
        )
    plain = client.post("/predict", json={"texts": texts, "k": 4}).json()["results"]
    assert [result["ood"] for result in results] == [result["ood"] for result in plain]
    # More than there are, and decisions.
    results = client.post("/predict", json={**asked, "k": 50, "decide": {"missed_at_most": 0.2}}).json()[
        "results"
    ]
    decisions = model.decide(texts, missed_at_most=0.2, only=left)
    for result, found in zip(results, decisions, strict=True):
        assert {label["label"] for label in result["labels"]} == set(left)
        for name in ("accept", "review"):
            own = {label["label"] for label in result["labels"] if label["decision"] == name}
            assert own == set(getattr(found, name))


@pytest.mark.parametrize(
    ("asked", "code", "where", "words"),
    [
        ({"only": ["no such label"]}, "labels", "only", "does not know"),
        ({"exclude": ["no such label"]}, "labels", "exclude", "does not know"),
        ({"only": []}, "invalid", "only", ""),
        ({"only": [1]}, "labels", "only", "strings"),
        ({"only": "role::program"}, "invalid", "only", ""),
        ({"exclude": [f"label {number}" for number in range(6)]}, "too_many", "exclude", "at most 5"),
    ],
)
def test_server_with_bad_labels_then_it_refuses(
    asked: dict[str, Any], code: str, where: str, words: str, open_client: Open
) -> None:
    client = open_client(limits=Limits(subset=5))
    answer = client.post("/predict", json={"text": "a text", **asked})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["where"]) == (code, where)
    assert words in error["message"]
    described = client.get("/openapi.json").json()["components"]["schemas"]["TextRequest"]["properties"]
    assert described["only"]["anyOf"][0]["maxItems"] == 5


def test_equal_sets_of_labels_then_requests_can_share_a_batch(text_model: Path) -> None:
    model = hedgerow.load(text_model)
    served = ServedModel(model.source, "id")
    names = model.classes_.tolist()
    one, other = (
        served.subset(AllowedLabels.of(only=only)) for only in (names[:5], [*names[4::-1], names[0]])
    )
    third = served.subset(AllowedLabels.of(only=names[:5], exclude=names[:1]))
    assert Wanted(subset=one) == Wanted(subset=other)
    assert Wanted(subset=one) != Wanted(subset=third)
    assert Wanted(subset=one) != Wanted()
    assert served.subset(AllowedLabels.of(only=None, exclude=None)) is None


def test_a_few_labels_then_the_floor_leaves_none_of_them_out(fitted: Any, problem: Any) -> None:
    model = searching(fitted["bagging"], floor=0.99)
    allowed = some_labels(1, SURE_LABELS, model)
    known = model.source.known_of(model.source.subset(allowed))
    votes = model.predict_votes(problem[0], only=allowed)
    np.testing.assert_array_equal(np.diff(votes.indptr), known)
