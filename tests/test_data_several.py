"""Several files as one: what joins, what is refused, and which record counts."""

from __future__ import annotations

import itertools
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from scipy.sparse import csr_array

from hedgerow.data import DataError, LeftOutWarning, Part, read_part, read_parts, write_xmc_text


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def rows(part: Part) -> list[tuple[Any, Any, list[str]]]:
    """Id, text and sorted labels of each row."""
    assert part.texts is not None
    assert part.Y is not None
    assert part.label_names is not None
    dense = part.Y.toarray().astype(bool)
    names = [[part.label_names[column] for column in np.flatnonzero(row)] for row in dense]
    return list(zip(part.ids or [None] * part.n, part.texts, names, strict=True))


def test_files_of_all_formats_when_read_together_are_all_rows_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train_texts.txt").write_text("from a folder\n")
    (folder / "train_labels.txt").write_text("c d\n")
    lines = write(tmp_path / "a.jsonl", {"text": "one", "labels": ["b", "a"], "id": 5}, {"text": "two"})
    table = tmp_path / "b.csv"
    table.write_text("id,text,labels\nx,three,c|a\n,four,b\n")
    parquet = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["five"], "labels": [["e"]]}), parquet)
    part = read_parts([lines, table, parquet, folder])
    assert rows(part) == [
        ("5", "one", ["a", "b"]),
        (None, "two", []),
        ("x", "three", ["a", "c"]),
        (None, "four", ["b"]),
        (None, "five", ["e"]),
        (None, "from a folder", ["c", "d"]),
    ]
    assert part.label_names == ["a", "b", "c", "d", "e"]
    assert part.Y is not None
    assert part.Y.has_canonical_format
    assert part.Y.dtype == np.float32


def test_records_when_cut_into_files_are_the_same_as_in_one(tmp_path: Path) -> None:
    draw = random.Random(0)
    records = [
        {"text": f"text {i}", "labels": draw.sample("abcdefgh", draw.randrange(4)), "id": f"r{i}"}
        for i in range(60)
    ]
    whole = read_part(write(tmp_path / "all.jsonl", *records))
    cuts = (0, 1, 17, 18, 60)
    files = [
        write(tmp_path / f"{i}.jsonl", *records[begin:end])
        for i, (begin, end) in enumerate(itertools.pairwise(cuts))
    ]
    told: list[float] = []
    part = read_parts(files, progress=told.append)
    assert rows(part) == rows(whole)
    assert part.label_names == whole.label_names
    assert told == sorted(told)
    assert told[-1] <= 1
    given = read_parts(files, label_names=["h", "a"])
    expected = read_part(tmp_path / "all.jsonl", label_names=["h", "a"])
    assert given.Y is not None
    assert expected.Y is not None
    assert (given.Y != expected.Y).nnz == 0
    assert given.unknown_labels == expected.unknown_labels > 0


def test_id_that_comes_twice_then_both_places_are_named(tmp_path: Path) -> None:
    old = write(tmp_path / "old.jsonl", {"text": "a", "id": "x"}, {"text": "b", "id": 7})
    new = tmp_path / "new.csv"
    new.write_text("text,id\nc,y\nd,7\n")
    with pytest.raises(DataError) as caught:
        read_parts([old, new])
    assert str(caught.value).startswith(f"{new}:3: the id '7' was read before, at {old}:2;")
    assert "later_wins" in str(caught.value)
    twice = write(tmp_path / "twice.jsonl", {"text": "a", "id": "x"}, {"text": "a"}, {"text": "a", "id": "x"})
    with pytest.raises(DataError, match=r"twice\.jsonl:3: the id 'x' .*twice\.jsonl:1"):
        read_parts(twice)
    assert read_parts(twice, unique_ids=False).ids == ["x", None, "x"]
    assert read_part(twice).ids == ["x", None, "x"]


def test_later_record_when_it_wins_replaces_the_earlier_and_its_labels(tmp_path: Path) -> None:
    old = write(
        tmp_path / "old.jsonl",
        {"text": "a", "id": "1", "labels": ["wrong", "kept"]},
        {"text": "b", "labels": ["kept"]},
        {"text": "c", "id": "3", "labels": ["other"]},
    )
    new = write(
        tmp_path / "new.jsonl",
        {"text": "a", "id": "1", "labels": ["right"]},
        {"text": "b", "labels": []},
        {"text": "A", "id": "1", "labels": ["kept"]},
    )
    part = read_parts([old, new], later_wins=True)
    # Written out by hand: nothing of the first two records of id 1 is left, and no column for their labels.
    assert rows(part) == [
        (None, "b", ["kept"]),
        ("3", "c", ["other"]),
        (None, "b", []),
        ("1", "A", ["kept"]),
    ]
    assert part.label_names == ["kept", "other"]
    kept = read_parts([old, new], later_wins=True, label_names=["wrong", "kept"])
    assert kept.label_names == ["wrong", "kept"]


def test_empty_id_then_the_record_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n,a\n,b\n")
    assert read_parts(tmp_path / "a.csv").ids is None
    part = read_parts(write(tmp_path / "a.jsonl", {"id": "", "text": "a"}, {"id": None, "text": "b"}))
    assert part.ids is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "has no rows; check how it was made, or leave it out"),
        ("empty.csv", b"text,labels\n", "has no rows"),
        ("blank.jsonl", b"\n\n", "has no rows"),
        ("tags.jsonl", b'{"text": "a", "tags": ["x"]}\n', "no labels in the field 'labels', where"),
        ("nolabels.csv", b"text\na\n", "no labels in the field 'labels', where"),
        ("latin.jsonl", '{"text": "caf\xe9", "labels": []}\n'.encode("latin-1"), ":1: is not UTF-8"),
        ("latin.csv", "text,labels\nok,a\ncaf\xe9,b\n".encode("latin-1"), ":3: is not UTF-8"),
        ("utf16.csv", "text,labels\na,b\n".encode("utf-16"), ":1: is not UTF-8"),
        ("bad.pdf", b"%PDF", "its ending is not that of a known format"),
    ],
)
def test_file_that_would_be_lost_or_garbled_then_it_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    good = write(tmp_path / "good.jsonl", {"text": "a", "labels": ["b"]})
    bad = tmp_path / name
    bad.write_bytes(content)
    for order in ([good, bad], [bad, good]):
        with pytest.raises(DataError) as caught:
            read_parts(order)
        assert str(caught.value).startswith(str(bad))
        assert message in str(caught.value)


def test_file_given_twice_then_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jsonl", {"text": "a"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="is given twice"):
        read_parts([path, "a.jsonl"])
    with pytest.raises(ValueError, match="no path"):
        read_parts([])


def test_features_when_read_with_another_file_are_refused(tmp_path: Path) -> None:
    X, Y = csr_array(np.eye(2, dtype=np.float32)), csr_array(np.ones((2, 1), dtype=np.float32))
    write_xmc_text(tmp_path / "train.txt", X, Y)
    texts = write(tmp_path / "a.jsonl", {"text": "a", "labels": ["b"]})
    with pytest.raises(DataError, match=r"train\.txt: has features"):
        read_parts([texts, tmp_path / "train.txt"])
    assert read_parts(tmp_path / "train.txt").n == 2


def test_inputs_without_labels_when_read_together_need_none(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", {"text": "a", "labels": ["b"], "id": "x"})
    other = write(tmp_path / "b.jsonl", {"text": "c", "id": "x"})
    part = read_parts([one, other], labels_field=None, unique_ids=False)
    assert (part.texts, part.ids, part.Y) == (["a", "c"], ["x", "x"], None)


def test_texts_by_name_when_read_with_plain_ones_stay_as_they_are(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", {"title": "t", "abstract": "a", "labels": ["b"]})
    other = write(tmp_path / "b.jsonl", {"text": "c", "labels": ["b"]})
    part = read_parts([one, other], text_fields=["title", "abstract"])
    assert part.texts == [{"title": "t", "abstract": "a"}, "c"]
    assert part.fields == ["abstract", "labels", "text", "title"]


def test_files_beside_the_training_file_then_they_are_named(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", {"text": "a", "labels": ["b"]})
    write(tmp_path / "test.jsonl", {"text": "a", "labels": ["b"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_part(tmp_path)
    reviewed = write(tmp_path / "reviewed.jsonl", {"text": "c", "labels": ["d"]})
    (tmp_path / "more.csv.gz").write_bytes(b"")
    (tmp_path / "notes.md").write_text("no data")
    with pytest.warns(LeftOutWarning) as found:
        assert read_part(tmp_path).texts == ["a"]
    (message,) = [str(one.message) for one in found]
    assert "read train.jsonl, and not more.csv.gz, reviewed.jsonl beside it" in message
    (tmp_path / "more.csv.gz").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_parts([tmp_path, reviewed]).texts == ["a", "c"]
