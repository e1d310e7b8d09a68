"""Folders: PECOS, texts beside labels, and finding out which of the layouts it is."""

import gzip
import zipfile

import numpy as np
import pytest
import scipy.sparse
from broken_arrays import BROKEN_ARRAYS, replace_member
from scipy.sparse import csc_array, csr_array, csr_matrix, random_array

from hedgerow.data import DataError, Part, read_part, write_pecos, write_xmc_text


@pytest.fixture
def part():
    rng = np.random.default_rng(0)
    X = csr_array(random_array((5, 8), density=0.4, rng=rng, dtype=np.float32))
    Y = csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]], dtype=np.float32))
    return Part(X=X, Y=Y, texts=list("vwxyz"), label_names=["a", "b b", "c"])


def assert_equal(ours, theirs):
    np.testing.assert_array_equal(ours.X.toarray(), theirs.X.toarray())
    np.testing.assert_array_equal(ours.Y.toarray(), theirs.Y.toarray())
    assert ours.label_names == theirs.label_names


def test_pecos_when_written_then_read_is_the_same(tmp_path, part):
    write_pecos(tmp_path / "new", part, part)
    for name in ("train", "test"):
        again = read_part(tmp_path / "new", name)
        assert_equal(again, part)
        assert again.texts == part.texts
        assert again.X.dtype == again.Y.dtype == np.float32


def test_pecos_files_when_written_open_in_scipy(tmp_path, part):
    write_pecos(tmp_path, part)
    np.testing.assert_array_equal(scipy.sparse.load_npz(tmp_path / "X.trn.npz").toarray(), part.X.toarray())


@pytest.mark.parametrize("container", [csr_matrix, csr_array, csc_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_pecos_when_written_by_scipy_reads_the_same(tmp_path, part, container, dtype):
    scipy.sparse.save_npz(tmp_path / "X.trn.npz", container(part.X))
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", container(part.Y.astype(dtype) * 3))
    (tmp_path / "output-items.txt").write_text("a\nb b\nc\n")
    assert_equal(read_part(tmp_path), part)


def test_pecos_when_label_names_are_given_maps_by_name(tmp_path, part):
    write_pecos(tmp_path, part, part)
    mapped = read_part(tmp_path, "test", label_names=["c", "new", "a"])
    np.testing.assert_array_equal(mapped.Y.toarray()[:, [2, 0]], part.Y.toarray()[:, [0, 2]])
    assert mapped.Y[:, [1]].nnz == 0
    assert mapped.Y.has_sorted_indices
    assert mapped.unknown_labels == 2


def save(path, **changes):
    arrays = {
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 1, 2]),
        "data": np.array([1.0, 2.0]),
        "shape": np.array([2, 3]),
        "format": np.array("csr"),
    }
    arrays.update(changes)
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": None}, "indptr missing"),
        ({"format": np.array("coo")}, "has the format 'coo'"),
        ({"format": np.array([1, 2])}, "has the format None"),
        ({"shape": np.array([2])}, "wrong type"),
        ({"shape": np.array([2, -3])}, "wrong type"),
        ({"indices": np.array([0.0, 1.0])}, "wrong type"),
        ({"data": np.array(["a", "b"])}, "wrong type"),
        ({"data": np.array([1, object()])}, "pickle"),
        ({"indptr": np.array([0, 2, 1])}, "the file is damaged"),
        ({"indptr": np.array([0, 1])}, "the file is damaged"),
        ({"indptr": np.array([0, 1, 9])}, "the file is damaged"),
        ({"indptr": np.array([-1, 1, 2])}, "the file is damaged"),
        ({"indices": np.array([0, 3])}, "index 3 in row 1 is out of range: there are 3"),
        ({"indices": np.array([-1, 0])}, "index -1 in row 0"),
        ({"data": np.array([1, np.nan])}, "row 1 has a value that is not a finite"),
        ({"data": np.array([1e300, 1])}, "row 0 has a value that is not a finite"),
        ({"indices": np.array([1, 1]), "indptr": np.array([0, 2, 2])}, "twice in the same place"),
    ],
)
def test_bad_matrix_when_read_names_the_file_and_the_fault(tmp_path, changes, message):
    save(tmp_path / "X.trn.npz", **changes)
    with pytest.raises(DataError) as caught:
        read_part(tmp_path)
    assert caught.value.path == str(tmp_path / "X.trn.npz")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [*BROKEN_ARRAYS.values(), b"csr"], ids=[*BROKEN_ARRAYS, "no array"])
@pytest.mark.parametrize("member", ["data", "format"])
def test_matrix_with_a_broken_array_is_a_data_error(tmp_path, member, content):
    save(tmp_path / "X.trn.npz")
    replace_member(tmp_path / "X.trn.npz", f"{member}.npy", content)
    with pytest.raises(DataError, match=r"X\.trn\.npz: cannot be read as a sparse matrix"):
        read_part(tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_matrix_whose_packed_bytes_are_damaged_is_a_data_error(tmp_path, method):
    path = tmp_path / "X.trn.npz"
    save(path)
    replace_member(path, "", b"", method)
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
    begin = first.header_offset + 30 + len(first.filename) + 9  # past the header of LZMA
    whole = bytearray(path.read_bytes())
    whole[begin : begin + 40] = bytes(byte ^ 0xFF for byte in whole[begin : begin + 40])
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"X\.trn\.npz: cannot be read as a sparse matrix"):
        read_part(tmp_path)


def test_matrix_of_a_shape_without_room_is_a_data_error(tmp_path):
    one = {"indices": np.array([0]), "indptr": np.array([0, 1]), "data": np.array([1.0])}
    for rows in (np.uint64(2**64 - 1), np.uint64(2**62)):
        shape = np.array([rows, 1], dtype=np.uint64)
        save(tmp_path / "X.trn.npz", **one, shape=shape, format=np.array("csc"))
        with pytest.raises(DataError, match=r"X\.trn\.npz: has the shape .* no room"):
            read_part(tmp_path)


def test_matrix_that_is_no_archive_is_a_data_error(tmp_path):
    for content in (b"", b"junk", b"PK\x03\x04 cut off"):
        (tmp_path / "Y.trn.npz").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read as a sparse matrix"):
            read_part(tmp_path)


def test_pecos_files_that_do_not_match_are_refused(tmp_path, part):
    write_pecos(tmp_path, part)
    (tmp_path / "X.trn.txt").write_text("one\n")
    with pytest.raises(DataError, match="has 1 lines"):
        read_part(tmp_path)
    (tmp_path / "X.trn.txt").unlink()
    (tmp_path / "output-items.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"has 1 label names, but .* has 3 columns"):
        read_part(tmp_path)
    save(tmp_path / "Y.trn.npz")
    with pytest.raises(DataError, match=r"has 2 rows, but .* has 5"):
        read_part(tmp_path)


def test_pecos_writer_when_a_name_has_a_line_end_writes_nothing(tmp_path, part):
    bad = Part(X=part.X, Y=part.Y, label_names=["a", "b\nb", "c"])
    with pytest.raises(DataError, match="label name 1"):
        write_pecos(tmp_path / "new", bad)
    assert not (tmp_path / "new").exists()
    with pytest.raises(DataError, match="differ in their label names"):
        write_pecos(tmp_path / "new", part, bad)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("b_b a\na\n\n", [["a", "b_b"], ["a"], []]),
        ("b b,a\na\n\n", [["a", "b b"], ["a"], []]),
        ("b b, a\r\na\r\n\r\n", [["a", "b b"], ["a"], []]),
        ("b, b\ta\na\n\n", [["a", "b, b"], ["a"], []]),
        ("12 7\n7\n\n", [["12", "7"], ["7"], []]),
    ],
    ids=["spaces", "commas", "commas-windows", "tabs", "numbers"],
)
def test_labels_beside_texts_are_split_by_what_the_file_uses(tmp_path, labels, expected):
    (tmp_path / "train_texts.txt").write_text("x y\n\nz\n")
    (tmp_path / "train_labels.txt").write_bytes(labels.encode())
    part = read_part(tmp_path)
    assert part.texts == ["x y", "", "z"]
    assert [[part.label_names[i] for i in part.Y[[row]].indices] for row in range(3)] == expected


@pytest.mark.parametrize("names", [("train", "test"), ("trn", "tst"), ("train", "validation")])
def test_labels_of_any_part_are_split_as_those_of_the_training_part(tmp_path, names):
    parts = {
        names[0]: ["old maps,machine learning", "garden plants"],
        names[1]: ["garden plants", "old maps"],
    }
    for name, labels in parts.items():
        (tmp_path / f"{name}_texts.txt").write_text("x\ny\n")
        (tmp_path / f"{name}_labels.txt").write_text("\n".join(labels))
    train = read_part(tmp_path)
    assert train.label_names == ["garden plants", "machine learning", "old maps"]
    other = "test" if names[1] == "tst" else names[1]
    assert read_part(tmp_path, other).label_names == ["garden plants", "old maps"]
    assert read_part(tmp_path, other, label_names=train.label_names).unknown_labels == 0
    assert read_part(tmp_path, other, label_separator=" ").label_names == ["garden", "maps", "old", "plants"]


def test_labels_with_a_rare_comma_are_split_at_spaces_unless_told(tmp_path):
    (tmp_path / "test_texts.txt").write_text("x\n" * 50)
    (tmp_path / "test_labels.txt").write_text("a b\n" * 49 + "1,000 b\n")
    assert read_part(tmp_path, "test").label_names == ["1,000", "a", "b"]
    assert read_part(tmp_path, "test", label_separator=",").label_names == ["000 b", "1", "a b"]


def test_texts_and_labels_when_their_lines_differ_are_refused(tmp_path):
    (tmp_path / "train_texts.txt").write_text("x\ny\n")
    (tmp_path / "train_labels.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"train_labels\.txt:2: has 1 lines, but .*train_texts\.txt has 2"):
        read_part(tmp_path)


def test_texts_without_labels_have_no_label_matrix(tmp_path):
    (tmp_path / "test_texts.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    part = read_part(tmp_path, "test")
    assert (part.texts, part.Y, part.n) == (["x", "y"], None, 2)


@pytest.mark.parametrize("name", ["train.txt", "trn.txt", "train.txt.xz", "trn.txt.gz", "train.txt.zst"])
def test_text_format_is_found_in_any_spelling_and_packing(tmp_path, part, name):
    write_xmc_text(tmp_path / name, part.X, part.Y)
    np.testing.assert_array_equal(read_part(tmp_path).X.toarray(), part.X.toarray())
    np.testing.assert_array_equal(read_part(tmp_path / name).Y.toarray(), part.Y.toarray())


def test_folder_without_a_known_layout_says_what_was_looked_for(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(DataError) as caught:
        read_part(tmp_path, "test")
    for name in (
        "test.txt",
        "X.tst.npz",
        "Y.tst.npz",
        "test_texts.txt",
        "test_labels.txt",
        "test.jsonl",
        ".zst",
    ):
        assert name in str(caught.value)


def test_folder_with_two_layouts_is_refused(tmp_path, part):
    write_pecos(tmp_path, part)
    write_xmc_text(tmp_path / "train.txt", part.X, part.Y)
    with pytest.raises(DataError, match=r"more than one layout \(train\.txt, X\.trn\.npz\)"):
        read_part(tmp_path)


def test_folder_with_two_files_of_records_is_refused(tmp_path):
    for name in ("a.jsonl", "b.jsonl.xz"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.jsonl, b\.jsonl\.xz; name the file"):
        read_part(tmp_path)


def test_path_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read_part(tmp_path / "nothing")
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(DataError, match=r"known are \.txt"):
        read_part(tmp_path / "a.pdf")
    with pytest.raises(DataError, match="say which part"):
        read_part(tmp_path, None)
