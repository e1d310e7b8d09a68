"""Broader terms as answers, beside Python sets and over many draws."""

from __future__ import annotations

import copy
import csv
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from broader_trees import TREES, WIDER, tree_records
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hedgerow import (
    Costs,
    Decisions,
    HedgerowTextClassifier,
    Vocabulary,
    Votes,
    evaluate,
    learn_from_held_out,
    load,
)
from hedgerow.cli.app import main
from hedgerow.decisions.coarser import CoarserLearner, CoarserPolicy, Ladder
from hedgerow.decisions.risk import GRID, RiskCurve, TooFewRows
from hedgerow.evaluation.hierarchical import hierarchical_scores
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import broader_truth, broader_votes


class Made:
    """Votes at random on labels of a polyhierarchy, some of which are broader than others."""

    def __init__(self, seed: int, rows: int = 40, labels: int = 12, more: int = 6, members: int = 3) -> None:
        random = np.random.default_rng(seed)
        self.entries, self.labels = labels + more, labels
        order = random.permutation(self.entries)
        pairs = np.sort(random.integers(0, self.entries, (self.entries, 2)), axis=1)
        pairs = order[pairs[pairs[:, 0] < pairs[:, 1]]]
        self.ancestry = Ancestry(self.entries, pairs[:, 0], pairs[:, 1])
        self.up = [{e, *self.ancestry.ancestors_of(e).tolist()} for e in range(self.entries)]
        chance = random.random((rows, labels)) ** 3
        self.Y = random.random((rows, labels)) < chance
        met = random.random((rows, labels)) < 0.6
        noise = random.normal(0, 0.1, (members, rows, labels))
        self.dense = np.clip(chance + noise, 0, 1).astype(np.float32) * met
        self.votes = Votes.from_members([sp.csr_array(part) for part in self.dense])
        self.truth = sp.csr_array(self.Y.astype(np.int8))
        self.true_terms = broader_truth(self.truth, self.ancestry)

    def below(self, entry: int) -> list[int]:
        """Labels at or below an entry."""
        return [label for label in range(self.labels) if entry in self.up[label]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_votes_on_broader_terms_then_are_those_of_a_dense_computation(seed):
    made = Made(seed)
    found = broader_votes(made.votes, made.ancestry)
    candidate = (made.dense > 0).any(axis=0)
    for row in range(len(made.votes)):
        own = slice(found.indptr[row], found.indptr[row + 1])
        inner = [
            entry
            for entry in range(made.entries)
            if made.ancestry.inner[entry] and any(candidate[row, label] for label in made.below(entry))
        ]
        assert found.labels[own].tolist() == inner
        for entry, probs in zip(inner, found.probs[own], strict=True):
            p = made.dense[:, row, made.below(entry)].astype(np.float64)
            np.testing.assert_allclose(probs, 1 - np.prod(1 - p, axis=1), atol=1e-6)
            assert (probs >= p.max(axis=1)).all()
            assert (probs <= np.minimum(1, p.sum(axis=1)) + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_true_broader_terms_then_have_a_true_label_at_or_below(seed):
    made = Made(seed)
    expected = [
        [made.ancestry.inner[e] and bool(row[made.below(e)].any()) for e in range(made.entries)]
        for row in made.Y
    ]
    assert np.array_equal(made.true_terms.toarray().astype(bool), np.array(expected))


def calibrated(seed: int = 0) -> tuple[Made, BroaderCalibration]:
    made = Made(seed, rows=400)
    return made, BroaderCalibration.learn([made.votes], made.truth, made.ancestry)


def test_calibrated_broader_terms_then_are_never_less_probable_than_what_is_below_them():
    for seed in range(5):
        made, learned = calibrated(seed)
        found = learned.apply(made.votes)
        for row in range(60):
            own = slice(found.indptr[row], found.indptr[row + 1])
            probs = dict(zip(found.labels[own].tolist(), found.probs[own], strict=True))
            for entry, mine in probs.items():
                assert (mine >= made.dense[:, row, made.below(entry)].max(axis=1, initial=0)).all()
                for above in made.up[entry] - {entry}:
                    assert (probs[above] >= mine).all()


def test_calibrated_broader_terms_then_come_true_as_often_as_they_say():
    # Labels of an input that exclude each other: independence is far off, and the map must say so.
    random = np.random.default_rng(5)
    labels, rows = 8, 6000
    ancestry = Ancestry(labels + 2, np.arange(labels), labels + np.arange(labels) // 4)
    p = random.dirichlet(np.full(labels, 0.7), rows)
    Y = p.cumsum(axis=1) >= random.random((rows, 1))
    Y = (np.diff(Y.astype(int), axis=1, prepend=0) > 0).astype(np.int8)
    votes = Votes.from_members([sp.csr_array(p.astype(np.float32))])
    half = rows // 2
    learned = BroaderCalibration.learn([votes[:half]], sp.csr_array(Y[:half]), ancestry)
    truth = broader_truth(sp.csr_array(Y[half:]), ancestry).toarray()[:, labels:]

    def off(of: Votes) -> float:
        mean = of.mean().toarray()[:, labels:]
        return float(np.mean([(mean[some] - truth[some]).mean() ** 2 for some in bins(mean)])) ** 0.5

    def bins(mean: np.ndarray) -> list[np.ndarray]:
        return [(mean >= low) & (mean < low + 0.2) for low in (0.1, 0.3, 0.5, 0.7)]

    assert off(broader_votes(votes[half:], ancestry)) > 0.06
    assert off(learned.apply(votes[half:])) < 0.03


def answers_by_sets(
    made: Made, broader: Votes, row: int, threshold: float, least_depth: int
) -> tuple[set[int], set[int]]:
    """Accepted labels and broader terms, by the definition."""
    own = made.votes[row]
    threshold = np.float32(threshold)
    labels = {label for label, p in zip(own.labels.tolist(), own.means(), strict=True) if p >= threshold}
    terms = broader[row]
    reached = {
        term
        for term, p in zip(terms.labels.tolist(), terms.means(), strict=True)
        if p >= threshold and made.ancestry.depths[term] >= least_depth
    }
    covered = set().union(*(made.up[label] for label in labels))
    covered |= set().union(*(made.up[term] - {term} for term in reached))
    return labels, reached - covered


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_answers_then_are_the_narrowest_by_sets_and_losses_those_of_counting(seed, least_depth):
    made = Made(seed, rows=25)
    broader = broader_votes(made.votes, made.ancestry)
    ladder = Ladder.of(made.votes, broader, made.ancestry, least_depth)
    losses, every = ladder.losses(made.truth, made.true_terms)
    true_terms = made.true_terms.toarray()
    for knot in [0, 1, *range(150, len(GRID) - 2, 40), len(GRID) - 2, len(GRID) - 1]:
        places = ladder.answers(GRID[knot])
        for row in range(25):
            labels, terms = answers_by_sets(made, broader, row, GRID[knot], least_depth)
            mine = places[(places >= broader.indptr[row]) & (places < broader.indptr[row + 1])]
            assert set(broader.labels[mine].tolist()) == terms
            assert not any(a in made.up[b] for a in terms for b in (terms | labels) - {a})  # none is nested
            wrong = sum(not made.Y[row, label] for label in labels)
            wrong += sum(not true_terms[row, term] for term in terms)
            assert every[row, knot] == len(labels) + len(terms)
            assert losses[row, knot] == pytest.approx(wrong / max(1, len(labels) + len(terms)))


def test_answers_then_skip_labels_that_are_broad_terms_themselves_only_where_they_are_accepted():
    # yew (0) and pine (1) < conifer (2) < plant (3); conifer is a label, too.
    trees = Ancestry(4, [0, 1, 2], [2, 2, 3])
    probs = [0.9, 0.1, 0.1, 0.5, 0.4, 0.1, 0.2, 0.2, 0.8]
    votes = Votes([0, 3, 6, 9], [0, 1, 2] * 3, np.array(probs)[:, None], 3)
    ladder = Ladder.of(votes, broader_votes(votes, trees), trees, 1)
    places = ladder.answers(0.6)
    # The first has its yew; of the second only the conifer is sure; the third has it as its label.
    assert ladder.broader.labels[places].tolist() == [2]
    assert np.searchsorted(ladder.broader.indptr, places, side="right").tolist() == [2]
    # The conifer is as probable as the plant, and narrower.
    assert Ladder.of(votes, broader_votes(votes, trees), trees, 0).answers(0.6).tolist() == places.tolist()
    assert not Ladder.of(votes, broader_votes(votes, trees), trees, 2).answers(0.6).size
    assert not ladder.answers(math.inf).size


def policy(made: Made, broader: Votes, size: int = 1000, least_depth: int = 1) -> CoarserPolicy:
    learner = CoarserLearner(made.ancestry, least_depth)
    for begin in range(0, len(made.votes), size):
        part = slice(begin, begin + size)
        learner.add(made.votes[part], broader[part], made.truth[part], made.true_terms[part])
    return learner.finish()


def test_policy_in_other_batches_then_has_the_same_bits():
    made = Made(3, rows=200)
    broader = broader_votes(made.votes, made.ancestry)
    one, other = policy(made, broader), policy(made, broader, 7)
    assert np.array_equal(one.wrong.totals, other.wrong.totals)
    assert np.array_equal(one.answered, other.answered)
    assert (one.rows, one.least_depth) == (200, 1)


def test_policy_of_few_inputs_then_is_refused_and_the_guarantee_says_what_is_wrong():
    made = Made(3, rows=10)
    few = policy(made, broader_votes(made.votes, made.ancestry))
    with pytest.raises(TooFewRows, match="needs at least 22"):
        few.accept_from(0.1)
    with pytest.raises(ValueError, match="there are no inputs"):
        CoarserLearner(made.ancestry).finish()
    for bad in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="least_depth"):
            CoarserLearner(made.ancestry, bad)
    made = Made(3, rows=600)
    said = policy(made, broader_votes(made.votes, made.ancestry)).wrong_guarantee(0.2)[1]
    assert "At most 20 % of an input's accepted labels and broader terms are wrong" in said.words
    assert "Learn then Test" in said.words


@pytest.mark.parametrize(("risk", "least_depth"), [(0.05, 1), (0.1, 0), (0.1, 1), (0.2, 1)])
def test_guarantee_over_many_draws_then_is_kept_with_its_confidence(risk, least_depth):
    made = Made(11, rows=20_000, labels=40, more=15, members=1)
    broader = broader_votes(made.votes, made.ancestry)
    ladder = Ladder.of(made.votes, broader, made.ancestry, least_depth)
    losses, every = ladder.losses(made.truth, made.true_terms)
    # These inputs are the world: what is drawn from it, with replacement, is independent.
    expected = losses.mean(axis=0)
    random = np.random.default_rng(0)
    draws, n, confidence = 800, 500, 0.9
    broken, useful = 0, 0
    for _ in range(draws):
        drawn = losses[random.integers(0, len(losses), n)]
        place = RiskCurve(GRID, drawn.sum(axis=0), n).tested(risk, confidence)
        assert place is not None
        broken += expected[place] > risk
        useful += (every[:, place] > 0).mean() > 0.1
    assert broken / draws <= 1 - confidence + 3 * math.sqrt(0.09 / draws)
    assert useful > draws / 2  # and it is not kept by accepting nothing


def test_broader_terms_then_answer_inputs_that_labels_alone_do_not():
    made = Made(11, rows=4000, labels=40, more=15, members=1)
    broader = broader_votes(made.votes, made.ancestry)
    found = policy(made, broader)
    threshold = found.accept_from(0.1)
    ladder = Ladder.of(made.votes, broader, made.ancestry, 1)
    rows = np.repeat(np.arange(4000), np.diff(made.votes.indptr))
    by_label = np.bincount(rows[made.votes.means() >= np.float32(threshold)], minlength=4000) > 0
    terms = np.repeat(np.arange(4000), np.diff(broader.indptr))[ladder.answers(threshold)]
    by_either = by_label.copy()
    by_either[terms] = True
    assert by_either.sum() > by_label.sum()
    assert by_either.mean() == pytest.approx(found.answered[np.float32(threshold) == GRID][0])


# Hierarchical scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_hierarchical_scores_then_are_those_of_sets(seed, roots):
    made = Made(seed, rows=30)
    random = np.random.default_rng(seed)
    predicted = random.random((30, made.entries)) < 0.1
    left = set() if roots else set(np.flatnonzero(made.ancestry.roots).tolist())

    def wide(row: np.ndarray) -> set[int]:
        return set().union(*(made.up[entry] for entry in np.flatnonzero(row))) - left

    pairs = [(wide(given_), wide(true)) for given_, true in zip(predicted, made.Y, strict=True)]
    pairs = [(given_, true) for given_, true in pairs if true]
    found = hierarchical_scores(sp.csr_array(predicted), made.truth, made.ancestry, roots=roots)
    some = [len(given_ & true) / len(given_) for given_, true in pairs if given_]
    assert found.precision == pytest.approx(np.mean(some), nan_ok=True)
    assert found.recall == pytest.approx(np.mean([len(g & t) / len(t) for g, t in pairs]))
    assert found.f1 == pytest.approx(np.mean([2 * len(g & t) / (len(g) + len(t)) for g, t in pairs]))


def test_hierarchical_scores_without_broader_terms_then_are_those_of_labels():
    flat = Ancestry(3, [], [])
    predicted, truth = sp.csr_array([[1, 1, 0], [0, 0, 0]]), sp.csr_array([[1, 0, 0], [0, 1, 0]])
    found = hierarchical_scores(predicted, truth, flat, roots=False)
    assert (found.precision, found.recall) == (0.5, 0.5)
    assert found.f1 == pytest.approx(1 / 3)


def test_hierarchical_scores_of_nothing_or_of_other_shapes_then_are_refused():
    flat = Ancestry(2, [], [])
    with pytest.raises(ValueError, match="no input has a true label"):
        hierarchical_scores(sp.csr_array([[1, 0]]), sp.csr_array([[0, 0]]), flat)
    with pytest.raises(ValueError, match="predicted has 1 rows, but Y has 2"):
        hierarchical_scores(sp.csr_array([[1, 0]]), sp.csr_array([[1, 0], [0, 1]]), flat)
    with pytest.raises(ValueError, match="2 entries, but there are 3 labels"):
        hierarchical_scores(sp.csr_array([[1, 0, 0]]), sp.csr_array([[1, 0, 0]]), flat)
    with pytest.raises(TypeError, match="ancestry is a list"):
        hierarchical_scores(sp.csr_array([[1]]), sp.csr_array([[1]]), [])


# A model with a vocabulary, and the command line


@pytest.fixture(scope="module")
def vocabulary_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("trees") / "trees.json"
    entries = [{"id": tree, "names": {"en": tree}, "broader": [kind]} for tree, kind in WIDER.items()]
    entries += [{"id": kind, "names": {"en": kind}, "broader": ["plant"]} for kind in set(WIDER.values())]
    entries += [{"id": "plant", "names": {"en": "plant"}}]
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture(scope="module")
def model(vocabulary_file):
    made = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1)
    made.fit(*tree_records(400, 0)).set_vocabulary(Vocabulary.read(vocabulary_file))
    learn_from_held_out(made, *tree_records(1200, 1), least_depth=1)
    return made


def test_model_then_answers_vague_texts_with_the_broader_term_and_keeps_the_guarantee(model):
    texts, labels = tree_records(600, 2)
    found = model.decide(texts, wrong_at_most=0.1, missed_at_most=0.1, broader=True)
    alone = model.decide(texts, wrong_at_most=0.1, wrong_of="inputs", missed_at_most=0.1)
    assert found[0].broader == found.broader.of_input(0)
    assert set(found.broader.terms) == {"conifer", "broadleaf"}
    given_, wrong = 0, []
    for own, [true] in zip(found, labels, strict=True):
        answers = [*own.accept, *own.broader]
        given_ += bool(answers)
        wrong.append(sum(a not in (true, WIDER[true]) for a in answers) / max(1, len(answers)))
        assert not any(WIDER.get(label) in own.broader for label in own.accept)
    assert np.mean(wrong) <= 0.13
    assert given_ > 1.3 * sum(bool(own.accept) for own in alone)
    assert "accepted labels and broader terms are wrong, mean over all inputs" in found.guarantee
    assert found.to_dict()["inputs"][0]["broader"] == found[0].broader
    assert alone.broader is None
    assert alone[0].broader == []
    assert np.allclose(found.broader.total, found.broader.data + found.broader.knowledge, atol=1e-6)


def test_decisions_with_broader_terms_in_other_batches_then_have_the_same_bits(model):
    texts, _ = tree_records(200, 3)
    whole = model.decide(texts, wrong_at_most=0.1, missed_at_most=0.1, broader=True)
    parts = [
        model.decide(texts[begin : begin + 17], wrong_at_most=0.1, missed_at_most=0.1, broader=True)
        for begin in range(0, 200, 17)
    ]
    joined = Decisions.concatenate(parts)
    for name, values in vars(whole.broader).items():
        assert np.array_equal(values, getattr(joined.broader, name))
    assert not len(model.decide([], wrong_at_most=0.1, missed_at_most=0.1, broader=True).broader.terms)


def test_inputs_that_are_not_answered_then_have_no_broader_terms(model):
    texts, _ = tree_records(200, 4)
    found = model.decide(
        texts, wrong_at_most=0.1, missed_at_most=0.1, broader=True, inputs_by="total", inputs_coverage=0.5
    )
    assert not found.answered.all()
    assert not any(own.broader for own in found if not own.answered)


def test_model_file_then_answers_with_the_same_broader_terms(model, tmp_path):
    path = tmp_path / "trees.hedgerow"
    model.save(path)
    texts, _ = tree_records(100, 5)
    before, after = (
        m.decide(texts, wrong_at_most=0.1, missed_at_most=0.1, broader=True).broader
        for m in (model, load(path))
    )
    for name, values in vars(before).items():
        assert np.array_equal(values, getattr(after, name))
    assert load(path).source.coarser.least_depth == 1


def test_what_was_learned_of_broader_terms_then_is_forgotten_with_votes_or_vocabulary(model):
    held = tree_records(300, 6)
    texts, _ = tree_records(5, 7)
    for change in ("calibrate", "set_vocabulary"):
        own = copy.deepcopy(model)
        if change == "calibrate":
            own.calibrate(*held).learn_policy(*tree_records(300, 8))
        else:
            own.set_vocabulary(own.vocabulary_)
        with pytest.raises(NotFittedError, match="calibrate_broader"):
            own.decide(texts, wrong_at_most=0.1, missed_at_most=0.1, broader=True)
    own.set_vocabulary(None)
    with pytest.raises(ValueError, match="has no vocabulary"):
        own.calibrate_broader(*held)
    own.set_vocabulary(Vocabulary.from_names({tree: tree for tree in TREES}))
    with pytest.raises(ValueError, match="nothing broader than any label"):
        own.calibrate_broader(*held)


@pytest.mark.parametrize("goal", [{"size": 3}, {"costs": Costs()}, {"coverage": 0.5}, {"by": "total"}])
def test_broader_terms_for_goals_without_their_guarantee_then_are_refused(model, goal):
    with pytest.raises(ValueError, match="broader terms are accepted by their probability"):
        model.decide(["yew"], broader=True, **goal)


def test_evaluation_then_has_hierarchical_scores_of_the_best_labels(model):
    texts, labels = tree_records(200, 9)
    labels[0] = ["fern"]  # unknown
    found = evaluate(model, texts, labels)
    best = model.top(texts, 1).labels[:, 0]
    up = {tree: {tree, kind, "plant"} for tree, kind in WIDER.items()} | {"fern": {"fern"}}
    pairs = [(up[one], up[true]) for one, [true] in zip(best, labels, strict=True)]
    scores = found.ranking.hierarchical[1]
    assert scores.precision == pytest.approx(np.mean([len(a & b) / len(a) for a, b in pairs]))
    assert scores.recall == pytest.approx(np.mean([len(a & b) / len(b) for a, b in pairs]))
    assert scores.f1 == pytest.approx(np.mean([2 * len(a & b) / (len(a) + len(b)) for a, b in pairs]))
    assert found.to_dict()["hierarchical"]["1"]["f1"] == scores.f1


def test_command_line_then_calibrates_and_decides_with_broader_terms(model, tmp_path, capsys):
    bare = copy.deepcopy(model).uncalibrated()
    bare.save(tmp_path / "bare.hedgerow")
    for name, (texts, labels) in {"held": tree_records(1200, 1), "new": tree_records(60, 2)}.items():
        lines = [json.dumps({"text": text, "labels": own}) for text, own in zip(texts, labels, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    bare_file, file = str(tmp_path / "bare.hedgerow"), str(tmp_path / "sure.hedgerow")
    held, new = str(tmp_path / "held.jsonl"), str(tmp_path / "new.jsonl")
    assert main(["calibrate", bare_file, held, "--out", file]) == 0
    assert main(["decide", file, new, "--broader"]) != 0
    assert "hedgerow calibrate --broader" in " ".join(capsys.readouterr().err.split())
    assert main(["calibrate", bare_file, held, "--broader", "--out", file, "--overwrite"]) == 0
    capsys.readouterr()
    assert main(["decide", file, new, "--broader", "--json", "--threads", "1"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    terms = [[label["label"] for label in row["labels"] if label["decision"] == "broader"] for row in printed]
    assert {term for own in terms for term in own} == {"conifer", "broadleaf"}
    assert all(len(row["labels"]) >= len(TREES) for row in printed)
    assert main(["decide", file, new, "--broader", "--out", str(tmp_path / "all.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert sum(row["decision"] == "broader" for row in rows) == sum(map(len, terms))
    assert main(["decide", file, new, "--broader"]) == 0
    assert "conifer" in capsys.readouterr().out
    assert main(["evaluate", file, new]) == 0
    assert "hierarchical F1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, "impossible counts"),
        ({"rows": True}, "impossible counts"),
        ({"least_depth": -1}, "impossible counts"),
        ({"wrong": np.full(len(GRID), 601.0)}, "impossible losses"),
        ({"wrong": np.full(len(GRID), np.nan)}, "not numbers by threshold"),
        ({"wrong": np.zeros(3)}, "not numbers by threshold"),
        ({"answered": np.full(len(GRID), 1.5)}, "impossible shares"),
        ({"answered": np.zeros(len(GRID), np.float32)}, "not numbers by threshold"),
    ],
)
def test_policy_of_a_crafted_file_then_is_refused(change, message):
    made = Made(3, rows=600)
    own = policy(made, broader_votes(made.votes, made.ancestry))
    header, sections = own.to_sections()
    again = CoarserPolicy.from_sections(header, sections)
    assert again.accept_from(0.2) == own.accept_from(0.2)
    header |= {name: value for name, value in change.items() if name in header}
    sections |= {f"coarser.{name}": value for name, value in change.items() if f"coarser.{name}" in sections}
    with pytest.raises(ValueError, match=message):
        CoarserPolicy.from_sections(header, sections)


def test_model_file_with_broader_terms_and_no_vocabulary_then_is_refused(model):
    header, sections = model.source.broader.to_file()
    labels = model.classes_
    with pytest.raises(ValueError, match="but no vocabulary"):
        BroaderCalibration.from_file(header, sections, None, labels)
    with pytest.raises(ValueError, match="not one map of the mean"):
        BroaderCalibration.from_file(header | {"of": "members"}, sections, model.vocabulary_, labels)
