"""Data frames and series as inputs and labels: each stands for its values, whatever its index says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import HedgerowClassifier, HedgerowTextClassifier, learn_from_held_out
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.rows import count, take

ROWS = 240
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, 8)).astype(np.float32)
Y = (X @ RANDOM.normal(size=(8, 5)) > 2).astype(int)
INDEX = RANDOM.permutation(ROWS)
FRAME = pd.DataFrame(X, index=INDEX, columns=[f"feature {column}" for column in range(8)])
LABELS = pd.DataFrame(Y, index=INDEX, columns=list("abcde"))


def fitted(features: object, labels: object) -> HedgerowClassifier:
    return HedgerowClassifier(random_state=0, n_jobs=1).fit(features, labels)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(LABELS, id="integers"),
        pytest.param(LABELS.astype(bool), id="bools"),
        pytest.param(LABELS.astype({"a": bool, "b": float}), id="mixed"),
        pytest.param(LABELS.astype({"a": bool, "b": object}), id="objects"),
    ],
)
def test_frame_of_labels_is_the_indicator_matrix_of_its_values(labels: pd.DataFrame) -> None:
    expected = fitted(X, Y)
    found = fitted(FRAME, labels)
    assert found.classes_.tolist() == expected.classes_.tolist() == list(range(5))
    assert np.array_equal(found.top(FRAME, 3).probability, expected.top(X, 3).probability)
    assert found.score(FRAME, labels) == expected.score(X, Y)
    assert evaluate(found, FRAME, labels).ranking.precision == evaluate(expected, X, Y).ranking.precision


def test_model_learns_the_same_from_held_out_frames_as_from_matrices() -> None:
    from_frames, from_matrices = fitted(X[:40], Y[:40]), fitted(X[:40], Y[:40])
    learned = learn_from_held_out(from_frames, FRAME[40:], LABELS[40:])
    assert learned == learn_from_held_out(from_matrices, X[40:], Y[40:])
    assert from_frames.policy_.describe() == from_matrices.policy_.describe()


def test_column_of_texts_and_column_of_lists_are_read_in_their_order() -> None:
    texts = ["red hawthorn berries", "black sloe berries"] * 6
    names = [["hawthorn"], ["sloe"]] * 6
    table = pd.DataFrame({"text": texts, "labels": names}, index=range(12, 0, -1))
    model = HedgerowTextClassifier(random_state=0, n_jobs=1).fit(table["text"], table["labels"])
    assert model.top(table["text"], 1).labels.ravel().tolist() == [label for (label,) in names]


@pytest.mark.parametrize("inputs", [FRAME, FRAME["feature 3"]], ids=["frame", "series"])
def test_rows_are_taken_by_place(inputs: pd.DataFrame | pd.Series) -> None:
    rows = np.array([5, 0, 7])
    assert count(inputs) == ROWS
    assert np.array_equal(take(inputs, rows).to_numpy(), inputs.to_numpy()[rows])
