"""The time of records: read, put in order, cut off and cut into periods."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.chronology.periods import TooFewPeriodsError, by_calendar, by_number, joined_before
from hedgerow.data import DataError, read_part
from hedgerow.data.joining import join_records
from hedgerow.data.times import TimeError, TimeKind, Times

DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1))


def records(path: Path, times: list[Any], field: str = "date") -> Path:
    """A file of records, each with a label of its own number."""
    rows = [
        {"text": f"text {row}", "labels": [f"label {row}"], **({} if time is ... else {field: time})}
        for row, time in enumerate(times)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- values ---


@given(st.lists(DAYS, min_size=1))
def test_dates_are_in_the_order_of_the_calendar_however_they_are_given(days: list[date]) -> None:
    expected = np.argsort([day.toordinal() for day in days], kind="stable").tolist()
    for values in (days, [day.isoformat() for day in days], [f"{day.isoformat()}T07:30" for day in days]):
        assert np.argsort(Times.of(values).values, kind="stable").tolist() == expected


def test_times_with_zones_are_in_the_order_of_their_moments() -> None:
    zone = timezone(timedelta(hours=9))
    moments = [datetime(2019, 1, 2, 3, tzinfo=zone), datetime(2019, 1, 1, 20, tzinfo=UTC)]
    times = Times.of([moment.isoformat() for moment in moments])
    assert times.kind is TimeKind.ZONED
    assert (times.values[0] < times.values[1]) == (moments[0] < moments[1])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2019, "2019"),
        ("2019", "2019"),
        (2019.5, "2019.5"),
        (20190331, "20190331"),
        ("2019-03", "2019-03"),
        (" 2019-03-31 ", "2019-03-31"),
        (date(2019, 3, 31), "2019-03-31"),
        ("2019-03-31T12:00:30", "2019-03-31T12:00:30"),
        ("2019-03-31T12:00:00+02:00", "2019-03-31T10:00:00Z"),
    ],
)
def test_a_time_is_shown_as_people_write_it(value: Any, shown: str) -> None:
    times = Times.of([value])
    assert times.show(times.values[0]) == shown


def test_times_of_numpy_and_pandas_are_those_of_the_calendar() -> None:
    pandas = pytest.importorskip("pandas")
    days = ["2019-03-31", "2018-01-01"]
    expected = Times.of([datetime.fromisoformat(day) for day in days])
    for values in (np.array(days, "datetime64[D]"), pandas.Series(pandas.to_datetime(days))):
        times = Times.of(values)
        assert (times.kind, times.values.tolist()) == (expected.kind, expected.values.tolist())
    for missing in (np.datetime64("NaT"), pandas.NaT, pandas.NA):
        with pytest.raises(TimeError, match="missing"):
            Times.of([missing])
    assert Times.of(np.array([2019, 2018], np.int32)).values.tolist() == [2019, 2018]


@pytest.mark.parametrize(
    "value", [None, "", True, [2019], {"year": 2019}, float("nan"), "soon", "2019-02-30"]
)
def test_what_is_no_time_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(TimeError, match=r"times\[1\]: .*(missing|not a time)"):
        Times.of(["2019-01-01", value])


@pytest.mark.parametrize(
    ("first", "second"),
    [(2019, "2019-03-31"), ("2019-03", "2019-03-31"), ("2019-03-31", "2019-03-31T12:00")],
)
def test_times_of_different_kinds_are_refused_both_ways(first: Any, second: Any) -> None:
    for values in ([first, second], [second, first]):
        with pytest.raises(TimeError, match="write all of them alike"):
            Times.of(values)


def test_moments_with_and_without_a_zone_are_refused_together() -> None:
    with pytest.raises(TimeError, match="time zone"):
        Times.of(["2019-03-31T12:00:00Z", "2019-03-31T12:00:00"])


# --- files ---


def test_records_keep_their_times_in_every_format(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    days = [date(2019, 3, 31), date(2018, 1, 1), date(2020, 12, 31)]
    jsonl = records(tmp_path / "a.jsonl", [day.isoformat() for day in days])
    table = tmp_path / "a.csv"
    table.write_text("text,labels,date\n" + "".join(f"text {i},x,{day}\n" for i, day in enumerate(days)))
    columns = {"text": ["a", "b", "c"], "labels": [["x"]] * 3, "date": days}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    for path in (jsonl, table, tmp_path / "a.parquet"):
        times = read_part(path, None, time_field="date").times
        assert times is not None
        assert [times.show(value) for value in times.values] == [day.isoformat() for day in days]


@pytest.mark.parametrize(
    ("times", "line", "problem"),
    [
        (["2019-01-01", ...], 2, "the record has no 'date'"),
        (["2019-01-01", "2019-01-02", None], 3, "the date: it is missing"),
        (["2019-01-01", 2019], 2, "the date: 2019 is a number or year, but the first record"),
        (["2019-01-01", "yesterday"], 2, "the date: 'yesterday' is not a time"),
    ],
)
def test_a_record_without_a_sound_time_is_named(
    tmp_path: Path, times: list[Any], line: int, problem: str
) -> None:
    path = records(tmp_path / "a.jsonl", times)
    with pytest.raises(DataError) as error:
        read_part(path, None, time_field="date")
    assert str(error.value).startswith(f"{path}:{line}: {problem}")


def test_a_table_without_the_column_names_those_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,labels\na,x\n")
    with pytest.raises(DataError, match="no column 'year'; the columns are: text, labels"):
        read_part(path, None, time_field="year")


def test_data_without_fields_have_no_times(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 2 1\n0 0:1.0\n")
    with pytest.raises(DataError, match="no records with fields"):
        read_part(tmp_path, "train", time_field="year")


@pytest.mark.parametrize(
    ("times", "until", "kept"),
    [
        ([2019, 2021, 2020], "2020", [0, 2]),
        (["2019-12-31", "2021-01-01", "2020-12-31"], "2020", [0, 2]),
        (["2020-02-29", "2020-03-01"], "2020-02", [0]),
        (["2020-12-31", "2021-01-01"], "2020-12", [0]),
        (["2020-02-28T23:59:59", "2020-02-29T00:00"], "2020-02-28", [0]),
        (["2020-02-28T12:00", "2020-02-28T12:01"], "2020-02-28T12:00", [0]),
        (["2020-01", "2020-03"], "2020-02", [0]),
    ],
)
def test_until_leaves_out_what_is_later_and_includes_the_time_itself(
    tmp_path: Path, times: list[Any], until: str, kept: list[int]
) -> None:
    part = read_part(records(tmp_path / "a.jsonl", times), None, time_field="date", until=until)
    assert part.texts == [f"text {row}" for row in kept]
    assert part.label_names == [f"label {row}" for row in kept]  # no label that occurs later only
    assert part.later == len(times) - len(kept)


def test_until_before_all_records_is_refused(tmp_path: Path) -> None:
    path = records(tmp_path / "a.jsonl", [2019, 2020])
    with pytest.raises(DataError, match="all 2 records are later"):
        read_part(path, None, time_field="date", until="2018")


def test_until_needs_a_field_and_a_time_of_the_same_kind(tmp_path: Path) -> None:
    path = records(tmp_path / "a.jsonl", [2019, 2020])
    with pytest.raises(ValueError, match="needs time_field"):
        read_part(path, None, until="2018")
    with pytest.raises(ValueError, match="'soon' is not a time"):
        read_part(path, None, time_field="date", until="soon")
    with pytest.raises(DataError, match="write both alike"):
        read_part(path, None, time_field="date", until="2018-01-01")


def test_joined_files_have_the_labels_and_times_of_both(tmp_path: Path) -> None:
    parts = [
        read_part(records(tmp_path / name, times), None, time_field="date")
        for name, times in (("a.jsonl", ["2019-01-01"]), ("b.jsonl", ["2018-01-01", "2020-01-01"]))
    ]
    joined = join_records(parts)
    assert joined.Y is not None
    assert joined.times is not None
    assert [joined.label_names[column] for column in joined.Y.indices] == ["label 0", "label 0", "label 1"]
    assert [joined.times.show(value) for value in joined.times.values] == [
        "2019-01-01",
        "2018-01-01",
        "2020-01-01",
    ]
    other = read_part(records(tmp_path / "c.jsonl", [2019]), None, time_field="date")
    with pytest.raises(TimeError, match="in one file"):
        join_records([*parts, other])


# --- periods ---


@given(st.lists(st.integers(2000, 2012), min_size=2, max_size=60), st.integers(2, 9))
def test_periods_hold_every_record_once_in_order_and_never_part_equal_times(
    years: list[int], number: int
) -> None:
    times = Times.of(years)
    if len(set(years)) < 2:
        with pytest.raises(TooFewPeriodsError):
            by_number(times, number, seed=0)
        return
    periods = by_number(times, number, seed=0)
    rows = np.concatenate([period.rows for period in periods])
    assert sorted(rows.tolist()) == list(range(len(years)))
    assert np.diff(np.array(years)[rows]).min() >= 0
    of_period = [{years[row] for row in period.rows} for period in periods]
    assert sum(map(len, of_period)) == len(set(years))
    assert 2 <= len(periods) <= number


def test_periods_by_number_are_of_equal_size_where_times_differ() -> None:
    sizes = [len(period.rows) for period in by_number(Times.of(range(100)), 6, seed=0)]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 6


@given(st.lists(DAYS, min_size=2, max_size=40), st.sampled_from(["year", "month"]))
def test_periods_by_calendar_are_its_years_and_months(days: list[date], unit: str) -> None:
    shown = [day.strftime("%Y-%m-%d")[: 4 if unit == "year" else 7] for day in days]
    if len(set(shown)) < 2:
        with pytest.raises(TooFewPeriodsError):
            by_calendar(Times.of(days), unit, seed=0)
        return
    found = {period.name: period.rows.tolist() for period in by_calendar(Times.of(days), unit, seed=0)}
    assert list(found) == sorted(set(shown))
    for name, rows in found.items():
        assert sorted(rows) == [row for row, own in enumerate(shown) if own == name]


def test_records_of_the_same_time_are_in_an_order_that_the_seed_draws() -> None:
    times = Times.of([2001] * 50 + [2002] * 50)
    first, again, other = (by_calendar(times, "year", seed)[0].rows.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(first) == list(range(50))
    assert first != sorted(first)


def test_numbers_that_are_no_years_have_no_calendar() -> None:
    with pytest.raises(TimeError, match="1577836800 is not a date, so it has no year"):
        by_calendar(Times.of([1577836800, 1577836801]), "year", seed=0)


def test_start_joins_all_that_ends_before() -> None:
    times = Times.of([f"{year}-06-15" for year in (2015, 2016, 2016, 2017, 2018)])
    periods = by_calendar(times, "year", seed=0)
    joined = joined_before(periods, times, "2017")
    assert [sorted(period.rows.tolist()) for period in joined] == [[0, 1, 2], [3], [4]]
    assert joined[0].name == "2015-06-15 to 2016-06-15"
    for start in ("2010", "2030", "2015-06-15"):
        with pytest.raises(TooFewPeriodsError, match="give another start"):
            joined_before(periods, times, start)
