"""What the scorers of a judge say of candidates, however it is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from hedgerow import HedgerowClassifier
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import JudgedSearch, SearchSettings
from hedgerow.judge.judging import HEADROOM
from hedgerow.judge.scorers import Scorers
from hedgerow.storage.container import ModelFileError
from hedgerow.training import centroids as training_centroids
from hedgerow.training.centroids import label_centroids
from hedgerow.training.data import TrainingData
from hedgerow.trees.forest import UNASKED_SCORE, UNASKED_SHARE, Ensemble

LABELS, WORDS, ROWS = 300, 3000, 1500


@pytest.fixture(scope="module")
def problem() -> tuple[sp.csr_array, sp.csr_array]:
    """Inputs with words of their labels, and a word that all inputs of two thirds of the labels have."""
    draw = np.random.default_rng(0)
    own = draw.integers(1, WORDS, (LABELS, 6))
    X, Y = np.zeros((ROWS, WORDS), dtype=np.float32), np.zeros((ROWS, LABELS), dtype=np.float32)
    for row in range(ROWS):
        for label in draw.choice(LABELS, 2, replace=False):
            Y[row, label] = 1
            X[row, draw.choice(own[label], 3)] += 1
            X[row, 0] += label % 3 > 0
        X[row, draw.integers(1, WORDS, 4)] += 1
    return sp.csr_array(X), sp.csr_array(Y)


@pytest.fixture(scope="module")
def single(problem: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    return HedgerowClassifier(leaf_size=20, judge=True, random_state=0).fit(*problem)


@pytest.fixture(scope="module")
def bagged(problem: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    settings = {"method": "bagging", "members": 3, "leaf_size": 20, "random_state": 0}
    return HedgerowClassifier(**settings, judge=True, wide=50).fit(*problem)


def all_labels(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(rows + 1, dtype=np.int64) * LABELS, np.tile(np.arange(LABELS, dtype=np.int32), rows)


@pytest.mark.parametrize("group", [LABELS, 150])
@pytest.mark.parametrize("width", [WORDS, 100])
def test_centroids_in_lists_score_as_a_search_through_their_chunks_does_to_the_last_bit(
    problem: tuple[sp.csr_array, sp.csr_array],
    single: HedgerowClassifier,
    group: int,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_centroids, "_GROUP", group)
    X, Y = problem
    X = sp.csr_array(X[:, :width])  # with few words, most labels use each and no list is made
    data = TrainingData(as_rows(X), as_rows(Y), Y, X.shape[1], None)
    centroids = label_centroids(data, single.source.forest.tree, True, 2)
    assert len(centroids.tree.begins) == (1 if group == LABELS else 2)
    forest = Ensemble([centroids], LABELS)
    rows = as_rows(X[:60])
    searched = forest.votes(rows, 1, SearchSettings(candidates="all"), 2)
    scored = forest.score(rows, searched.indptr, searched.labels, 2)
    np.testing.assert_array_equal(scored.probs, searched.probs)
    np.testing.assert_array_equal(scored.own, searched.probs)


@pytest.mark.parametrize("beam", [1, 50])
@pytest.mark.parametrize("candidates", ["scored", 40])
def test_a_search_says_what_classifiers_of_labels_say_as_scoring_them_apart_does(
    problem: tuple[sp.csr_array, sp.csr_array], single: HedgerowClassifier, beam: int, candidates: str | int
) -> None:
    source = single.source
    assert source.scorers is not None
    assert isinstance(source.finding, JudgedSearch)
    plain = SearchSettings(beam, candidates)
    search = JudgedSearch(beam, candidates, headroom=HEADROOM)
    for rows, threads in ((as_rows(problem[0][:70]), 2), (as_rows(problem[0][:1]), 1)):
        found, wanted = (source.forest.votes(rows, 5, how, threads) for how in (search, plain))
        np.testing.assert_array_equal(found.labels, wanted.labels)
        np.testing.assert_array_equal(found.probs, wanted.probs)
        assert wanted.classifiers is None
        apart = source.scorers.score(rows, found.indptr, found.labels, threads)
        by_the_way = source.scorers.score(rows, found.indptr, found.labels, threads, found.classifiers)
        np.testing.assert_array_equal(by_the_way, apart)


def test_a_search_in_several_trees_cannot_say_what_classifiers_say(
    problem: tuple[sp.csr_array, sp.csr_array], bagged: HedgerowClassifier
) -> None:
    assert not isinstance(bagged.source.finding, JudgedSearch)
    with pytest.raises(ValueError, match="single member"):
        bagged.source.forest.votes(as_rows(problem[0][:2]), 5, JudgedSearch(headroom=HEADROOM), 1)


def test_labels_below_improbable_nodes_are_not_asked_about(
    problem: tuple[sp.csr_array, sp.csr_array], bagged: HedgerowClassifier
) -> None:
    scorers = bagged.source.scorers
    assert scorers is not None
    assert scorers.floor > 0
    floor = 0.01
    everywhere, above = (
        Scorers(scorers.classifier, scorers.centroids, LABELS, floor=of) for of in (0.0, floor)
    )
    indptr, labels = all_labels(40)
    rows = as_rows(problem[0][:40])
    asked, found = (of.score(rows, indptr, labels, 2).astype(np.float64) for of in (everywhere, above))
    with np.errstate(invalid="ignore", divide="ignore"):
        way = asked[:, 0] / asked[:, 1]
    clear = asked[:, 1] > 1e-25  # else the way cannot be told from the quotient
    low, high = clear & (way < 0.99 * floor), clear & (way > 1.01 * floor)
    assert low.sum() > 1000
    assert high.sum() > 1000
    np.testing.assert_array_equal(found[high], asked[high])
    no = np.exp(-((1 - (UNASKED_SCORE - HEADROOM)) ** 3))
    np.testing.assert_allclose(found[low, 1], no, rtol=1e-5)
    np.testing.assert_allclose(found[low, 0], UNASKED_SHARE * floor * no, rtol=1e-5)
    np.testing.assert_array_equal(found[:, 2], asked[:, 2])


def test_a_floor_does_not_depend_on_batch_or_threads(
    problem: tuple[sp.csr_array, sp.csr_array], bagged: HedgerowClassifier
) -> None:
    scorers = bagged.source.scorers
    assert scorers is not None
    above = Scorers(scorers.classifier, scorers.centroids, LABELS, floor=0.01)
    indptr, labels = all_labels(30)
    together = above.score(as_rows(problem[0][:30]), indptr, labels, 2)
    for row in range(30):
        alone = above.score(as_rows(problem[0][[row]]), indptr[:2], labels[:LABELS], 1)
        np.testing.assert_array_equal(alone, together[row * LABELS : (row + 1) * LABELS])


def test_a_file_keeps_the_floor_of_its_judge_and_one_without_asks_about_all(
    bagged: HedgerowClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bagged.save(tmp_path / "new.hedgerow")
    loaded = HedgerowClassifier.load(tmp_path / "new.hedgerow").source.scorers
    assert loaded is not None
    assert loaded.floor == bagged.source.scorers.floor
    own = Scorers.to_header
    monkeypatch.setattr(Scorers, "to_header", lambda of: {"trees": own(of)["trees"]})
    bagged.save(tmp_path / "old.hedgerow")
    loaded = HedgerowClassifier.load(tmp_path / "old.hedgerow").source.scorers
    assert loaded is not None
    assert loaded.floor == 0


@pytest.mark.parametrize("floor", [1.0, -0.1, 1, "0.1", None])
def test_a_file_with_a_broken_floor_is_refused(
    bagged: HedgerowClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: object
) -> None:
    own = Scorers.to_header
    monkeypatch.setattr(Scorers, "to_header", lambda of: own(of) | {"floor": floor})
    bagged.save(tmp_path / "broken.hedgerow")
    with pytest.raises(ModelFileError, match="floor"):
        HedgerowClassifier.load(tmp_path / "broken.hedgerow")
