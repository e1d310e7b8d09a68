"""The benchmark of the frontier: what it computes from answers, keeps, averages and shows."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("bench.frontier")
datasets, frontier, frontier_plan, measure, ranked = (
    importlib.import_module(f"bench.{name}")
    for name in ("datasets", "frontier", "frontier_plan", "measure", "ranked")
)
PEER = frontier_plan.FEW[0]
OURS = frontier_plan.HEDGEROW[0]


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(frontier_plan, "RAW", tmp_path)
    return tmp_path


def result(cpu: float, first: float, **more: Any) -> dict[str, Any]:
    figures = {key: 50.0 for _, key, _, _ in frontier.COLUMNS}
    shape = {"rows": 1000, "labels": 200, "load_before": 0.5}
    return {"settings": OURS.parameters, **shape, **figures, "fit_cpu_seconds": cpu, "p@1": first, **more}


def described() -> dict[str, Any]:
    machine = {"cpu": "a processor", "cores": 2, "memory_bytes": 2**34, "os": "a system", "simd": "v3"}
    return machine | {"date": "2026-01-01", "environments": {"peers": {"libpecos": "1.2.8"}}}


def answers(probability: np.ndarray, Y: np.ndarray) -> Any:
    """What a system that scores every label would write."""
    best = np.argsort(-probability, axis=1)[:, : ranked.BEST]
    scored = ranked.from_matrix(sp.csr_matrix(probability))
    return ranked.Ranked(best, np.arange(len(Y)), scored)


def test_f1_when_some_inputs_have_no_labels_or_few_answers_then_is_that_of_sets() -> None:
    random = np.random.default_rng(0)
    Y = random.random((40, 12)) < 0.2
    Y[:3] = False
    best = np.argsort(random.random((40, 12)), axis=1)[:, :6]
    best[::7, 2:] = -1
    expected = []
    for chosen, truth in zip(best[:, :5], Y, strict=True):
        given, true = set(chosen[chosen >= 0].tolist()), set(np.flatnonzero(truth).tolist())
        if true:
            precision, recall = len(given & true) / len(given), len(given & true) / len(true)
            expected.append(2 * precision * recall / (precision + recall) if given & true else 0.0)
    assert frontier.f1_at(best, sp.csr_matrix(Y.astype(float)), 5) == pytest.approx(np.mean(expected))


def test_auroc_when_every_label_is_scored_then_is_that_of_the_entropy_over_all_labels() -> None:
    random = np.random.default_rng(0)
    rows = ranked.BLOCK + 13  # more than one block
    probability = random.uniform(0.01, 0.99, (rows, 30)).astype(np.float32)
    Y = random.random((rows, 30)) < 0.15
    areas = []
    for chance, truth in zip(probability.astype(float), Y, strict=True):
        predicted = np.zeros(30, dtype=bool)
        predicted[np.argsort(-chance)[: truth.sum()]] = True
        entropy = -chance * np.log(chance) - (1 - chance) * np.log(1 - chance)
        wrong = predicted != truth
        if wrong.any() and not wrong.all():
            areas.append(roc_auc_score(wrong, entropy))
    found = frontier.aurocs(answers(probability, Y), sp.csr_matrix(Y.astype(float)))
    assert found["total"] == pytest.approx(np.mean(areas), abs=1e-6)


def test_auroc_when_only_some_inputs_are_sampled_then_compares_these_with_their_truth() -> None:
    random = np.random.default_rng(0)
    probability = random.uniform(0.01, 0.99, (20, 10))
    Y = sp.csr_matrix((random.random((20, 10)) < 0.3).astype(float))
    rows = np.array([3, 8, 19])
    sampled = ranked.Ranked(
        np.zeros((20, 1), dtype=int), rows, ranked.from_matrix(sp.csr_matrix(probability[rows]))
    )
    alone = answers(probability[rows], Y[rows].toarray())
    assert frontier.aurocs(sampled, Y)["total"] == frontier.aurocs(alone, Y[rows])["total"]


def test_accuracy_when_a_true_label_is_unknown_to_the_model_then_it_counts_as_missed() -> None:
    Y = sp.csr_matrix(np.array([[1.0, 0.0, 0.0, 1.0]]))  # nobody can propose label 3
    scored = ranked.from_matrix(sp.csr_matrix(np.array([[0.9, 0.2, 0.1]])))
    found = frontier.accuracy(ranked.Ranked(np.array([[0, 1, 2]]), np.array([0]), scored), Y)
    assert found["p@1"] == 100
    assert found["p@5"] == pytest.approx(100 / 5)
    assert found["f1@5"] == pytest.approx(100 * 2 / (3 + 2))
    assert found["ndcg@20"] == pytest.approx(100 / (1 + 1 / np.log2(3)))


def test_answers_when_written_then_are_read_as_they_were(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    class Guess:
        def predict(self, model: np.ndarray, X: sp.csr_matrix) -> np.ndarray:
            return (X @ model).toarray() if sp.issparse(X @ model) else X @ model

        def labels(self, predicted: np.ndarray) -> np.ndarray:
            return np.argsort(-predicted, axis=1)

        def scored(self, model: np.ndarray, X: sp.csr_matrix) -> Any:
            return ranked.from_matrix(sp.csr_matrix(self.predict(model, X)))

    rows = ranked.SAMPLE + 500
    X = sp.csr_matrix(random.random((rows, 5)))
    model = random.random((5, 30)) / 10
    ranked.save(tmp_path / "answers.npz", ranked.rank(Guess(), model, X))
    found = ranked.load(tmp_path / "answers.npz")
    dense = X.toarray() @ model
    assert np.array_equal(found.best, np.argsort(-dense, axis=1)[:, : ranked.BEST])
    assert (len(found.rows), found.rows[0], found.rows[-1]) == (ranked.SAMPLE, 0, rows - 1)
    assert np.array_equal(found.scored.indptr, np.arange(ranked.SAMPLE + 1) * 30)
    assert found.scored.probs.reshape(-1, 30) == pytest.approx(dense[found.rows], abs=1e-6)


def test_mean_and_deviation_over_seeds() -> None:
    several = frontier.Figure.of([1.0, 2.0, 6.0])
    assert (several.mean, several.deviation) == (3.0, pytest.approx(np.sqrt(7)))
    assert several.text(10.0, ".1f") == "30.0 ± 26.5"
    one = frontier.Figure.of([2.0])
    assert one.deviation is None
    assert one.text(1.0, ".2f") == "2.00"


def test_runs_give_everyone_the_first_seed_before_anyone_the_second() -> None:
    planned = frontier_plan.runs(["eurlex-4k", "tibkat-en"], "few", 2)
    assert [(run.dataset, run.seed) for run in planned] == sorted((run.dataset, run.seed) for run in planned)
    svc = {run.dataset for run in planned if run.contender.name == "LinearSVC"}
    assert svc == {"eurlex-4k"}  # the other has too many labels
    assert len({run.stored for run in planned}) == len(planned)
    with_all = {run.contender.name for run in frontier_plan.runs(["tibkat-en"], "all", 1)}
    assert with_all - {run.contender.name for run in planned} == {"PECOS tfn+man"}


def test_stored_run_when_its_setting_has_changed_then_is_measured_again(raw: Path) -> None:
    run = frontier_plan.Run("eurlex-4k", OURS, 0)
    assert run.result() is None
    run.keep(result(1.0, 80.0, settings=OURS.parameters))
    assert run.result() is not None
    run.keep(result(1.0, 80.0, settings={"members": 3}))
    assert run.result() is None
    peer = frontier_plan.Run("eurlex-4k", PEER, 0)  # the settings of a peer are those of its program
    peer.keep(result(1.0, 80.0, settings={"anything": 1}))
    assert peer.result() is not None


def test_seeds_when_read_back_then_are_in_order_and_of_this_contender_only(raw: Path) -> None:
    for seed in (10, 2, 0):
        frontier_plan.Run("eurlex-4k", OURS, seed).keep(result(1.0, float(seed)))
    frontier_plan.Run("eurlex-4k", frontier_plan.HEDGEROW[1], 3).keep(result(1.0, 99.0))
    frontier_plan.Run("tibkat-en", OURS, 4).keep(result(1.0, 98.0))
    assert [each["p@1"] for each in frontier_plan.stored_seeds("eurlex-4k", OURS)] == [0.0, 2.0, 10.0]


def test_summary_when_a_seed_died_then_averages_those_that_lived_and_says_so(raw: Path) -> None:
    dead = {
        "settings": OURS.parameters,
        "rows": 1000,
        "labels": 200,
        "load_before": 3.0,
        "died": "fit: no end after 5 s",
    }
    frontier_plan.Run("eurlex-4k", OURS, 0).keep(result(4.0, 80.0))
    frontier_plan.Run("eurlex-4k", OURS, 1).keep(result(6.0, 82.0))
    frontier_plan.Run("eurlex-4k", OURS, 2).keep(dead)
    frontier_plan.Run("eurlex-4k", PEER, 0).keep(result(2.0, 81.0))
    frontier_plan.Run("eurlex-4k", frontier_plan.FEW[1], 0).keep(dead)
    collected = frontier.collect(described())
    peer, ours, nobody = frontier.summarise(collected)["eurlex-4k"]  # by cost; the dead come last
    assert (ours.name, ours.seeds, ours.died) == ("Hedgerow paper", 2, "fit: no end after 5 s")
    assert ours.figures["fit_cpu_seconds"].mean == 5.0
    assert (peer.name, peer.seeds) == ("PECOS", 1)
    assert (nobody.name, nobody.seeds, nobody.figures) == ("omikuji Bonsai", 0, {})
    rows = list(frontier.table([peer, ours, nobody]))
    assert "| Hedgerow paper | 5.0 ± 1.4 |" in rows[3]
    assert " 81.00 ± 1.41 |" in rows[3]
    assert rows[4].count("n/a") == len(frontier.COLUMNS)
    assert all(row.count("|") == rows[0].count("|") for row in rows)
    page = frontier.markdown(collected)
    assert "a processor, 2 cores, 16 GiB" in page
    assert "0.5 to 3.0" in page
    assert "libpecos 1.2.8" in page
    assert "\n".join(rows) in page
    assert "died" not in "".join(frontier.table([peer]))  # no column for what did not happen
    drawn = frontier.picture(frontier.summarise(collected))
    assert "eurlex-4k: P@1, %" in drawn
    assert "eurlex-4k: AUROC of finding wrong labels, %" in drawn
    assert "omikuji" not in drawn


def test_run_of_hedgerow_when_measured_then_has_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: Path
) -> None:
    random = np.random.default_rng(0)
    monkeypatch.setitem(frontier_plan.PYTHONS, "hedgerow", Path(sys.executable))
    monkeypatch.setattr(measure, "WORK", tmp_path / "work")
    X = sp.csr_matrix((random.random((120, 30)) < 0.3).astype(float))
    noise = random.random((120, 8)) < 0.02
    Y = sp.csr_matrix((X.toarray()[:, :8] != noise).astype(float))  # a label is a feature, nearly
    datasets.store(tmp_path / "tiny", datasets.Split(X[:80], Y[:80]), datasets.Split(X[80:], Y[80:]))
    run = frontier_plan.Run("eurlex-4k", OURS, 0)
    found = frontier.measured(run, tmp_path / "tiny", (60.0, 20.0))
    assert "died" not in found
    assert {key for _, key, _, _ in frontier.COLUMNS} - found.keys() == {"auroc_variance"}  # of one member
    assert (found["rows"], found["labels"]) == (80, 8)
    assert found["p@1"] > 80
    assert 0 <= found["auroc"] <= 100  # and not NaN
    run.keep(found)
    assert run.result() == found


def test_page_and_picture_are_what_the_numbers_on_record_make() -> None:
    collected = json.loads((ROOT / "bench/results/frontier.json").read_text())
    assert (ROOT / "bench/results/frontier.md").read_text() == frontier.markdown(collected)
    for path, drawn in frontier.pictures(collected).items():
        assert path.read_text() == drawn
