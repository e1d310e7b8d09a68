"""Votes hold what members say, and refuse what no member can have said."""

from __future__ import annotations

import dataclasses
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow
from hedgerow import HedgerowClassifier, Votes
from hedgerow.storage.container import ModelFileError, write_model

pytestmark = pytest.mark.simd

MANY = settings(max_examples=60, deadline=None, derandomize=True)

Dense = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]


def random_votes(seed: int, inputs: int, labels: int, members: int) -> Dense:
    """Probabilities, (inputs, labels, members), and which labels are candidates; the others have 0."""
    random = np.random.default_rng(seed)
    probs = random.random((inputs, labels, members), dtype=np.float32)
    # The ends of the range, and ties, are where mistakes are.
    some = random.random(probs.shape) < 0.4
    probs[some] = random.choice(np.array([0, 0.25, 0.5, 1], dtype=np.float32), int(some.sum()))
    candidates = random.random((inputs, labels)) < random.choice([0.0, 0.3, 0.8, 1.0], (inputs, 1))
    probs[~candidates] = 0
    return probs, candidates


def votes_of(probs: npt.NDArray[np.float32], candidates: npt.NDArray[np.bool_], **rest: Any) -> Votes:
    indptr = np.concatenate([[0], np.cumsum(candidates.sum(axis=1))])
    labels = np.nonzero(candidates)[1]
    return Votes(indptr, labels, probs[candidates], probs.shape[1], **rest)


def assert_same(found: Votes, expected: Votes) -> None:
    for part in dataclasses.fields(Votes):
        one, other = getattr(found, part.name), getattr(expected, part.name)
        if one is None or other is None:
            assert one is None, part.name
            assert other is None, part.name
        else:
            np.testing.assert_array_equal(one, other, err_msg=part.name, strict=part.name != "n_labels")


dense = st.builds(
    random_votes, st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 9), st.integers(1, 4)
)


@pytest.fixture(scope="module")
def model() -> HedgerowClassifier:
    X, Y = random_problem(1, 40, 20, 30)
    return HedgerowClassifier(method="bagging", members=3, random_state=0, leaf_size=4, branching=3).fit(X, Y)


# --- what is refused -------------------------------------------------------------------------------------

# Input 0 has the labels 1 and 4, input 1 none, input 2 the labels 0, 2 and 3; two members.
INDPTR = [0, 2, 2, 5]
LABELS = [1, 4, 0, 2, 3]
PROBS = np.full((5, 2), 0.5)


def changed(values: Any, at: Any, value: Any) -> npt.NDArray[Any]:
    array = np.array(values, dtype=np.result_type(np.asarray(values), type(value)))
    array[at] = value
    return array


def test_votes_of_any_number_types_are_kept_in_the_types_of_the_engine() -> None:
    votes = Votes(INDPTR, np.array(LABELS, dtype=np.uint8), PROBS.tolist(), 5, bound=[0, 0, 1])
    assert (votes.indptr.dtype, votes.labels.dtype, votes.probs.dtype) == (np.int64, np.int32, np.float32)
    assert votes.bound is not None
    assert votes.bound.dtype == np.float32
    assert (len(votes), votes.members, votes.n_labels) == (3, 2, 5)
    assert votes.missed is None


@pytest.mark.parametrize("value", [np.nan, -0.01, 1.01, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (0, "label 1 of input 0"),
        (1, "label 4 of input 0"),
        (2, "label 0 of input 2"),
        (4, "label 3 of input 2"),
    ],
)
def test_what_is_no_probability_is_refused_and_its_place_named(value: float, entry: int, place: str) -> None:
    with pytest.raises(ValueError, match=rf"member 1 gives {place} the probability .*between 0 and 1"):
        Votes(INDPTR, LABELS, changed(PROBS, (entry, 1), value), 5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([4, 1, 0, 2, 3], "the labels of input 0 must ascend; 1 follows 4"),
        ([1, 1, 0, 2, 3], "the labels of input 0 must ascend; 1 follows 1"),
        ([1, 4, 0, 3, 2], "the labels of input 2 must ascend; 2 follows 3"),
        ([1, 4, 2, 2, 3], "the labels of input 2 must ascend; 2 follows 2"),
        ([1, 5, 0, 2, 3], "input 0 has the label 5, but there are 5 labels"),
        ([1, 4, -1, 2, 3], "input 2 has the label -1, but there are 5 labels"),
        ([1, 4, 0, 2, 1_000_000], "input 2 has the label 1000000, but there are 5 labels"),
    ],
)
def test_labels_that_do_not_ascend_or_do_not_exist_are_refused_and_their_input_named(
    labels: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Votes(INDPTR, labels, PROBS, 5)


@pytest.mark.parametrize("label", [2**32 + 3, 2**31, -(2**32) + 3, 2**62])
def test_labels_beyond_32_bits_are_refused_and_not_wrapped(label: int) -> None:
    with pytest.raises(ValueError, match=r"label"):
        Votes(INDPTR, np.array([*LABELS[:4], label], dtype=np.int64), PROBS, 5)


@pytest.mark.parametrize("label", [3.5, np.nan, np.inf])
def test_labels_that_are_no_integers_are_refused_and_not_rounded(label: float) -> None:
    with pytest.raises(ValueError, match=r"label"):
        Votes(INDPTR, [*LABELS[:4], label], PROBS, 5)


@pytest.mark.parametrize(
    "indptr",
    [
        pytest.param([], id="empty"),
        pytest.param([1, 2, 2, 5], id="begin"),
        pytest.param([0, 2, 2, 4], id="end before the last"),
        pytest.param([0, 2, 2, 6], id="end behind the last"),
        pytest.param([0, 3, 2, 5], id="falling"),
        pytest.param([0, -1, 2, 5], id="negative"),
    ],
)
def test_indptr_that_does_not_cut_the_candidates_is_refused(indptr: list[int]) -> None:
    with pytest.raises(ValueError, match="indptr must rise from 0 to the number of candidates, 5"):
        Votes(indptr, LABELS, PROBS, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"probs": PROBS[:, 0]}, r"probs has shape \(5,\).*each of 5 candidates", id="flat probs"
        ),
        pytest.param({"probs": PROBS[:4]}, r"probs has shape \(4, 2\).*each of 5 candidates", id="few probs"),
        pytest.param({"probs": PROBS[:, :0]}, r"probs has shape \(5, 0\).*each member", id="no members"),
        pytest.param({"labels": [LABELS]}, r"labels must be a vector.*\(1, 5\)", id="labels in a matrix"),
        pytest.param({"labels": list("abcde")}, "labels must be a vector of integers", id="named labels"),
        pytest.param({"indptr": [INDPTR]}, r"indptr must be a vector.*\(1, 4\)", id="indptr in a matrix"),
        pytest.param({"bound": [0, 0]}, "bound has 2 entries for 3 inputs", id="bound"),
        pytest.param({"missed": [0] * 5}, "missed has 5 entries for 3 inputs", id="missed"),
        pytest.param({"bound": [[0], [0], [0]]}, "bound must be a vector", id="bound in a matrix"),
        pytest.param({"classes": np.arange(4)}, "there are 4 classes for 5 labels", id="classes"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"indptr": INDPTR, "labels": LABELS, "probs": PROBS, "n_labels": 5}
    Votes(**whole)
    with pytest.raises(ValueError, match=message):
        Votes(**whole | change)


@MANY
@given(dense, st.data())
def test_one_bad_probability_among_any_votes_is_found(arrays: Dense, data: st.DataObject) -> None:
    probs, candidates = arrays
    entries = np.argwhere(candidates)
    if not len(entries):
        return
    row, label = entries[data.draw(st.integers(0, len(entries) - 1))].tolist()
    member = data.draw(st.integers(0, probs.shape[2] - 1))
    probs[row, label, member] = data.draw(st.sampled_from([np.nan, -1e-3, 1.001]))
    with pytest.raises(
        ValueError, match=f"member {member} gives label {label} of input {row} the probability"
    ):
        votes_of(probs, candidates)


# --- parts ----------------------------------------------------------------------------------------------


@MANY
@given(dense, st.data())
def test_votes_on_some_inputs_are_the_rows_of_the_dense_array(arrays: Dense, data: st.DataObject) -> None:
    probs, candidates = arrays
    n = len(probs)
    bound, missed = np.arange(n, dtype=np.float32), np.arange(n, dtype=np.float32) / 7
    classes = np.arange(probs.shape[1]) * 10
    votes = votes_of(probs, candidates, bound=bound, missed=missed, classes=classes)
    numbers = st.lists(st.integers(-n, n - 1), max_size=10).map(lambda rows: np.array(rows, dtype=np.int64))
    key = data.draw(
        st.one_of(
            st.slices(n),
            st.integers(-n, n - 1),
            st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
            numbers,
        )
    )
    rows = np.atleast_1d(np.arange(n)[key])
    expected = votes_of(
        probs[rows], candidates[rows], bound=bound[rows], missed=missed[rows], classes=classes
    )
    assert_same(votes[key], expected)


@pytest.mark.parametrize("key", [3, -4, [0, 3], np.ones(4, dtype=bool), np.ones(2, dtype=bool)])
def test_inputs_that_do_not_exist_are_refused(key: Any) -> None:
    with pytest.raises(IndexError):
        Votes(INDPTR, LABELS, PROBS, 5)[key]


@MANY
@given(dense, st.data())
def test_concatenated_pieces_are_the_whole(arrays: Dense, data: st.DataObject) -> None:
    probs, candidates = arrays
    n = len(probs)
    votes = votes_of(
        probs,
        candidates,
        bound=np.linspace(0, 1, n),
        missed=np.arange(n),
        classes=np.arange(probs.shape[1]) + 5,
    )
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=4))), n]
    pieces = [votes[begin:end] for begin, end in pairwise(cuts)]
    assert_same(Votes.concatenate(pieces), votes)


def test_concatenated_with_a_piece_without_bounds_has_no_bounds() -> None:
    plain = Votes(INDPTR, LABELS, PROBS, 5)
    bounded = dataclasses.replace(plain, bound=np.ones(3), missed=np.zeros(3))
    both = Votes.concatenate([bounded, plain])
    assert len(both) == 6
    assert both.bound is None
    assert both.missed is None


def test_pieces_of_different_models_are_not_concatenated() -> None:
    votes = Votes(INDPTR, LABELS, PROBS, 5)
    with pytest.raises(
        ValueError, match=r"parts\[1\] has 6 labels and 2 members, but parts\[0\] has 5 and 2"
    ):
        Votes.concatenate([votes, Votes(INDPTR, LABELS, PROBS, 6)])
    with pytest.raises(ValueError, match=r"parts\[2\] has 5 labels and 1 members"):
        Votes.concatenate([votes, votes, Votes(INDPTR, LABELS, PROBS[:, :1], 5)])
    with pytest.raises(ValueError, match="nothing to concatenate"):
        Votes.concatenate([])


# --- members --------------------------------------------------------------------------------------------


@MANY
@given(dense)
def test_members_and_mean_are_the_columns_and_the_mean_of_the_dense_array(arrays: Dense) -> None:
    probs, candidates = arrays
    votes = votes_of(probs, candidates)
    for number in range(probs.shape[2]):
        member = votes.member(number)
        assert member.dtype == np.float32
        np.testing.assert_array_equal(member.toarray(), probs[:, :, number])
    mean = votes.mean()
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean.toarray(), probs.astype(np.float64).mean(axis=2), rtol=1e-7)
    for matrix in (mean, votes.member(0)):
        assert matrix.shape == candidates.shape
        assert matrix.nnz == candidates.sum()


@pytest.mark.parametrize("number", [-1, 2, 99])
def test_a_member_that_does_not_exist_is_refused(number: int) -> None:
    with pytest.raises(IndexError, match=f"there is no member {number}; there are 2"):
        Votes(INDPTR, LABELS, PROBS, 5).member(number)


@MANY
@given(dense, st.sampled_from(["csr", "csc", "coo", "dense", "float64"]), st.integers(0, 2**32))
def test_votes_of_matrices_have_a_candidate_wherever_one_of_them_has_an_entry(
    arrays: Dense, form: str, seed: int
) -> None:
    probs, _ = arrays
    random = np.random.default_rng(seed)
    stored = random.random(probs.shape) < 0.5
    if form == "dense":
        stored = probs > 0
    probs[~stored] = 0
    matrices: list[Any] = []
    for number in range(probs.shape[2]):
        rows, columns = np.nonzero(stored[:, :, number])
        order = random.permutation(len(rows))  # unsorted, and with stored zeros
        matrix: Any = sp.coo_array(
            (probs[rows, columns, number][order], (rows[order], columns[order])), shape=probs.shape[:2]
        )
        if form == "dense":
            matrix = matrix.toarray()
        elif form == "float64":
            matrix = sp.csr_array(matrix, dtype=np.float64)
        else:
            matrix = matrix.asformat(form)
        matrices.append(matrix)
    assert_same(Votes.from_members(matrices), votes_of(probs, stored.any(axis=2)))
    for number, matrix in enumerate(matrices):  # and the matrices are as they were
        own = matrix if form == "dense" else matrix.toarray()
        np.testing.assert_array_equal(own, probs[:, :, number])


def test_votes_of_matrices_add_up_what_is_stored_twice() -> None:
    twice = sp.csr_array(([0.25, 0.5, 0.25], [2, 0, 2], [0, 3]), shape=(1, 3))
    np.testing.assert_array_equal(Votes.from_members([twice]).member(0).toarray(), [[0.5, 0, 0.5]])


def test_matrices_that_are_no_votes_are_refused() -> None:
    one = sp.csr_array([[0.5, 0.25]])
    with pytest.raises(ValueError, match=r"members\[2\] has shape \(1, 3\), but members\[0\] has \(1, 2\)"):
        Votes.from_members([one, one, sp.csr_array([[0.5, 0, 0]])])
    with pytest.raises(ValueError, match=r"member 1 gives label 1 of input 0 the probability 2\.0"):
        Votes.from_members([one, sp.csr_array([[0, 2.0]])])
    with pytest.raises(ValueError, match="members is empty"):
        Votes.from_members([])
    with pytest.raises(ValueError, match="there are 3 classes for 2 labels"):
        Votes.from_members([one], classes=["a", "b", "c"])


# --- tables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [None, ["sloe", "elder", "holly", "hawthorn", "hazel"], [10, 11, 12, 13, 14]]
)
@pytest.mark.parametrize("kind", ["array", "list"])
def test_table_has_a_row_for_each_candidate_with_its_name_and_a_column_for_each_member(
    names: list[Any] | None, kind: str
) -> None:
    probs = np.arange(10).reshape(5, 2) / 16
    classes: Any = names if names is None or kind == "list" else np.array(names, dtype=object)
    votes = Votes(INDPTR, LABELS, probs, 5, classes=classes)
    frame = votes.to_frame()
    assert frame.columns.tolist() == ["input", "label", "member_0", "member_1"]
    assert frame["input"].tolist() == [0, 0, 2, 2, 2]
    assert frame["label"].tolist() == [label if names is None else names[label] for label in LABELS]
    np.testing.assert_array_equal(frame[["member_0", "member_1"]].to_numpy(), probs)
    assert votes.to_arrow().to_pandas().equals(frame)


def test_table_of_the_votes_of_a_model_names_its_classes() -> None:
    X, Y = random_problem(2, 30, 15, 12)
    names = [f"label {number}" for number in range(12)]
    model = HedgerowClassifier(method="bagging", members=2, random_state=0).fit(X, Y, classes=names)
    votes = model.predict_votes(X[:4])
    assert votes.to_frame()["label"].tolist() == [names[label] for label in votes.labels]


# --- files ----------------------------------------------------------------------------------------------


@settings(MANY, max_examples=30)
@given(
    dense,
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "names", "numbers"]),
)
def test_saved_votes_are_read_as_they_were(
    arrays: Dense, bound: bool, missed: bool, named: str | None
) -> None:
    probs, candidates = arrays
    n, labels = candidates.shape
    classes: Any = None
    if named == "names":
        classes = np.array([f"Schlehe № {number}" for number in range(labels)], dtype=object)
    elif named == "numbers":
        classes = np.arange(labels) * 3 - 1
    votes = votes_of(
        probs,
        candidates,
        bound=np.linspace(0, 1, n) if bound else None,
        missed=np.arange(n) if missed else None,
        classes=classes,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes"
        votes.save(path)
        assert_same(Votes.load(path), votes)


def test_saved_votes_of_named_matrices_keep_their_names(tmp_path: Path) -> None:
    votes = Votes.from_members([sp.csr_array([[0.5, 0.25]])], classes=["hawthorn", "holly"])
    votes.save(tmp_path / "votes")
    loaded = Votes.load(tmp_path / "votes")
    assert loaded.classes is not None
    assert loaded.classes.tolist() == ["hawthorn", "holly"]


def test_votes_on_no_input_are_saved_and_read(tmp_path: Path) -> None:
    votes = Votes(INDPTR, LABELS, PROBS, 5, bound=[0, 0, 1])[:0]
    votes.save(tmp_path / "votes")
    assert_same(Votes.load(tmp_path / "votes"), votes)


def test_an_existing_file_is_replaced_only_when_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "votes"
    votes, other = Votes(INDPTR, LABELS, PROBS, 5), Votes(INDPTR, LABELS, PROBS / 2, 5)
    votes.save(path)
    with pytest.raises(FileExistsError, match="votes"):
        other.save(path)
    assert_same(Votes.load(path), votes)
    other.save(path, overwrite=True)
    assert_same(Votes.load(path), other)


def test_a_model_is_not_opened_as_votes_nor_votes_as_a_model(
    tmp_path: Path, model: HedgerowClassifier
) -> None:
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"model holds a model, not votes; open it with hedgerow.load"):
        Votes.load(tmp_path / "model")
    Votes(INDPTR, LABELS, PROBS, 5).save(tmp_path / "ballots")
    for load in (hedgerow.load, HedgerowClassifier.load):
        with pytest.raises(ModelFileError, match=r"ballots .*'votes'"):
            load(tmp_path / "ballots")


def test_votes_file_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "votes"
    Votes(INDPTR, LABELS, PROBS, 5, bound=[0, 0, 1], classes=np.array(list("abcde"), dtype=object)).save(path)
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 100)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            Votes.load(path)


@pytest.mark.parametrize(
    ("sections", "header"),
    [
        pytest.param({"labels": np.array([4, 1, 0, 2, 3], np.int32)}, {}, id="falling labels"),
        pytest.param({"probs": np.full((5, 2), 1.5, np.float32)}, {}, id="no probabilities"),
        pytest.param({"indptr": np.array([0, 9], np.int64)}, {}, id="indptr"),
        pytest.param({"probs": None}, {}, id="no probs"),
        pytest.param({"bound": np.zeros(7, np.float32)}, {}, id="bound"),
        pytest.param({}, {"labels": 3}, id="too few labels"),
        pytest.param({}, {"labels": None}, id="no number of labels"),
        pytest.param({}, {"labels": "5"}, id="a text for the number of labels"),
        pytest.param({}, {"named": True}, id="names that are not there"),
        pytest.param(
            {"classes.begins": np.zeros(0, np.uint64), "classes.text": np.zeros(0, np.uint8)},
            {"labels": -1, "named": True, "names": True},
            id="fewer labels than none",
        ),
    ],
)
def test_sound_file_with_impossible_votes_is_refused_by_name(
    tmp_path: Path, sections: dict[str, Any], header: dict[str, Any]
) -> None:
    path = tmp_path / "votes"
    arrays = {
        "indptr": np.array(INDPTR, np.int64),
        "labels": np.array(LABELS, np.int32),
        "probs": PROBS.astype(np.float32),
    }
    arrays = {name: array for name, array in (arrays | sections).items() if array is not None}
    write_model(path, dict(arrays), {"kind": "votes", "labels": 5, "named": False} | header)
    with pytest.raises(ModelFileError, match=rf"{path} does not hold whole votes"):
        Votes.load(path)
