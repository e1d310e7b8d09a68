"""A fit within a memory budget is the ordinary fit, from files that are mapped and not read."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from broken_arrays import BROKEN_ARRAYS, replace_member
from dense_oracle import random_problem
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data import DataError, Part, map_data, read_part, write_pecos, write_xmc_text
from hedgerow.inputs.matrices import as_rows
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.storage.scratch import Scratch
from hedgerow.training import block_files, places
from hedgerow.training.alone import Alone
from hedgerow.training.memory import Allotment, BudgetTooSmallError, FitSize, allot, parse_bytes
from hedgerow.trees.label_tree import _pieces, aggregate_features, aggregate_to_files, grow_over

SMALL: dict[str, Any] = {"leaf_size": 4, "branching": 4, "random_state": 3, "n_jobs": 2}
WAYS: list[dict[str, Any]] = [
    {},
    {"method": "bagging", "members": 2},
    {"method": "boosted-bagging", "members": 2, "negatives": "tfn+man", "matcher_beam": 3},
]


@pytest.fixture(scope="module")
def problem() -> tuple[Any, Any]:
    return random_problem(1, 300, 50, 60, density=0.3)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if hardly anything fitted into memory: small blocks, and every copy in a file."""
    monkeypatch.setattr(places, "allot", lambda *_: Allotment(2, 2, 16, 500.0))


def saved(model: HedgerowClassifier, folder: Path) -> bytes:
    path = folder / "model.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes()


@pytest.mark.parametrize("how", WAYS, ids=lambda how: "-".join(str(v) for v in how.values()) or "single")
def test_model_when_hardly_anything_fits_into_memory_then_is_the_same_file(
    problem: tuple[Any, Any], narrow: None, tmp_path: Path, how: dict[str, Any]
) -> None:
    ordinary = HedgerowClassifier(**SMALL, **how).fit(*problem)
    budgeted = HedgerowClassifier(**SMALL, **how, memory="1GB").fit(*problem)
    assert saved(budgeted, tmp_path) == saved(ordinary, tmp_path)


def stopped_fit(problem: tuple[Any, Any], kept: Path) -> HedgerowClassifier:
    def stop(share: float, what: str) -> None:
        if what == "training" and share > 0.5:
            raise KeyboardInterrupt

    model = HedgerowClassifier(**SMALL, memory="1GB")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*problem, checkpoint=kept, progress=stop)
    return model


def test_fit_when_stopped_then_goes_on_from_finished_blocks(
    problem: tuple[Any, Any], narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stopped_fit(problem, tmp_path / "kept")
    before = {path.name for path in (tmp_path / "kept").glob("block-*")}
    assert before
    written: list[str] = []
    write = block_files.write_model

    def note(path: Path, *rest: Any, **options: Any) -> None:
        written.append(path.name)
        write(path, *rest, **options)

    monkeypatch.setattr(block_files, "write_model", note)
    model.fit(*problem, checkpoint=tmp_path / "kept")
    assert written
    assert not before & set(written)
    assert saved(model, tmp_path) == saved(HedgerowClassifier(**SMALL).fit(*problem), tmp_path)


@pytest.mark.parametrize(
    ("file", "sections", "header", "told"),
    [
        ("tree-*", {"labels": None}, {}, "does not hold a tree"),
        ("tree-*", {"labels": np.zeros(60, dtype=np.int32)}, {}, "does not hold a tree"),
        ("tree-*", {}, {"depth": "three"}, "does not hold a tree"),
        ("block-*", {"weights": np.zeros(0, dtype=np.uint8)}, {}, "its table does not fit its weights"),
        ("block-*", {"table": None}, {}, "does not hold a whole block"),
        ("block-*", {}, {"kept": "many"}, "does not hold a whole block"),
        ("block-*", {}, {"fingerprint": "another"}, "holds blocks of another fit"),
    ],
)
def test_kept_file_when_sound_but_wrong_then_is_refused_by_name(
    problem: tuple[Any, Any],
    narrow: None,
    tmp_path: Path,
    file: str,
    sections: dict[str, Any],
    header: dict[str, Any],
    told: str,
) -> None:
    model = stopped_fit(problem, tmp_path / "kept")
    path = min((tmp_path / "kept").glob(file))
    found = read_model(path)
    changed = {**{name: np.array(section) for name, section in found.sections.items()}, **sections}
    kept = {name: section for name, section in changed.items() if section is not None}
    write_model(path, kept, {**found.header, **header}, overwrite=True)
    with pytest.raises(ValueError, match=told) as error:
        model.fit(*problem, checkpoint=tmp_path / "kept")
    assert str(tmp_path / "kept") in str(error.value)


def test_blocks_that_run_when_a_fit_is_stopped_then_end_before_they_are_done(tmp_path: Path) -> None:
    alone = Alone(Allotment(2, 2, 16, 500.0), str(tmp_path))
    ended: list[int] = []

    def task(number: int) -> int:
        try:
            while number:  # the first is done at once, the other only if it is stopped
                alone.watch(0.0)
        finally:
            ended.append(number)
        return number

    running = alone.run(task, [(0,), (1,)])
    assert next(running) == (0, 0)
    running.close()
    assert ended == [0, 1]


# --- the budget -------------------------------------------------------------------------------------------


def test_budget_when_too_small_then_the_smallest_that_works_is_told_and_works(
    problem: tuple[Any, Any], tmp_path: Path
) -> None:
    with pytest.raises(BudgetTooSmallError, match="the smallest that works is") as told:
        HedgerowClassifier(**SMALL, memory="1MB").fit(*problem)
    found = re.search(r"the smallest that works is '(\d+)MB'", str(told.value))
    assert found is not None
    # What the process holds may have grown by a little since.
    model = HedgerowClassifier(**SMALL, memory=f"{int(found[1]) + 50}MB").fit(*problem)
    assert saved(model, tmp_path) == saved(HedgerowClassifier(**SMALL).fit(*problem), tmp_path)


sizes = st.builds(
    FitSize,
    rows=st.integers(1, 10**7),
    features=st.integers(1, 10**7),
    labels=st.integers(1, 10**7),
    label_entries=st.integers(1, 10**9),
    branching=st.integers(2, 64),
    matched=st.sampled_from([0, 20]),
    wrong=st.sampled_from([0, 10]),
)


@given(sizes, st.integers(1, 64), st.integers(0, 10**9), st.integers(1, 10**12))
def test_allotment_when_there_is_one_then_adds_up_to_no_more_than_the_budget(
    size: FitSize, threads: int, taken: int, budget: int
) -> None:
    try:
        found = allot(budget, size, threads, taken)
    except BudgetTooSmallError as error:
        smallest = parse_bytes(str(error).rsplit("'", 2)[1])
        assert smallest > budget
        assert allot(smallest, size, threads, taken).threads >= 1
        return
    arrays = 2 * found.threads * found.array_bytes
    growing = size.to_grow(found.threads) + arrays + 3 * found.array_bytes
    training = size.to_train(found.threads, found.blocks) + arrays + 96 * found.blocks * found.block_work
    assert 1 <= found.blocks <= found.threads <= threads
    assert taken + max(growing, training) <= budget


@pytest.mark.parametrize("size", ["", "lots", "-1GB", "0", "8 gigs", "nanGB", True])
def test_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="memory is"):
        parse_bytes(size)


def test_budget_with_a_cluster_or_with_shared_trees_is_refused(problem: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="memory and cluster cannot be combined"):
        HedgerowClassifier(memory="8GB", cluster="local").fit(*problem)
    with pytest.raises(ValueError, match="merged in memory"):
        HedgerowClassifier(memory="8GB", method="bagging", members=2, trees=1).fit(*problem)
    model = HedgerowClassifier(**SMALL, method="bagging", members=2).fit(*problem)
    with pytest.raises(ValueError, match="memory and cluster cannot be combined"):
        model.set_params(memory="8GB", cluster="local").add_members(*problem, 1)


def test_budget_is_no_part_of_a_model_file_and_none_is_taken_from_one(
    problem: tuple[Any, Any], tmp_path: Path
) -> None:
    HedgerowClassifier(**SMALL).fit(*problem).set_params(memory="8GB").save(tmp_path / "model")
    assert HedgerowClassifier.load(tmp_path / "model").memory is None
    file = read_model(tmp_path / "model")
    file.header["parameters"]["memory"] = "1MB"
    write_model(tmp_path / "crafted", file.sections, file.header)
    with pytest.raises(Malformed, match="the file sets 'memory', which is not allowed"):
        HedgerowClassifier.load(tmp_path / "crafted")


def test_texts_when_fitted_within_a_budget_then_give_the_same_file(narrow: None, tmp_path: Path) -> None:
    texts = [f"{kind} number {i}" for i in range(9) for kind in ("elm", "oak", "yew")]
    labels = [[kind] for _ in range(9) for kind in ("elm", "oak", "yew")]
    ordinary = HedgerowTextClassifier(random_state=0).fit(texts, labels)
    budgeted = HedgerowTextClassifier(random_state=0, memory="2GB").fit(texts, labels)
    assert saved(budgeted, tmp_path) == saved(ordinary, tmp_path)


# --- vectors of labels, piece by piece --------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_pieces_of_labels_cover_all_and_hold_no_more_than_asked(seed: int, most: int) -> None:
    draw = np.random.default_rng(seed)
    counts, sizes = draw.integers(1, 6, 40), draw.integers(0, 30, 25).astype(np.int32)
    begins = np.concatenate([[0], np.cumsum(counts)])
    rows = draw.integers(0, 25, begins[-1]).astype(np.int32)
    pieces = list(_pieces(begins, rows, sizes, most))
    assert [first for first, _ in pieces[1:]] == [last for _, last in pieces[:-1]]
    assert (pieces[0][0], pieces[-1][1]) == (0, 40)
    for first, last in pieces:
        assert last == first + 1 or sizes[rows[begins[first] : begins[last]]].sum() <= most


def test_vectors_of_labels_when_made_in_pieces_then_are_those_made_at_once(
    problem: tuple[Any, Any], tmp_path: Path
) -> None:
    X, Y = problem
    given = (as_rows(X), sp.csr_array(Y), np.arange(60, dtype=np.int32), 50, None, True, 2, None)
    whole = aggregate_features(*given)
    indptr, indices, values, _ = aggregate_to_files(*given, Scratch(str(tmp_path), 4000)).arrays()
    for ours, theirs in zip(
        (indptr, indices, values), (whole.indptr, whole.indices, whole.data), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert not list(tmp_path.iterdir())


def test_scratch_when_it_has_no_room_then_is_an_error_of_the_disk(
    problem: tuple[Any, Any], tmp_path: Path
) -> None:
    X, Y = problem
    vectors = aggregate_features(
        as_rows(X), sp.csr_array(Y), np.arange(60, dtype=np.int32), 50, None, True, 1
    )
    nowhere = Scratch(str(tmp_path / "nowhere"), 16)
    with pytest.raises(OSError, match=r"no room for \d+ bytes of scratch in .*nowhere"):
        grow_over(
            as_rows(vectors),
            np.arange(60, dtype=np.int32),
            branching=4,
            leaf_size=4,
            seed=0,
            threads=1,
            progress=None,
            scratch=nowhere,
        )


# --- mapped data ------------------------------------------------------------------------------------------


def as_text(folder: Path, part: Part) -> Path:
    write_xmc_text(folder / "train.txt.gz", part.X, part.Y)
    return folder / "train.txt.gz"


def as_pecos(folder: Path, part: Part) -> Path:
    write_pecos(folder / "pecos", part)
    return folder / "pecos"


@pytest.fixture
def part(problem: tuple[Any, Any]) -> Part:
    X, Y = problem
    names = [f"label {number}" for number in range(60)]
    return Part(sp.csr_array(X, dtype=np.float32), None, sp.csr_array(Y, dtype=np.float32), names)


@pytest.mark.parametrize("write", [as_text, as_pecos])
def test_data_when_mapped_then_are_the_data_and_views_of_files(
    part: Part, tmp_path: Path, write: Callable[[Path, Part], Path]
) -> None:
    source = write(tmp_path, part)
    map_data(source, tmp_path / "mapped")
    found, wanted = read_part(tmp_path / "mapped"), read_part(source)
    for name in ("X", "Y"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
        base = ours.indices
        while not isinstance(base, np.memmap):
            base = base.base
    assert found.label_names == wanted.label_names
    with pytest.raises(FileExistsError):
        map_data(source, tmp_path / "mapped")
    map_data(source, tmp_path / "mapped", overwrite=True)


def test_data_when_there_are_none_to_map_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither X\.trn\.npz"):
        map_data(tmp_path, tmp_path / "mapped")


@pytest.mark.parametrize(
    ("name", "array", "told"),
    [
        ("X.trn.indices", np.array([0, 99], dtype=np.int32), "do not make a matrix"),
        ("X.trn.indptr", np.array([0, 1], dtype=np.int64), "do not make a matrix"),
        ("X.trn.data", np.ones(3, dtype=np.float64), "has the type float64"),
        ("Y.trn.shape", np.array([300, 5], dtype=np.int64), "an index is out of range"),
    ],
)
def test_mapped_array_when_damaged_then_is_refused_by_name(
    part: Part, tmp_path: Path, name: str, array: Any, told: str
) -> None:
    map_data(as_text(tmp_path, part), tmp_path / "mapped")
    np.save(tmp_path / "mapped" / f"{name}.npy", array)
    with pytest.raises(DataError, match=told) as error:
        read_part(tmp_path / "mapped")
    assert str(tmp_path / "mapped") in str(error.value)


@pytest.mark.parametrize(
    "content", [*BROKEN_ARRAYS.values(), b"PK\x05\x06" + bytes(18)], ids=[*BROKEN_ARRAYS, "empty archive"]
)
def test_mapped_array_when_its_header_is_broken_then_is_refused_by_name(
    part: Part, tmp_path: Path, content: bytes
) -> None:
    map_data(as_text(tmp_path, part), tmp_path / "mapped")
    (tmp_path / "mapped" / "X.trn.data.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"X\.trn\.data\.npy: cannot be mapped"):
        read_part(tmp_path / "mapped")


@pytest.mark.parametrize("content", BROKEN_ARRAYS.values(), ids=BROKEN_ARRAYS)
@pytest.mark.parametrize("member", ["shape", "data"])
def test_matrix_when_the_header_of_an_array_is_broken_then_is_not_mapped(
    part: Part, tmp_path: Path, member: str, content: bytes
) -> None:
    source = as_pecos(tmp_path, part)
    replace_member(source / "X.trn.npz", f"{member}.npy", content)
    with pytest.raises(DataError, match=r"X\.trn\.npz: cannot be read as a sparse matrix"):
        map_data(source, tmp_path / "mapped")
    assert not list((tmp_path / "mapped").iterdir())


def parts_of(matrix: Any, **changed: Any) -> dict[str, Any]:
    own = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    return {"format": "csr", "shape": matrix.shape, **own, **changed}


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("X", {"format": "csc"}, "has the format 'csc'; convert"),
        ("X", {"indices": np.array([99])}, "an index out of range: there are 50 columns"),
        ("X", {"indices": np.array([-1])}, "an index out of range"),
        ("X", {"data": np.array([1j])}, "has the type complex128"),
        ("X", {"data": np.array([[1.0]])}, "2 dimensions"),
        ("X", {"shape": None}, "cannot be read as a sparse matrix"),
        ("X", {"shape": np.array([300])}, "cannot be read as a sparse matrix"),
        ("X", {"shape": np.array([300, 2**64 - 1], dtype=np.uint64)}, r"it has the shape \(300, 18446"),
        ("X", {"shape": np.array([-1, 50])}, r"it has the shape \(-1, 50\)"),
        ("Y", {"data": np.array([0.0])}, r"stores zeros; call eliminate_zeros\(\)"),
    ],
)
def test_matrix_when_malformed_then_is_not_mapped(
    part: Part, tmp_path: Path, name: str, change: dict[str, Any], told: str
) -> None:
    source = as_pecos(tmp_path, part)
    np.savez(source / f"{name}.trn.npz", **parts_of(getattr(part, name), **change))
    with pytest.raises(DataError, match=told) as error:
        map_data(source, tmp_path / "mapped")
    assert f"{name}.trn.npz" in str(error.value)
    assert not list((tmp_path / "mapped").iterdir())


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_matrix_file_when_cut_short_then_is_not_mapped(part: Part, tmp_path: Path, kept: float) -> None:
    source = as_pecos(tmp_path, part)
    whole = (source / "X.trn.npz").read_bytes()
    (source / "X.trn.npz").write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    with pytest.raises(DataError, match="cannot be read as a sparse matrix"):
        map_data(source, tmp_path / "mapped")
    assert not list((tmp_path / "mapped").iterdir())


def test_array_that_promises_more_than_it_holds_is_not_mapped(part: Part, tmp_path: Path) -> None:
    source = as_pecos(tmp_path, part)
    np.savez(source / "X.trn.npz", **parts_of(part.X))
    with zipfile.ZipFile(source / "X.trn.npz") as archive:
        indices = archive.read("indices.npy")
    count = part.X.indices.size
    guaranteed = str(10 * count).encode()
    changed = indices.replace(b"(%d,)" % count, b"(%s,)" % guaranteed, 1)
    replace_member(source / "X.trn.npz", "indices.npy", changed)
    with pytest.raises(DataError, match="cannot be read as a sparse matrix"):
        map_data(source, tmp_path / "mapped")
    assert not list((tmp_path / "mapped").iterdir())


def test_mapped_data_when_parts_do_not_fit_together_then_are_refused(part: Part, tmp_path: Path) -> None:
    map_data(as_text(tmp_path, part), tmp_path / "mapped")
    names = tmp_path / "mapped" / "output-items.txt"
    names.write_text("only one\n")
    with pytest.raises(DataError, match=r"has 1 label names, but .* has 60 columns"):
        read_part(tmp_path / "mapped")
    names.write_text("".join(f"other {number}\n" for number in range(60)))
    with pytest.raises(DataError, match="has other labels than the model"):
        read_part(tmp_path / "mapped", label_names=part.label_names)
    np.save(tmp_path / "mapped" / "Y.trn.indptr.npy", np.zeros(2, dtype=np.int64))
    np.save(tmp_path / "mapped" / "Y.trn.indices.npy", np.zeros(0, dtype=np.int32))
    np.save(tmp_path / "mapped" / "Y.trn.shape.npy", np.array([1, 60], dtype=np.int64))
    with pytest.raises(DataError, match=r"has 1 rows, but .* has 300"):
        read_part(tmp_path / "mapped")


def test_text_that_ends_early_or_is_wrong_is_not_mapped(tmp_path: Path) -> None:
    for text, told in (("3 2 2\n0 0:1\n", "says 3 rows"), ("1 2 2\n0 5:1\n", "train.txt:2")):
        (tmp_path / "train.txt").write_text(text)
        with pytest.raises(DataError, match=told):
            map_data(tmp_path / "train.txt", tmp_path / "mapped")
        assert not list((tmp_path / "mapped").iterdir())


def test_command_line_when_given_a_budget_then_writes_the_same_file(
    part: Part, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, mapped = as_pecos(tmp_path, part), str(tmp_path / "mapped")
    assert main(["map", str(source), mapped]) == 0
    assert main(["fit", str(source), str(tmp_path / "ordinary"), "--preset", "paper"]) == 0
    assert main(["fit", mapped, str(tmp_path / "budgeted"), "--memory", "64GB"]) == 0
    assert (tmp_path / "budgeted").read_bytes() == (tmp_path / "ordinary").read_bytes()
    assert not (tmp_path / "budgeted.members").exists()
    assert main(["fit", mapped, str(tmp_path / "other"), "--memory", "1MB"]) == ExitCode.USAGE
    assert "the smallest that works" in capsys.readouterr().err
    assert main(["fit", mapped, str(tmp_path / "other"), "--memory", "much"]) == ExitCode.USAGE
    assert main(["map", str(source), mapped]) == ExitCode.WRITE


def test_label_names_of_mapped_data_when_another_source_is_mapped_are_never_those_of_the_first(
    part: Part, tmp_path: Path
) -> None:
    first, second = as_pecos(tmp_path / "first", part), tmp_path / "second"
    names = [f"name {number}" for number in range(part.Y.shape[1])]  # type: ignore[union-attr]
    (first / "output-items.txt").write_text("".join(f"{name}\n" for name in names))
    map_data(first, tmp_path / "mapped")
    assert read_part(tmp_path / "mapped").label_names == names
    second.mkdir()
    text = as_text(second, part)
    with pytest.raises(DataError, match="has other labels"):
        map_data(text, tmp_path / "mapped", "test")
    map_data(text, tmp_path / "mapped", overwrite=True)
    assert read_part(tmp_path / "mapped").label_names != names


def test_mapping_that_fails_over_older_data_leaves_those_or_none(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = as_text(tmp_path, part)
    map_data(source, tmp_path / "mapped")
    replace = os.replace
    renamed: list[str] = []

    def failing(old: Any, new: Any) -> None:
        renamed.append(str(new))
        if len(renamed) == 3:
            raise OSError(28, "No space left on device")
        replace(old, new)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="No space"):
        map_data(source, tmp_path / "mapped", overwrite=True)
    monkeypatch.undo()
    with pytest.raises(DataError, match="make it with hedgerow map"):
        read_part(tmp_path / "mapped")


def test_budget_counts_given_vectors_of_labels(problem: tuple[Any, Any]) -> None:
    X, Y = problem
    entries = 10_000_000
    indices = np.tile(np.arange(entries // Y.shape[1], dtype=np.int32), Y.shape[1])
    indptr = np.arange(Y.shape[1] + 1) * (entries // Y.shape[1])
    vectors = sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr))
    smallest = []
    for given_vectors in (None, vectors):
        with pytest.raises(BudgetTooSmallError) as refused:
            HedgerowClassifier(memory="1MB", random_state=0).fit(X, Y, label_features=given_vectors)
        smallest.append(int(str(refused.value).rpartition("'")[0].rpartition("'")[2].removesuffix("MB")))
    assert smallest[1] >= smallest[0] + 8 * entries // 1_100_000
