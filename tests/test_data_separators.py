"""What separates the labels of a CSV column: found in the whole column, or refused with an example."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest

from hedgerow.data import DataError, read_part

NAMES = ["art", "music", "old maps", "garden plants", "law", "chess"]


def table(path: Path, cells: list[str]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["text", "labels"], *([f"text {i}", cell] for i, cell in enumerate(cells))]
        )
    return path


def found(path: Path, **options: str) -> list[set[str]]:
    part = read_part(path, **options)  # type: ignore[arg-type]
    assert part.Y is not None
    assert part.label_names is not None
    return [{part.label_names[column] for column in np.flatnonzero(row)} for row in part.Y.toarray()]


@pytest.mark.parametrize("separator", [";", "; ", "|", " | ", "\t", ",", ", ", "||"])
@pytest.mark.parametrize("seed", range(4))
def test_labels_that_recur_then_their_separator_is_found(tmp_path: Path, separator: str, seed: int) -> None:
    draw = random.Random(seed)
    labels = [draw.sample(NAMES, draw.choice([0, 1, 1, 2, 2, 3])) for _ in range(30)]
    path = table(tmp_path / "a.csv", [separator.join(row) for row in labels])
    assert found(path) == [set(row) for row in labels]


def test_sorted_labels_then_their_comma_is_found_and_codes_with_names_are_not_split(tmp_path: Path) -> None:
    draw = random.Random(0)
    many = [f"label {i}" for i in range(40)]
    labels = [sorted(draw.sample(many, draw.choice([1, 2, 2, 3]))) for _ in range(60)]
    path = table(tmp_path / "a.csv", [", ".join(row) for row in labels])
    assert found(path) == [set(row) for row in labels]
    coded = [f"{i % 9}00, field {i % 9}" for i in range(40)]
    with pytest.raises(DataError, match="not clear what separates labels"):
        read_part(table(path, coded))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["b; a", ""], [{"a", "b"}, set()]),
        (["a;b", "c"], [{"a", "b"}, {"c"}]),
        (["a|b"], [{"a", "b"}]),
        (["a, b", "b, c", "a, c"], [{"a", "b"}, {"b", "c"}, {"a", "c"}]),
        (["a", "", "b c"], [{"a"}, set(), {"b c"}]),
        (['["a", "b;c"]', "[]", '["d, e"]', ""], [{"a", "b;c"}, set(), {"d, e"}, set()]),
        (["[1, 2]", "[2]"], [{"1", "2"}, {"2"}]),
        (["[sic] a", "b [c]"], [{"[sic] a"}, {"b [c]"}]),
        (["x::y", "x::z"], [{"x::y"}, {"x::z"}]),
    ],
)
def test_few_cells_that_leave_no_doubt_then_they_are_read(
    tmp_path: Path, cells: list[str], expected: list[set[str]]
) -> None:
    assert found(table(tmp_path / "a.csv", cells)) == expected


def test_names_with_commas_beside_semicolons_then_they_stay_whole(tmp_path: Path) -> None:
    names = ["History, Modern", "History, Ancient", "Art, Modern", "Smith, John", "Law", "Chess"]
    for seed in range(8):
        draw = random.Random(seed)
        labels = [draw.sample(names, draw.choice([1, 2, 3])) for _ in range(40)]
        cells = ["; ".join(row) for row in labels]
        assert found(table(tmp_path / "a.csv", cells)) == [set(row) for row in labels], seed


def test_names_with_commas_one_in_a_cell_then_they_stay_whole_where_they_recur(tmp_path: Path) -> None:
    cells = ["Korea, South"] * 4 + ["Iran"] * 5 + ["Peru"] * 3
    assert found(table(tmp_path / "a.csv", cells)) == [{cell} for cell in cells]


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["a, b"], "','"),
        (["Smith, John", "Doe, Anna"], "','"),
        (["Smith, John", "Smith, Anna", "Doe, John"] * 5, "','"),
        (["x", "y", "a, b"], "','"),
        (["C|C++", *["Ada", "Lisp"] * 20], "'|'"),
        # Some rows with one separator and some with the other.
        (["a;b", "b;c", "a, b", "b, c", "c, a", "a, b, c"], "','"),
        (["a;b", "a;c", "a|b", "b|c", "c|a", "b|a"], "';'"),
        (["a&amp;b, c", "d, e", "f, g"], "','"),
        # Spaces, where next to no cell is there twice and their words come back in other places.
        ([f"{a} {b} {c}" for a in "abc" for b in "abc" for c in "abc"], "' '"),
    ],
)
def test_separator_that_could_be_another_then_it_is_refused_with_an_example(
    tmp_path: Path, cells: list[str], hint: str
) -> None:
    path = table(tmp_path / "a.csv", cells)
    with pytest.raises(DataError) as caught:
        read_part(path)
    message = str(caught.value)
    assert "not clear what separates labels" in message
    assert f"label_separator= (here perhaps {hint}" in message
    assert caught.value.line is not None
    assert repr(cells[caught.value.line - 2]) in message
    # What is said wins, whatever it is; and inputs without labels are read in any case.
    assert found(path, label_separator="#") == [{cell} for cell in cells]
    assert read_part(path, labels_field=None).n == len(cells)


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (['["a"]', "b"], 3),
        (["['a', 'b']", "['c']"], 2),
        (["[a, b]", "[c]"], 2),
        (['["a"', '["b"]'], 2),
    ],
)
def test_lists_that_are_not_all_of_json_then_they_are_refused(
    tmp_path: Path, cells: list[str], line: int
) -> None:
    with pytest.raises(DataError, match="not a list of JSON") as caught:
        read_part(table(tmp_path / "a.csv", cells))
    assert caught.value.line == line


def test_list_of_json_with_what_is_no_label_then_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:3: the label None"):
        read_part(table(tmp_path / "a.csv", ['["a"]', "[null]"]))


def test_separator_that_is_given_then_it_is_used_alone(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", ["a;b, c", "c"])
    assert found(path, label_separator=",") == [{"a;b", "c"}, {"c"}]
    assert found(path, label_separator=";") == [{"a", "b, c"}, {"c"}]
    with pytest.raises(DataError, match="label_separator is empty"):
        read_part(path, label_separator="")
