"""Models that are updated in any order, beside a plain list of the records that they should know."""

from __future__ import annotations

import copy
import itertools
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from update_truth import Known, Truth

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, learn_from_held_out
from hedgerow.judge import judge_fitting

CONCEPTS = 40
FEATURES = 2 * CONCEPTS + 6
SMALL: dict[str, Any] = {"branching": 3, "leaf_size": 3, "random_state": 7, "n_jobs": 1}
MACHINE = settings(
    max_examples=8,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def words_of(concept: int) -> list[str]:
    return [f"word{concept}a", f"word{concept}b"]


class Updates(RuleBasedStateMachine):
    """A model of texts, and what it should know."""

    SETTINGS: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.random = np.random.default_rng(0)
        self.truth = Truth()
        self.number = 0
        self.meaning: dict[str, list[int]] = {}  # the concepts that a label stands for
        self.unused = list(range(CONCEPTS))
        self.ever: list[Any] = []  # all inputs that there ever were
        self.refits = [True]
        self.checked = True
        self.held_out: list[Known] = []
        self.learned = False

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # What subclasses make of concepts.

    def new_model(self) -> Any:
        return HedgerowTextClassifier(**SMALL | self.SETTINGS)

    def input_of(self, concepts: list[int]) -> Any:
        words = [word for concept in concepts for word in words_of(concept)]
        noise = [f"word{one}a" for one in self.random.integers(0, CONCEPTS, 1)]
        self.random.shuffle(words)
        return " ".join([*words, *noise, f"number{self.number}"])

    def together(self, inputs: list[Any]) -> Any:
        return inputs

    # Records.

    def make(self, labels: list[str], id: str | None = None) -> Known:
        self.number += 1
        concepts = [int(self.random.choice(self.meaning[label])) for label in labels]
        made = Known(id, self.input_of(concepts), frozenset(labels))
        self.ever.append(made.input)
        return made

    def new_label(self) -> str:
        name = f"label {len(self.meaning)} {len(self.unused)}"
        self.meaning[name] = [self.unused.pop(int(self.random.integers(len(self.unused))))]
        return name

    def present(self) -> list[str]:
        return sorted(self.truth.counts())

    def ids(self) -> list[str]:
        return [record.id for record in self.truth.records if record.id is not None]

    def do(self, **change: Any) -> None:
        change["at"] = f"2030-01-01T00:00:{len(self.truth.history):02}"
        report = self.apply(self.model, change)
        self.refits.append(report.refitted is not None)
        before = self.truth.counts()
        self.truth.apply(change)
        came = {label for record in change.get("records", []) for label in record.labels}
        assert set(report.labels_added) == came - set(before)
        self.checked = False

    def apply(self, model: Any, change: dict[str, Any]) -> Any:
        coming = change.get("records", [])
        return model.update(
            self.together([one.input for one in coming]) if coming else None,
            [sorted(one.labels, reverse=True) for one in coming] if coming else None,
            ids=[one.id for one in coming] if coming else None,
            remove=change.get("remove", ()),
            rename=change.get("rename"),
            remove_labels=change.get("remove_labels", ()),
            at=change["at"],
        )

    def fitted(self, records: list[Known]) -> Any:
        return self.new_model().fit(
            self.together([one.input for one in records]),
            [sorted(one.labels) for one in records],
            ids=[one.id for one in records],
            keep_records=True,
        )

    def replayed(self, history: list[dict[str, Any]]) -> tuple[Any, list[bool]]:
        """A model that went through a history, and which of its steps were full fits."""
        model = self.fitted(history[0]["records"])
        refits = [self.apply(model, change).refitted is not None for change in history[1:]]
        return model, [True, *refits]

    # Rules.

    SIZES = (44, 60)

    @initialize(seed=st.integers(0, 3), share=st.floats(0, 1))
    def fit(self, seed: int, share: float) -> None:
        size = self.SIZES[0] + int(share * (self.SIZES[1] - self.SIZES[0]))
        self.random = np.random.default_rng(seed)
        labels = [self.new_label() for _ in range(14)]
        records = [self.make([labels[number % 14]], f"r{number}") for number in range(size)]
        records += [self.make(sorted(self.random.choice(labels, 2, replace=False))) for _ in range(3)]
        for number in range(2):  # words that labels to come will have
            words = [word for one in range(CONCEPTS) for word in words_of(one)]
            records.append(self.quiet(" ".join(words), f"words{number}"))
        self.truth.apply({"records": records, "at": ""})
        self.model = self.fitted(records)
        self.checked = False

    def quiet(self, text: str, id: str) -> Known:
        """A record without labels."""
        self.ever.append(text)
        return Known(id, text, frozenset())

    @rule(count=st.integers(1, 4), fresh=st.integers(0, 3))
    def learn(self, count: int, fresh: int) -> None:
        new = [self.new_label() for _ in range(min(fresh, len(self.unused)))]
        labels = new[::-1] or self.present()
        chosen = [
            self.random.choice(labels, min(len(labels), int(self.random.integers(1, 3))), replace=False)
            for _ in range(count)
        ]
        chosen = [[str(label) for label in own] for own in chosen]
        named = [f"n{self.number}-{place}" if place != 1 else None for place in range(count)]
        self.do(records=[self.make(own, id) for own, id in zip(chosen, named, strict=True)])

    @rule(count=st.integers(1, 2))
    def correct(self, count: int) -> None:
        chosen = self.random.choice(self.ids(), count, replace=False).tolist()
        labels = self.present()
        self.do(records=[self.make([str(self.random.choice(labels))], id) for id in chosen])

    @rule(count=st.integers(1, 3))
    def remove(self, count: int) -> None:
        self.do(remove=self.random.choice(self.ids(), count, replace=False).tolist())

    @rule(merge=st.booleans())
    def rename(self, merge: bool) -> None:
        counts = self.truth.counts()
        least = sorted(counts, key=lambda label: (counts[label], label))
        old = least[int(self.random.integers(0, 3))]
        other = str(self.random.choice([label for label in least if label != old]))
        new = other if merge else f"{old} renamed {len(self.truth.history)}"
        self.meaning[new] = sorted(set(self.meaning.get(new, []) + self.meaning[old]))
        self.do(rename={old: new})

    @precondition(lambda self: len(self.present()) > 8)
    @rule()
    def remove_label(self) -> None:
        self.do(remove_labels=[str(self.random.choice(self.present()))])

    @rule(count=st.integers(1, 2))
    def forget(self, count: int) -> None:
        counts = self.truth.counts()
        rare = [one.id for one in self.truth.records if any(counts[label] == 1 for label in one.labels)]
        ids = [id for id in rare if id is not None] or self.ids()
        gone = set(self.random.choice(ids, min(count, len(ids)), replace=False).tolist())
        others = self.truth.without(gone)
        expected, refits = self.replayed(others)
        same = refits == self.refits  # else its history is another one
        self.model.forget(sorted(gone))
        self.truth = Truth()
        for change in others:
            self.truth.apply(change)
        if same:
            assert self.files(self.model) == self.files(expected)
        else:
            # From here on the model that lacks the record is the one to compare with.
            self.model, self.refits = expected, refits
        self.checked = False

    @rule()
    def save_and_load(self) -> None:
        path = self.folder / "model.hedgerow"
        self.model.save(path, overwrite=True)
        loaded = hedgerow.load(path).set_params(n_jobs=self.model.n_jobs)
        X = self.together(self.ever)
        for mine, theirs in zip(self.answers(self.model, X), self.answers(loaded, X), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert json.dumps(loaded.get_params()) == json.dumps(self.model.get_params())
        self.model = loaded

    @rule()
    def go_on_with_two_threads(self) -> None:
        self.model.set_params(n_jobs=3 - self.model.n_jobs)

    def answers(self, model: Any, X: Any) -> tuple[Any, Any]:
        found = model.top(X, k=3)
        return found.labels, found.probability

    def files(self, model: Any) -> tuple[bytes, bytes]:
        path = self.folder / "compared.hedgerow"
        jobs = model.n_jobs
        model.set_params(n_jobs=1).save(path, overwrite=True)
        model.set_params(n_jobs=jobs)
        return path.read_bytes(), path.with_name(path.name + ".data").read_bytes()

    # What must hold.

    @invariant()
    def knows_what_it_should(self) -> None:
        if self.checked:
            return
        self.checked = True
        model, records, counts = self.model, self.truth.records, self.truth.counts()
        assert model.n_samples_ == len(records)
        known = dict(zip(model.classes_.tolist(), model.label_counts_.tolist(), strict=True))
        assert {label: count for label, count in known.items() if count} == counts
        assert set(known) == set(counts)  # what nobody has cannot be answered
        there = {repr(record.input) for record in records}
        seen = model.seen_in_training(self.together(self.ever)).tolist()
        assert seen == [repr(one) in there for one in self.ever]
        table = model.records()
        assert table.ids.some(table.present) == [record.id for record in records]
        labels = table.labels_at()
        parts = np.split(labels.indicator.indices, labels.indicator.indptr[1:-1])
        assert [{labels.names[one] for one in part} for part in parts] == [set(one.labels) for one in records]
        self.finds_labels(counts)

    def finds_labels(self, counts: Any) -> None:
        """All labels are in the tree, and the first label of a text of one label is nearly always that."""
        model = self.model
        if model.method == "single":
            there = {model.classes_[label] for label in model.tree_.labels.tolist()}
            assert there == set(counts)
        single = [
            one for one in self.truth.records if len(one.labels) == 1 and counts[next(iter(one.labels))] > 2
        ]
        best = model.top(self.together([one.input for one in single]), k=1).labels[:, 0]
        right = [name in one.labels for name, one in zip(best.tolist(), single, strict=True)]
        assert np.mean(right) >= self.LEAST, np.mean(right)

    LEAST = 0.85


class Bagged(Updates):
    SETTINGS: ClassVar[dict[str, Any]] = {"method": "bagging", "members": 3}
    LEAST = 0.7


class Judged(Updates):
    """With a judge, a wide classifier and centroids, as if few held-out rows were enough to learn a judge."""

    SETTINGS: ClassVar[dict[str, Any]] = {"judge": True, "wide": 6}
    SIZES = (150, 170)
    LEAST = 0.7

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(judge_fitting, "LEAST_TRUE", 5)
        # Before the judge, and then better.
        ranks = itertools.cycle([0.1, 0.2])
        self.patches.setattr(judge_fitting, "ranking_quality", lambda scores, *_: np.full(3, next(ranks)))

    def teardown(self) -> None:
        self.patches.undo()
        super().teardown()

    @invariant()
    def keeps_its_judge(self) -> None:
        if hasattr(self, "model"):
            assert self.model.model_.judge is not None
            assert self.model.model_.scorers is not None


class OfFields(Updates):
    """Records of a title and a body."""

    SETTINGS: ClassVar[dict[str, Any]] = {"fields": ["title", "body"]}

    def input_of(self, concepts: list[int]) -> Any:
        text = super().input_of(concepts)
        return {"title": text.split()[0], "body": text}

    def quiet(self, text: str, id: str) -> Known:
        self.ever.append({"title": text, "body": text})
        return Known(id, self.ever[-1], frozenset())


class OfFeatures(Updates):
    """Rows of a matrix instead of texts."""

    def new_model(self) -> Any:
        return HedgerowClassifier(**SMALL)

    def input_of(self, concepts: list[int]) -> Any:
        row = [0.0] * FEATURES
        for concept in concepts:
            row[2 * concept] = row[2 * concept + 1] = 1.0
        row[2 * int(self.random.integers(CONCEPTS))] += 0.5
        row[2 * CONCEPTS + self.number % 6] = 0.01 * self.number
        return tuple(row)

    def quiet(self, text: str, id: str) -> Known:
        self.ever.append((1.0,) * (FEATURES - 1) + (float(id[-1]),))
        return Known(id, self.ever[-1], frozenset())

    def together(self, inputs: list[Any]) -> Any:
        return sp.csr_array(np.array(inputs, dtype=np.float32))


class Calibrated(Updates):
    """A model that is calibrated on held-out texts, which are kept."""

    @precondition(lambda self: not self.held_out)
    @rule()
    def calibrate(self) -> None:
        labels = self.present()
        self.held_out = [self.make([str(self.random.choice(labels))]) for _ in range(140)]
        self.ever = self.ever[:-140]
        self.meanings = list(self.held_out)
        X = [one.input for one in self.held_out]
        Y = [sorted(one.labels) for one in self.held_out]
        settings = {"method": "platt", "seed": 1}
        learn_from_held_out(self.model, X, Y, **settings)
        self.model.keep_held_out(X, Y, settings)

    @precondition(lambda self: not self.held_out)
    @rule(count=st.integers(1, 2))
    def forget(self, count: int) -> None:
        super().forget(count)

    def do(self, **change: Any) -> None:
        super().do(**change)
        renamed, removed = change.get("rename", {}), set(change.get("remove_labels", ()))
        self.held_out = [
            replace(one, labels=frozenset(renamed.get(label, label) for label in one.labels - removed))
            for one in self.held_out
        ]

    @invariant()
    def knows_its_held_out_texts(self) -> None:
        if not self.held_out:
            return
        kept = self.model.records().held_out
        assert kept.inputs == [one.input for one in self.held_out]
        assert [frozenset(labels) for labels in kept.labels] == [one.labels for one in self.held_out]
        fresh = copy.copy(self.model)
        learn_from_held_out(
            fresh, kept.inputs, [sorted(one.labels) for one in self.held_out], method="platt", seed=1
        )
        X = [one.input for one in self.held_out[:20]]
        for mine, theirs in zip(self.answers(self.model, X), self.answers(fresh, X), strict=True):
            np.testing.assert_array_equal(mine, theirs)


class TestUpdatesOfATree(Updates.TestCase):
    settings = MACHINE


class TestUpdatesOfABag(Bagged.TestCase):
    settings = MACHINE


class TestUpdatesOfAJudge(Judged.TestCase):
    settings = settings(MACHINE, max_examples=4)


class TestUpdatesOfFields(OfFields.TestCase):
    settings = settings(MACHINE, max_examples=4)


class TestUpdatesOfFeatures(OfFeatures.TestCase):
    settings = MACHINE


class TestUpdatesOfACalibratedModel(Calibrated.TestCase):
    settings = settings(MACHINE, max_examples=4)
