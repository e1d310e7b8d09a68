"""`hedgerow.compare`: its figures, intervals, tests and verdicts, against the same done by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.cli import comparison_options, main
from hedgerow.cli.failures import ExitCode
from hedgerow.comparison.bootstrap import Interval, Pair, drawn_counts, paired_intervals, ratio
from hedgerow.comparison.figures import ACCURACY, FIGURES, figure_pairs
from hedgerow.comparison.held_rows import RowsWanted, read_rows
from hedgerow.comparison.label_changes import benjamini_hochberg, label_changes, sign_test
from hedgerow.comparison.label_union import LabelUnion
from hedgerow.comparison.measuring import LISTED, Measured
from hedgerow.comparison.verdict import PROMOTE_IF, verdict_of
from hedgerow.data.sample import load_sample
from hedgerow.evaluation import ndcg_at, precision_at, recall_at, reliability

ROWS = 80
LABELS = 30


def made_up(seed: int, truth: sp.csr_array) -> Measured:
    """What a model might say of some rows, with fewer than ten labels for some."""
    random = np.random.default_rng(seed)
    labels = np.array([random.permutation(LABELS)[:LISTED] for _ in range(truth.shape[0])])
    labels[random.random(labels.shape) < 0.05] = -1
    labels = np.take_along_axis(labels, np.argsort(labels < 0, axis=1, kind="stable"), axis=1)
    right = np.asarray(truth.toarray().astype(bool)[np.arange(len(labels))[:, None], labels]) & (labels >= 0)
    probability = np.sort(random.random(labels.shape), axis=1)[:, ::-1]
    auroc = np.where(random.random(len(labels)) < 0.2, np.nan, random.random(len(labels)))
    return Measured(labels, probability, right, np.diff(truth.indptr).astype(np.int64), auroc, ())


def a_truth(seed: int = 0) -> sp.csr_array:
    dense = np.random.default_rng(seed).random((ROWS, LABELS)) < 0.15
    dense[3] = False  # a row without labels
    return sp.csr_array(dense.astype(np.int8))


def by_hand(measured: Measured, truth: sp.csr_array, rows: np.ndarray, other: Measured) -> dict[str, float]:
    """The figures of some rows, which may occur several times."""
    labels, Y = measured.labels[rows], truth[rows]
    right, probability = measured.right[rows][:, :5], measured.probability[rows][:, :5]
    shown = labels[:, :5] >= 0
    true = np.diff(Y.indptr)
    f1 = [2 * r.sum() / (s.sum() + t) for r, s, t in zip(right, shown, true, strict=True) if t]
    said = np.where(right, probability, 1 - probability)[shown]
    both = [
        one
        for one, theirs in zip(measured.auroc[rows], other.auroc[rows], strict=True)
        if not np.isnan(one + theirs)
    ]
    return {
        **{f"precision@{k}": precision_at(labels, Y, k) for k in (1, 3, 5)},
        **{f"ndcg@{k}": ndcg_at(labels, Y, k) for k in (5, 10)},
        "f1@5": float(np.mean(f1)),
        "recall@5": recall_at(labels, Y, 5),
        "ece@5": reliability(probability[shown], right[shown]).ece,
        "log_loss@5": float(-np.log(np.maximum(said, 1e-6)).mean()),
        "auroc_total": float(np.mean(both)),
    }


# --- the bootstrap ---


def test_intervals_then_they_are_those_of_rows_drawn_one_by_one() -> None:
    truth = a_truth()
    old, new = made_up(1, truth), made_up(2, truth)
    draws = 200
    counts = np.concatenate(list(drawn_counts(ROWS, draws, seed=5)))
    differences: dict[str, list[float]] = {figure.name: [] for figure in FIGURES}
    for drawn in counts:
        rows = np.repeat(np.arange(ROWS), drawn.astype(int))
        theirs, own = by_hand(old, truth, rows, new), by_hand(new, truth, rows, old)
        for name, values in differences.items():
            values.append(own[name] - theirs[name])
    every = np.arange(ROWS)
    plain = [by_hand(of, truth, every, other) for of, other in ((old, new), (new, old))]
    found = paired_intervals(figure_pairs(old, new), draws, seed=5)
    for figure, interval in zip(FIGURES, found, strict=True):
        assert interval.old == pytest.approx(plain[0][figure.name]), figure.name
        assert interval.new == pytest.approx(plain[1][figure.name]), figure.name
        assert interval.difference == pytest.approx(plain[1][figure.name] - plain[0][figure.name])
        low, high = np.quantile(differences[figure.name], [0.025, 0.975])
        assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high)), figure.name


def test_drawn_rows_then_each_draw_has_as_many_as_there_are_and_none_is_favoured() -> None:
    counts = np.concatenate(list(drawn_counts(50, 4000, seed=0)))
    assert (counts.sum(axis=1) == 50).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(50), abs=5 / np.sqrt(4000))
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.05)  # multinomial
    again = np.concatenate(list(drawn_counts(50, 4000, seed=0)))
    assert (counts == again).all()


def test_many_rows_then_draws_in_blocks_are_different() -> None:
    blocks = list(drawn_counts(1_000_000, 9, seed=0))
    assert [len(block) for block in blocks] == [4, 4, 1]
    assert (blocks[0][0] != blocks[1][0]).any()


def test_interval_of_a_mean_then_it_is_about_that_of_the_normal_distribution() -> None:
    random = np.random.default_rng(0)
    old, new = random.random(2000), random.random(2000) + 0.02
    ones = np.ones(2000)
    (found,) = paired_intervals([Pair(ratio(old, ones), ratio(new, ones))], 4000)
    half = 1.96 * (new - old).std() / np.sqrt(2000)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.06)
    assert found.low == pytest.approx((new - old).mean() - half, abs=0.1 * half)


@pytest.mark.parametrize(("rows", "differing"), [(50, 0.3), (200, 0.1)])
def test_models_that_are_equally_good_then_the_interval_misses_that_about_one_time_in_twenty(
    rows: int, differing: float
) -> None:
    random = np.random.default_rng(0)
    ones = np.ones(rows)
    missed = 0
    for seed in range(300):
        old = random.random(rows)
        new = old + np.where(random.random(rows) < differing, random.normal(0, 0.3, rows), 0)
        (found,) = paired_intervals([Pair(ratio(old, ones), ratio(new, ones))], 200, seed)
        missed += not found.low <= 0 <= found.high
    assert 0.02 <= missed / 300 <= 0.1


def test_figure_that_no_row_defines_then_it_is_not_a_number_and_others_are() -> None:
    nothing, ones = np.zeros(5), np.ones(5)
    none, some = paired_intervals(
        [Pair(ratio(ones, nothing), ratio(ones, nothing)), Pair(ratio(nothing, ones), ratio(ones, ones))], 100
    )
    assert np.isnan([none.old, none.difference, none.low, none.high]).all()
    assert (some.difference, some.low, some.high) == (1.0, 1.0, 1.0)


# --- labels ---


def test_sign_test_then_it_is_the_exact_binomial_one() -> None:
    gains, losses = np.array([0, 5, 7, 3, 40, 1]), np.array([1, 0, 7, 12, 20, 1])
    expected = [stats.binomtest(g, g + n, 0.5).pvalue for g, n in zip(gains, losses, strict=True)]
    assert sign_test(gains, losses) == pytest.approx(expected)


def test_many_p_values_then_they_are_corrected_as_scipy_does() -> None:
    p = np.random.default_rng(0).random(50) ** 3
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    assert benjamini_hochberg(np.zeros(0)).shape == (0,)


def test_labels_that_changed_then_they_are_those_of_a_count_by_hand() -> None:
    truth = a_truth()
    old, new = made_up(1, truth), made_up(2, truth)
    union = LabelUnion.of(np.arange(100, 100 + LABELS))
    rows = np.repeat(np.arange(ROWS, dtype=np.int64), np.diff(truth.indptr))
    found = {
        change.label: change
        for change in label_changes(old, new, union, (rows, truth.indices.astype(np.int64)))
    }
    dense = truth.toarray().astype(bool)
    for label in range(LABELS):
        was, now = ((of.labels[:, :5] == label).any(axis=1) & dense[:, label] for of in (old, new))
        if (was == now).all():
            assert 100 + label not in found
            continue
        change = found[100 + label]
        assert (change.gained, change.lost) == ((now & ~was).sum(), (was & ~now).sum())
        assert change.true == dense[:, label].sum()
    net = [change.gained - change.lost for change in found.values()]
    assert net == sorted(net, reverse=True)
    assert len(net) > LABELS / 2


def test_labels_of_equal_models_then_none_changed() -> None:
    truth = a_truth()
    same = made_up(1, truth)
    union = LabelUnion.of(np.arange(LABELS))
    assert label_changes(same, same, union, (np.zeros(1, np.int64), np.zeros(1, np.int64))) == []


def test_chance_on_many_labels_then_hardly_any_is_called_clear() -> None:
    random = np.random.default_rng(0)
    gains = random.binomial(20, 0.5, 2000)
    clear = benjamini_hochberg(sign_test(gains, 20 - gains)) <= 0.05
    assert (sign_test(gains, 20 - gains) <= 0.05).sum() > 50  # without a correction, there are many
    assert clear.sum() <= 2


# --- models with different labels ---

WORDS = ("oak", "elm", "yew", "ash", "fir", "bay")


def forest_texts(count: int, seed: int, kinds: tuple[str, ...] = WORDS) -> tuple[list[str], list[list[str]]]:
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        two = sorted(set(random.choice(kinds, 2).tolist()))
        texts.append(
            f"{' and '.join(two)} near the {random.choice(['road', 'lake', 'hill'])} {seed}-{number}"
        )
        labels.append(two)
    return texts, labels


def forest(kinds: tuple[str, ...] = WORDS, seed: int = 0, rows: int = 150, **options: Any) -> Any:
    texts, labels = forest_texts(rows, seed, kinds)
    model = HedgerowTextClassifier(method="bagging", members=3, n_jobs=1, random_state=seed, **options)
    return model.fit(texts, labels)


def test_models_with_other_labels_then_they_are_compared_by_their_names() -> None:
    old, new = forest(WORDS[:4]), forest(("a label in front", *WORDS[2:]), seed=1)
    texts, labels = forest_texts(100, 9)
    found = hedgerow.compare(old, new, texts, labels)
    figures = {of.name: of for of in found.differences}
    for model, side in ((old, "old"), (new, "new")):
        for k in (1, 3):
            best = [set(row) for row in model.predict_uncertain(texts, k=k).labels.tolist()]
            shares = [len(own & set(true)) / k for own, true in zip(best, labels, strict=True)]
            assert getattr(figures[f"precision@{k}"], side) == pytest.approx(np.mean(shares))
    assert (found.shared, found.only_old, found.only_new) == (2, 2, 3)
    assert any("NEW does not know 2 of the labels here" in remark for remark in found.remarks)
    gone = {change.label: change for change in found.labels}["oak"]
    assert (gone.gained, gone.true) == (0, sum("oak" in row for row in labels))
    assert gone.lost == gone.true  # the old model lists all of its four labels


def test_same_labels_in_other_columns_then_nothing_changes() -> None:
    old = forest()
    renamed = {word: f"{9 - number} {word}" for number, word in enumerate(WORDS)}
    texts, labels = forest_texts(150, 0)
    back = HedgerowTextClassifier(method="bagging", members=3, n_jobs=1, random_state=0)
    back.fit(texts, [[renamed[label] for label in row] for row in labels])
    held, truth = forest_texts(80, 4)
    plain = hedgerow.compare(old, old, held, truth)
    other = hedgerow.compare(back, back, held, [[renamed[label] for label in row] for row in truth])
    assert other.differences[3].old == pytest.approx(plain.differences[3].old, abs=0.03)


def test_labels_by_name_and_by_number_then_they_are_not_mixed() -> None:
    X = sp.random_array((60, 8), density=0.5, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    Y = sp.csr_array((np.random.default_rng(1).random((60, 5)) < 0.4).astype(np.int8))
    numbered = HedgerowClassifier(n_jobs=1, random_state=0).fit(X, Y)
    names = ["a", "b", "c", "d", "e"]
    named = HedgerowClassifier(n_jobs=1, random_state=0).fit(X, Y, classes=names)
    with pytest.raises(ValueError, match="names in one place and numbers in another"):
        hedgerow.compare(numbered, named, X + X, Y)
    with pytest.raises(ValueError, match="classes="):
        hedgerow.compare(named, named, X + X, Y)
    by_matrix = hedgerow.compare(named, named, X + X, Y, classes=names)
    lists = [[names[column] for column in Y[[row]].indices] for row in range(60)]
    assert by_matrix == hedgerow.compare(named, named, X + X, lists)
    assert hedgerow.compare(numbered, numbered, X + X, Y).differences == by_matrix.differences


# --- the whole ---


@pytest.fixture(scope="module")
def sample_models() -> tuple[Any, Any]:
    sample = load_sample()
    return tuple(
        HedgerowTextClassifier(method="bagging", members=3, n_jobs=1, random_state=0).fit(
            sample.train_texts[:rows], sample.train_labels[:rows]
        )
        for rows in (150, 500)
    )


def test_comparison_then_its_figures_are_those_of_evaluate(sample_models: tuple[Any, Any]) -> None:
    sample = load_sample()
    old, new = sample_models
    texts, labels = sample.test_texts[:200], sample.test_labels[:200]
    found = {of.name: of for of in hedgerow.compare(old, new, texts, labels).differences}
    for model, side in ((old, "old"), (new, "new")):
        alone = hedgerow.evaluate(model, texts, labels)
        for k in (1, 3, 5):
            assert getattr(found[f"precision@{k}"], side) == pytest.approx(alone.ranking.precision[k])
        assert getattr(found["ndcg@5"], side) == pytest.approx(alone.ranking.ndcg[5])
        assert getattr(found["recall@5"], side) == pytest.approx(alone.ranking.recall[5])
        assert getattr(found["ece@5"], side) == pytest.approx(alone.reliability[5].ece, abs=1e-6)
        # The AUROC is over all labels that either model knows, here a few more.
        total = alone.misclassification["total"].auroc
        assert getattr(found["auroc_total"], side) == pytest.approx(total, abs=0.02)


def test_model_that_learned_from_more_then_it_is_better_and_the_other_way_round_worse(
    sample_models: tuple[Any, Any],
) -> None:
    sample = load_sample()
    texts, labels = sample.test_texts[:200], sample.test_labels[:200]
    forth = hedgerow.compare(*sample_models, texts, labels)
    back = hedgerow.compare(*sample_models[::-1], texts, labels)
    assert (forth.verdict.word, back.verdict.word) == ("better", "worse")
    for of, other in zip(forth.differences, back.differences, strict=True):
        assert of.difference == pytest.approx(-other.difference)
        assert (of.low, of.high) == (pytest.approx(-other.high), pytest.approx(-other.low))


def test_groups_then_each_has_the_figures_of_its_rows_alone(sample_models: tuple[Any, Any]) -> None:
    sample = load_sample()
    texts, labels = sample.test_texts[:240], sample.test_labels[:240]
    groups = ["de" if row % 2 else None for row in range(230)] + ["few"] * 10
    found = hedgerow.compare(*sample_models, texts, labels, groups)
    assert {group.group for group in found.groups} == {"de", "(none)", "few"}
    for group in found.groups:
        rows = [row for row, name in enumerate(groups) if (name or "(none)") == group.group]
        own = hedgerow.compare(*sample_models, [texts[row] for row in rows], [labels[row] for row in rows])
        alone = next(of for of in own.differences if of.name == "ndcg@5")
        assert group.rows == len(rows)
        assert (group.old, group.new) == (pytest.approx(alone.old), pytest.approx(alone.new))
        if group.group == "few":
            assert (group.low, group.high) == (None, None)
        else:
            assert group.low == pytest.approx(alone.low, abs=0.05)
            assert group.high == pytest.approx(alone.high, abs=0.05)


def test_many_groups_then_the_small_ones_are_counted_together() -> None:
    model = forest()
    texts, labels = forest_texts(80, 5)
    found = hedgerow.compare(model, model, texts, labels, [str(row % 40) for row in range(80)])
    assert len(found.groups) == 31
    assert sum(group.rows for group in found.groups) == 80


def test_rows_that_a_model_was_trained_on_then_they_are_left_out_and_counted(
    sample_models: tuple[Any, Any],
) -> None:
    sample = load_sample()
    texts, labels = sample.test_texts[:80], sample.test_labels[:80]
    # The first 150 were seen by both, the next 50 by the second only.
    with_seen = hedgerow.compare(
        *sample_models, sample.train_texts[100:200] + texts, sample.train_labels[100:200] + labels
    )
    assert (with_seen.seen.old, with_seen.seen.new, with_seen.seen.left_out) == (50, 100, 100)
    assert "100 rows were left out because a model was trained on them: OLD on 50" in with_seen.remarks[0]
    without = hedgerow.compare(*sample_models, texts, labels)
    assert without.seen.left_out == 0
    assert with_seen.differences == without.differences
    with pytest.raises(ValueError, match="all 20 rows were seen in training"):
        hedgerow.compare(*sample_models, sample.train_texts[:20], sample.train_labels[:20])


def test_model_that_does_not_remember_its_training_then_a_remark_says_so(
    sample_models: tuple[Any, Any],
) -> None:
    sample = load_sample()
    old, new = (model.source for model in sample_models)
    texts, labels = sample.train_texts[:60], sample.train_labels[:60]
    found = hedgerow.compare(replace(old, training=None), replace(new, training=None), texts, labels)
    assert (found.seen.left_out, found.seen.forgotten, found.rows) == (0, ("old", "new"), 60)
    assert [remark.split(" does not remember")[0] for remark in found.remarks] == ["OLD", "NEW"]


def test_guarantees_then_both_are_said_to_be_kept_or_not(deciding_model: Path) -> None:
    sample = load_sample()
    model = hedgerow.load(deciding_model)
    texts, labels = sample.test_texts[:100], sample.test_labels[:100]
    found = hedgerow.compare(model, model, texts, labels)
    kept = hedgerow.evaluate(model, texts, labels).decisions
    assert [of.title for of in found.guarantees] == [of.guarantee.title for of in kept]
    for of, own in zip(found.guarantees, kept, strict=True):
        assert (of.old_kept, of.new_kept) == (own.kept, own.kept)
        if of.interval is not None and of.kind == "wrong" and own.achieved is not None:
            assert of.interval.old == pytest.approx(own.achieved)
            assert of.interval.difference == 0
    missed = next(of for of in found.guarantees if of.kind == "missed" and of.asked == 0.2)
    goal = model.decide(texts, missed_at_most=0.2)
    shares = [
        1 - len({*goal[row].accept, *goal[row].review} & set(true)) / len(set(true))
        for row, true in enumerate(labels)
        if true
    ]
    assert missed.interval is not None
    assert missed.interval.old == pytest.approx(np.mean(shares))


def test_model_without_guarantees_then_a_remark_says_so(deciding_model: Path, text_model: Path) -> None:
    sample = load_sample()
    models = [hedgerow.load(path) for path in (deciding_model, text_model)]
    found = hedgerow.compare(*models, sample.test_texts[:60], sample.test_labels[:60])
    assert found.guarantees == ()
    assert any("NEW has none; run hedgerow calibrate" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"by": "accuracy"}, "by is 'accuracy'"),
        ({"margin": -1}, "margin is -1"),
        ({"margin": float("nan")}, "margin is nan"),
        ({"draws": 5}, "draws is 5"),
        ({"groups": ["a"]}, "groups for 1"),
    ],
)
def test_wrong_parameters_then_they_are_named(wrong: dict[str, Any], words: str) -> None:
    model = forest(rows=40)
    texts, labels = forest_texts(10, 3)
    with pytest.raises(ValueError, match=words):
        hedgerow.compare(model, model, texts, labels, **wrong)
    with pytest.raises(TypeError, match="give a fitted"):
        hedgerow.compare(model, "a file", texts, labels)  # type: ignore[arg-type]


# --- the verdict ---


@pytest.mark.parametrize(
    ("difference", "low", "high", "word"),
    [
        (0.02, 0.001, 0.04, "better"),
        (0.02, 0.0, 0.04, "no worse"),  # an interval that begins at 0 shows no gain
        (0.0, 0.0, 0.0, "no worse"),
        (-0.001, -0.005, 0.004, "no worse"),
        (-0.002, -0.004, -0.001, "no worse"),  # surely worse, but by less than the margin
        (-0.02, -0.04, -0.001, "worse"),
        (-0.01, -0.02, 0.0, "undecided"),
        (0.01, -0.006, 0.03, "undecided"),
    ],
)
def test_verdict_then_it_is_by_the_interval_and_the_margin(
    difference: float, low: float, high: float, word: str
) -> None:
    found = verdict_of("ndcg@5", Interval(0.5, 0.5 + difference, difference, low, high), 0.5, 1000)
    assert found.word == word
    assert found.words.startswith(word)
    assert (found.needed is None) == (word != "undecided")
    assert found.meets("no-worse") == (word in ("better", "no worse"))
    assert found.meets("better") == (word == "better")


def test_undecided_then_the_rows_that_are_needed_shrink_the_interval_enough() -> None:
    interval = Interval(0.5, 0.505, 0.005, -0.015, 0.025)
    found = verdict_of("ndcg@5", interval, 0.5, 1000)
    assert found.needed == 4000  # half the width: 0.005 - 0.01 = -0.005
    assert "about 4,000 would be needed" in found.words
    losing = verdict_of("ndcg@5", Interval(0.5, 0.49, -0.01, -0.03, 0.01), 0.5, 1000)
    assert losing.needed == 4000  # -0.01 + 0.02 / 2 = 0
    between = verdict_of("ndcg@5", Interval(0.5, 0.496, -0.004, -0.008, 0.004), 0.5, 1000)
    assert between.needed == 4000  # for "worse"; for "no worse", 16,000
    at_the_limit = verdict_of("ndcg@5", Interval(0.5, 0.5, 0.0, -0.02, 0.01), 0.0, 1000)
    assert at_the_limit.needed is None
    assert "no number of rows can be named" in at_the_limit.words


def test_very_few_rows_then_it_is_undecided_whatever_they_say() -> None:
    found = verdict_of("ndcg@5", Interval(0.2, 0.9, 0.7, 0.6, 0.8), 0.5, 99)
    assert (found.word, found.needed) == ("undecided", 100)


def test_target_that_is_none_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="better, no-worse"):
        verdict_of("ndcg@5", Interval(0, 0, 0, 0, 0), 0.5, 100).meets("no worse")


# --- the command ---


def write(path: Path, texts: list[str], labels: list[list[str]], **more: str) -> Path:
    lines = [json.dumps({"text": t, "labels": own, **more}) for t, own in zip(texts, labels, strict=True)]
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample_models: tuple[Any, Any]) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    sample = load_sample()
    for name, model in zip(("old", "new"), sample_models, strict=True):
        model.save(folder / f"{name}.hedgerow")
    write(folder / "de.jsonl", sample.test_texts[:60], sample.test_labels[:60], lang="de")
    write(folder / "en.jsonl", sample.test_texts[60:120], sample.test_labels[60:120], lang="en")
    return folder


def test_values_of_options_are_those_of_the_library() -> None:
    assert [value.value for value in comparison_options.Accuracy] == list(ACCURACY)
    assert [value.value for value in comparison_options.PromoteIf] == list(PROMOTE_IF)


def test_compare_of_files_then_it_finds_what_the_library_finds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sample_models: tuple[Any, Any]
) -> None:
    out = tmp_path / "found.json"
    command = ["compare", f"{folder}/old.hedgerow", f"{folder}/new.hedgerow", f"{folder}/de.jsonl"]
    command += [f"{folder}/en.jsonl", "--group-field", "lang"]
    assert main([*command, "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NEW is better: ndcg@5 rises by")
    assert "95 % interval" in shown
    sample = load_sample()
    groups = ["de"] * 60 + ["en"] * 60
    expected = hedgerow.compare(*sample_models, sample.test_texts[:120], sample.test_labels[:120], groups)
    assert json.loads(out.read_text()) == json.loads(json.dumps(expected.to_dict()))
    assert main([*command, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out.read_text())


def test_fail_if_worse_then_the_exit_status_is_the_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = f"{folder}/old.hedgerow", f"{folder}/new.hedgerow"
    data = [f"{folder}/de.jsonl", f"{folder}/en.jsonl", "--fail-if-worse"]
    assert main(["compare", old, new, *data]) == ExitCode.OK
    assert main(["compare", new, old, *data]) == ExitCode.WORSE
    assert main(["compare", new, old, *data[:2]]) == ExitCode.OK
    assert main(["compare", new, new, *data]) == ExitCode.OK
    (folder / "few.jsonl").write_text("".join((folder / "de.jsonl").open().readlines()[:30]))
    assert main(["compare", old, new, f"{folder}/few.jsonl", "--fail-if-worse"]) == ExitCode.UNDECIDED
    assert "at least 100 are needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--group-field", "country"], "no record has the field 'country'"),
        (["--labels-field", "topics"], "no labels to compare with in the field 'topics'"),
        (["--part", "test"], "part"),
    ],
)
def test_compare_of_what_is_not_there_then_it_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    command = ["compare", f"{folder}/old.hedgerow", f"{folder}/new.hedgerow", f"{folder}/de.jsonl"]
    code = main([*command, *more])
    assert code in (ExitCode.DATA, ExitCode.USAGE)
    assert words in capsys.readouterr().err


def test_models_of_features_then_files_are_read_and_put_one_after_the_other(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = sp.random_array((130, 8), density=0.6, rng=random, format="csr", dtype=np.float32)
    dense = random.random((130, 5)) < 0.4
    dense[:, 0] = True
    Y = sp.csr_array(dense.astype(np.int8))
    for name, part in (("first", slice(0, 60)), ("second", slice(60, 130))):
        lines = [
            f"{','.join(map(str, sorted(Y[[row]].indices)))} "
            + " ".join(f"{c}:{v:.9g}" for c, v in zip(X[[row]].indices, X[[row]].data, strict=True))
            for row in range(*part.indices(130))
        ]
        head = f"{len(lines)} 8 5\n"
        (tmp_path / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")
    models = [HedgerowClassifier(n_jobs=1, random_state=seed).fit(X[:40] * 2, Y[:40]) for seed in (0, 1)]
    for name, model in zip(("old", "new"), models, strict=True):
        model.save(tmp_path / name)
    out = tmp_path / "found.json"
    data = [f"{tmp_path}/first.txt", f"{tmp_path}/second.txt"]
    assert main(["compare", f"{tmp_path}/old", f"{tmp_path}/new", *data, "--json", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads(json.dumps(hedgerow.compare(*models, X, Y).to_dict()))


def test_models_that_read_other_fields_then_each_reads_its_own(tmp_path: Path) -> None:
    texts, labels = forest_texts(150, 0)
    titled = HedgerowTextClassifier(fields=["title", "body"], n_jobs=1, random_state=0)
    titled.fit([{"title": text, "body": "trees"} for text in texts], labels)
    plain = forest()
    held, truth = forest_texts(60, 5)
    records = [
        {"text": text, "title": text, "body": "trees", "labels": own, "lang": "en"}
        for text, own in zip(held, truth, strict=True)
    ]
    path = tmp_path / "held.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    rows = read_rows(RowsWanted((path,), group_field="lang"), plain.source, titled.source)
    assert rows.old_inputs == held
    assert rows.new_inputs == [{"title": text, "body": "trees"} for text in held]
    assert rows.groups == ["en"] * 60
