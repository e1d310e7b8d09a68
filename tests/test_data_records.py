"""JSON records, CSV and Parquet tables."""

import builtins
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.data import DataError, lines, read_jsonl, read_part, write_jsonl

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.lists(st.fixed_dictionaries({"text": TEXTS, "labels": st.lists(TEXTS.filter(bool), max_size=4)}))


def label_sets(part):
    return [{part.label_names[i] for i in part.Y[[row]].indices} for row in range(part.n)]


def write_lines(path, *records):
    path.write_text(
        "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8"
    )
    return path


@given(records=RECORDS, block=st.integers(1, 60), ending=st.sampled_from(["", ".xz", ".gz", ".zst"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_jsonl_when_written_then_read_is_the_same(tmp_path, records, block, ending):
    path = tmp_path / f"train.jsonl{ending}"
    write_jsonl(path, records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        part = read_part(path)
    assert part.texts == [record["text"] for record in records]
    if records:
        assert label_sets(part) == [set(record["labels"]) for record in records]
        assert part.label_names == sorted({label for record in records for label in record["labels"]})
        assert part.Y.has_canonical_format
        assert (part.Y.data == 1).all()
        assert part.Y.dtype == np.float32


def test_labels_when_unknown_to_the_given_names_are_counted_and_left_out(tmp_path):
    path = write_lines(
        tmp_path / "test.jsonl", {"text": "x", "labels": ["c", "a", "z", "z"]}, {"text": "y", "labels": ["q"]}
    )
    part = read_part(tmp_path, "test", label_names=["c", "b", "a"])
    assert part.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0]]
    assert part.label_names == ["c", "b", "a"]
    assert part.unknown_labels == 2
    with pytest.raises(DataError, match="'a' occurs twice among the label names"):
        read_jsonl(path, label_names=["a", "b", "a"])


def test_split_file_when_read_gives_the_part_and_counts_records_without_the_label_set(tmp_path):
    write_lines(
        tmp_path / "packages.jsonl",
        {"id": "1", "split": "train", "text": "a", "tags": ["t"], "depends": []},
        {"id": "2", "split": "test", "text": "b", "tags": ["u"], "depends": ["libc"]},
        {"id": "3", "split": "train", "text": "c", "tags": [], "depends": ["libc"]},
        {"id": "4", "split": "train", "text": "d", "depends": ["libm", "libc"]},
    )
    tags = read_part(tmp_path, "train", labels_field="tags")
    assert (tags.ids, tags.label_names, tags.skipped) == (["1"], ["t"], 2)
    depends = read_part(tmp_path, "train", labels_field="depends")
    assert (depends.ids, depends.label_names, depends.skipped) == (["3", "4"], ["libc", "libm"], 1)
    plain = read_part(tmp_path, "train", labels_field=None)
    assert (plain.texts, plain.Y, plain.skipped) == (["a", "c", "d"], None, 0)
    everything = read_part(tmp_path / "packages.jsonl", None, labels_field=None)
    assert everything.ids == ["1", "2", "3", "4"]
    with pytest.raises(DataError, match=r"field 'tagz'; the fields are depends, id, split, tags, text"):
        read_part(tmp_path, labels_field="tagz")
    with pytest.raises(DataError, match=r"no record has the split 'valid'; the file has test, train"):
        read_part(tmp_path, "valid")


def test_records_when_read_tell_their_fields_and_the_split(tmp_path):
    path = tmp_path / "all.jsonl"
    write_lines(path, {"split": "train", "text": "a", "tags": []}, {"split": "test", "text": "b"})
    for part, fields in (("train", ["split", "tags", "text"]), ("test", ["split", "text"])):
        read = read_part(path, part)
        assert (read.fields, read.split) == (fields, part)
    assert read_part(path, None).split is None
    write_lines(path, {"text": "a", "id": 1})
    read = read_part(path, "test")
    assert (read.fields, read.split) == (["id", "text"], None)
    table = tmp_path / "table.csv"
    table.write_text("text,split\na,train\n")
    read = read_part(table, "train")
    assert (read.fields, read.split) == (["text", "split"], None)


def test_split_file_when_labels_are_empty_keeps_the_record(tmp_path):
    write_lines(
        tmp_path / "all.jsonl", {"split": "train", "text": "a", "labels": []}, {"split": "test", "text": "b"}
    )
    part = read_part(tmp_path, "train")
    assert (part.n, part.Y.shape, part.skipped) == (1, (1, 0), 0)


def test_records_without_labels_have_no_label_matrix(tmp_path):
    part = read_part(write_lines(tmp_path / "input.jsonl", {"text": "a"}, "", {"text": "b"}))
    assert (part.n, part.Y, part.label_names, part.ids) == (2, None, None, None)


def test_numbers_as_labels_and_ids_become_names(tmp_path):
    part = read_part(write_lines(tmp_path / "input.jsonl", {"text": "a", "labels": [7, 10], "id": 3}))
    assert (part.label_names, part.ids) == (["10", "7"], ["3"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "is not JSON"),
        ("[1]", "'[1]', not an object"),
        ('{"labels": []}', "the text is missing"),
        ('{"text": 5}', "the text is 5, not a string"),
        ('{"text": "a", "labels": "b"}', "the labels are 'b', not a list"),
        ('{"text": "a", "labels": [null]}', "the label None"),
        ('{"text": "a", "labels": [""]}', "the label ''"),
        ('{"text": "a", "labels": [true]}', "the label True"),
        ('{"text": "a", "labels": [1.5]}', "the label 1.5"),
        ('{"text": "a", "id": 1.5}', "the id is 1.5, not a string"),
        ('{"text": "a", "id": true}', "the id is True, not a string"),
        ('{"text": "a", "split": "train"}', "some records have a split"),
    ],
)
def test_bad_record_when_read_names_file_and_line(tmp_path, line, message):
    path = write_lines(tmp_path / "bad.jsonl", {"text": "a"}, "", line)
    with pytest.raises(DataError) as caught:
        read_part(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


def test_jsonl_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "\xe9"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:2: is not UTF-8"):
        read_part(path)


def test_jsonl_writer_when_a_record_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"text": "old"}])
    with pytest.raises(DataError, match=r"a\.jsonl:2: the record cannot be written"):
        write_jsonl(path, [{"text": "new"}, {"text": object()}])
    assert path.read_text() == '{"text":"old"}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_csv_when_read_gives_texts_labels_and_ids(tmp_path):
    path = tmp_path / "input.csv"
    long = "word " * 40_000
    path.write_bytes(f'\ufeffid,text,labels\r\n1,"two, with\r\nlines",b; a\r\n2,{long},\r\n\r\n'.encode())
    part = read_part(path)
    assert part.texts == ["two, with\nlines", long]
    assert (part.ids, part.label_names) == (["1", "2"], ["a", "b"])
    assert part.Y.toarray().tolist() == [[1, 1], [0, 0]]


def test_csv_without_labels_has_no_label_matrix(tmp_path):
    (tmp_path / "input.csv").write_text("text\na\n")
    assert read_part(tmp_path / "input.csv").Y is None


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", 1, "there is no column 'text'; the columns are: none"),
        ("title,labels\na,b\n", 1, "the columns are: title, labels"),
        ('text,labels\n"a\nb",c\nd,e,f\n', 4, "3 cells, but the header names 2 columns"),
        ('text\n"a" b\n', 2, "is not CSV"),
        ('text\na\n"b\n', 3, "is not CSV"),
    ],
)
def test_bad_csv_when_read_names_file_and_line(tmp_path, content, line, message):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_part(path)
    assert caught.value.line == line
    assert message in str(caught.value)


def test_parquet_when_read_gives_texts_labels_and_ids(tmp_path):
    path = tmp_path / "input.parquet"
    table = pyarrow.table(
        {"text": ["x", "y"], "labels": [["b", "a"], None], "id": [1, 2], "other": [0.5, 1.5]}
    )
    pyarrow.parquet.write_table(table, path)
    part = read_part(path)
    assert (part.texts, part.label_names, part.ids) == (["x", "y"], ["a", "b"], ["1", "2"])
    assert part.Y.toarray().tolist() == [[1, 1], [0, 0]]


def test_bad_parquet_is_a_data_error(tmp_path):
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_part(path)
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x", None]}), path)
    with pytest.raises(DataError, match=r"bad\.parquet:2: the text is missing"):
        read_part(path)
    pyarrow.parquet.write_table(pyarrow.table({"title": ["x"]}), path)
    with pytest.raises(DataError, match="no column 'text'; the columns are: title"):
        read_part(path)


def test_parquet_with_a_text_that_is_not_utf8_is_a_data_error(tmp_path):
    path = tmp_path / "bad.parquet"
    begins = np.array([0, 2], dtype=np.int32)
    buffers = [None, pyarrow.py_buffer(begins), pyarrow.py_buffer(b"\xff\xfe")]
    pyarrow.parquet.write_table(
        pyarrow.table({"text": pyarrow.Array.from_buffers(pyarrow.string(), 1, buffers)}), path
    )
    with pytest.raises(DataError, match=r"bad\.parquet: cannot be read as Parquet: 'utf-8'"):
        read_part(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    ordinary = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return ordinary(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=r"pip install hedgerow\[parquet\]"):
        read_part(tmp_path / "a.parquet")
