import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_svmlight_file

from hedgerow.data import DataError, Part, lines, read_part, read_xmc_text, write_xmc_text

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[csr_array, csr_array]:
    n, d, labels = draw(st.integers(0, 6)), draw(st.integers(0, 12)), draw(st.integers(0, 9))
    features = st.dictionaries(st.integers(0, d - 1), FLOATS, max_size=d) if d else st.just({})
    label_sets = st.sets(st.integers(0, labels - 1)) if labels else st.just(set())
    X_rows = draw(st.lists(features, min_size=n, max_size=n))
    Y_rows = draw(st.lists(label_sets, min_size=n, max_size=n))
    X_rows = [sorted(row.items()) for row in X_rows]
    X = csr_array(
        (
            np.array([v for row in X_rows for _, v in row], dtype=np.float32),
            np.array([i for row in X_rows for i, _ in row], dtype=np.int32),
            np.cumsum([0, *map(len, X_rows)]),
        ),
        shape=(n, d),
    )
    Y_rows = [sorted(row) for row in Y_rows]
    indices = np.array([i for row in Y_rows for i in row], dtype=np.int32)
    Y = csr_array(
        (np.ones(len(indices), np.float32), indices, np.cumsum([0, *map(len, Y_rows)])), shape=(n, labels)
    )
    return X, Y


def assert_same(a: csr_array | None, b: csr_array | None) -> None:
    assert a is not None
    assert b is not None
    assert a.shape == b.shape
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    # As bits, so that -0.0 is not 0.0.
    np.testing.assert_array_equal(a.data.view(np.int32), b.data.view(np.int32))


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def random_data_set(seed: int, n: int = 3000) -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((n, 900), density=0.05, rng=rng, dtype=np.float32))
    Y = csr_array(random_array((n, 200), density=0.02, rng=rng, dtype=np.float32))
    Y.data[:] = 1
    return X, Y


@given(data=data_sets(), block=st.integers(1, 40), ending=st.sampled_from(["", ".xz", ".gz", ".zst"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_write_then_read_gives_the_same_bits_at_any_block_size(tmp_path, data, block, ending):
    X, Y = data
    path = tmp_path / f"train.txt{ending}"
    write_xmc_text(path, X, Y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        part = read_xmc_text(path)
    assert_same(part.X, X)
    assert_same(part.Y, Y)
    assert part.label_names is None
    assert part.n == X.shape[0]


@given(st.from_regex(r"-?[0-9]{1,10}(\.[0-9]{0,10})?", fullmatch=True) | FLOATS.map(repr))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
def test_value_when_read_is_the_nearest_float(tmp_path, text):
    part = read_xmc_text(written(tmp_path / "one.txt", f"1 1 1\n0 0:{text}\n"))
    assert part.X is not None
    value = part.X.data[0]
    with np.errstate(over="ignore"):
        below, above = np.nextafter(value, np.float32(-np.inf)), np.nextafter(value, np.float32(np.inf))
    error = abs(Fraction(text) - Fraction(float(value)))
    for neighbour in (below, above):
        if np.isfinite(neighbour):
            assert error <= abs(Fraction(text) - Fraction(float(neighbour)))


def test_file_when_written_reads_the_same_in_scikit_learn(tmp_path):
    X, Y = random_data_set(1, n=300)
    path = tmp_path / "train.txt"
    write_xmc_text(path, X, Y)
    body = path.read_bytes().split(b"\n", 1)[1]
    theirs, labels = load_svmlight_file(
        io.BytesIO(body), n_features=X.shape[1], multilabel=True, zero_based=True, dtype=np.float32
    )
    ours = read_xmc_text(path)
    np.testing.assert_array_equal(ours.X.toarray(), theirs.toarray())
    assert [tuple(row) for row in labels] == [tuple(ours.Y[[i]].indices) for i in range(ours.n)]


def test_threads_when_changed_leave_the_result_unchanged(tmp_path):
    X, Y = random_data_set(2)
    paths = [tmp_path / f"{threads}.txt" for threads in (1, 2, 5)]
    for path, threads in zip(paths, (1, 2, 5), strict=True):
        write_xmc_text(path, X, Y, threads=threads)
        assert path.read_bytes() == paths[0].read_bytes()
    assert paths[0].stat().st_size > 4 * 256 * 1024, "too small to be cut into several slices"
    for threads in (1, 2, 5):
        part = read_xmc_text(paths[0], threads=threads)
        assert_same(part.X, X)
        assert_same(part.Y, Y)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_several_faults_when_read_in_parallel_report_the_first(tmp_path, threads):
    X, Y = random_data_set(3)
    path = tmp_path / "train.txt"
    write_xmc_text(path, X, Y)
    rows = path.read_text().split("\n")
    for line in (2900, 1700, 1400):
        rows[line - 1] = "junk"
    path.write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"train\.txt:1400: .*'junk'"):
        read_xmc_text(path, threads=threads)


def test_rows_without_labels_or_features_are_kept(tmp_path):
    part = read_xmc_text(written(tmp_path / "a.txt", "5 3 3\n 0:1\n\n1,2\n1:2\n0 \t2:1.5  0:-1e-3 \n"))
    np.testing.assert_allclose(
        part.X.toarray(), [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 2, 0], [-1e-3, 0, 1.5]]
    )
    np.testing.assert_array_equal(part.Y.toarray(), [[0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]])


def test_unsorted_ids_are_sorted(tmp_path):
    part = read_xmc_text(written(tmp_path / "a.txt", "1 9 9\n8,1,3 7:7 2:2 5:5\n"))
    assert part.Y.indices.tolist() == [1, 3, 8]
    assert part.X.indices.tolist() == [2, 5, 7]
    assert part.X.data.tolist() == [2, 5, 7]


@pytest.mark.parametrize(
    "text",
    [
        "2 3 2\r\n0 1:1\r\n1 2:2\r\n",
        "\ufeff2 3 2\n0 1:1\n1 2:2",
        "2 3 2\n0 1:1\n1 2:2\n\n\n",
        " 2\t3 2 \n0 1:1\n1 2:2\n",
    ],
    ids=["windows", "byte-order-mark", "empty-lines-at-end", "blanks-in-header"],
)
def test_harmless_variants_read_the_same(tmp_path, text):
    part = read_xmc_text(written(tmp_path / "a.txt", text))
    assert part.X.toarray().tolist() == [[0, 1, 0], [0, 0, 2]]
    assert part.Y.toarray().tolist() == [[1, 0], [0, 1]]
    assert part.X.dtype == part.Y.dtype == np.float32


def test_value_too_small_for_a_float_becomes_zero(tmp_path):
    assert read_xmc_text(written(tmp_path / "a.txt", "1 1 1\n0 0:1e-60\n")).X.data.tolist() == [0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("5 0:1", "label '5' is out of range: the header says 5 labels, so ids run from 0 to 4"),
        ("99999999999999999999 0:1", "label '99999999999999999999' is out of range"),
        ("-1 0:1", "label '-1' is negative"),
        ("1,-2 0:1", "label '-2' is negative"),
        ("1,,2 0:1", "expected a label id, found ',2'"),
        ("1, 0:1", "expected a label id"),
        ("1.5 0:1", "after label 1, found '.5'"),
        ("cat 0:1", "expected a label id, found 'cat'"),
        ("1,3,1 0:1", "label 1 occurs twice"),
        ("1 3:1", "feature '3:1' is out of range: the header says 3 features"),
        ("1 4294967296:1", "feature '4294967296:1' is out of range"),
        ("1 -1:1", "feature '-1:1' is negative"),
        ("1 0:1 2:1 0:1", "feature 0 occurs twice"),
        ("1 0:1 0:1", "feature 0 occurs twice"),
        ("1 0:nan", "value 'nan' of feature 0 is not finite"),
        ("1 0:inf", "value 'inf' of feature 0 is not finite"),
        ("1 0:-inf", "value '-inf' of feature 0 is not finite"),
        ("1 0:1e39", "value '1e39' of feature 0 does not fit"),
        ("1 0:1e999", "value '1e999' of feature 0 does not fit"),
        ("1 0:", "value '' of feature 0 is not a number"),
        ("1 0:1x", "value '1x' of feature 0 is not a number"),
        ("1 0:1,5", "value '1,5' of feature 0 is not a number"),
        ("1 0:0x10", "value '0x10' of feature 0 is not a number"),
        ("1 0", "expected feature:value, found '0'"),
        ("1 word", "expected a feature id, found 'word'"),
        ("1 0:1 # note", "expected a feature id, found '#'"),
        ("1 0:\x00", r"value '\x00' of feature 0"),
        (b"\xff\xfe 0:1", r"expected a label id, found '\xff\xfe'"),
        ("1 " + "y" * 99, "'" + "y" * 40 + "...'"),
    ],
)
def test_bad_row_when_read_names_file_and_line(tmp_path, monkeypatch, row, message):
    row = row if isinstance(row, bytes) else row.encode()
    path = written(tmp_path / "bad.txt", b"3 3 5\n0 0:1\n" + row + b"\n1 1:1\n")
    for block in (1, 8, lines.BLOCK_BYTES):
        monkeypatch.setattr(lines, "BLOCK_BYTES", block)
        with pytest.raises(DataError) as caught:
            read_xmc_text(path)
        assert caught.value.line == 3
        assert str(caught.value).startswith(f"{path}:3: ")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("0,1 0:1 1:2\n", 1, "the header is missing"),
        ("3 4\n0 0:1\n", 1, "the header is missing"),
        ("some words\n", 1, "found 'some words'"),
        ("1 3000000000 5\n0 0:1\n", 1, "3000000000 features; at most 2147483647"),
        ("1 5 3000000000\n0 0:1\n", 1, "3000000000 labels"),
        ("9" * 30 + " 5 5\n", 1, "which no file can hold"),
        ("3 3 5\n0 0:1\n1 1:1\n", 3, "says 3 rows, but the file ends after 2"),
        ("1 3 5\n0 0:1\n1 1:1\n", 3, "says 1 rows, but here is one more"),
        ("1 3 5\n0 0:1\n\n1 1:1\n", 4, "says 1 rows, but here is one more"),
    ],
)
def test_header_that_does_not_fit_is_refused(tmp_path, text, line, message):
    path = written(tmp_path / "bad.txt", text)
    with pytest.raises(DataError) as caught:
        read_xmc_text(path)
    assert caught.value.line == line
    assert message in str(caught.value)


def test_label_names_when_given_name_the_columns(tmp_path):
    path = written(tmp_path / "train.txt", "1 1 2\n0 0:1\n")
    assert read_part(path, label_names=["a", "b"]).label_names == ["a", "b"]
    with pytest.raises(DataError, match="2 labels known by number, but 1 label names"):
        read_part(path, label_names=["a"])


def test_writer_when_given_dense_or_unsorted_matrices_writes_the_same(tmp_path):
    X = csr_array((np.array([2.0, 1.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    Y = np.array([[1, 0], [0, 5]])
    write_xmc_text(tmp_path / "a.txt", X, Y)
    assert (tmp_path / "a.txt").read_text() == "2 2 2\n0 0:1 1:2\n1 1:3\n"
    assert X.indices.tolist() == [1, 0, 1], "the caller's matrix must not change"


def test_writer_when_values_lie_apart_in_memory_writes_the_same(tmp_path):
    indices, indptr = np.arange(3, dtype=np.int32), np.array([0, 2, 3], np.int32)
    values = np.linspace(0, 1, 6, dtype=np.float32)[::2]
    for name, data in (("a", values), ("b", values.copy())):
        X = csr_array((data, indices, indptr), shape=(2, 3))
        write_xmc_text(tmp_path / name, X, np.ones((2, 1)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_writer_when_a_value_is_not_finite_refuses_and_leaves_nothing(tmp_path, value):
    with pytest.raises(DataError, match="row 1 of X"):
        write_xmc_text(tmp_path / "a.txt", np.array([[1.0], [value]]), np.ones((2, 1)))
    assert list(tmp_path.iterdir()) == []


def test_writer_when_rows_differ_refuses(tmp_path):
    with pytest.raises(DataError, match="X has 1 rows and Y has 2"):
        write_xmc_text(tmp_path / "a.txt", np.ones((1, 1)), np.ones((2, 1)))


def test_progress_is_told_shares_that_grow_to_one(tmp_path, monkeypatch):
    X, Y = random_data_set(4, n=200)
    write_xmc_text(tmp_path / "a.txt", X, Y)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10_000)
    shares: list[float] = []
    read_xmc_text(tmp_path / "a.txt", progress=shares.append)
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_progress_that_raises_stops_the_reading(tmp_path):
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_xmc_text(written(tmp_path / "a.txt", "1 1 1\n0 0:1\n"), progress=stop)


def test_part_when_rows_differ_is_refused():
    with pytest.raises(ValueError, match="differ in their number of rows"):
        Part(texts=["a"], ids=["1", "2"])
