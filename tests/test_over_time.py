"""Models over time: what they learn from, what they are judged on, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changing_stream import FIRST_LABELS, MORE_LABELS, PERIODS, ROWS, changing_stream
from sklearn.base import clone

from hedgerow import HedgerowTextClassifier
from hedgerow.chronology import JudgedPeriod, OverTime, Plan, Strategy, TooFewRecordsError, over_time
from hedgerow.chronology.checkpoint import CheckpointError
from hedgerow.chronology.judging import judge
from hedgerow.chronology.strategies import KEEPERS, FirstModel, Past
from hedgerow.chronology.stream import Stream
from hedgerow.chronology.training import Trainer
from hedgerow.shift.kept import Achieved, kept_tests

STREAM = changing_stream()
CLASSIFIER = HedgerowTextClassifier(random_state=0, n_jobs=1, ngrams=(1, 1))
PLAN = Plan(unit="year", wrong_at_most=0.2, missed_at_most=0.3)
NEVER, CALIBRATED, UPDATED, FITTED = (strategy.value for strategy in Strategy)


def run(plan: Plan = PLAN, stream: Any = STREAM, estimator: Any = CLASSIFIER, **more: Any) -> OverTime:
    return over_time(estimator, stream.texts, stream.labels, stream.years, plan, **more)


@pytest.fixture(scope="module")
def found() -> OverTime:
    return run()


def without_seconds(found: OverTime) -> list[JudgedPeriod]:
    return [replace(one, seconds=0.0) for judged in found.judged.values() for one in judged]


def rows_of(year: int) -> list[int]:
    return [row for row, own in enumerate(STREAM.years) if own == year]


def first_model() -> tuple[HedgerowTextClassifier, set[int]]:
    """The model of the first period, and the rows that it was trained on."""
    stream = Stream.of(STREAM.texts, STREAM.labels, STREAM.years)
    trained: set[int] = set()

    def make(texts: list[str], Y: Any) -> HedgerowTextClassifier:
        trained.update(int(text.split()[0].removeprefix("row")) for text in texts)
        return HedgerowTextClassifier(random_state=0, n_jobs=1, ngrams=(1, 1))

    trainer = Trainer(stream, make, PLAN.held_out, PLAN.seed)
    model = trainer.train(PLAN.cut(stream.times)[0].rows)
    assert isinstance(model, HedgerowTextClassifier)
    return model, trained


# --- what changes over time ---


def test_a_model_that_is_never_updated_loses_where_labels_come_and_words_change(found: OverTime) -> None:
    first, *_, last = zip(found.judged[NEVER], found.judged[FITTED], strict=True)
    assert first[0].precision == first[1].precision  # both begin with the same model
    assert last[1].precision["1"] > last[0].precision["1"] + 0.1
    assert last[1].ndcg["5"] > last[0].ndcg["5"] + 0.1
    assert found.judged[NEVER][-1].precision["1"] < found.judged[NEVER][0].precision["1"]


def test_unknown_labels_are_those_that_the_training_rows_lack(found: OverTime) -> None:
    _, trained = first_model()
    known = {label for row in trained for label in STREAM.labels[row]}
    shares = []
    for one in found.judged[NEVER]:
        true = [label for row in rows_of(int(one.period)) for label in STREAM.labels[row]]
        assert (one.true_labels, one.inputs) == (len(true), ROWS)
        assert one.unknown_labels == sum(label not in known for label in true)
        shares.append(one.unknown_labels / len(true))
    assert shares == [one.unknown for one in found.judged[NEVER]]
    assert shares == sorted(set(shares))
    assert shares[0] > 0.2
    assert all(
        fitted.unknown_labels < never.unknown_labels
        for never, fitted in list(zip(found.judged[NEVER], found.judged[FITTED], strict=True))[1:]
    )


def test_new_labels_of_a_period_are_those_that_no_earlier_one_has(found: OverTime) -> None:
    seen: set[str] = set()
    assert len(found.periods) == PERIODS
    for period in found.periods:
        true = [label for row in rows_of(int(period.name)) for label in STREAM.labels[row]]
        assert period.new_labels == sum(label not in seen for label in true)
        assert period.true_labels == len(true)
        seen.update(true)
    assert len(seen) == FIRST_LABELS + MORE_LABELS * (PERIODS - 1)


def test_words_that_change_are_flagged_as_out_of_distribution(found: OverTime) -> None:
    never = found.judged[NEVER]
    assert never[-1].flagged is not None
    assert never[-1].flagged > 0.15
    assert never[-1].shifted


# --- nothing from the future ---


def test_models_learn_only_from_rows_that_are_over(found: OverTime) -> None:
    learned: list[int] = []

    def make(texts: list[str], Y: Any) -> HedgerowTextClassifier:
        learned.append(max(int(text.split()[0].removeprefix("row")) for text in texts))
        return HedgerowTextClassifier(random_state=0, n_jobs=1, ngrams=(1, 1))

    again = run(replace(PLAN, strategies=("fitted-again",)), estimator=make)
    assert [STREAM.years[row] for row in learned] == [2000, 2001, 2002]
    assert [replace(one, seconds=0) for one in again.judged[FITTED]] == [
        replace(one, seconds=0) for one in found.judged[FITTED]
    ]


def test_what_comes_later_changes_nothing_that_was_found(found: OverTime) -> None:
    end = ROWS * (PERIODS - 1)
    cut = replace(STREAM, texts=STREAM.texts[:end], labels=STREAM.labels[:end], years=STREAM.years[:end])
    earlier = run(stream=cut)
    for strategy, judged in earlier.judged.items():
        longer = found.judged[strategy][: len(judged)]
        assert [replace(one, seconds=0) for one in judged] == [replace(one, seconds=0) for one in longer]


def test_the_end_of_the_past_calibrates_and_is_not_trained_on(found: OverTime) -> None:
    assert [one.trained for one in found.judged[FITTED]] == [
        ROWS * years - round(0.2 * ROWS * years) for years in range(1, PERIODS)
    ]
    years = np.array(STREAM.years)
    stream = Stream.of(STREAM.texts, STREAM.labels, years)
    fitting, held_out = Trainer(stream, lambda X, Y: CLASSIFIER, 0.2, 0).split(np.arange(2 * ROWS))
    assert max(fitting) < min(held_out)
    assert set(years[held_out]) == {2001}


def test_the_order_of_the_records_does_not_matter_where_times_differ() -> None:
    plan = Plan(periods=2, strategies=("never-updated",), seed=3)
    rows = np.random.default_rng(0).permutation(2 * ROWS)
    shuffled = [[of[row] for row in rows] for of in (STREAM.texts, STREAM.labels, range(2 * ROWS))]
    times = list(range(2 * ROWS))
    straight = over_time(CLASSIFIER, STREAM.texts[: 2 * ROWS], STREAM.labels[: 2 * ROWS], times, plan)
    assert without_seconds(over_time(CLASSIFIER, *shuffled, plan)) == without_seconds(straight)


# --- what is counted ---


def test_figures_of_a_period_are_those_of_its_model_counted_by_hand(found: OverTime) -> None:
    model, _ = first_model()
    rows = rows_of(2001)
    texts, truth = [STREAM.texts[row] for row in rows], [set(STREAM.labels[row]) for row in rows]
    best = model.top(texts, k=5).labels.tolist()
    for k in (1, 3, 5):
        right = sum(len(set(labels[:k]) & true) for labels, true in zip(best, truth, strict=True))
        assert found.judged[NEVER][0].precision[str(k)] == pytest.approx(right / (k * len(rows)))
    assert found.judged[NEVER][0].ood == int(model.decide(texts, false_alarm=0.05).is_ood.sum())


def test_guarantees_count_the_labels_that_decide_gives() -> None:
    plan = replace(PLAN, wrong_at_most=0.4)
    found = run(replace(plan, strategies=("never-updated",)))
    model, trained = first_model()
    known = {label for row in trained for label in STREAM.labels[row]}
    for one in found.judged[NEVER]:
        rows = rows_of(int(one.period))
        texts, truth = [STREAM.texts[row] for row in rows], [set(STREAM.labels[row]) for row in rows]
        wrong, missed = one.guarantees
        assert (wrong.kind, wrong.asked, missed.kind, missed.asked) == ("wrong", 0.4, "missed", 0.3)
        accepted = [answer.accept for answer in model.decide(texts, wrong_at_most=0.4, wrong_of="labels")]
        mistakes = [set(labels) - true for labels, true in zip(accepted, truth, strict=True)]
        assert (wrong.counted, wrong.failed) == (sum(map(len, accepted)), sum(map(len, mistakes)))
        assert wrong.counted > 0
        assert wrong.achieved == pytest.approx(wrong.failed / wrong.counted)
        assert wrong.kept == (wrong.achieved <= 0.4)
        decided = model.decide(texts, missed_at_most=0.3)
        lost = [
            (len(true & known), len((true & known) - {*answer.accept, *answer.review}))
            for answer, true in zip(decided, truth, strict=True)
        ]
        counted = [(of, failed) for of, failed in lost if of]
        assert (missed.counted, missed.failed) == tuple(map(sum, zip(*counted, strict=True)))
        assert missed.inputs == len(counted)
        assert missed.achieved == pytest.approx(np.mean([failed / of for of, failed in counted]))


def test_a_guarantee_that_breaks_as_words_change_is_told_from_one_that_is_kept(found: OverTime) -> None:
    last = {name: judged[-1].guarantees[0] for name, judged in found.judged.items()}
    never, again = last[NEVER], last[CALIBRATED]
    assert (never.kind, never.of, never.asked) == ("wrong", "labels", 0.2)
    assert never.broken
    assert never.kept is False
    assert never.p_value is not None
    assert never.p_value < 0.005
    assert again.kept
    assert (again.broken, again.p_value) == (False, 1.0)


@pytest.mark.parametrize("of", ["labels", "answered", "inputs"])
def test_a_share_of_wrong_labels_is_tested_whatever_it_is_of(of: str) -> None:
    plan = replace(PLAN, wrong_of=of, wrong_at_most=0.3, strategies=("never-updated", "calibrated-again"))
    judged = run(plan).judged
    never, again = judged[NEVER][-1].guarantees[0], judged[CALIBRATED][-1].guarantees[0]
    assert never.of == of
    assert never.achieved is not None
    assert never.achieved > 0.5
    assert never.broken
    assert not again.broken
    assert again.p_value == 1.0


def test_a_test_of_all_accepted_labels_is_that_of_their_excess_over_inputs() -> None:
    """Of each input: its wrong labels less the share of its accepted ones, brought between 0 and 1."""
    model, _ = first_model()
    rows = rows_of(2003)
    texts, truth = [STREAM.texts[row] for row in rows], [set(STREAM.labels[row]) for row in rows]
    accepted = [answer.accept for answer in model.decide(texts, wrong_at_most=0.2, wrong_of="labels")]
    most = max(map(len, accepted))  # of so many inputs, some are given as many as can be
    losses = [
        (len(set(labels) - true) - 0.2 * len(labels)) / most + 0.2
        for labels, true in zip(accepted, truth, strict=True)
    ]
    assert 0 <= min(losses) <= max(losses) <= 1
    stream = Stream.of(STREAM.texts, STREAM.labels, STREAM.years)
    found = judge(model.source, texts, stream.truth(np.array(rows), model.classes_), PLAN).guarantees
    achieved = Achieved("accepted labels", "wrong", 0.2, float(np.mean(losses)), len(rows))
    held_out = model.policy_.missed.rows
    assert found[0].p_value == pytest.approx(kept_tests([achieved], held_out)[0].p_value, rel=1e-6)


def test_a_model_that_is_calibrated_again_ranks_as_before(found: OverTime) -> None:
    for never, calibrated in zip(found.judged[NEVER], found.judged[CALIBRATED], strict=True):
        assert calibrated.precision == never.precision
        assert calibrated.unknown_labels == never.unknown_labels


def test_a_goal_that_is_left_out_is_not_judged() -> None:
    found = run(replace(PLAN, wrong_at_most=None, strategies=("never-updated",)))
    assert [[of.kind for of in one.guarantees] for one in found.judged[NEVER]] == [["missed"]] * 3


def test_a_guarantee_that_cannot_be_given_says_why() -> None:
    found = run(replace(PLAN, missed_at_most=0.0001, strategies=("never-updated",)))
    for one in found.judged[NEVER]:
        missed = one.guarantees[1]
        assert missed.refused
        assert (missed.achieved, missed.kept, missed.broken) == (None, None, False)


# --- strategies ---


def test_a_strategy_is_asked_for_each_period_with_all_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Past] = []

    class Recorded:
        def __init__(self, trainer: Trainer, first: FirstModel) -> None:
            self._first = first

        def model_for(self, past: Past) -> Any:
            asked.append(past)
            return self._first.of(past)

    monkeypatch.setitem(KEEPERS, Strategy.FITTED_AGAIN, Recorded)  # type: ignore[arg-type]
    run(replace(PLAN, strategies=("fitted-again",)))
    for number, past in enumerate(asked, start=1):
        assert sorted(past.rows) == list(range(ROWS * number))
        assert sorted(past.newest) == list(range(ROWS * (number - 1), ROWS * number))
        assert sorted(past.first) == list(range(ROWS))
        assert past.ends == tuple(ROWS * over for over in range(1, number + 1))
        assert past.is_first == (number == 1)
    assert len(asked) == PERIODS - 1


def test_a_model_that_is_updated_has_learned_the_records_of_one_that_is_fitted_again(found: OverTime) -> None:
    for updated, fitted, never in zip(
        *(found.judged[name] for name in (UPDATED, FITTED, NEVER)), strict=True
    ):
        for what in ("trained", "known_labels", "unknown_labels", "true_labels", "inputs"):
            assert getattr(updated, what) == getattr(fitted, what)
        if updated.period != "2001":
            assert updated.precision["1"] > never.precision["1"] + 0.1
            assert updated.precision["1"] > fitted.precision["1"] - 0.1


def test_small_updates_amend_a_model_and_leave_the_first_as_it_was() -> None:
    """Periods of less than a quarter of what was learned before do not train everything again."""
    plan = Plan(periods=12, start="520", strategies=("never-updated", "updated"), wrong_at_most=None)
    times = list(range(2 * ROWS))
    more = {"X": STREAM.texts[: 2 * ROWS], "Y": STREAM.labels[: 2 * ROWS]}
    both = over_time(CLASSIFIER, times=times, plan=plan, **more)
    alone = over_time(CLASSIFIER, times=times, plan=replace(plan, strategies=("never-updated",)), **more)
    assert [replace(one, seconds=0) for one in both.judged[NEVER]] == [
        replace(one, seconds=0) for one in alone.judged[NEVER]
    ]
    updated = both.judged[UPDATED]
    assert len(updated) > 3
    trained = [one.trained for one in updated]
    assert trained == sorted(set(trained))
    assert updated[-1].unknown_labels < both.judged[NEVER][-1].unknown_labels


def test_every_strategy_has_somebody_who_keeps_its_model() -> None:
    assert set(KEEPERS) == set(Strategy)


# --- what is refused ---


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"periods": 1}, "periods is 1"),
        ({"unit": "week"}, "unit is 'week'"),
        ({"strategies": ()}, "strategies is empty"),
        ({"strategies": ("sometimes",)}, "sometimes"),
        ({"wrong_at_most": 1.5}, "wrong_at_most is 1.5"),
        ({"wrong_of": "all"}, "wrong_of is 'all'"),
        ({"missed_at_most": 0}, "missed_at_most is 0"),
        ({"held_out": 1.0}, "held_out is 1.0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Plan(**wrong)


def test_a_past_that_is_too_short_says_what_to_do() -> None:
    with pytest.raises(
        TooFewRecordsError, match=r"8 of them are held out .* 100 are needed; .*fewer periods"
    ):
        over_time(CLASSIFIER, STREAM.texts[:80], STREAM.labels[:80], range(80), Plan(periods=2))


def test_each_input_needs_a_time() -> None:
    with pytest.raises(ValueError, match="there are 2,080 inputs, but 3 times"):
        over_time(CLASSIFIER, STREAM.texts, STREAM.labels, [1, 2, 3])


def test_inputs_that_were_trained_on_do_not_calibrate() -> None:
    texts = [*STREAM.texts[:300], *STREAM.texts[:300], *STREAM.texts[300:500]]
    labels = [*STREAM.labels[:300], *STREAM.labels[:300], *STREAM.labels[300:500]]
    times = [2000] * 600 + [2001] * 200
    plan = Plan(unit="year", held_out=0.3)
    with pytest.raises(TooFewRecordsError, match="others are in the training data"):
        over_time(CLASSIFIER, texts, labels, [*range(600), *[600] * 200], replace(plan, unit=None, periods=2))
    with pytest.raises(TooFewRecordsError, match="others are in the training data"):
        over_time(CLASSIFIER, texts, labels, times, plan)


# --- resuming ---


class Counted:
    """Makes classifiers and counts them."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, X: Any, Y: Any) -> HedgerowTextClassifier:
        self.made += 1
        return HedgerowTextClassifier(random_state=0, n_jobs=1, ngrams=(1, 1))


def test_a_run_that_was_stopped_goes_on_and_trains_no_finished_period_again(
    tmp_path: Path, found: OverTime
) -> None:
    finished: list[JudgedPeriod] = []

    def stop(one: JudgedPeriod) -> None:
        finished.append(one)
        if len(finished) == 2 * len(Strategy):  # of two periods
            raise KeyboardInterrupt

    folder = tmp_path / "periods"
    with pytest.raises(KeyboardInterrupt):
        run(estimator=Counted(), checkpoint=folder, finished=stop)
    rest = Counted()
    resumed = run(estimator=rest, checkpoint=folder)
    assert rest.made == 2  # the first model, which others begin with, and that of the last period
    assert without_seconds(resumed) == without_seconds(found)
    none = Counted()
    assert run(estimator=none, checkpoint=folder) == resumed
    assert none.made == 0


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "periods"
    plan = replace(PLAN, strategies=("never-updated",))
    run(plan, checkpoint=folder)
    run(replace(plan, strategies=("calibrated-again",)), checkpoint=folder)  # more strategies fit in
    run(plan, estimator=clone(CLASSIFIER).set_params(n_jobs=2), checkpoint=folder)  # and so do other threads
    changed = replace(STREAM, labels=[["label0"], *STREAM.labels[1:]])
    for arguments, problem in (
        ({"plan": replace(plan, seed=5)}, "other options"),
        ({"stream": changed}, "other data"),
        ({"estimator": HedgerowTextClassifier(random_state=1)}, "other settings of the model"),
    ):
        with pytest.raises(CheckpointError, match=problem):
            run(**{"plan": plan, "checkpoint": folder, **arguments})
    (folder / "never-updated-1.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"never-updated-1.json is damaged; delete it"):
        run(plan, checkpoint=folder)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("precious")
    with pytest.raises(CheckpointError, match="holds something else"):
        run(plan, checkpoint=other)


def test_progress_rises_to_the_end_and_names_strategy_and_period() -> None:
    told: list[tuple[float, str]] = []
    run(replace(PLAN, strategies=("never-updated",)), progress=lambda share, what: told.append((share, what)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert {what.partition(":")[0] for _, what in told} == {f"never updated, {2000 + n}" for n in (1, 2, 3)}
