"""Names as vectors: directions in bytes, cosines and the nearest names, and the map from inputs to names."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import _native
from hedgerow.judge.label_text import LabelText, NoLabelText
from hedgerow.judge.name_map import NameMap, learn_name_map
from hedgerow.judge.name_vectors import NO_COSINE, NameVectors, directions


def bytes_of(seed: int, rows: int, width: int, largest: int = 127) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.integers(-largest, largest + 1, (rows, width)).astype(np.int8)


def cosines_by_numpy(names: np.ndarray, queries: np.ndarray) -> np.ndarray:
    wide, asked = names.astype(np.int64), queries.astype(np.int64)
    lengths = np.sqrt((asked**2).sum(axis=1))[:, None] * np.sqrt((wide**2).sum(axis=1))[None]
    return ((asked @ wide.T) / np.maximum(lengths, 1.0)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_directions_are_those_of_the_vectors(dtype: type) -> None:
    vectors = np.random.default_rng(0).normal(size=(9000, 20)).astype(dtype)
    vectors[17] = 0
    found = directions(vectors)
    assert found.dtype == np.int8
    assert not found[17].any()
    expected = vectors.astype(np.float64)
    expected *= 127 / np.maximum(np.abs(expected).max(axis=1, keepdims=True), 1e-30)
    np.testing.assert_array_equal(found, np.rint(expected))
    assert (np.abs(found).max(axis=1) == np.where(vectors.any(axis=1), 127, 0)).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(1, 700),
    st.integers(1, 70),
    st.integers(0, 40),
    st.sampled_from([1, 127]),
)
def test_nearest_names_are_those_of_all(seed: int, names: int, width: int, count: int, largest: int) -> None:
    directions_, queries = bytes_of(seed, names, width, largest), bytes_of(seed + 1, 19, width, largest)
    directions_[:: max(names // 3, 1)] = 0  # without a name
    known = np.flatnonzero(directions_.any(axis=1))
    found = NameVectors(directions_).nearest(queries, count, 2)
    cosines = cosines_by_numpy(directions_, queries)
    expected = known[np.argsort(-cosines[:, known], axis=1, kind="stable")[:, :count]]
    np.testing.assert_array_equal(found.entries, expected)
    np.testing.assert_array_equal(found.cosines, np.take_along_axis(cosines, expected, axis=1))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_nearest_names_do_not_depend_on_threads_or_batches(threads: int) -> None:
    vectors, queries = NameVectors(bytes_of(0, 3000, 33)), bytes_of(1, 90, 33)
    whole = vectors.nearest(queries, 20, threads)
    parts = [vectors.nearest(queries[rows], 20, 1) for rows in np.split(np.arange(90), [1, 40])]
    np.testing.assert_array_equal(whole.entries, np.vstack([part.entries for part in parts]))
    np.testing.assert_array_equal(whole.cosines, np.vstack([part.cosines for part in parts]))


def test_cosines_of_candidates_are_those_of_numpy() -> None:
    draw = np.random.default_rng(5)
    names, queries = bytes_of(2, 400, 48), bytes_of(3, 30, 48)
    names[7] = 0
    rows, entries = draw.integers(0, 30, 20_000), draw.integers(-1, 400, 20_000)
    found = NameVectors(names).cosines(queries, rows, entries)
    expected = np.where(
        (entries < 0) | (entries == 7), NO_COSINE, cosines_by_numpy(names, queries)[rows, entries]
    )
    np.testing.assert_array_equal(found, expected)
    assert (found == NO_COSINE).sum() > 50


def test_arrays_that_do_not_fit_are_refused_by_the_engine() -> None:
    names, queries = bytes_of(0, 5, 4), bytes_of(1, 3, 4)
    lengths, asked = np.ones(5), np.ones(3)
    with pytest.raises(ValueError, match="do not fit"):
        _native.nearest_names(names, lengths[1:], queries, asked, 1, 1)
    with pytest.raises(ValueError, match="do not fit"):
        _native.nearest_names(names, lengths, np.ascontiguousarray(queries[:, 1:]), asked, 1, 1)
    with pytest.raises(ValueError, match="fewer names have a direction"):
        _native.nearest_names(names, lengths, queries, asked, 6, 1)
    with pytest.raises(ValueError, match="fewer names have a direction"):
        _native.nearest_names(names, np.zeros(5), queries, asked, 1, 1)


# --- the map from inputs to names ---


def mapped_examples(seed: int, rows: int) -> tuple[np.ndarray, sp.csr_array, NameVectors, np.ndarray]:
    """Inputs, their labels, names, and the entry of each label; one label in ten has no entry."""
    draw = np.random.default_rng(seed)
    labels = sp.csr_array((draw.random((rows, 30)) < 0.1).astype(np.float32))
    entries = np.where(np.arange(30) % 10 == 3, -1, np.argsort(draw.random(30)))
    return draw.normal(size=(rows, 12)), labels, NameVectors(bytes_of(seed, 30, 12)), entries


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


@pytest.mark.parametrize("rows", [0, 3, 400, 9000])
def test_map_is_the_ridge_regression_towards_one_that_turns_nothing(rows: int) -> None:
    embeddings, truth, vectors, entries = mapped_examples(rows, rows)
    found = learn_name_map(embeddings, truth, vectors, entries).numbers.astype(np.float64)
    names = np.where((entries >= 0)[:, None], unit(vectors.directions.astype(np.float64))[entries], 0)
    has_name = truth.toarray() * (entries >= 0)
    taught = has_name.any(axis=1)
    means = (has_name @ names)[taught] / has_name[taught].sum(axis=1, keepdims=True)
    inputs = unit(directions(embeddings)[taught].astype(np.float64))
    # Rows that stand for the penalty: ten times each direction of the space, to be turned to half of itself.
    stacked, wanted = np.vstack([inputs, 10 * np.eye(12)]), np.vstack([means, 5 * np.eye(12)])
    expected = np.linalg.lstsq(stacked, wanted, rcond=None)[0]
    np.testing.assert_allclose(found / np.abs(found).max(), expected / np.abs(expected).max(), atol=2e-5)


def test_mapped_inputs_do_not_depend_on_the_batch() -> None:
    draw = np.random.default_rng(0)
    numbers = draw.integers(-(2**15) + 1, 2**15, (40, 40)).astype(np.int16)
    embeddings = draw.normal(size=(70, 40)).astype(np.float32)
    whole = NameMap(numbers).apply(embeddings)
    exact = directions(embeddings).astype(object) @ numbers.astype(object)
    np.testing.assert_array_equal(whole, directions(exact.astype(np.float64)))
    parts = [NameMap(numbers).apply(embeddings[rows]) for rows in np.split(np.arange(70), [1, 30])]
    np.testing.assert_array_equal(whole, np.vstack(parts))


# --- evidence ---


def label_text(near: int) -> LabelText:
    numbers = (1000 * np.eye(6)).astype(np.int16)  # turns nothing
    columns = np.array([4, 2, 7, 0], dtype=np.int32)
    return LabelText(NameVectors(bytes_of(8, 4, 6)), NameMap(numbers), columns, 9, near)


def test_evidence_is_the_cosine_and_its_distance_to_the_best_of_the_input() -> None:
    text, queries = label_text(2), bytes_of(9, 3, 6)
    rows, labels = np.array([0, 0, 0, 2, 2]), np.array([2, 7, 8, 1, 0], dtype=np.int32)
    cosines = cosines_by_numpy(text.vectors.directions, queries)
    own = np.array([cosines[0, 1], cosines[0, 2], -1.0, -1.0, cosines[2, 3]], dtype=np.float32)
    best = np.array([max(own[:3])] * 3 + [max(own[3:])] * 2, dtype=np.float32)
    np.testing.assert_array_equal(text.evidence(queries, rows, labels), np.column_stack([own, own - best]))


def test_proposed_are_the_labels_of_the_nearest_names() -> None:
    text, queries = label_text(2), bytes_of(9, 3, 6)
    order = np.argsort(-cosines_by_numpy(text.vectors.directions, queries), axis=1, kind="stable")[:, :2]
    keys = text.proposed(queries, 1)
    assert (keys >> 32).tolist() == [0, 0, 1, 1, 2, 2]
    assert (keys & 0xFFFFFFFF).tolist() == text.columns[order].ravel().tolist()
    assert not label_text(0).proposed(queries, 1).size


def test_what_a_file_says_of_label_text_is_checked() -> None:
    text = label_text(2)
    sections, header = text.to_sections(), text.to_header()

    def read(header: dict, sections: dict, width: int | None = 6) -> LabelText:
        return LabelText.from_file(header, sections, text.columns, 9, width)

    assert read(header, sections).to_header() == header
    vectors, numbers = sections["names.vectors"], sections["names.map"]
    for broken in (
        {"names.vectors": vectors.astype(np.int16)},
        {"names.vectors": vectors[:-1]},
        {"names.vectors": vectors[:, :-1]},
        {"names.vectors": vectors.ravel()},
        {"names.vectors": np.full_like(vectors, -128)},
        {"names.map": numbers.astype(np.int32)},
        {"names.map": numbers[:-1]},
        {"names.map": numbers[:, :-1]},
    ):
        with pytest.raises(ValueError, match="names"):
            read(header, sections | broken)
    for other in (
        {"near": -1},
        {"near": 10**9},
        {"near": True},
        {"near": 1.0},
        {"before": None},
        {"after": 1},
    ):
        with pytest.raises(ValueError, match="names"):
            read(header | other, sections)
    with pytest.raises(ValueError, match="no encoder"):
        read(header, sections, None)
    with pytest.raises(ValueError, match="names"):
        read(header, sections, 7)
    with pytest.raises(ValueError, match="how good"):
        NoLabelText.from_header({"before": 1, "after": 0.5})
