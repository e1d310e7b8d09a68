"""Whatever is wrong with the input, the error names it and the way out, also under `python -O`."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from sklearn.exceptions import NotFittedError

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.storage.container import ModelFileError

ROWS, WIDTH, LABELS = 12, 6, 4
X, Y = random_problem(0, ROWS, WIDTH, LABELS, density=0.6)
TEXTS = ["red hawthorn berries", "black sloe berries"] * (ROWS // 2)
NAMES = [["hawthorn"], ["sloe"]] * (ROWS // 2)
MODEL = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, Y)
TEXT_MODEL = HedgerowTextClassifier(random_state=0, n_jobs=1).fit(TEXTS, NAMES)


def refused(work: Callable[[], Any], kind: type[Exception], *parts: str) -> None:
    """It raises exactly this kind, every part is in the message, and no warning comes before."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kind) as caught:
            work()
    for part in parts:
        if part not in str(caught.value):
            pytest.fail(f"{part!r} is not in {caught.value!s:.500}")


def dense(row: int = 3, column: int = 2, value: Any = 0.0, dtype: Any = np.float64) -> np.ndarray:
    matrix = X.toarray().astype(dtype)
    matrix[row, column] = value
    return matrix


def raw(data: Any, indices: Any, indptr: Any, width: int = WIDTH) -> sp.csr_array:
    """A CSR matrix that scipy did not check."""
    matrix = sp.csr_array((len(indptr) - 1, width), dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = (
        np.asarray(data, np.float32),
        np.asarray(indices),
        np.asarray(indptr),
    )
    return matrix


def rows_of(*rows: list[int], data: Any = None, dtype: Any = np.int32) -> sp.csr_array:
    """Twelve rows, the first of which are these."""
    padded = [*rows, *([[0]] * (ROWS - len(rows)))]
    indices = np.array([i for row in padded for i in row], dtype=dtype)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in padded])]).astype(dtype)
    return raw(np.ones(len(indices)) if data is None else data, indices, indptr)


def broken_indptr(position: int, value: int) -> sp.csr_array:
    matrix = rows_of([0, 1], [2])
    matrix.indptr = matrix.indptr.copy()
    matrix.indptr[position] = value
    return matrix


# --- features -------------------------------------------------------------------------------------------

BAD_FEATURES = [
    pytest.param(dense(value=np.nan), ValueError, ["X[3, 2] is NaN", "fix or drop"], id="dense NaN"),
    pytest.param(dense(value=np.inf), ValueError, ["X[3, 2] is inf"], id="dense inf"),
    pytest.param(dense(value=-np.inf), ValueError, ["X[3, 2] is -inf"], id="dense -inf"),
    pytest.param(
        sp.csr_array(dense(value=np.nan)), ValueError, ["X[3, 2] is NaN", "fix or drop"], id="sparse NaN"
    ),
    pytest.param(
        sp.csr_array(dense(value=np.inf, dtype=np.float32)), ValueError, ["X[3, 2] is inf"], id="sparse inf"
    ),
    pytest.param(sp.csc_array(dense(value=-np.inf)), ValueError, ["X[3, 2] is -inf"], id="csc -inf"),
    pytest.param(
        sp.csr_array(dense(value=1e300)),
        ValueError,
        ["X[3, 2]", "1e+300 is too large for float32"],
        id="overflow",
    ),
    pytest.param(
        dense(value=-1e39), ValueError, ["X[3, 2]", "-1e+39 is too large for float32"], id="dense overflow"
    ),
    pytest.param(
        rows_of([0], [1, -1]), ValueError, ["row 1", "index -1", "columns 0 to 5"], id="negative index"
    ),
    pytest.param(
        rows_of([0], [1], [2, 6]), ValueError, ["row 2", "index 6", "columns 0 to 5"], id="index too large"
    ),
    pytest.param(
        rows_of([0], [2**40], dtype=np.int64),
        ValueError,
        ["row 1", str(2**40), "columns 0 to 5"],
        id="huge index",
    ),
    pytest.param(
        rows_of([-(2**40)], [1], dtype=np.int64),
        ValueError,
        ["row 0", str(-(2**40))],
        id="huge negative index",
    ),
    pytest.param(
        broken_indptr(1, 5), ValueError, ["X.indptr is broken at row 1", "again"], id="falling indptr"
    ),
    pytest.param(
        broken_indptr(0, 1),
        ValueError,
        ["X is not a valid sparse matrix", "start with 0", "again"],
        id="indptr starts late",
    ),
    pytest.param(
        broken_indptr(-1, 999),
        ValueError,
        ["X is not a valid sparse matrix", "index pointer", "again"],
        id="indptr past the end",
    ),
    pytest.param(
        broken_indptr(3, 999),
        ValueError,
        ["X.indptr is broken at row 2: 999"],
        id="indptr leaves and returns",
    ),
    pytest.param(broken_indptr(3, -1), ValueError, ["X.indptr is broken at row 2: -1"], id="negative indptr"),
    pytest.param(rows_of([1], [2, 2]), ValueError, ["(1, 2) twice", "sum_duplicates"], id="duplicates"),
    pytest.param(
        rows_of([1], [2, 0, 2]), ValueError, ["(1, 2) twice", "sum_duplicates"], id="unsorted duplicates"
    ),
    pytest.param(np.zeros((0, WIDTH)), ValueError, ["X is empty", "(0, 6)"], id="no rows"),
    pytest.param(sp.csr_array((ROWS, 0)), ValueError, ["X is empty", "(12, 0)"], id="no columns"),
    pytest.param(np.zeros(WIDTH), ValueError, ["shape (6,)", "reshape(1, -1)"], id="one dimension"),
    pytest.param(
        sp.coo_array(np.ones(WIDTH)), ValueError, ["1 dimension", "reshape"], id="sparse one dimension"
    ),
    pytest.param(np.zeros((2, 2, 2)), ValueError, ["shape (2, 2, 2)"], id="three dimensions"),
    pytest.param(3.0, ValueError, ["shape ()"], id="a number"),
    pytest.param(
        dense(dtype=np.complex128), ValueError, ["Complex data not supported", "complex128"], id="complex"
    ),
    pytest.param(
        sp.csr_array(dense(dtype=np.complex64)),
        ValueError,
        ["Complex data not supported"],
        id="sparse complex",
    ),
    pytest.param(np.full((ROWS, WIDTH), "a"), TypeError, ["text", "HedgerowTextClassifier"], id="strings"),
    pytest.param(
        np.full((ROWS, WIDTH), "a", object), TypeError, ["text", "vectorizer"], id="objects of text"
    ),
    pytest.param(np.full((ROWS, WIDTH), {}, object), TypeError, ["dtype object", "numbers"], id="objects"),
    pytest.param(np.full((ROWS, WIDTH), b"a"), TypeError, ["text"], id="bytes"),
    pytest.param(None, ValueError, ["shape ()"], id="None"),
    pytest.param("a text", TypeError, ["text", "HedgerowTextClassifier"], id="a text"),
]
ENTRIES = {
    "fit": lambda given: HedgerowClassifier(n_jobs=1).fit(given, Y),
    "top": lambda given: MODEL.top(given, k=1),
    "top exact": lambda given: MODEL.top(given, k=1, exact=True),
    "predict_proba": lambda given: MODEL.predict_proba(given),
    "predict": lambda given: MODEL.predict(given),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("given", "kind", "parts"), BAD_FEATURES)
def test_bad_features_are_refused_by_value_and_place(
    given: Any, kind: type[Exception], parts: list[str], entry: str
) -> None:
    refused(lambda: ENTRIES[entry](given), kind, *parts)


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry != "fit"])
@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 1])
def test_features_of_another_width_than_in_training_are_refused(width: int, entry: str) -> None:
    given = np.ones((2, width))
    refused(lambda: ENTRIES[entry](given), ValueError, f"X has {width} features", "expecting 6 features")


QUESTIONS = {
    "top": {"k": LABELS},
    "predict_proba": {"k": LABELS},
    "predict": {},
    "predict_uncertain": {"k": LABELS},
    "predict_votes": {},
}


@pytest.mark.parametrize("method", ["single", "bagging"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("alone", [False, True])
def test_features_too_large_to_score_are_refused_unless_they_are_normalized(
    method: str, question: str, alone: bool
) -> None:
    model = HedgerowClassifier(method=method, members=2, normalize=False, random_state=0, n_jobs=2).fit(X, Y)
    large = dense(value=1e31)[3:4] if alone else dense(value=1e31)

    def ask() -> None:
        getattr(model, question)(large, **QUESTIONS[question])

    refused(ask, ValueError, "row 0" if alone else "row 3", "too large to score", "scale X")
    model.set_params(normalize=True).fit(X, Y)
    ask()


# --- texts ----------------------------------------------------------------------------------------------

BAD_TEXTS = [
    pytest.param("one text", TypeError, ["not one string", "[text]"], id="a bare string"),
    pytest.param(b"one text", TypeError, ["not one string", "[text]"], id="bare bytes"),
    pytest.param([*TEXTS[:3], 7, *TEXTS[4:]], TypeError, ["3", "int"], id="a number among them"),
    pytest.param([*TEXTS[:5], None, *TEXTS[6:]], TypeError, ["5", "None"], id="None among them"),
    pytest.param([*TEXTS[:2], b"bytes", *TEXTS[3:]], TypeError, ["2", "bytes"], id="bytes among them"),
    pytest.param([*TEXTS[:2], np.nan, *TEXTS[3:]], TypeError, ["2", "float"], id="NaN among them"),
    pytest.param(None, TypeError, ["list of strings", "NoneType"], id="None"),
    pytest.param(5, TypeError, ["list of strings", "int"], id="a number"),
    pytest.param(X, TypeError, [], id="a matrix"),
    pytest.param(
        pd.DataFrame({"description": TEXTS}), TypeError, ["DataFrame", "df['description']"], id="a data frame"
    ),
    pytest.param(dict(enumerate(TEXTS)), TypeError, ["not a dict", "list(d.values())"], id="texts by number"),
    pytest.param(dict.fromkeys(TEXTS), TypeError, ["list(d.values())"], id="texts as keys"),
]
TEXT_ENTRIES = {
    "fit": lambda given: HedgerowTextClassifier(n_jobs=1).fit(given, NAMES),
    "top": lambda given: TEXT_MODEL.top(given, k=1),
    "predict_proba": lambda given: TEXT_MODEL.predict_proba(given),
    "predict": lambda given: TEXT_MODEL.predict(given),
}


@pytest.mark.parametrize("entry", TEXT_ENTRIES)
@pytest.mark.parametrize(("given", "kind", "parts"), BAD_TEXTS)
def test_bad_texts_are_refused_by_value_and_place(
    given: Any, kind: type[Exception], parts: list[str], entry: str
) -> None:
    refused(lambda: TEXT_ENTRIES[entry](given), kind, *parts)


def test_texts_without_any_word_in_common_are_refused_with_the_way_out() -> None:
    refused(
        lambda: HedgerowTextClassifier().fit(["one", "two"], [["a"], ["b"]]),
        ValueError,
        "min_count=2",
        "lower min_count",
    )
    refused(lambda: HedgerowTextClassifier().fit([], []), ValueError, "no texts")
    refused(
        lambda: HedgerowTextClassifier(min_count=1).fit(["", "!"], [["a"], ["b"]]),
        ValueError,
        "texts are empty",
    )


@pytest.mark.parametrize("entry", [entry for entry in TEXT_ENTRIES if entry != "fit"])
def test_no_texts_to_predict_are_refused(entry: str) -> None:
    refused(lambda: TEXT_ENTRIES[entry]([]), ValueError, "empty")


# --- labels ---------------------------------------------------------------------------------------------


def labels_with(value: Any, dtype: Any = np.float64) -> np.ndarray:
    matrix = Y.toarray().astype(dtype)
    matrix[3, 2] = value
    return matrix


def unsound_labels(index: int, zero: bool = False) -> sp.csr_array:
    matrix = rows_of([0], [1], [2, index])
    matrix._shape = (ROWS, LABELS)
    if zero:
        matrix.data = matrix.data.copy()
        matrix.data[0] = 0
    return matrix


def broken_labels() -> sp.csr_array:
    matrix = unsound_labels(3, True)
    matrix.indptr = matrix.indptr.copy()
    matrix.indptr[5] = 10**9
    return matrix


BAD_LABELS = [
    pytest.param(Y[:-1], ValueError, ["X has 12 rows, but Y has 11"], id="too few rows"),
    pytest.param(np.ones((13, 2)), ValueError, ["X has 12 rows, but Y has 13"], id="too many rows"),
    pytest.param([["a"]] * 11, ValueError, ["12 inputs", "11 lists"], id="too few lists"),
    pytest.param(labels_with(2), ValueError, ["Y[3, 2] is 2", "indicator"], id="a two"),
    pytest.param(labels_with(-1), ValueError, ["Y[3, 2] is -1", "indicator"], id="a negative"),
    pytest.param(labels_with(0.5), ValueError, ["Y[3, 2] is 0.5", "indicator"], id="a half"),
    pytest.param(labels_with(np.nan), ValueError, ["Y[3, 2] is NaN", "drop row 3"], id="NaN"),
    pytest.param(
        sp.csr_array(labels_with(np.nan)),
        ValueError,
        ["Y[3, 2] is NaN", "indicator", "drop row 3"],
        id="sparse NaN",
    ),
    pytest.param(
        sp.csr_array(labels_with(2, np.int64)), ValueError, ["Y[3, 2] is 2", "indicator"], id="sparse two"
    ),
    pytest.param(np.zeros((ROWS, LABELS)), ValueError, ["no input has any label"], id="no label"),
    pytest.param(
        sp.csr_array((ROWS, LABELS)), ValueError, ["no input has any label"], id="sparse without label"
    ),
    pytest.param([[]] * ROWS, ValueError, ["no input has any label"], id="empty lists"),
    pytest.param(np.ones(ROWS), ValueError, ["one dimension", "(n, L)"], id="one dimension"),
    pytest.param(
        np.array(["a"] * ROWS), ValueError, ["one dimension", "list with the labels"], id="one name each"
    ),
    pytest.param(["a"] * ROWS, TypeError, ["Y[0] is 'a'", "['a']"], id="a name instead of a list"),
    pytest.param([1] * ROWS, TypeError, ["Y[0] is 1", "[1]"], id="a number instead of a list"),
    pytest.param([["a"]] * 11 + [[1]], TypeError, ["mixes strings and integers"], id="mixed types"),
    pytest.param([["a"]] * 11 + [[1.5]], TypeError, ["Y[11] holds 1.5", "float"], id="a fraction as label"),
    pytest.param(
        [["a"]] * 11 + [[None]], TypeError, ["Y[11] holds None", "Leave it out"], id="None as label"
    ),
    pytest.param(
        [["a"]] * 11 + [["b", np.nan]], TypeError, ["Y[11] holds nan", "drop row 11"], id="NaN as label"
    ),
    pytest.param([["a"]] * 11 + [[pd.NA]], TypeError, ["Y[11] holds <NA>", "Leave it out"], id="NA as label"),
    pytest.param([["a"]] * 11 + [[True]], TypeError, ["Y[11] holds True"], id="True as label"),
    pytest.param(
        [["a"]] * 11 + [None],
        TypeError,
        ["Y[11] is None", "Drop row 11", "empty list"],
        id="None instead of a list",
    ),
    pytest.param(
        [["a"]] * 11 + [float("nan")],
        TypeError,
        ["Y[11] is nan", "Drop row 11", "empty list"],
        id="NaN instead of a list",
    ),
    pytest.param(
        pd.Series([["a"]] * 3 + [np.nan] + [["a"]] * 8, index=range(20, 32)),
        TypeError,
        ["Y[3] is nan", "Drop row 3", "empty list"],
        id="a column with a missing list",
    ),
    pytest.param(
        pd.DataFrame(labels_with(np.nan)), ValueError, ["Y[3, 2] is NaN", "drop row 3"], id="NaN in a frame"
    ),
    pytest.param(
        pd.DataFrame(labels_with(2)).astype(object).replace(2.0, pd.NA),
        ValueError,
        ["Y[3, 2] is", "drop row 3"],
        id="NA in a frame",
    ),
    pytest.param([["a"]] * 11 + [[["b"]]], TypeError, ["Y[11] holds ['b']"], id="a list as label"),
    pytest.param([["a"]] * 11 + [[b"b"]], TypeError, ["Y[11] holds b'b'"], id="bytes as label"),
    pytest.param([[1]] * 11 + [[2**70]], ValueError, [str(2**70)], id="a number beyond 64 bits"),
    pytest.param([["a"]] * 11 + [["\ud800"]], ValueError, ["Y[11]", "\\ud800"], id="a lone surrogate"),
    pytest.param(
        pd.DataFrame({"labels": [["a"]] * ROWS}),
        TypeError,
        ["not an indicator matrix", "df['labels']"],
        id="a data frame of lists",
    ),
    pytest.param(
        pd.DataFrame(labels_with(2, np.int64)), ValueError, ["Y[3, 2] is 2"], id="a two in a data frame"
    ),
    pytest.param({"first": ["a"]}, TypeError, ["Y is a dict", "list(d.values())"], id="a dict"),
    pytest.param(None, TypeError, ["Y is None"], id="None"),
    pytest.param(7, TypeError, ["Y is 7"], id="a number"),
    pytest.param("abcdefghijkl", TypeError, ["Y is"], id="a string"),
    pytest.param(
        unsound_labels(4), ValueError, ["row 2 of Y", "index 4", "columns 0 to 3"], id="index too large"
    ),
    pytest.param(unsound_labels(-1), ValueError, ["row 2 of Y", "index -1"], id="negative index"),
    pytest.param(
        unsound_labels(99, True), ValueError, ["row 2 of Y", "index 99"], id="index too large after a zero"
    ),
    pytest.param(
        broken_labels(),
        ValueError,
        ["Y.indptr is broken at row 4: 1000000000"],
        id="broken indptr and a zero",
    ),
    pytest.param(unsound_labels(2), ValueError, ["Y stores (2, 2) twice"], id="duplicates"),
]


@pytest.mark.parametrize(
    "fit",
    [
        pytest.param(lambda given: HedgerowClassifier(n_jobs=1).fit(X, given), id="features"),
        pytest.param(lambda given: HedgerowTextClassifier(n_jobs=1).fit(TEXTS, given), id="texts"),
    ],
)
@pytest.mark.parametrize(("given", "kind", "parts"), BAD_LABELS)
def test_bad_labels_are_refused_by_value_and_place(
    given: Any, kind: type[Exception], parts: list[str], fit: Any
) -> None:
    refused(lambda: fit(given), kind, *parts)


@pytest.mark.parametrize(
    ("classes", "kind", "parts"),
    [
        pytest.param(["a"], ValueError, ["1 classes for the 4 columns"], id="too few"),
        pytest.param(["a", "b", "c", "a"], ValueError, ["'a' twice"], id="a name twice"),
        pytest.param(["a", "b", "c", 4], TypeError, ["classes[3] is 4", "string"], id="a number"),
        pytest.param("abcd", TypeError, ["classes", "list"], id="a string"),
    ],
)
def test_bad_names_of_columns_are_refused(classes: Any, kind: type[Exception], parts: list[str]) -> None:
    refused(lambda: HedgerowClassifier().fit(X, Y, classes=classes), kind, *parts)


def test_names_of_columns_for_lists_of_labels_are_refused() -> None:
    refused(
        lambda: HedgerowClassifier().fit(X, [["a"]] * ROWS, classes=["a"]),
        ValueError,
        "classes name the columns",
    )


@pytest.mark.parametrize(
    ("given", "kind", "parts"),
    [
        pytest.param(
            np.ones((3, 2)), ValueError, ["label_features has 3 rows, but Y has 4 columns"], id="rows"
        ),
        pytest.param(np.full((4, 2), np.nan), ValueError, ["label_features[0, 0] is NaN"], id="NaN"),
        pytest.param(np.ones(4), ValueError, ["label_features"], id="one dimension"),
        pytest.param(np.full((4, 2), "a"), TypeError, ["label_features"], id="strings"),
    ],
)
def test_bad_label_features_are_refused(given: Any, kind: type[Exception], parts: list[str]) -> None:
    refused(lambda: HedgerowClassifier().fit(X, Y, label_features=given), kind, *parts)


def test_tree_that_is_none_is_refused() -> None:
    refused(lambda: HedgerowClassifier().fit(X, Y, tree=[[0, 1, 2, 3]]), TypeError, "tree", "LabelTree")


# --- weights of inputs ----------------------------------------------------------------------------------

BAD_WEIGHTS = [
    pytest.param(np.ones(11), ValueError, ["shape (11,)", "12 inputs"], id="too few"),
    pytest.param(np.ones((12, 1)), ValueError, ["shape (12, 1)", "12 inputs"], id="a column"),
    pytest.param(1.0, ValueError, ["12 inputs"], id="a number"),
    pytest.param([1.0] * 11 + [np.nan], ValueError, ["sample_weight[11] is nan", "finite"], id="NaN"),
    pytest.param(
        [1.0] * 11 + [-0.5], ValueError, ["sample_weight[11] is -0.5", "not negative"], id="negative"
    ),
    pytest.param([np.inf] + [1.0] * 11, ValueError, ["sample_weight[0] is inf"], id="inf"),
    pytest.param([1e39] + [1.0] * 11, ValueError, ["sample_weight[0] is"], id="overflow"),
    pytest.param(np.zeros(12), ValueError, ["0 for every input"], id="all zero"),
    pytest.param(["a"] * 12, ValueError, ["sample_weight"], id="strings"),
]


@pytest.mark.parametrize(("given", "kind", "parts"), BAD_WEIGHTS)
def test_bad_sample_weights_are_refused_by_value_and_place(
    given: Any, kind: type[Exception], parts: list[str]
) -> None:
    refused(lambda: HedgerowClassifier().fit(X, Y, sample_weight=given), kind, *parts)
    refused(lambda: HedgerowTextClassifier().fit(TEXTS, NAMES, sample_weight=given), kind, *parts)


# --- parameters -----------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    *(("C", value) for value in (0, -1.0, np.nan, np.inf, "1", None)),
    *(("positive_cost", value) for value in (0, -1.0, np.nan, np.inf)),
    *(("negative_cost", value) for value in (0, -1.0, np.nan)),
    *(("tolerance", value) for value in (0, -1.0, np.nan)),
    *(("weight_threshold", value) for value in (-0.1, np.nan)),
    *(("bias", value) for value in (-1.0, np.nan, np.inf)),
    *(("beam", value) for value in (0, -1, 2.5, None, "9")),
    *(("branching", value) for value in (0, 1, 1025, 2.0)),
    *(("leaf_size", value) for value in (0, -3, 1.5)),
    *(("max_passes", value) for value in (0, 1.5)),
    *(("matcher_beam", value) for value in (0, 1.5)),
    *(("candidates", value) for value in (0, 1.5, "best", None)),
    *(("missing", value) for value in ("zero", None, 0)),
    *(("members", value) for value in (0, -1, 2.5, None, 5000)),
    *(("trees", value) for value in (0, -1, 2.5, "all")),
    *(("alpha", value) for value in (-0.5, np.nan, np.inf, None)),
    *(("hard_negatives", value) for value in (0, 1.5)),
    *(("dropout", value) for value in (0, 1.0, -0.1, np.nan)),
    *(("method", value) for value in ("double", None, 1)),
    *(("loss", value) for value in ("hinge", None)),
    *(("negatives", value) for value in ("man", None)),
    *(("normalize", value) for value in ("yes", None, 2)),
    *(("n_jobs", value) for value in (1.5, "2")),
    *(("random_state", value) for value in (-1, "seed", 1.5)),
]


@pytest.mark.parametrize(("name", "value"), [pytest.param(n, v, id=f"{n}={v!r}") for n, v in BAD_PARAMETERS])
def test_bad_parameters_are_refused_by_name_and_value(name: str, value: Any) -> None:
    parts = [f"{name} is {value!r}; it must be"]
    refused(lambda: HedgerowClassifier(**{name: value}).fit(X, Y), ValueError, *parts)
    refused(lambda: HedgerowTextClassifier(**{name: value}).fit(TEXTS, NAMES), ValueError, *parts)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        pytest.param("ngrams", (1, 3), "(1, 3)", id="ngrams too long"),
        pytest.param("ngrams", (), "()", id="no ngrams"),
        pytest.param("ngrams", 2, "2", id="ngrams a number"),
        pytest.param("ngrams", ("a", "b"), "a", id="ngrams of strings"),
        pytest.param("min_count", 0, "0", id="min_count 0"),
        pytest.param("max_features", 0, "0", id="max_features 0"),
        pytest.param("sublinear", "yes", "'yes'", id="sublinear a string"),
    ],
)
def test_bad_parameters_of_the_words_are_refused_by_name_and_value(name: str, value: Any, part: str) -> None:
    refused(lambda: HedgerowTextClassifier(**{name: value}).fit(TEXTS, NAMES), ValueError, name, part)


@pytest.mark.parametrize(
    ("k", "kind", "parts"),
    [
        pytest.param(0, ValueError, ["k is 0", "at least one"], id="0"),
        pytest.param(-1, ValueError, ["k is -1", "at least one"], id="-1"),
        pytest.param(2.5, TypeError, ["k is 2.5", "integer"], id="2.5"),
        pytest.param(True, TypeError, ["k is True", "integer"], id="True"),
        pytest.param("3", TypeError, ["k is '3'", "integer"], id="a string"),
        pytest.param(None, TypeError, ["k is None", "integer"], id="None"),
        pytest.param(10**12, ValueError, [f"k is {10**12}", "or fewer"], id="huge"),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_bad_number_of_labels_is_refused(
    k: Any, kind: type[Exception], parts: list[str], exact: bool
) -> None:
    refused(lambda: MODEL.top(X, k=k, exact=exact), kind, *parts)
    refused(lambda: TEXT_MODEL.top(TEXTS, k=k, exact=exact), kind, *parts)


def test_more_labels_than_the_model_knows_are_refused_with_their_number() -> None:
    refused(lambda: MODEL.top(X, k=5), ValueError, "k is 5", "only 4 labels", "4 or fewer")
    refused(lambda: TEXT_MODEL.top(TEXTS, k=3), ValueError, "k is 3", "only 2 labels")


@pytest.mark.parametrize("entry", ["top", "predict", "predict_proba", "score", "describe", "save"])
def test_use_before_fit_is_refused(entry: str, tmp_path: Path) -> None:
    arguments = {"score": (X, Y), "describe": (), "save": (tmp_path / "m",)}.get(entry, (X,))
    refused(
        lambda: getattr(HedgerowClassifier(), entry)(*arguments), NotFittedError, "HedgerowClassifier", "fit"
    )
    texts = {"score": (TEXTS, NAMES), "describe": (), "save": (tmp_path / "m",)}.get(entry, (TEXTS,))
    refused(
        lambda: getattr(HedgerowTextClassifier(), entry)(*texts),
        NotFittedError,
        "HedgerowTextClassifier",
        "fit",
    )
    assert list(tmp_path.iterdir()) == []


# --- files ----------------------------------------------------------------------------------------------


def test_saving_onto_an_existing_file_is_refused_and_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("precious")
    refused(lambda: MODEL.save(path), FileExistsError, str(path), "overwrite=True")
    assert path.read_text() == "precious"
    MODEL.save(path, overwrite=True)
    assert hedgerow.load(path).n_features_in_ == WIDTH


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"garbage" * 99, id="garbage"),
        pytest.param(b"{}", id="JSON"),
    ],
)
def test_loading_something_else_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    for load in (hedgerow.load, HedgerowClassifier.load, HedgerowTextClassifier.load):
        with pytest.raises(ModelFileError, match=str(path)):
            load(path)


@pytest.mark.parametrize("model", [pytest.param(MODEL, id="features"), pytest.param(TEXT_MODEL, id="texts")])
def test_model_file_with_any_byte_changed_is_refused(tmp_path: Path, model: HedgerowClassifier) -> None:
    path = tmp_path / "m"
    model.save(path)
    whole = bytearray(path.read_bytes())
    for position in range(0, len(whole), max(1, len(whole) // 150)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            hedgerow.load(path)


# --- afterwards -----------------------------------------------------------------------------------------

FAILING_FITS = {
    "NaN": lambda model: model.fit(dense(value=np.nan), Y),
    "labels": lambda model: model.fit(X, labels_with(2)),
    "weights": lambda model: model.fit(X, Y, sample_weight=np.zeros(12)),
    "no labels": lambda model: model.fit(np.ones((3, 9)), np.zeros((3, 2))),
    "interrupted": lambda model: model.fit(
        sp.csr_array(np.vstack([X.toarray()] * 500)), np.vstack([Y.toarray()] * 500), progress=_stop
    ),
}


def _stop(share: float, what: str) -> None:
    raise ValueError("stopped")


@pytest.mark.parametrize("failing", FAILING_FITS)
def test_failed_fit_leaves_a_fitted_model_as_it_was(failing: str) -> None:
    model = HedgerowClassifier(random_state=0, tolerance=1e-9, max_passes=2000, C=1e4).fit(X, Y)
    before, state = model.top(X, k=4), model.describe()
    model.set_params(max_passes=10**9)
    with pytest.raises(ValueError, match=r"NaN|indicator|every input|any label|stopped"):
        FAILING_FITS[failing](model)
    after = model.set_params(max_passes=2000).top(X, k=4)
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.probability, after.probability)
    assert model.describe() == state


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        pytest.param([*TEXTS[:-1], None], NAMES, id="texts"),
        pytest.param(["holly tree"] * 12, NAMES[:-1], id="labels"),
    ],
)
def test_failed_fit_leaves_a_fitted_text_model_as_it_was(texts: Any, labels: Any) -> None:
    model = HedgerowTextClassifier(random_state=0).fit(TEXTS, NAMES)
    before = model.top(TEXTS, k=2)
    with pytest.raises((TypeError, ValueError)):
        model.fit(texts, labels)
    after = model.top(TEXTS, k=2)
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.probability, after.probability)


@pytest.mark.skipif(sys.flags.optimize > 0, reason="this is that run")
@pytest.mark.slow
def test_all_of_this_holds_without_assertions() -> None:
    # pytest's own rewriting needs no assert statement; under -O it only warns that bare asserts do nothing.
    done = subprocess.run(
        [sys.executable, "-O", "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", __file__],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stdout[-3000:])
