"""The estimators keep scikit-learn's conventions, their files, their bits and their temper."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, TopLabels, _native
from hedgerow.trees.tree_model import TreeClassifier

TEXTS = [
    f"{shrub} {colour} berries {shrub}"
    for shrub in ("hawthorn", "holly", "sloe", "elder")
    for colour in ("red", "black", "no")
]
NAMES = [[text.split()[0], text.split()[1]] for text in TEXTS]
QUERY = ["holly with red berries", "black sloe", "nothing known"]


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    return random_problem(1, 80, 30, 40)


@pytest.fixture(scope="module")
def model(data: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    return HedgerowClassifier(random_state=0, leaf_size=5, branching=3).fit(*data)


@pytest.fixture(scope="module")
def text_model() -> HedgerowTextClassifier:
    return HedgerowTextClassifier(random_state=0, leaf_size=2, branching=2).fit(TEXTS, NAMES)


def assert_same(first: TopLabels, second: TopLabels) -> None:
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.probability, second.probability)


def file_of(model: HedgerowClassifier, folder: Path, name: str = "model") -> bytes:
    path = folder / f"{name}.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes()


# --- scikit-learn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HedgerowClassifier, HedgerowTextClassifier])
def test_parameters_set_and_cloned_are_those_that_were_given(kind: type[HedgerowClassifier]) -> None:
    estimator = kind(C=2.0, branching=4)
    changed = estimator.set_params(beam=7, loss="logistic")
    assert changed is estimator
    parameters = clone(estimator).get_params()
    assert parameters == estimator.get_params()
    assert (parameters["C"], parameters["beam"], parameters["loss"]) == (2.0, 7, "logistic")
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        estimator.set_params(depth=3)


def test_clone_of_a_fitted_model_is_not_fitted(model: HedgerowClassifier) -> None:
    fresh = clone(model)
    assert not hasattr(fresh, "tree_")
    assert fresh.get_params() == model.get_params()


def test_fit_returns_self_and_changes_no_parameter(data: tuple[sp.csr_array, sp.csr_array]) -> None:
    estimator = HedgerowClassifier(random_state=0)
    before = estimator.get_params()
    assert estimator.fit(*data) is estimator
    assert estimator.get_params() == before


def test_pipeline_of_a_transformer_and_the_classifier_works(data: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = abs(data[0]), data[1]
    pipeline = make_pipeline(TfidfTransformer(), HedgerowClassifier(random_state=0)).fit(X, Y)
    expected = HedgerowClassifier(random_state=0).fit(TfidfTransformer().fit_transform(X), Y)
    found = pipeline.predict_proba(X)
    np.testing.assert_array_equal(
        found.toarray(), expected.predict_proba(pipeline[:-1].transform(X)).toarray()
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("labels", ["names", "csr_matrix", "csr_array", "dense"])
def test_grid_search_over_any_kind_of_labels_finds_parameters(
    data: tuple[sp.csr_array, sp.csr_array], labels: str, n_jobs: int
) -> None:
    X, Y = data
    given: Any = {
        "names": [[f"label {i}" for i in row.indices] for row in Y],
        "csr_matrix": sp.csr_matrix(Y),
        "csr_array": Y,
        "dense": Y.toarray(),
    }[labels]
    search = GridSearchCV(
        HedgerowClassifier(random_state=0, n_jobs=1),
        {"C": [0.1, 1.0]},
        cv=2,
        n_jobs=n_jobs,
        error_score="raise",
    )
    search.fit(X, given)
    assert search.best_params_["C"] in (0.1, 1.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert 0 <= search.score(X, given) <= 1
    assert search.predict(X).shape[0] == X.shape[0]


def test_cross_validation_of_texts_works() -> None:
    scores = cross_val_score(
        HedgerowTextClassifier(random_state=0, min_count=1), TEXTS, NAMES, cv=2, error_score="raise"
    )
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()


def test_score_is_the_share_of_inputs_whose_best_label_is_right(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier
) -> None:
    X, Y = data
    best = model.top(X, k=1).labels[:, 0]
    labelled = np.flatnonzero(np.diff(Y.indptr))
    expected = np.mean([Y.toarray()[row, best[row]] for row in labelled])
    assert model.score(X, Y) == pytest.approx(expected)
    assert model.score(X, Y.toarray()) == pytest.approx(expected)
    assert model.score(X, [row.indices.tolist() for row in Y]) == pytest.approx(expected)


# --- what goes in ---------------------------------------------------------------------------------------


def as_unsorted(X: sp.csr_array) -> sp.csr_array:
    shuffled = X.copy()
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        shuffled.indices[part], shuffled.data[part] = X.indices[part][::-1], X.data[part][::-1]
    shuffled.has_sorted_indices = False
    return shuffled


def as_read_only(X: sp.csr_array) -> sp.csr_array:
    frozen = X.copy()
    for array in (frozen.data, frozen.indices, frozen.indptr):
        array.flags.writeable = False
    return frozen


def as_int64(X: sp.csr_array) -> sp.csr_array:
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return wide


FORMATS = {
    "float64": lambda X: X.astype(np.float64),
    "int64 indices": as_int64,
    "read-only": as_read_only,
    "unsorted": as_unsorted,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "csc_matrix": sp.csc_matrix,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
    "dense": lambda X: X.toarray(),
    "dense float16": lambda X: X.toarray().astype(np.float16),
    "dense Fortran": lambda X: np.asfortranarray(X.toarray()),
    "nested lists": lambda X: X.toarray().tolist(),
}


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_numbers_in_any_form_give_the_same_model_and_predictions(form: str, tmp_path: Path) -> None:
    X, Y = random_problem(2, 50, 30, 20)
    # Numbers that every type can hold.
    X = sp.csr_array((np.sign(X.data) * np.ceil(np.abs(X.data) * 4), X.indices, X.indptr), X.shape)
    other = FORMATS[form](X)
    kept = copy.deepcopy(other)
    plain = HedgerowClassifier(random_state=0, leaf_size=5).fit(X, Y)
    model = HedgerowClassifier(random_state=0, leaf_size=5).fit(other, Y)
    assert_same(plain.top(X, k=5), model.top(other, k=5))
    assert file_of(plain, tmp_path, "a") == file_of(model, tmp_path, "b")
    # The caller's matrix is as it was.
    if sp.issparse(other):
        np.testing.assert_array_equal(other.toarray(), kept.toarray())
        if other.format == "csr":
            np.testing.assert_array_equal(other.indices, kept.indices)
            assert other.data.dtype == kept.data.dtype


def test_stored_zeros_change_nothing_but_rounding() -> None:
    X, Y = random_problem(2, 50, 30, 20)
    full = sp.csr_array((X.toarray().ravel(), np.tile(np.arange(30), 50), np.arange(0, 1501, 30)), X.shape)
    assert full.nnz == 1500
    plain, other = (HedgerowClassifier(random_state=0, leaf_size=5).fit(given, Y) for given in (X, full))
    np.testing.assert_allclose(
        plain.predict_proba(X).toarray(), other.predict_proba(full).toarray(), atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, bool])
def test_whole_numbers_as_features_equal_the_same_floats(dtype: Any) -> None:
    X, Y = random_problem(3, 50, 30, 20)
    counts = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), X.shape)
    plain = HedgerowClassifier(random_state=0).fit(counts, Y).top(counts, k=5)
    assert_same(
        plain, HedgerowClassifier(random_state=0).fit(counts.astype(dtype), Y).top(counts.astype(dtype), k=5)
    )


@pytest.mark.parametrize(
    "form", ["bool", "int64", "float64", "csr_matrix", "csc", "coo", "dense", "unsorted", "stored zeros"]
)
def test_the_same_labels_in_any_form_give_the_same_model(form: str, tmp_path: Path) -> None:
    X, Y = random_problem(4, 50, 30, 20)
    zeros = sp.csr_array(Y.astype(np.float32))
    zeros[0] = 0 * zeros[0]
    other: Any = {
        "bool": Y.astype(bool),
        "int64": as_int64(Y.astype(np.int64)),
        "float64": Y.astype(np.float64),
        "csr_matrix": sp.csr_matrix(Y),
        "csc": sp.csc_array(Y),
        "coo": sp.coo_array(Y),
        "dense": Y.toarray(),
        "unsorted": as_unsorted(Y),
        "stored zeros": sp.csr_array(
            (Y.toarray().ravel(), np.tile(np.arange(20), 50), np.arange(0, 1001, 20)), (50, 20)
        ),
    }[form]
    plain, model = (HedgerowClassifier(random_state=0, leaf_size=5).fit(X, given) for given in (Y, other))
    assert file_of(plain, tmp_path, "a") == file_of(model, tmp_path, "b")


def test_labels_as_strings_come_back_as_strings() -> None:
    X, Y = random_problem(5, 30, 20, 10)
    names = [[f"näme {i}" for i in row.indices] for row in Y]
    model = HedgerowClassifier(random_state=0).fit(X, names)
    assert model.classes_.tolist() == sorted({name for row in names for name in row})
    numbers = HedgerowClassifier(random_state=0).fit(X, Y)
    assert model.top(X, k=3).labels.tolist() == [
        [f"näme {i}" for i in row] for row in numbers.top(X, k=3).labels
    ]


def test_labels_as_integers_come_back_as_integers() -> None:
    X, Y = random_problem(5, 30, 20, 10)
    given = [[int(10 * i - 7) for i in row.indices] for row in Y]
    model = HedgerowClassifier(random_state=0).fit(X, given)
    assert model.classes_.dtype == np.int64
    assert model.classes_.tolist() == [10 * i - 7 for i in range(10)]
    assert set(model.top(X, k=3).labels.ravel().tolist()) <= set(model.classes_.tolist())


def test_classes_name_the_columns_of_a_matrix() -> None:
    X, Y = random_problem(5, 30, 20, 10)
    names = [f"{i}".zfill(2) for i in reversed(range(10))]
    model = HedgerowClassifier(random_state=0).fit(X, Y, classes=names)
    numbers = HedgerowClassifier(random_state=0).fit(X, Y).top(X, k=3).labels
    assert model.top(X, k=3).labels.tolist() == [[names[i] for i in row] for row in numbers]


def test_a_label_named_twice_for_one_input_is_one_label() -> None:
    X, Y = random_problem(5, 30, 20, 10)
    once = [[f"{i}" for i in row.indices] for row in Y]
    models = [
        HedgerowClassifier(random_state=0).fit(X, given) for given in (once, [row + row for row in once])
    ]
    assert_same(*(model.top(X, k=3) for model in models))


# --- what comes out -------------------------------------------------------------------------------------


def test_probabilities_and_predictions_agree_with_top(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier
) -> None:
    X, _ = data
    every = clone(model).fit(*data)
    top, matrix, predicted = every.top(X, k=7), every.predict_proba(X, k=7), every.predict(X)
    whole = every.predict_proba(X).toarray()
    assert matrix.shape == predicted.shape == (80, 40)
    assert matrix.has_sorted_indices
    assert predicted.dtype == np.int8
    for row in range(80):
        begin, end = matrix.indptr[row], matrix.indptr[row + 1]
        found = dict(zip(matrix.indices[begin:end].tolist(), matrix.data[begin:end].tolist(), strict=True))
        expected = dict(zip(top.labels[row].tolist(), top.probability[row].tolist(), strict=True))
        assert found == expected
        begin, end = predicted.indptr[row], predicted.indptr[row + 1]
        assert predicted.indices[begin:end].tolist() == np.flatnonzero(whole[row] >= 0.5).tolist()
    assert (predicted.data == 1).all()


def test_text_model_agrees_with_its_vectorizer_and_the_plain_classifier(
    text_model: HedgerowTextClassifier,
) -> None:
    features = text_model.vectorizer_.transform(TEXTS)
    plain = HedgerowClassifier(random_state=0, leaf_size=2, branching=2).fit(features, NAMES)
    assert_same(text_model.top(TEXTS, k=3), plain.top(features, k=3))
    np.testing.assert_array_equal(
        text_model.predict_proba(QUERY).toarray(),
        plain.predict_proba(text_model.vectorizer_.transform(QUERY)).toarray(),
    )
    assert text_model.predict(TEXTS).shape == (len(TEXTS), len(text_model.classes_))
    assert text_model.top(["holly berries"], k=1).labels.tolist() == [["holly"]]


def test_parameters_changed_after_fit_do_not_change_what_the_weights_mean(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = data
    model = HedgerowClassifier(random_state=0, normalize=True).fit(X, Y)
    before = model.top(X, k=5)
    model.set_params(loss="logistic", leaf_size=1, bias=0.0)
    assert_same(before, model.top(X, k=5))


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_saved_and_loaded_model_predicts_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path, verify: bool, loss: str
) -> None:
    X, Y = data
    model = HedgerowClassifier(random_state=0, leaf_size=5, loss=loss, beam=3).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = hedgerow.load(tmp_path / "m", verify=verify)
    assert type(loaded) is HedgerowClassifier
    for exact in (False, True):
        assert_same(model.top(X, k=9, exact=exact), loaded.top(X, k=9, exact=exact))
    assert loaded.describe() == model.describe()
    assert file_of(loaded, tmp_path, "again") == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("verify", [True, False])
def test_saved_and_loaded_text_model_predicts_the_same_bits(
    text_model: HedgerowTextClassifier, tmp_path: Path, verify: bool
) -> None:
    text_model.save(tmp_path / "m")
    loaded = HedgerowTextClassifier.load(tmp_path / "m", verify=verify)
    assert type(loaded) is HedgerowTextClassifier
    assert_same(text_model.top(QUERY, k=5), loaded.top(QUERY, k=5))
    assert file_of(loaded, tmp_path, "again") == (tmp_path / "m").read_bytes()


def test_model_with_any_label_names_comes_back_from_its_file(tmp_path: Path) -> None:
    X, Y = random_problem(5, 30, 20, 6)
    names = ["", " ", "Straße", "日本語", "a\nb\0c", "x" * 1000]
    HedgerowClassifier(random_state=0).fit(X, Y, classes=names).save(tmp_path / "m")
    assert hedgerow.load(tmp_path / "m").classes_.tolist() == names


def test_file_of_the_other_kind_is_refused_by_the_class(model: HedgerowClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    with pytest.raises(
        hedgerow.storage.container.Malformed, match=r"holds a HedgerowClassifier; open it with hedgerow\.load"
    ):
        HedgerowTextClassifier.load(tmp_path / "m")


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_model_loaded_by_another_process_predicts_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    sp.save_npz(tmp_path / "X.npz", sp.csr_matrix(data[0]))
    done = run(f"""
        import numpy as np, scipy.sparse as sp, hedgerow
        found = hedgerow.load({str(tmp_path / "m")!r}).top(sp.load_npz({str(tmp_path / "X.npz")!r}), k=9)
        np.savez({str(tmp_path / "found.npz")!r}, labels=found.labels, probability=found.probability)
    """)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    expected = model.top(data[0], k=9)
    np.testing.assert_array_equal(found["labels"], expected.labels)
    np.testing.assert_array_equal(found["probability"], expected.probability)


def _in_child(send: Any, model: HedgerowClassifier, X: Any, Y: Any) -> None:
    found = model.top(X, k=9)
    again = HedgerowClassifier(random_state=0, leaf_size=5, branching=3, n_jobs=4).fit(X, Y).top(X, k=9)
    send.send((found.labels, found.probability, again.labels, again.probability))
    send.close()


@pytest.mark.skipif(
    os.environ.get("HEDGEROW_SANITIZER") == "thread",
    reason="ThreadSanitizer ends a forked child that starts threads",
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_children_predict_and_fit_after_the_parent_used_threads(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = data
    model = HedgerowClassifier(random_state=0, leaf_size=5, branching=3, n_jobs=4).fit(X, Y)
    expected = model.top(X, k=9)
    context = multiprocessing.get_context("fork")
    children = []
    for _ in range(3):
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=_in_child, args=(send, model, X, Y))
        child.start()
        send.close()
        children.append((child, receive))
    for child, receive in children:
        assert receive.poll(120), "the child hangs"
        labels, probability, *again = receive.recv()
        child.join(60)
        assert child.exitcode == 0
        assert_same(expected, TopLabels(labels, probability))
        assert_same(expected, TopLabels(*again))


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "pickle protocol 2": lambda model: pickle.loads(pickle.dumps(model, protocol=2)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", COPIES)
def test_copied_fitted_model_predicts_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier, tmp_path: Path, way: str
) -> None:
    copied = COPIES[way](model)
    assert_same(model.top(data[0], k=9), copied.top(data[0], k=9))
    assert file_of(copied, tmp_path, "a") == file_of(model, tmp_path, "b")


@pytest.mark.parametrize("way", COPIES)
def test_copied_fitted_text_model_predicts_the_same_bits(
    text_model: HedgerowTextClassifier, way: str
) -> None:
    assert_same(text_model.top(QUERY, k=5), COPIES[way](text_model).top(QUERY, k=5))


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_fitted_model_through_joblib_predicts_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier, tmp_path: Path, mmap_mode: Any
) -> None:
    joblib.dump(model, tmp_path / "m.joblib")
    assert_same(
        model.top(data[0], k=9), joblib.load(tmp_path / "m.joblib", mmap_mode=mmap_mode).top(data[0], k=9)
    )


def test_model_from_a_file_can_be_copied_after_the_file_is_gone(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    pickled = pickle.dumps(hedgerow.load(tmp_path / "m"))
    (tmp_path / "m").unlink()
    assert_same(model.top(data[0], k=9), pickle.loads(pickled).top(data[0], k=9))


def test_fitted_model_in_worker_processes_predicts_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier
) -> None:
    X, _ = data
    parts = joblib.Parallel(n_jobs=2)(
        joblib.delayed(model.top)(X[start : start + 40], k=3) for start in (0, 40)
    )
    expected = model.top(X, k=3)
    np.testing.assert_array_equal(np.vstack([part.labels for part in parts]), expected.labels)
    np.testing.assert_array_equal(np.vstack([part.probability for part in parts]), expected.probability)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
def test_same_seed_at_any_number_of_threads_gives_the_same_file_byte_for_byte(
    tmp_path: Path, negatives: str, loss: str
) -> None:
    # Leaves of 40 labels have three panels, which several threads share.
    X, Y = random_problem(6, 300, 60, 150)
    files = [
        file_of(
            HedgerowClassifier(
                random_state=5,
                leaf_size=40,
                branching=3,
                negatives=negatives,
                loss=loss,
                matcher_beam=2,
                n_jobs=threads,
            ).fit(X, Y),
            tmp_path,
        )
        for threads in (1, 2, 4, 2)
    ]
    assert files[0] == files[1] == files[2] == files[3]


def test_same_seed_at_any_number_of_threads_gives_the_same_text_model(tmp_path: Path) -> None:
    files = [
        file_of(
            HedgerowTextClassifier(random_state=5, leaf_size=2, n_jobs=threads).fit(TEXTS, NAMES), tmp_path
        )
        for threads in (1, 2, 4)
    ]
    assert files[0] == files[1] == files[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as on Linux")
def test_threads_that_the_system_refuses_are_done_without() -> None:
    # Memory for the small model, but not for the stack of one more thread (8 MB).
    done = run(f"""
        import resource, sys
        import numpy as np
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from dense_oracle import random_problem
        from hedgerow import HedgerowClassifier
        X, Y = random_problem(1, 80, 20, 24)
        model = HedgerowClassifier(random_state=0, leaf_size=3, n_jobs=1).fit(X, Y)
        expected = model.top(X, k=5).probability
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (6 << 20),) * 2)
        found = model.set_params(n_jobs=16).fit(X, Y).top(X, k=5).probability
        print((found == expected).all())
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_calls_from_several_python_threads_give_the_same_bits(
    data: tuple[sp.csr_array, sp.csr_array], model: HedgerowClassifier
) -> None:
    X, _ = data
    expected = model.top(X, k=9)

    def one_by_one(_: int) -> TopLabels:
        rows = [model.top(X[[row]], k=9) for row in range(X.shape[0])]
        return TopLabels(np.vstack([r.labels for r in rows]), np.vstack([r.probability for r in rows]))

    with ThreadPoolExecutor(4) as pool:
        for found in [*pool.map(one_by_one, range(4)), *pool.map(lambda _: model.top(X, k=9), range(8))]:
            assert_same(expected, found)


def test_broken_state_of_a_pickled_model_is_refused(model: HedgerowClassifier) -> None:
    state = model.model_.forest.trees[0].__getstate__()
    for broken in (
        {"weights": state["weights"][:-64]},
        {"table": state["table"][:-1]},
        {"header": {**state["header"], "features": 10**12}},
    ):
        with pytest.raises(ValueError, match=r"chunk|features|table"):
            TreeClassifier.__new__(TreeClassifier).__setstate__({**state, **broken})


def test_random_state_as_generator_gives_the_same_model_for_the_same_state(
    data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    files = [
        file_of(HedgerowClassifier(random_state=np.random.RandomState(3), leaf_size=5).fit(*data), tmp_path)
        for _ in range(2)
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("parameter", ["beam", "matcher_beam", "leaf_size", "max_passes", "candidates"])
def test_sizes_beyond_any_use_are_accepted_as_no_limit(
    data: tuple[sp.csr_array, sp.csr_array], parameter: str
) -> None:
    X, Y = data
    model = HedgerowClassifier(random_state=0, negatives="tfn+man", **{parameter: 2**40}).fit(X, Y)
    assert model.top(X, k=3).labels.shape == (80, 3)
    assert model.predict_proba(X).shape == (80, 40)


# --- Ctrl-C ---------------------------------------------------------------------------------------------

INTERRUPTED = """
    import os, sys, numpy as np, scipy.sparse as sp
    from hedgerow import HedgerowClassifier

    random = np.random.default_rng(0)
    X = sp.csr_array(sp.random(3000, 2000, 0.05, format="csr", random_state=random, dtype=np.float32))
    Y = sp.csr_array((sp.random(3000, 800, 0.01, format="csr", random_state=random) > 0).astype(np.int8))
    small = HedgerowClassifier(random_state=0, leaf_size=800, n_jobs={threads}, max_passes=1)
    small.fit(X[:300], Y[:300])
    before = small.top(X[:5], k=3).probability
    many = sp.csr_array(sp.vstack([X] * 200))

    def progress(share, what):
        print("working", flush=True)

    try:
        {work}
    except KeyboardInterrupt:
        # The process goes on as if nothing had happened.
        assert not os.listdir({folder!r}), os.listdir({folder!r})
        assert (small.top(X[:5], k=3).probability == before).all()
        again = HedgerowClassifier(random_state=0, n_jobs={threads}).fit(X[:300], Y[:300])
        assert again.top(X[:5], k=3).labels.shape == (5, 3)
        print("interrupted", flush=True)
"""
LONG_FIT = (
    "HedgerowClassifier(random_state=0, n_jobs={threads}, tolerance=1e-9, max_passes=10**9, C=1e4)"
    ".fit(X, Y, progress=progress).save(os.path.join({folder!r}, 'm'))"
)
LONG_PREDICT = "[small.top(many, k=5, exact=True, progress=progress) for _ in range(10**6)]"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", [pytest.param(LONG_FIT, id="fit"), pytest.param(LONG_PREDICT, id="predict")])
def test_ctrl_c_during_long_work_raises_keyboard_interrupt_and_leaves_nothing(
    tmp_path: Path, work: str, threads: int
) -> None:
    values = {"threads": threads, "folder": str(tmp_path)}
    code = textwrap.dedent(INTERRUPTED).format(work=work.format(**values), **values)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line == "working\n", line + child.communicate()[1]
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert rest.splitlines()[-1] == "interrupted"


@pytest.mark.parametrize("method", ["single", "mc-dropout", "bagging", "boosting"])
def test_progress_of_a_fit_rises_and_ends_at_1(data: tuple[sp.csr_array, sp.csr_array], method: str) -> None:
    shares: list[float] = []
    model = HedgerowClassifier(method=method, members=3, random_state=0, n_jobs=1)
    model.fit(*data, progress=lambda share, what: shares.append(share))
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    if method in ("bagging", "boosting"):
        shares.clear()
        model.add_members(*data, 1, progress=lambda share, what: shares.append(share))
        assert shares[-1] == 1.0
        assert shares == sorted(shares)


def test_progress_of_texts_ends_at_1() -> None:
    shares: list[float] = []
    model = HedgerowTextClassifier(random_state=0)
    model.fit(["a yew", "a yew tree"], [["yew"], ["yew"]], progress=lambda share, what: shares.append(share))
    assert shares[-1] == 1.0


def test_verbose_fit_logs_its_progress(
    data: tuple[sp.csr_array, sp.csr_array], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="hedgerow"):
        HedgerowClassifier(method="bagging", members=2, random_state=0).fit(*data)
        assert not caplog.messages
        HedgerowClassifier(method="bagging", members=2, random_state=0, verbose=True).fit(*data)
    assert any("member 2 of 2: training" in message for message in caplog.messages)
    assert caplog.messages[-1] == "100 % fitted"


def test_verbose_without_a_log_writes_to_standard_error() -> None:
    code = (
        "from hedgerow import HedgerowTextClassifier as T;"
        "T(verbose=True, random_state=0).fit(['a yew', 'a yew tree'], [['yew'], ['yew']])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert run.stderr.splitlines()[-1] == "100 % fitted"


def test_verbose_is_no_part_of_a_model_file(data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path) -> None:
    quiet = HedgerowClassifier(random_state=0).fit(*data)
    loud = HedgerowClassifier(random_state=0, verbose=True).fit(*data)
    assert file_of(quiet, tmp_path, "quiet") == file_of(loud, tmp_path, "loud")


def test_error_in_progress_ends_the_fit_and_reaches_the_caller(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    def progress(share: float, what: str) -> None:
        raise RuntimeError("enough")

    X, Y = data
    big = sp.csr_array(sp.vstack([X] * 50)), sp.csr_array(sp.vstack([Y] * 50))
    endless = HedgerowClassifier(random_state=0, tolerance=1e-9, max_passes=10**9, C=1e4)
    with pytest.raises(RuntimeError, match="enough"):
        endless.fit(*big, progress=progress)
    assert not hasattr(endless, "tree_")


# --- SIMD -----------------------------------------------------------------------------------------------

LEVELS = ["baseline", "v3", "v4", "v4_vbmi2"]


def level_of_this_machine() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
            if not {"avx", "avx2", "fma", "bmi1", "bmi2", "popcnt"} <= flags:
                return "baseline"
            if not {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
                return "v3"
            return "v4_vbmi2" if "avx512_vbmi2" in flags else "v4"
    return "baseline"


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux only")
@pytest.mark.parametrize("asked", ["", *LEVELS])
def test_simd_level_is_the_best_that_was_asked_for_and_the_machine_has(asked: str) -> None:
    done = run("from hedgerow import _native; print(_native.simd_level())", HEDGEROW_SIMD=asked)
    machine = level_of_this_machine()
    assert done.stdout.strip() == min(machine, asked or machine, key=LEVELS.index), done.stderr


def test_unknown_simd_level_is_refused_with_the_known_ones() -> None:
    done = run("from hedgerow import _native; _native.simd_level()", HEDGEROW_SIMD="avx9")
    assert done.returncode == 1
    assert "HEDGEROW_SIMD is 'avx9'; use baseline, v3, v4 or v4_vbmi2, or leave it unset" in done.stderr
    fit = run(
        "import numpy as np, hedgerow; hedgerow.HedgerowClassifier().fit(np.eye(3), [['a'], ['b'], ['c']])",
        HEDGEROW_SIMD="avx9",
    )
    assert fit.returncode == 1
    assert "HEDGEROW_SIMD is 'avx9'" in fit.stderr


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
@pytest.mark.parametrize(
    "asked", ["top", "votes", "uncertain", "votes above a floor", "uncertain above a floor"]
)
def test_scores_that_are_no_numbers_are_told(transform: str, asked: str) -> None:
    # Weights this large come from no training. Without fused operations their sum is infinity minus infinity.
    ask = {
        "top": "model.top(X, 4, 10, False, False, 1, None)",
        "votes": "forest.votes(X, 4, 10, 0, 'exact', float('inf'), 0.0, False, 1, None)",
        "uncertain": "forest.uncertain(X, 4, 10, 0, 'exact', float('inf'), 0.0, False, 1, None)",
        "votes above a floor": "two.votes(X, 1, 10, 0, 'exact', float('inf'), 1e-20, False, 1, None)",
        "uncertain above a floor": "two.uncertain(X, 1, 10, 0, 'exact', float('inf'), 1e-20, False, 1, None)",
    }[asked]
    done = run(
        f"""
        import numpy as np
        from hedgerow import _native
        features, weights = np.array([0, 1], np.int32), np.array([3e38, -3e38], np.float32)
        node = (features, np.zeros(2, np.int32), weights, np.full(4, -2, np.float32))
        tree = [np.array([0, 4], np.int32)], np.arange(4, dtype=np.int32)
        model = _native.assemble(*tree, 2, {transform!r}, [node])
        forest, two = (_native.Forest([model] * trees, 4, 0.0, 0, 0) for trees in (1, 2))
        X = _native.Rows(np.array([0, 2]), features, np.full(2, 10, np.float32), 2)
        print({ask})
        """,
        HEDGEROW_SIMD="baseline",
    )
    assert "scores of row 0 of X are not finite" in done.stderr, done.stdout


@pytest.fixture(scope="module")
def at_all_levels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """For each level and loss: predictions of a stored model, and the weights of one trained there."""
    folder = tmp_path_factory.mktemp("levels")
    X, Y = random_problem(7, 200, 60, 300)
    for loss in ("squared_hinge", "logistic"):
        HedgerowClassifier(random_state=0, leaf_size=150, branching=2, loss=loss).fit(X, Y).save(
            folder / loss
        )
    code = f"""
        import sys
        import numpy as np
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from dense_oracle import dense_weights, random_problem
        import hedgerow
        out = dict()
        for loss in ("squared_hinge", "logistic"):
            stored = hedgerow.load({str(folder)!r} + "/" + loss)
            inputs = random_problem(7, 200, 60, 300)[0]
            out[loss + ".predicted"] = stored.predict_proba(inputs, k=300).toarray()
            trained = hedgerow.HedgerowClassifier(
                random_state=0, loss=loss, tolerance=1e-4, max_passes=20_000, weight_threshold=0, n_jobs=1
            ).fit(*random_problem(8, 60, 20, 20, density=0.4))
            out[loss + ".weights"], out[loss + ".bias"] = dense_weights(trained.model_.forest.trees[0], 0, 0)
        np.savez({str(folder)!r} + "/" + sys.argv[1], **out)
    """
    for level in LEVELS:
        done = run(code, level, HEDGEROW_SIMD=level)
        assert done.returncode == 0, done.stderr
    return {level: dict(np.load(folder / f"{level}.npz")) for level in LEVELS}


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_predictions_of_one_model_at_all_simd_levels_agree(at_all_levels: Any, loss: str) -> None:
    for level in LEVELS[1:]:
        found, expected = (at_all_levels[at][f"{loss}.predicted"] for at in (level, "baseline"))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_models_trained_at_all_simd_levels_agree(at_all_levels: Any, loss: str) -> None:
    first = at_all_levels["baseline"]
    for level in LEVELS[1:]:
        other = at_all_levels[level]
        np.testing.assert_allclose(other[f"{loss}.weights"], first[f"{loss}.weights"], rtol=2**-7, atol=2e-3)
        np.testing.assert_allclose(other[f"{loss}.bias"], first[f"{loss}.bias"], rtol=1e-3, atol=2e-3)


def test_simd_level_of_this_process_is_known() -> None:
    assert _native.simd_level() in LEVELS


def test_score_leaves_out_inputs_without_labels() -> None:
    X, Y = random_problem(3, 60, 20, 15)
    half = Y.copy().tolil()
    half[::2] = 0
    model = HedgerowClassifier(random_state=0).fit(X, Y)
    assert model.score(X, sp.csr_array(half)) == model.score(X[1::2], Y[1::2]) > 0.3


def test_saved_model_predicts_by_the_vocabulary_that_was_fitted(tmp_path: Path) -> None:
    texts = ["hawthorn hawthorn hawthorn blackthorn", "hazel hazel blackthorn", "dogwood hazel"] * 10
    model = HedgerowTextClassifier(random_state=0, min_count=1).fit(texts, [["a"], ["b"], ["c"]] * 10)
    model.set_params(sublinear=False)
    model.save(tmp_path / "m")
    found, expected = hedgerow.load(tmp_path / "m").predict_proba(texts), model.predict_proba(texts)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
