"""Settings are searched on a validation part of the training data."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, Tuning, tune
from hedgerow.estimators import settings_search, tuning
from hedgerow.estimators.trials import JournalError, Outcome, compare
from hedgerow.estimators.validation_part import cut_validation
from hedgerow.estimators.variations import relative_cost, variations
from hedgerow.evaluation import RankingMeasure, ndcg_at, precision_at, recall_at
from hedgerow.features.tfidf import NoWordsError
from hedgerow.training.presets import DataSize, choose_settings
from hedgerow.training.settings import Method

LABELS = 24
TRIAL = 10.0  # seconds of the clock that tests set


def texts_and_labels(rows: int = 240, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Texts with words of their labels, some of them misleading, so that settings matter."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(rows):
        own = draw.choice(LABELS, size=2, replace=False).tolist()
        others = draw.integers(LABELS, size=3).tolist()
        words = [f"word{one}x{draw.integers(4)}" for one in [*own, *own, *others]]
        texts.append(" ".join([*words, *(f"noise{n}" for n in draw.integers(40, size=4))]))
        labels.append([f"label{one}" for one in own])
    return texts, labels


TEXTS, TRUE = texts_and_labels()


class Clock:
    """Time that passes in fits only: each takes ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[float] = []
        self.fitted: list[dict[str, Any]] = []
        self.interrupt_at: int | None = None

    def __call__(self) -> float:
        return self.now

    def watching(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        def watched(classifier: Any, *data: Any, **options: Any) -> Any:
            self.begun.append(self.now)
            self.fitted.append(classifier.get_params())
            if len(self.begun) == self.interrupt_at:
                raise KeyboardInterrupt
            self.now += TRIAL
            return fit(classifier, *data, **options)

        return watched


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(tuning, "monotonic", made)
    monkeypatch.setattr(HedgerowClassifier, "fit", made.watching(HedgerowClassifier.fit))
    return made


def classifier(**parameters: Any) -> HedgerowTextClassifier:
    return HedgerowTextClassifier(**{"random_state": 0, "n_jobs": 1} | parameters)


def told(found: Tuning) -> list[Any]:
    """All of a search but who ran it."""
    trials = [(one.to_dict(), one.outcome.scores.tolist()) for one in found.trials]
    return [found.parameters, trials, found.gain, found.out_of_time]


@pytest.fixture(scope="module")
def whole() -> Tuning:
    return tune(classifier(), TEXTS, TRUE)


# --- what is held out ---


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.integers(0, 5))
def test_equal_inputs_are_never_on_both_sides(inputs: list[int], seed: int) -> None:
    hashes = np.array(inputs, dtype=np.uint64)
    fitting, validation = cut_validation(hashes, seed)
    assert sorted([*fitting, *validation]) == list(range(len(inputs)))
    assert not {inputs[row] for row in fitting} & {inputs[row] for row in validation}
    assert len(validation) <= 0.15 * len(inputs)


def test_validation_part_is_a_share_of_the_inputs_and_at_most_5000() -> None:
    for rows, wanted in ((1000, 150), (100_000, 5000)):
        assert len(cut_validation(np.arange(rows, dtype=np.uint64), 0)[1]) == wanted


def test_another_seed_holds_out_other_inputs() -> None:
    hashes = np.arange(1000, dtype=np.uint64)
    first, again, other = (cut_validation(hashes, seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_an_input_that_most_rows_repeat_is_learned_from_and_not_held_out() -> None:
    hashes = np.array([7] * 500 + list(range(100, 600)), dtype=np.uint64)
    fitting, validation = cut_validation(hashes, 0)
    assert set(range(500)) <= set(fitting.tolist())
    assert len(validation) == 150


def test_trials_learn_from_one_part_and_are_measured_on_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, *TEXTS[:60]]
    seen: dict[str, set[str]] = {"fit": set(), "top": set()}
    for name, collected in seen.items():
        method = getattr(HedgerowClassifier, name)

        def spy(
            self: Any, X: Any, *more: Any, _to: set[str] = collected, _do: Any = method, **by: Any
        ) -> Any:
            _to.update(X)
            return _do(self, X, *more, **by)

        monkeypatch.setattr(HedgerowClassifier, name, spy)
    tune(classifier(), texts, [*TRUE, *TRUE[:60]], seconds=1e-9)
    assert seen["fit"] | seen["top"] == set(texts)
    assert seen["top"]
    assert not seen["fit"] & seen["top"]


# --- what is measured ---


@pytest.mark.parametrize("k", [1, 3, 5])
def test_measures_of_inputs_are_those_of_a_dense_oracle(k: int) -> None:
    draw = np.random.default_rng(k)
    truth = draw.random((50, 12)) < 0.2
    truth[3] = False  # an input without labels is left out
    ranked = np.argsort(draw.random((50, 12)), axis=1)[:, :6]
    ranked[5, 2:] = -1
    expected: dict[str, list[float]] = {"precision": [], "recall": [], "ndcg": []}
    for row in range(50):
        true = set(np.flatnonzero(truth[row]).tolist())
        if not true:
            continue
        right = [int(label) in true for label in ranked[row, :k]]
        expected["precision"].append(sum(right) / k)
        expected["recall"].append(sum(right) / len(true))
        gain = sum(one / math.log2(place + 2) for place, one in enumerate(right))
        expected["ndcg"].append(gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(true)))))
    means = {"precision": precision_at, "recall": recall_at, "ndcg": ndcg_at}
    for name, values in expected.items():
        found = RankingMeasure.parse(f"{name}@{k}").of_inputs(ranked, sp.csr_array(truth))
        np.testing.assert_allclose(found, values, rtol=1e-12)
        assert found.mean() == pytest.approx(means[name](ranked, sp.csr_array(truth), k), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=40))
def test_paired_difference_and_its_standard_error_are_those_of_the_statistics_module(
    pairs: list[tuple[float, float]],
) -> None:
    found = compare(*(np.array(side) for side in zip(*pairs, strict=True)))
    differences = [new - old for new, old in pairs]
    assert found.difference == pytest.approx(statistics.fmean(differences), abs=1e-12)
    error = statistics.stdev(differences) / math.sqrt(len(pairs))
    assert found.standard_error == pytest.approx(error, abs=1e-9)


def test_one_pair_is_never_a_gain() -> None:
    assert not compare(np.array([1.0]), np.array([0.0])).is_gain


# --- the search ---


def test_changes_are_kept_only_if_they_gain_more_than_the_standard_error(whole: Tuning) -> None:
    first, *others = whole.trials
    best, parameters = first.outcome.scores.tolist(), {}
    for trial in others:
        differences = [a - b for a, b in zip(trial.outcome.scores.tolist(), best, strict=True)]
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        assert trial.kept == (statistics.fmean(differences) > error)
        if trial.kept:
            best, parameters = trial.outcome.scores.tolist(), parameters | trial.parameters
    assert {True, False} == {trial.kept for trial in others}  # or the test says nothing
    assert whole.parameters == whole.parameters | parameters
    assert whole.gain.difference == pytest.approx(
        statistics.fmean(best) - statistics.fmean(first.outcome.scores.tolist())
    )


def test_search_ends_where_nothing_around_is_better(whole: Tuning) -> None:
    assert not whole.out_of_time
    chosen = whole.estimator().get_params()
    inputs, labels = whole.data.fitting_part()
    tests, truth = whole.data.validation_part()
    measure = RankingMeasure.parse("ndcg@5")
    for change in variations(chosen, LABELS):
        model = whole.estimator().set_params(**change.parameters).fit(inputs, labels)
        gained = measure.of_inputs(model.top(tests, k=5).labels, truth) - whole.best.outcome.scores
        assert gained.mean() <= gained.std(ddof=1) / math.sqrt(len(gained))


def test_search_goes_on_in_rounds_from_what_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    def scored(self: Any, model: HedgerowTextClassifier, progress: Any) -> Outcome:
        # Best at C 1/8; one word more is worth it only from C 1/4 on, so it takes a later round to see it.
        score = -abs(math.log2(model.C) + 3) + (1 if model.min_count == 1 and model.C <= 0.25 else 0)
        return Outcome({"ndcg@5": score}, np.full(30, score), 0.0)

    monkeypatch.setattr(settings_search.Trainer, "__call__", scored)
    found = tune(classifier(), TEXTS, TRUE)
    kept = [trial.change for trial in found.trials if trial.kept]
    assert kept == [
        "balanced",
        *("C 1 -> 0.5", "C 0.5 -> 0.25", "min_count 2 -> 1", "C 0.25 -> 0.125"),
    ]
    assert [str(change) for change in found.changes] == ["C 1 -> 0.125", "min_count 2 -> 1"]
    assert (found.estimator().C, found.estimator().min_count) == (0.125, 1)
    assert found.gain.difference == 4


def test_scores_are_those_of_a_fit_with_the_chosen_parameters(whole: Tuning) -> None:
    inputs, labels = whole.data.fitting_part()
    model = whole.estimator().fit(inputs, labels)
    inputs, truth = whole.data.validation_part()
    found = RankingMeasure.parse("ndcg@5").of_inputs(model.top(inputs, k=5).labels, truth)
    np.testing.assert_array_equal(found, whole.best.outcome.scores)


def test_search_is_the_same_at_any_number_of_threads(whole: Tuning) -> None:
    other = tune(classifier(n_jobs=2), TEXTS, TRUE)
    assert [(one.change, one.kept) for one in other.trials] == [
        (one.change, one.kept) for one in whole.trials
    ]
    for one, two in zip(whole.trials, other.trials, strict=True):
        np.testing.assert_array_equal(one.outcome.scores, two.outcome.scores)


def test_given_classifier_is_not_changed() -> None:
    given_one = classifier(C=3.0)
    before = given_one.get_params()
    found = tune(given_one, TEXTS, TRUE, seconds=1e-9)
    assert given_one.get_params() == before
    assert not hasattr(given_one, "model_")
    assert found.estimator().C == 3


def test_ensembles_are_tuned_with_three_members_and_written_with_all(clock: Clock) -> None:
    found = tune(classifier(method="bagging", members=7, trees=5), TEXTS, TRUE, seconds=3 * TRIAL)
    assert {(one["members"], one["trees"]) for one in clock.fitted} == {(3, 3)}
    assert found.trial_members == 3
    assert (found.estimator().members, found.estimator().trees) == (7, 5)


def test_features_are_tuned_without_what_is_for_words() -> None:
    X = sp.coo_array(hedgerow.TfidfVectorizer().fit_transform(TEXTS))
    found = tune(HedgerowClassifier(random_state=0, n_jobs=1), X, TRUE, by="precision@1")
    names = {trial.change.split()[0] for trial in found.trials}
    assert names == {"balanced", "rivals", "C", "positive_cost", "tolerance"}
    assert isinstance(found.estimator(), HedgerowClassifier)


def test_records_with_fields_are_tuned() -> None:
    records = [{"title": text.split()[0], "abstract": text} for text in TEXTS]
    found = tune(classifier(fields=["title", "abstract"]), records, TRUE, seconds=1e-9)
    # The same texts, read as the preset reads short ones.
    assert list(found.estimator().fields) == ["title", "title~chars", "abstract", "abstract~chars"]
    own = tune(classifier(fields=["title", "abstract~words"]), records, TRUE, seconds=1e-9)
    assert own.estimator().fields == ["title", "abstract~words"]


def test_fewer_labels_than_the_measure_asks_for_are_no_obstacle() -> None:
    two = [["low" if one[0][-1] in "01234" else "high"] for one in TRUE]
    found = tune(classifier(), TEXTS, two, seconds=1e-9, by="ndcg@5")
    assert found.trials[0].outcome.figures["recall@5"] == 1


def test_settings_that_leave_no_words_are_told_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = HedgerowClassifier.fit

    def without_words(self: Any, *data: Any, **options: Any) -> Any:
        if self.min_count == 3:
            raise NoWordsError("no word is in 3 texts")
        return fit(self, *data, **options)

    monkeypatch.setattr(HedgerowClassifier, "fit", without_words)
    found = tune(classifier(), TEXTS, TRUE)
    failed = [trial for trial in found.trials if trial.outcome.failed]
    assert failed
    assert all(trial.change.startswith("min_count") and not trial.kept for trial in failed)


def test_changes_of_words_follow_the_analyzer() -> None:
    names = {change.name for change in variations(classifier(analyzer="char_wb").get_params(), LABELS)}
    assert {"min_count", "sublinear"} <= names
    assert not {"language", "ngrams"} & names


def test_every_change_changes_something() -> None:
    for method in ("single", "bagging"):
        current = classifier(method=method, wide=LABELS, leaf_size=1).get_params()
        for change in variations(current, LABELS):
            assert current | change.parameters != current


# --- time ---


def test_trials_begin_only_while_one_more_fits_into_the_time(clock: Clock) -> None:
    found = tune(classifier(), TEXTS, TRUE, seconds=5.5 * TRIAL)
    assert found.out_of_time
    assert len(clock.begun) == 5
    assert all(begin + TRIAL <= 5.5 * TRIAL for begin in clock.begun)


def test_first_trial_begins_whatever_the_time(clock: Clock) -> None:
    found = tune(classifier(), TEXTS, TRUE, seconds=0.1)
    assert (len(clock.begun), len(found.trials), found.out_of_time) == (1, 1, True)
    assert found.changes == []


def test_trial_that_is_expected_to_take_longer_than_what_is_left_gives_way_to_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost(then: dict[str, Any], now: dict[str, Any], size: DataSize) -> float:
        return 1.3 if then["wide"] > now["wide"] else 0.1

    monkeypatch.setattr(settings_search, "relative_cost", cost)
    found = tune(classifier(method="bagging"), TEXTS, TRUE, seconds=2.2 * TRIAL)
    assert [trial.change for trial in found.trials] == ["balanced", "rivals 8 -> 4"]


def test_more_rivals_and_a_tighter_tolerance_are_expected_to_take_longer() -> None:
    size = DataSize(rows=20_000, labels=4000, entries=4_000_000, pairs=100_000)
    for method in ("single", "bagging"):
        parameters = choose_settings("balanced", size, Method(method), 3).parameters
        start = classifier(method=method, members=3, **parameters).get_params()
        costs = {
            str(change): relative_cost(start | change.parameters, start, size)
            for change in variations(start, size.labels)
        }
        more, fewer = [cost for change, cost in costs.items() if change.startswith("rivals")]
        assert fewer < 1 < more
        tighter = "tolerance 2 -> 1" if method == "bagging" else "tolerance 1 -> 0.3"
        assert costs[tighter] > 1.02
        assert costs["C 1 -> 2"] == costs["min_count 2 -> 1"] == 1


def test_progress_is_the_share_of_the_time(clock: Clock) -> None:
    heard: list[tuple[float, str]] = []
    tune(classifier(), TEXTS, TRUE, seconds=4 * TRIAL, progress=lambda *said: heard.append(said))
    assert {what for share, what in heard if share == 0} == {"reading", "trial 1: balanced"}
    assert max(share for share, _ in heard) == 1
    assert [share for share, _ in heard] == sorted(share for share, _ in heard)


# --- the journal ---


def test_interrupted_search_goes_on_and_ends_as_if_nothing_had_happened(clock: Clock, tmp_path: Path) -> None:
    whole = tune(classifier(), TEXTS, TRUE, seconds=8 * TRIAL, journal=tmp_path / "whole")
    fits = len(clock.begun)
    clock.begun.clear()
    clock.interrupt_at = 4
    with pytest.raises(KeyboardInterrupt):
        tune(classifier(), TEXTS, TRUE, seconds=8 * TRIAL, journal=tmp_path / "cut")
    assert len((tmp_path / "cut").read_bytes().splitlines()) == 1 + 3
    clock.begun.clear()
    clock.interrupt_at = None
    resumed = tune(classifier(), TEXTS, TRUE, seconds=8 * TRIAL, journal=tmp_path / "cut")
    assert len(clock.begun) == fits - 3
    assert told(resumed) == told(whole)
    assert [trial.resumed for trial in resumed.trials][:4] == [True] * 3 + [False]
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


def test_line_that_a_crash_cut_off_costs_one_trial(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    whole = tune(classifier(), TEXTS, TRUE, seconds=5 * TRIAL, journal=path)
    content = path.read_bytes()
    for cut in (len(content) - 1, content.rstrip().rfind(b"\n") + 5, 5):
        path.write_bytes(content[:cut])
        clock.begun.clear()
        assert told(tune(classifier(), TEXTS, TRUE, seconds=5 * TRIAL, journal=path)) == told(whole)
        assert len(clock.begun) == (len(whole.trials) if cut == 5 else 1)
        assert path.read_bytes() == content


def test_more_time_goes_on_from_the_journal(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    tune(classifier(), TEXTS, TRUE, seconds=3 * TRIAL, journal=path)
    clock.begun.clear()
    tune(classifier(), TEXTS, TRUE, seconds=6 * TRIAL, journal=path)
    assert len(clock.begun) == 3


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"texts": [*TEXTS[:-1], "another text"]}, "other data"),
        ({"labels": [*TRUE[:-1], ["label0"]]}, "other data"),
        ({"random_state": 1}, "another seed (0)"),
        ({"by": "precision@1"}, "another measure (by='ndcg@5')"),
        ({"C": 4.0}, "other starting settings"),
    ],
)
def test_journal_of_another_search_is_refused_and_left_as_it_is(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    path = tmp_path / "journal"
    tune(classifier(), TEXTS, TRUE, seconds=1e-9, journal=path)
    before = path.read_bytes()
    texts, labels = other.pop("texts", TEXTS), other.pop("labels", TRUE)
    by = other.pop("by", "ndcg@5")
    with pytest.raises(JournalError, match="delete it to start again") as refused:
        tune(classifier(**other), texts, labels, seconds=1e-9, by=by, journal=path)
    assert f"holds trials of {words};" in str(refused.value)
    assert path.read_bytes() == before


def changed(**parts: Any) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        header, *trials = content.splitlines()
        return b"\n".join([header, *(json.dumps(json.loads(one) | parts).encode() for one in trials)]) + b"\n"

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"notes of mine\n",
        lambda content: b"notes of mine, without an end",
        lambda content: b"\x00" * 50 + b"\n",
        lambda content: content.replace(b'"scores"', b'"stores"'),
        lambda content: content + b"[]\n",
        changed(scores=[[1.0]]),
        changed(scores=[1.0]),  # beside a trial of others, below
        changed(scores=["a"]),
        changed(scores=[], failed=None),
        changed(seconds=-1.0),
        changed(seconds=float("nan")),
        changed(figures=[]),
        changed(failed=3),
    ],
)
def test_damaged_journal_is_refused_with_the_way_out(tmp_path: Path, damage: Any, clock: Clock) -> None:
    path = tmp_path / "journal"
    tune(classifier(), TEXTS, TRUE, seconds=2.5 * TRIAL, journal=path)
    header, first, *others = path.read_bytes().splitlines(keepends=True)
    damaged = damage(header + b"".join(others))
    path.write_bytes(damaged.replace(header, header + first, 1))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="move it away, or choose another name"):
        tune(classifier(), TEXTS, TRUE, journal=path)
    assert path.read_bytes() == before


def test_journal_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "journal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="symbolic link"):
        tune(classifier(), TEXTS, TRUE, journal=tmp_path / "journal")


# --- what is refused ---


@pytest.mark.parametrize("by", ["map@5", "ndcg", "ndcg@0", "ndcg@101", "ndcg@5 ", 5, None])
def test_unknown_measures_are_refused(by: Any) -> None:
    with pytest.raises(ValueError, match="such as 'ndcg@5'"):
        tune(classifier(), TEXTS, TRUE, by=by)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "10m"])
def test_times_that_are_none_are_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match="seconds is"):
        tune(classifier(), TEXTS, TRUE, seconds=seconds)


def test_too_few_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"100 inputs with labels are too few .* give more data"):
        tune(classifier(), TEXTS[:100], TRUE[:100])


def test_journal_needs_a_seed_that_a_later_search_can_repeat(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="integer random_state"):
        tune(classifier(random_state=None), TEXTS, TRUE, journal=tmp_path / "journal")


def test_transformers_are_refused() -> None:
    with pytest.raises(TypeError, match="HedgerowTextClassifier"):
        tune(hedgerow.HedgerowTransformerClassifier(), TEXTS, TRUE)


def test_a_wide_classifier_beside_a_single_tree_is_what_rivals_are_of() -> None:
    current = HedgerowClassifier(wide=900).get_params()
    tried = [change.parameters for change in variations(current, 30_000)]
    assert {"wide": 1800} in tried
    assert {"leaf_size": 200} in tried
    assert not any("matcher_beam" in parameters for parameters in tried)
