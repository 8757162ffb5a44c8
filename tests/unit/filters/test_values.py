from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.filters.values import (
    MISSING,
    TEXT_MAX,
    TOO_LONG,
    Version,
    as_text,
    as_version,
    bound_values,
)
from hedgerow.lib.dates import is_relative_date, parse_property_date, parse_relative_date
from hedgerow.lib.text import parse_number
from tests.unit.generated import bounded

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
ordinals = st.builds(
    Version,
    st.tuples(*[st.integers(0, 3)] * 3),
    st.lists(
        st.integers(0, 3).map(lambda number: (0, number, ""))
        | st.sampled_from(["a", "b"]).map(lambda text: (1, 0, text)),
        max_size=2,
    ).map(tuple),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ('"quoted"', '"quoted"'),
        (" spaced ", " spaced "),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (10, "10"),
        (10.5, "10.5"),
        (10.0, "10.0"),
        (1e16, "1e+16"),
        (-0.25, "-0.25"),
        ([1, "zwei", None], '[1,"zwei",null]'),
        ({"ключ": [True]}, '{"ключ":[true]}'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_values_are_text_or_compact_json(value: Any, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1e-7, "1e-7"), (1e-5, "0.00001"), (-2.5e-9, "-2.5e-9")]
)
def test_small_numbers_have_the_usual_json_notation(value: float, text: str) -> None:
    """Only Python pads the exponent with a zero."""
    assert as_text(value) == text


def test_order_of_object_keys_is_ignored() -> None:
    assert as_text({"b": 1, "a": {"d": 2, "c": 3}}) == as_text({"a": {"c": 3, "d": 2}, "b": 1})


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        ("3", 3.0),
        ("+3", 3.0),
        ("-3.5", -3.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("007", 7.0),
    ],
)
def test_numbers_and_numeric_text_are_parsed(value: Any, number: float) -> None:
    assert parse_number(value) == number


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "e5",
        " 3",
        "3 ",
        "3,5",
        "1_000",
        "0x10",
        "three",
        "nan",
        "inf",
        "٣",
        "1" * 1000,
        10**400,
        True,
        False,
        None,
        [3],
        {"a": 3},
        MISSING,
    ],
)
def test_other_values_are_not_numbers(value: Any) -> None:
    assert parse_number(value) is None


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1704067200, datetime(2024, 1, 1, tzinfo=UTC)),
        ("1704067200", datetime(2024, 1, 1, tzinfo=UTC)),
        ("1704067200.5", datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)),
        ("-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        (" 2024-01-01 ", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01 10:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01T10:00:00Z", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01T10:00:00+02:00", datetime(2024, 1, 1, 8, tzinfo=UTC)),
        ("2024-01-01T10:00:00.25-05:30", datetime(2024, 1, 1, 15, 30, 0, 250000, tzinfo=UTC)),
    ],
)
def test_unix_seconds_and_dates_are_parsed(value: Any, moment: datetime) -> None:
    assert parse_property_date(value, UTC) == moment


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2024-13-01",
        "2023-02-29",
        "2024-01-01T25:00",
        "7d",
        True,
        None,
        [],
        {},
        MISSING,
        1e30,
        "1e30",
        1700000000000,
        "2024-01-01" + " " * 100,
    ],
)
def test_other_values_are_not_dates(value: Any) -> None:
    assert parse_property_date(value, UTC) is None


def test_timezone_applies_only_without_an_offset() -> None:
    assert parse_property_date("2024-07-01T12:00", BERLIN) == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert parse_property_date("2024-01-01T12:00", BERLIN) == datetime(2024, 1, 1, 11, tzinfo=UTC)
    assert parse_property_date("2024-07-01T12:00Z", BERLIN) == datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert parse_property_date(0, BERLIN) == datetime(1970, 1, 1, tzinfo=UTC)


def test_ambiguous_local_time_is_the_first_occurrence() -> None:
    """On 25 October 2026, 02:30 occurs twice in Berlin; the first occurrence is used."""
    assert parse_property_date("2026-10-25T02:30", BERLIN) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


@given(anything)
@bounded
def test_parsing_never_raises(value: Any) -> None:
    as_text(value)
    parse_number(value)
    parse_property_date(value, UTC)
    as_version(value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0h", NOON),
        ("36h", datetime(2026, 3, 30, 0, tzinfo=UTC)),
        ("-36h", datetime(2026, 3, 30, 0, tzinfo=UTC)),
        ("7d", datetime(2026, 3, 24, 12, tzinfo=UTC)),
        ("2w", datetime(2026, 3, 17, 12, tzinfo=UTC)),
        ("1m", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("-1m", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("3m", datetime(2025, 12, 31, 12, tzinfo=UTC)),
        ("4m", datetime(2025, 11, 30, 12, tzinfo=UTC)),
        ("12m", datetime(2025, 3, 31, 12, tzinfo=UTC)),
        ("25m", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("1y", datetime(2025, 3, 31, 12, tzinfo=UTC)),
        ("2025y", datetime(1, 3, 31, 12, tzinfo=UTC)),
    ],
)
def test_relative_dates_are_in_the_past(text: str, moment: datetime) -> None:
    assert is_relative_date(text)
    assert parse_relative_date(text, NOON) == moment


def test_year_before_a_leap_day_is_the_28th() -> None:
    leap_day = datetime(2024, 2, 29, 12, tzinfo=UTC)
    assert parse_relative_date("1y", leap_day) == datetime(2023, 2, 28, 12, tzinfo=UTC)
    assert parse_relative_date("4y", leap_day) == datetime(2020, 2, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "d", "7", "7D", "+7d", "--7d", "7 d", "7d ", "7d\n", "1.5d", "7s", "7dd", "٧d"]
)
def test_other_text_is_not_a_relative_date(text: str) -> None:
    assert not is_relative_date(text)
    assert parse_relative_date(text, NOON) is None


@pytest.mark.parametrize("text", ["10000d", "99999h", "10000y", "9999y", "2026y", "9999w0"])
def test_relative_date_out_of_range_is_none(text: str) -> None:
    assert parse_relative_date(text, NOON) is None


def test_leading_zeros_are_ignored() -> None:
    assert parse_relative_date("00007d", NOON) == NOON - timedelta(days=7)


@pytest.mark.parametrize(
    ("text", "hour", "day"), [("12h", 0, 29), ("1d", 12, 28), ("1w", 12, 22), ("1m", 12, 28)]
)
def test_relative_dates_use_local_time(text: str, hour: int, day: int) -> None:
    """On 29 March 2026, Berlin skips the hour from 2 to 3: noon of 28 March is 23 hours ago."""
    now = datetime(2026, 3, 29, 12, tzinfo=BERLIN)
    moment = parse_relative_date(text, now)
    assert moment is not None
    assert (moment.hour, moment.day, moment.tzinfo) == (hour, day, BERLIN)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.2.3", (1, 2, 3)),
        ("v1.2.3", (1, 2, 3)),
        ("V1.2.3", (1, 2, 3)),
        ("  v1.2.3\n", (1, 2, 3)),
        ("1.2", (1, 2, 0)),
        ("1", (1, 0, 0)),
        ("0", (0, 0, 0)),
        ("01.002.0003", (1, 2, 3)),
        ("1.2.3+build.7", (1, 2, 3)),
        (2, (2, 0, 0)),
        (1.5, (1, 5, 0)),
    ],
)
def test_version_is_padded_and_trimmed(text: Any, numbers: tuple[int, int, int]) -> None:
    assert as_version(text) == Version(numbers)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "v",
        "vv1.2.3",
        "one",
        "1.",
        ".1",
        "1..2",
        "1.2.x",
        "1.*",
        "-1.2.3",
        "1.2.3-",
        "1.2.3+",
        "1.2.3 beta",
        "١.٢.٣",
        "9" * 40,
        True,
        None,
        [],
        {},
        -1,
    ],
)
def test_other_values_are_not_versions(value: Any) -> None:
    assert as_version(value) is None


@pytest.mark.parametrize("value", ["1.2.3-a..b", "1.2.3-.a", "1.2.3-a."])
def test_pre_release_with_an_empty_part_is_invalid(value: str) -> None:
    assert as_version(value) is None


PRECEDENCE = [
    "0.9.9",
    "1.0.0-0",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1-x",
    "1.0.1",
    "1.0.10",
    "1.1.0",
    "2.0.0",
    "10.0.0",
]


def test_versions_are_ordered_by_semver() -> None:
    versions = [as_version(text) for text in PRECEDENCE]
    for before, after in pairwise(versions):
        assert before is not None
        assert after is not None
        assert before < after
        assert after > before
        assert before <= after
        assert before != after


@given(ordinals, ordinals, ordinals)
@bounded
def test_order_of_versions_is_total(a: Version, b: Version, c: Version) -> None:
    assert [a < b, a == b, a > b].count(True) == 1
    if a <= b and b <= c:
        assert a <= c


def test_missing_is_neither_null_nor_true() -> None:
    assert MISSING is not None
    assert not MISSING
    assert repr(MISSING) == "MISSING"


@given(st.dictionaries(st.text(), anything))
@bounded
def test_comparable_values_are_parsed_unchanged(properties: dict[str, Any]) -> None:
    ready = bound_values(properties)
    assert ready.keys() == properties.keys()
    for key, value in properties.items():
        assert as_text(ready[key]) == as_text(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * (TEXT_MAX + 1),
        [1] * 400_000,
        {str(number): number for number in range(80_000)},
        [["x" * 1000] * 20],
    ],
)
def test_values_too_long_to_compare_are_marked(value: Any) -> None:
    assert bound_values({"a": value, "b": 1}) == {"a": TOO_LONG, "b": 1}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-01-01 10:00:00 UTC", datetime(2023, 1, 1, 10, tzinfo=UTC)),
        ("2023/01/31", datetime(2023, 1, 31, tzinfo=UTC)),
        ("2023/01/31 10:00:00", datetime(2023, 1, 31, 10, tzinfo=UTC)),
        ("Tue, 31 Jan 2023 10:00:00 +0100", datetime(2023, 1, 31, 9, tzinfo=UTC)),
        ("Tue, 31 Jan 2023 10:00:00 GMT", datetime(2023, 1, 31, 10, tzinfo=UTC)),
        ("soon", None),
    ],
)
def test_common_date_formats_are_parsed(text: str, moment: datetime | None) -> None:
    assert parse_property_date(text, UTC) == moment


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 1.5, "a", None, True], '[1,1.5,"a",null,true]'),
        ({"b": [1e-7], "a": "é"}, '{"a":"é","b":[1e-7]}'),
        ([1e-5, "1e-05"], '[0.00001,"1e-05"]'),
        ([1e22], "[1e+22]"),
        ([["x1e5"], {}], '[["x1e5"],{}]'),
    ],
)
def test_lists_and_objects_have_the_text_that_posthog_gives_them(value: Any, text: str) -> None:
    assert as_text(value) == text
    assert as_text(bound_values({"p": value})["p"]) == text
