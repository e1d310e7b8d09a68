"""Decisions on labels and inputs, beside the truth and dense computations."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hedgerow import (
    Costs,
    Decisions,
    HedgerowClassifier,
    HedgerowTextClassifier,
    Votes,
    compare_costs,
    evaluate,
    learn_from_held_out,
    load,
)
from hedgerow.cli.app import main
from hedgerow.decisions.outcomes import Tally
from hedgerow.decisions.rules import ACCEPT, REJECT, REVIEW, Rule
from hedgerow.estimators.held_out import split_rows
from hedgerow.storage.container import Malformed, read_model, write_model

FEATURES, LABELS = 60, 12


def made(rows: int, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """Labels shine through their own five features, with noise."""
    random = np.random.default_rng(seed)
    Y = random.random((rows, LABELS)) < 0.15
    Y[np.flatnonzero(~Y.any(axis=1)), 0] = True
    own = np.repeat(Y, FEATURES // LABELS, axis=1) & (random.random((rows, FEATURES)) < 0.45)
    noise = random.random((rows, FEATURES)) < 0.05
    X = (own | noise) * random.uniform(0.5, 1.5, (rows, FEATURES))
    return sp.csr_array(X), Y.astype(np.int8)


@pytest.fixture(scope="module")
def data():
    return {
        part: made(rows, seed)
        for seed, (part, rows) in enumerate({"train": 500, "held": 700, "test": 400}.items())
    }


@pytest.fixture(scope="module")
def model(data):
    model = HedgerowClassifier(method="bagging", members=4, leaf_size=4, random_state=0, n_jobs=1)
    model.fit(*data["train"])
    learn_from_held_out(model, *data["held"])
    return model


def codes_of(decisions: Decisions, labels: int = LABELS) -> np.ndarray:
    """All decisions as a dense array; what is not listed is rejected."""
    dense = np.zeros((len(decisions), labels), dtype=int)
    rows = np.repeat(np.arange(len(decisions)), np.diff(decisions.indptr))
    dense[rows, decisions.columns] = decisions.decision
    return dense


@pytest.mark.parametrize("risk", [0.1, 0.2, 0.4])
def test_decisions_by_risk_then_are_those_of_the_two_thresholds(model, data, risk):
    X, _ = data["test"]
    found = model.decide(X, wrong_at_most=risk, wrong_of="inputs", missed_at_most=risk)
    mean = model.predict_votes(X).mean().toarray()
    accept = np.float32(model.policy_.accept_from(risk, of="inputs"))
    reject = np.float32(min(model.policy_.reject_below(risk), accept))
    expected = np.where(mean >= accept, ACCEPT, np.where(mean < reject, REJECT, REVIEW))
    assert (codes_of(found) == expected).all()
    assert (found.reject_below, found.accept_from) == (reject, accept)
    assert f"at most {100 * risk:g} %" in found.guarantee


@pytest.mark.parametrize("risk", [0.1, 0.2])
def test_decisions_by_risk_on_further_inputs_then_about_keep_the_promise(model, data, risk):
    X, Y = data["test"]
    codes = codes_of(model.decide(X, wrong_at_most=risk, wrong_of="inputs", missed_at_most=risk))
    has = Y.any(axis=1)
    missed = (Y[has] & (codes[has] == REJECT)).sum(axis=1) / Y[has].sum(axis=1)
    given_ = (codes == ACCEPT).sum(axis=1)
    wrong = ((codes == ACCEPT) & (Y == 0)).sum(axis=1) / np.maximum(1, given_)
    assert missed.mean() <= risk + 4 * missed.std() / math.sqrt(len(missed))
    assert wrong.mean() <= risk + 4 * wrong.std() / math.sqrt(len(wrong))


def test_decisions_then_list_all_that_is_not_rejected_and_the_best_k_in_order(model, data):
    X, _ = data["test"]
    for k in (0, 3, 50):
        found = model.decide(X, wrong_at_most=0.2, missed_at_most=0.2, k=k)
        mean = model.predict_votes(X).mean().toarray()
        for row in range(0, len(found), 37):
            own = slice(found.indptr[row], found.indptr[row + 1])
            p = found.probability[own]
            assert (np.diff(p) <= 0).all()
            best = np.lexsort((np.arange(LABELS), -mean[row]))[: min(k, LABELS)]
            assert set(best) <= set(found.columns[own])
            assert len(p) >= min(k, LABELS)
            assert np.array_equal(mean[row][found.columns[own]], p)


def test_decisions_then_can_be_walked_through_and_made_plain(model, data):
    X, _ = data["test"]
    found = model.decide(X[:20], wrong_at_most=0.2, missed_at_most=0.2)
    plain = found.to_dict()
    json.dumps(plain, allow_nan=False)
    assert len(list(found)) == len(plain["inputs"]) == len(found) == 20
    for row, of_input in enumerate(found):
        assert len(of_input.accept) == found.count("accept")[row]
        assert of_input.is_ood == (of_input.p_value <= 0.05)
        assert plain["inputs"][row]["review"] == of_input.review
    assert found[-1] == found[19]
    with pytest.raises(IndexError, match="there is no input 20"):
        found[20]
    with pytest.raises(ValueError, match="decision is 'keep'"):
        found.count("keep")


def test_decisions_in_other_batches_and_threads_then_have_the_same_bits(model, data):
    X, _ = data["test"]
    model.set_params(n_jobs=2)
    whole = model.decide(X, wrong_at_most=0.2, missed_at_most=0.2)
    model.set_params(n_jobs=1)
    parts = [
        model.decide(X[begin : begin + 33], wrong_at_most=0.2, missed_at_most=0.2)
        for begin in range(0, X.shape[0], 33)
    ]
    joined = Decisions.concatenate(parts)
    for name in ("indptr", "columns", "probability", "total", "knowledge", "decision", "p_value", "bound"):
        one, other = getattr(whole, name), getattr(joined, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tobytes() == other.tobytes(), name


@pytest.mark.parametrize("by", ["total", "data", "knowledge", "variance"])
def test_decisions_by_a_doubt_then_accept_only_predicted_labels_with_little_of_it(model, data, by):
    X, Y = data["test"]
    found = model.decide(X, wrong_at_most=0.3, by=by, k=LABELS)
    accepted = found.decision == ACCEPT
    assert accepted.any()
    assert found.probability[accepted].min() >= 0.5
    highest = {"variance": 0.25}.get(by, math.log(2))
    limit = (1 - found.accept_from) * highest
    assert getattr(found, by)[accepted].max() <= limit + 1e-6
    codes = codes_of(found)
    wrong = ((codes == ACCEPT) & (Y == 0)).sum(axis=1) / np.maximum(1, (codes == ACCEPT).sum(axis=1))
    assert wrong.mean() <= 0.3 + 4 * wrong.std() / math.sqrt(len(wrong))


def test_decisions_for_a_coverage_then_accept_that_share_of_predicted_labels(model, data):
    X, _ = data["test"]
    mean = model.predict_votes(X).mean().toarray()
    codes = codes_of(model.decide(X, coverage=0.8, by="variance"))
    predicted = (mean >= 0.5).sum(axis=1)
    share = np.where(predicted, ((codes == ACCEPT) & (mean >= 0.5)).sum(axis=1) / np.maximum(1, predicted), 1)
    assert share.mean() >= 0.8 - 4 * share.std() / math.sqrt(len(share))
    assert share.mean() < 0.99


def test_decisions_for_a_size_then_accept_about_so_many_and_leave_nothing_to_review(model, data):
    found = model.decide(data["test"][0], size=2.5)
    assert found.count("review").sum() == 0
    assert 1.5 < found.count("accept").mean() <= 2.7


def test_decisions_by_groups_then_have_a_threshold_for_each_group(model, data):
    X, _ = data["test"]
    policy = model.policy_
    found = model.decide(X, wrong_at_most=0.3, wrong_of="inputs", missed_at_most=0.3, groups=True)
    codes, mean = codes_of(found), model.predict_votes(X).mean().toarray()
    thresholds = policy.reject_below_by_group(0.3)
    accept = policy.accept_from(0.3, of="inputs")
    for group, threshold in zip(policy.groups, thresholds, strict=True):
        own = (model.label_counts_ >= group.lowest) & (model.label_counts_ <= group.highest)
        least = np.float32(min(threshold, accept))
        assert ((codes[:, own] == REJECT) == (mean[:, own] < least)).all()


@pytest.mark.parametrize("by", ["top", "expected", "total", "data", "knowledge", "variance", "ood"])
def test_doubtful_inputs_then_are_not_answered_and_the_rest_keeps_the_coverage(model, data, by):
    X, _ = data["test"]
    both = {"wrong_at_most": 0.3, "wrong_of": "inputs", "missed_at_most": 0.3}
    plain, found = model.decide(X, **both), model.decide(X, **both, inputs_by=by, inputs_coverage=0.7)
    assert "On average, at least 70 % of the inputs are answered." in found.guarantee
    assert "answered" not in plain.guarantee
    assert 0.7 - 4 * math.sqrt(0.21 / 400) - 0.03 <= found.answered.mean() < 1
    one, other = codes_of(plain), codes_of(found)
    assert (other[~found.answered] != ACCEPT).all()
    assert (other[~found.answered][one[~found.answered] == ACCEPT] == REVIEW).all()
    assert (one[found.answered] == other[found.answered]).all()


def test_doubtful_inputs_by_risk_then_leave_answers_that_are_right(model, data):
    X, Y = data["test"]
    found = model.decide(X, wrong_at_most=0.3, inputs_by="top", inputs_wrong_at_most=0.1)
    best = model.top(X, 1).labels[:, 0]
    wrong = Y[np.arange(len(best)), best][found.answered] == 0
    assert wrong.mean() <= 0.1 + 4 * math.sqrt(0.09 / len(wrong))


def test_outsiders_then_are_flagged_and_few_others_are(model, data):
    X, _ = data["test"]
    strange = sp.csr_array(np.random.default_rng(9).random((50, FEATURES)) ** 6)
    assert model.decide(X, false_alarm=0.1).is_ood.mean() <= 0.1 + 0.06
    nothing = model.decide(X[:3], false_alarm=None)
    assert nothing.is_ood is None
    assert len(nothing.p_value) == 3
    assert model.decide(strange).is_ood.shape == (50,)
    with pytest.raises(ValueError, match="learn it from at least 2000"):
        model.decide(X, false_alarm=0.001)


# Costs


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
def test_costs_then_choose_the_least_and_the_thresholds_say_the_same(p, wrong, missed, look):
    costs = Costs(wrong, missed, look)
    p = np.float32(p)
    votes = Votes([0, 1], [0], [[p]], 1)
    code = int(Rule(costs=costs).codes(votes, np.array([p]))[0])
    choices = [float(p) * missed, look, (1 - float(p)) * wrong]
    assert choices[code] == pytest.approx(min(choices))
    reject, accept = costs.thresholds()
    if float(p) < reject - 1e-6:
        assert code == REJECT or choices[REJECT] == pytest.approx(choices[code])
    if float(p) > accept + 1e-6:
        assert code == ACCEPT or choices[ACCEPT] == pytest.approx(choices[code])


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, None])
def test_costs_that_are_none_then_are_refused_by_name(value):
    with pytest.raises(ValueError, match="the cost look is"):
        Costs(look=value)


def test_decisions_by_costs_then_expect_the_sum_over_all_candidates(model, data):
    X, _ = data["test"]
    costs = Costs(1, 2, 0.2)
    found = model.decide(X, costs=costs)
    mean = model.predict_votes(X).mean().toarray().astype(np.float64)
    choices = np.stack([mean * 2, np.full_like(mean, 0.2), 1 - mean])
    assert np.allclose(found.expected_cost, choices.min(axis=0).sum(axis=1), atol=1e-5)
    assert found.to_dict()["inputs"][0]["expected_cost"] == pytest.approx(found.expected_cost[0])
    assert "nothing is guaranteed" in found.guarantee


def test_costs_achieved_then_are_counted_by_hand_and_near_the_expected(model, data):
    X, Y = data["test"]
    costs = Costs(1, 2, 0.2)
    votes = model.predict_votes(X)
    compared = compare_costs([(votes, sp.csr_array(Y))], costs)
    codes = codes_of(model.decide(X, costs=costs))
    by_hand = (
        ((codes == ACCEPT) & (Y == 0)).sum() * 1
        + ((codes == REJECT) & (Y == 1)).sum() * 2
        + (codes == REVIEW).sum() * 0.2
    ) / len(Y)
    assert compared.best.cost == pytest.approx(by_hand)
    assert compared.best.cost == pytest.approx(compared.best.expected_cost, rel=0.25)
    assert compared.best.expected_cost <= compared.never_asking.expected_cost
    assert compared.best.expected_cost <= compared.always_asking.expected_cost
    assert compared.never_asking.reviewed == 0
    assert compared.always_asking.accepted == 0


def test_tally_then_counts_labels_that_are_no_candidates_as_missed():
    votes = Votes([0, 1, 2], [0, 1], [[0.9], [0.2]], 3)
    tally = Tally(Rule(0.5, 0.8))
    tally.add(votes, sp.csr_array(np.array([[1, 0, 1, 1], [0, 0, 0, 0]])))
    found = tally.finish()
    assert found.missed == pytest.approx(2 / 3)
    assert (found.wrong, found.precision, found.accepted, found.rejected) == (0, 1, 0.5, 0.5)


# What cannot be


def test_decide_without_a_policy_then_says_how_to_get_one(data):
    bare = HedgerowClassifier(random_state=0, n_jobs=1).fit(*data["train"])
    with pytest.raises(NotFittedError, match="learn_policy"):
        bare.decide(data["test"][0])
    with pytest.raises(NotFittedError, match="calibrate"):
        bare.decide(data["test"][0], costs=Costs())
    with pytest.raises(NotFittedError):
        HedgerowClassifier().decide(data["test"][0])


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"wrong_at_most": 0}, "wrong_at_most is 0"),
        ({"wrong_at_most": 1.0}, "wrong_at_most is 1.0"),
        ({"missed_at_most": math.nan}, "missed_at_most is nan"),
        ({"missed_at_most": "0.1"}, "missed_at_most is '0.1'"),
        ({"review_at_most": 0}, "review_at_most is 0; it must be a whole number from 1 to 100"),
        ({"review_at_most": 101}, "review_at_most is 101"),
        ({"review_at_most": 2.5}, "review_at_most is 2.5"),
        ({"review_at_most": True}, "review_at_most is True"),
        ({"wrong_of": "texts"}, "wrong_of is 'texts'; it must be one of labels, answered, inputs"),
        ({"wrong_at_most": 0.1, "costs": Costs()}, "wrong_at_most and costs are given"),
        ({"missed_at_most": 0.1, "size": 3}, "missed_at_most and size are given"),
        ({"costs": Costs(), "size": 3}, "costs and size are given"),
        ({"wrong_at_most": 0.2, "by": "entropy"}, "by is 'entropy'"),
        ({"wrong_at_most": 0.2, "by": "total", "wrong_of": "labels"}, "use wrong_of='inputs'"),
        ({"missed_at_most": 0.2, "by": "total"}, "by chooses what is accepted"),
        ({"size": 3, "groups": True}, "do not work with costs or size"),
        ({"groups": True}, "groups have thresholds of their own"),
        ({"groups": True, "missed_at_most": 0.2, "review_at_most": 5}, "do not work with review_at_most"),
        ({"wrong_at_most": 0.2, "coverage": 0.5}, "coverage and wrong_at_most are given"),
        ({"coverage": 2}, "coverage is 2"),
        ({"wrong_at_most": 0.2, "confidence": 1}, "confidence is 1"),
        ({"wrong_at_most": 0.2, "inputs_by": "mood", "inputs_wrong_at_most": 0.1}, "inputs_by is 'mood'"),
        ({"wrong_at_most": 0.2, "inputs_by": "top"}, "needs either inputs_wrong_at_most or inputs_coverage"),
        (
            {"wrong_at_most": 0.2, "wrong_of": "answered", "inputs_by": "top", "inputs_coverage": 0.5},
            "holds where all inputs are answered",
        ),
        (
            {"coverage": 0.9, "inputs_by": "top", "inputs_wrong_at_most": 0.2},
            "coverage counts the labels of all inputs",
        ),
        ({"wrong_at_most": 0.2, "inputs_wrong_at_most": 0.1}, "need inputs_by"),
        ({"wrong_at_most": 0.2, "k": -1}, "k is -1"),
        ({"wrong_at_most": 0.2, "false_alarm": 0}, "false_alarm is 0"),
    ],
)
def test_goals_that_make_no_sense_then_are_refused(model, data, goal, message):
    with pytest.raises(ValueError, match=message):
        model.decide(data["test"][0][:5], **goal)


def test_costs_of_another_kind_then_are_refused(model, data):
    with pytest.raises(TypeError, match="give Costs"):
        model.decide(data["test"][0], costs={"wrong": 1})


def test_inputs_of_another_width_then_are_refused(model, data):
    wide = sp.csr_array((3, FEATURES + 1))
    with pytest.raises(ValueError, match=r"features|columns"):
        model.decide(wide)
    with pytest.raises(ValueError, match=r"features|columns"):
        model.learn_policy(wide, np.ones((3, LABELS), dtype=int))
    with pytest.raises(ValueError, match="there are 700 inputs, but labels for 5"):
        model.learn_policy(data["held"][0], data["held"][1][:5])


def test_policy_from_training_data_then_is_refused(model, data):
    with pytest.raises(ValueError, match="the model was trained on 500 of the 500 inputs"):
        model.learn_policy(*data["train"])


def test_policy_from_data_with_a_few_training_inputs_then_leaves_them_out(data):
    own = HedgerowClassifier(random_state=0, n_jobs=1).fit(*data["train"])
    X = sp.vstack([data["held"][0], data["train"][0][:10]]).tocsr()
    Y = np.concatenate([data["held"][1], data["train"][1][:10]])
    own.learn_policy(X, Y)
    assert (own.policy_.left_out, own.policy_.rows) == (10, 700)


def test_another_search_than_that_of_the_policy_then_is_refused(model, data):
    model.set_params(beam=7)
    try:
        with pytest.raises(ValueError, match="beam is 7, but the policy was learned with 50"):
            model.decide(data["test"][0])
        assert evaluate(model, *data["test"]).decisions == []
    finally:
        model.set_params(beam=50)


# Life of a policy


def test_policy_then_is_forgotten_where_it_no_longer_holds(data):
    own = HedgerowClassifier(method="bagging", members=2, random_state=0, n_jobs=1).fit(*data["train"])
    X, Y = data["held"]
    own.learn_policy(X, Y)
    assert not hasattr(own.uncalibrated(), "policy_")
    own.calibrate(X, Y)
    assert not hasattr(own, "policy_")
    own.learn_policy(X, Y)
    assert "ood" not in own.policy_.inputs
    own.learn_ood(X)
    own.learn_policy(X, Y)
    assert "ood" in own.policy_.inputs
    own.learn_ood(X)
    assert "ood" not in own.policy_.inputs
    with pytest.raises(ValueError, match="learned without ood of inputs"):
        own.decide(X, inputs_by="ood", inputs_coverage=0.5)
    own.fit(*data["train"])
    assert not hasattr(own, "policy_")


def test_held_out_rows_then_are_cut_by_the_seed_without_overlap():
    first, second = split_rows(101, 0.3, 7)
    assert sorted([*first, *second]) == list(range(101))
    assert len(first) == 30
    assert not np.array_equal(first, split_rows(101, 0.3, 8)[0])


def test_held_out_data_that_are_too_few_then_are_refused(data):
    own = HedgerowClassifier(random_state=0, n_jobs=1).fit(*data["train"])
    X, Y = data["held"]
    with pytest.raises(
        ValueError, match="too few: 30 of them are for OOD detection, which needs at least 40"
    ):
        learn_from_held_out(own, X[:60], Y[:60])


def test_held_out_data_then_the_policy_never_sees_the_rows_of_the_map(data, monkeypatch):
    own = HedgerowClassifier(method="bagging", members=2, random_state=0, n_jobs=1).fit(*data["train"])
    X, Y = data["held"]
    seen = {}
    for name in ("calibrate", "learn_ood", "learn_policy"):
        method = getattr(HedgerowClassifier, name)

        def told(self, rows, *rest, _name=name, _method=method, **options):
            seen[_name] = {row.tobytes() for row in rows.toarray()}
            return _method(self, rows, *rest, **options)

        monkeypatch.setattr(HedgerowClassifier, name, told)
    learned = learn_from_held_out(own, X, Y)
    assert seen["calibrate"] == seen["learn_ood"]
    assert not seen["calibrate"] & seen["learn_policy"]
    assert (learned.first, learned.second) == (350, 350)
    assert set(learned.before) == set(learned.after) == {1, 3, 5}


def test_held_out_data_with_an_out_of_bag_map_then_leave_more_for_the_policy(data):
    own = HedgerowClassifier(method="bagging", members=6, random_state=0, n_jobs=1).fit(*data["train"])
    learned = learn_from_held_out(own, *data["held"], training=data["train"])
    assert own.calibration_.source == "out-of-bag"
    assert (learned.first, learned.second) == (140, 560)
    assert learned.out_of_bag > 0


def test_policy_in_a_model_file_then_decides_the_same(model, data, tmp_path):
    model.save(tmp_path / "m.hedgerow")
    again = load(tmp_path / "m.hedgerow").set_params(n_jobs=1)
    X, _ = data["test"]
    one, other = (
        model.decide(X, wrong_at_most=0.2, missed_at_most=0.2),
        again.decide(X, wrong_at_most=0.2, missed_at_most=0.2),
    )
    assert one.decision.tobytes() == other.decision.tobytes()
    assert one.guarantee == other.guarantee
    assert again.describe()["policy"] == model.describe()["policy"]


def test_damaged_policy_in_a_model_file_then_is_malformed(model, tmp_path):
    model.save(tmp_path / "m.hedgerow")
    file = read_model(tmp_path / "m.hedgerow")
    sections = {n: a for n, a in file.sections.items() if not n.startswith("__") and "padding" not in n}
    for name, (header, arrays) in {
        "no arrays": (file.header, {n: a for n, a in sections.items() if not n.startswith("policy.")}),
        "no object": ({**file.header, "policy": 3}, sections),
        "odd groups": ({**file.header, "policy": {**file.header["policy"], "groups": [[1]]}}, sections),
        "odd search": ({**file.header, "policy": {**file.header["policy"], "search": {}}}, sections),
    }.items():
        path = tmp_path / f"{name}.hedgerow"
        write_model(path, arrays, header)
        with pytest.raises(Malformed):
            load(path)


# Evaluation


def test_evaluation_then_shows_promised_and_achieved_side_by_side(model, data):
    X, Y = data["test"]
    found = evaluate(model, X, sp.csr_array(Y))
    plain = found.to_dict()
    json.dumps(plain, allow_nan=False)
    kept = {(of["kind"], of["of"], of["asked"]): of for of in plain["decisions"]}
    assert len(kept) == len(plain["decisions"]) == 16
    true = Y.sum(axis=1)
    for share in (0.05, 0.1, 0.2):
        codes = codes_of(model.decide(X, missed_at_most=share))
        missed = ((codes == REJECT) & (Y == 1)).sum(axis=1) / true
        of = kept["missed", None, share]
        assert of["achieved"] == pytest.approx(missed.mean())
        assert of["labels"] == pytest.approx((codes == REVIEW).sum(axis=1).mean())
        assert of["promised"] == share
        assert of["kept"] == (missed.mean() <= share)
        for kind in ("labels", "answered", "inputs"):
            codes = codes_of(model.decide(X, wrong_at_most=share, wrong_of=kind))
            accepted, wrong = (codes == ACCEPT).sum(axis=1), ((codes == ACCEPT) & (Y == 0)).sum(axis=1)
            shares = wrong / np.maximum(1, accepted)
            expected = {
                "labels": wrong.sum() / max(1, accepted.sum()),
                "answered": shares[accepted > 0].mean() if accepted.any() else None,
                "inputs": shares.mean(),
            }[kind]
            of = kept["wrong", kind, share]
            assert of["labels"] == pytest.approx(accepted.mean())
            if accepted.any():
                assert of["achieved"] == pytest.approx(expected)
                assert of["kept"] == (expected <= share)
    for number in (5, 10, 20, 50):
        found_of = kept["review", None, number]
        listed = codes_of(model.decide(X, review_at_most=number)) == REVIEW
        right = ((listed & (Y == 1)).sum(axis=1) / true).mean()
        assert found_of["achieved"] == pytest.approx(right)
        assert found_of["kept"] == (right >= found_of["promised"])
    assert plain["flagged"] == pytest.approx((model.ood_scores(X).p_value <= 0.05).mean())


def test_evaluation_then_shares_of_accepted_labels_are_tested_as_well(model, data):
    X, Y = data["test"]
    found = evaluate(model, X, sp.csr_array(Y)).shift
    tested = {test.labels for test in found.kept}
    assert "all accepted labels" in tested
    assert "an input's accepted labels (mean over the inputs that are given any)" in tested
    assert not any(test.broken for test in found.kept)
    # The labels of other inputs: nothing has shifted, and most of what is accepted is wrong.
    found = evaluate(model, X, sp.csr_array(np.roll(Y, 1, axis=0))).shift
    assert not found.shifted
    assert {test.labels for test in found.kept if test.broken} >= tested
    assert "% of all accepted labels were to be wrong, and" in found.words


# Command line

WORDS = ["thorn", "leaf", "berry", "root", "bark", "moss", "seed", "twig"]
HOSTILE = '\x1b[31m[bold]red\u202e, "quoted"\nline'


def records(path, rows, seed):
    random = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        labels = random.permutation(4)[: random.integers(1, 3)]
        words = [WORDS[2 * label + random.integers(0, 2)] for label in labels for _ in range(3)]
        words += [*random.choice(WORDS, 1).tolist(), f"w{random.integers(0, 400)}"]
        names = [HOSTILE if label == 0 else f"label {label}" for label in labels.tolist()]
        lines.append(json.dumps({"id": f"r{row}", "text": " ".join(words), "labels": names}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decide")
    for seed, (name, rows) in enumerate({"train": 300, "held": 400, "new": 60}.items()):
        records(folder / f"{name}.jsonl", rows, seed)
    fit = ["fit", str(folder / "train.jsonl"), str(folder / "bare.hedgerow"), "--method", "bagging"]
    assert main([*fit, "--members", "3", "--threads", "1"]) == 0
    calibrate = ["calibrate", str(folder / "bare.hedgerow"), str(folder / "held.jsonl"), "--threads", "1"]
    assert main([*calibrate, "--out", str(folder / "sure.hedgerow")]) == 0
    return folder


def test_calibrate_command_then_prints_errors_and_promises_and_can_replace_the_model(
    folder, tmp_path, capsys
):
    model = tmp_path / "own.hedgerow"
    model.write_bytes((folder / "bare.hedgerow").read_bytes())
    assert main(["calibrate", str(model), str(folder / "held.jsonl"), "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "200 rows fit calibration and OOD detection",
        "before",
        "after",
        "At most 10 % of all accepted labels are wrong",
        "The 10 best labels of an input contain at least",
        "not for each single label",
    ):
        assert words in printed
    assert load(model).policy_.rows == 200
    assert main(["inspect", str(model)]) == 0
    assert "guarantees" in capsys.readouterr().out
    assert main(["inspect", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"]["inputs"] == 200


def test_calibrate_command_with_json_and_out_of_bag_then_tells_the_same_to_programs(folder, tmp_path, capsys):
    arguments = ["calibrate", str(folder / "bare.hedgerow"), str(folder / "held.jsonl"), "--json"]
    arguments += ["--out-of-bag", str(folder / "train.jsonl"), "--out", str(tmp_path / "o.hedgerow")]
    assert main([*arguments, "--threads", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows_second"] == 320
    assert told["rows_out_of_bag"] > 0
    assert set(told["ece_before"]) == {"1", "3", "5"}


def test_calibrate_command_with_training_data_then_fails_and_leaves_the_model(folder, tmp_path, capsys):
    model = tmp_path / "own.hedgerow"
    before = (folder / "bare.hedgerow").read_bytes()
    model.write_bytes(before)
    assert main(["calibrate", str(model), str(folder / "train.jsonl"), "--threads", "1"]) == 3
    assert "was trained on" in capsys.readouterr().err
    assert model.read_bytes() == before
    arguments = ["calibrate", str(model), str(folder / "held.jsonl"), "--out", str(folder / "sure.hedgerow")]
    assert main(arguments) == 5


def test_decide_command_then_shows_a_table_without_control_characters(folder, capsys):
    assert (
        main(["decide", str(folder / "sure.hedgerow"), str(folder / "new.jsonl"), "--wrong-at-most", "0.2"])
        == 0
    )
    printed = capsys.readouterr().out
    assert "r0" in printed
    assert "40 more" in printed
    assert "At most 20 % of all accepted labels are wrong" in " ".join(printed.split())
    assert "\x1b[31m" not in printed
    assert "\u202e" not in printed


def test_decide_command_for_programs_then_all_formats_say_the_same(folder, tmp_path, capsys):
    arguments = ["decide", str(folder / "sure.hedgerow"), str(folder / "new.jsonl"), "--wrong-at-most", "0.2"]
    assert main([*arguments, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for name in ("d.jsonl", "d.jsonl.gz", "d.csv", "d.parquet"):
        assert main([*arguments, "--out", str(tmp_path / name)]) == 0
    assert [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()] == lines
    model = load(folder / "sure.hedgerow")
    texts = [json.loads(line)["text"] for line in (folder / "new.jsonl").read_text().splitlines()]
    found = model.decide(texts, wrong_at_most=0.2)
    flat = [(line["id"], label["label"], label["decision"]) for line in lines for label in line["labels"]]
    assert [label for _, label, _ in flat] == found.labels.tolist()
    assert any(label == HOSTILE for _, label, _ in flat)
    assert lines[0]["input"]["is_ood"] == bool(found.is_ood[0])
    with (tmp_path / "d.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["label"], row["decision"]) for row in rows] == flat
    assert rows[0]["input_p_value"] == str(found.p_value[0])
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "d.parquet").to_pylist()
    assert [(row["id"], row["label"], row["decision"]) for row in parquet] == flat
    assert [row["rank"] for row in parquet] == [int(row["rank"]) for row in rows]


def test_decide_command_with_costs_then_tells_the_expected_cost(folder, capsys):
    arguments = ["decide", str(folder / "sure.hedgerow"), str(folder / "new.jsonl")]
    assert main([*arguments, "--wrong", "1", "--missed", "2", "--look", "0.2"]) == 0
    assert "Expected cost of an input" in capsys.readouterr().out
    assert main([*arguments, "--missed", "2", "--json"]) == 0
    assert "expected_cost" in json.loads(capsys.readouterr().out.splitlines()[0])["input"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--wrong-at-most", "1.5"], 2, "is not between 0 and 1"),
        (["--look", "-1"], 2, "not a finite cost"),
        (["--look", "nan"], 2, "not a finite cost"),
        (["--wrong-at-most", "0.1", "--look", "1"], 2, "--wrong-at-most and costs are given"),
        (["--review-at-most", "0"], 2, "--review-at-most"),
        (["--missed-at-most", "0.001"], 4, "needs at least 999"),
        (["--by", "entropy"], 2, "entropy"),
        (["--wrong-at-most", "0.001"], 4, "needs at least 2877"),
        (["--inputs-by", "top"], 3, "--inputs-wrong-at-most or --inputs-coverage"),
        (["--out", "x.txt"], 2, "ending tells the format"),
    ],
)
def test_decide_command_when_asked_amiss_then_fails_in_one_line(folder, capsys, options, code, message):
    assert main(["decide", str(folder / "sure.hedgerow"), str(folder / "new.jsonl"), *options]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_decide_command_without_a_policy_then_fails_with_the_way_out(folder, capsys):
    assert main(["decide", str(folder / "bare.hedgerow"), str(folder / "new.jsonl")]) == 4
    assert "hedgerow calibrate" in capsys.readouterr().err


def test_evaluate_and_report_commands_then_show_promises(folder, tmp_path, capsys):
    model, data = str(folder / "sure.hedgerow"), str(folder / "new.jsonl")
    assert main(["evaluate", model, data, "--json", str(tmp_path / "e.json")]) == 0
    assert "What its policy guarantees" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "e.json").read_text())["decisions"]) == 16
    assert main(["report", model, data, "--out", str(tmp_path / "r.html")]) == 0
    assert "Guaranteed and achieved" in (tmp_path / "r.html").read_text()


def test_text_classifier_given_an_iterator_then_decides():
    texts = ["a thorny shrub", "an evergreen tree"] * 40
    labels = [["hawthorn"], ["holly"]] * 40
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0).fit(texts, labels)
    model.learn_policy([f"{text} x{n}" for n, text in enumerate(texts)], labels)
    found = model.decide(iter(["a thorny shrub", "tree"]), wrong_at_most=0.2, missed_at_most=0.2)
    assert found.is_ood is None
    assert found[0].accept == ["hawthorn"]
    assert len(model.decide([], wrong_at_most=0.2, missed_at_most=0.2)) == 0
