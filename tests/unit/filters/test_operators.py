from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.filters.operators import Operator, build_predicate, parse_operator
from hedgerow.filters.values import MISSING
from tests.unit.generated import bounded

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)


def matches(operator: str, expected: Any, value: Any, now: datetime = NOW) -> bool:
    named = parse_operator(operator)
    assert named is not None
    return build_predicate(named, expected)(value, now)


# Filter value, property value, whether they match. Each case also tests the negation.
EQUAL: list[tuple[Any, Any, bool]] = [
    ("DE", "DE", True),
    ("DE", "de", True),
    ("ÄÖ", "äö", True),
    ("ΣΑΣ", "σας", True),
    ("DE", "FR", False),
    ("DE", " DE", False),
    ("", "", True),
    ("10", 10, True),
    (10, "10", True),
    (10, 10.0, False),
    (10.5, "10.5", True),
    ("null", None, True),
    ("", None, False),
    (["DE", "FR"], "fr", True),
    (["DE", "FR"], "US", False),
    ([10, "x"], "10", True),
    ([None], None, True),
    (["a", True], True, True),
    ("[1,2]", [1, 2], True),
    ([1, 2], [1, 2], False),
    ([[1, 2]], [1, 2], True),
    ('{"a":1}', {"a": 1}, True),
    # Booleans: true equals "true" in any case, and nothing else.
    (True, True, True),
    (True, "TRUE", True),
    ("True", True, True),
    ("true", "tRuE", True),
    (True, 1, False),
    (True, "1", False),
    (True, "yes", False),
    (True, None, False),
    (True, False, False),
    (False, False, True),
    (False, "false", True),
    (False, "anything", True),
    (False, 0, True),
    (False, None, True),
    (False, {}, True),
    (False, True, False),
    ("FALSE", "true", False),
    (["true"], True, True),
    (["false"], "x", True),
    ([True, "True"], "true", True),
]


@pytest.mark.parametrize(("expected", "value", "equal"), EQUAL)
def test_exact_and_is_not(expected: Any, value: Any, equal: bool) -> None:
    assert matches("exact", expected, value) is equal
    assert matches("is_not", expected, value) is not equal


@pytest.mark.parametrize(
    ("expected", "value", "equal"),
    [
        (["true", "false"], True, False),
        ([True, False], "other", True),
        (["true", "false"], "false", True),
        ([], True, True),
        ([], "x", False),
        (True, ["true", True], True),
        (True, ["true", "x"], False),
        (False, ["true"], False),
        (True, [], True),
    ],
)
def test_list_is_true_if_all_items_are(expected: Any, value: Any, equal: bool) -> None:
    """In filter and property alike: PostHog compares the truth values of whole lists."""
    assert matches("exact", expected, value) is equal
    assert matches("is_not", expected, value) is not equal


CONTAINED: list[tuple[Any, Any, bool]] = [
    ("ell", "Hello", True),
    ("ELL", "hello", True),
    ("", "hello", True),
    ("hello", "ell", False),
    ("é", "café", True),
    ("É", "café", False),
    ("STRASSE", "straße", False),
    (10, "x10", True),
    ("1", 210, True),
    ("rue", True, True),
    ("ul", None, True),
    ('"a"', ["a"], True),
    (True, "is TRUE", True),
    ("👩", "👩‍🚀", True),
]


@pytest.mark.parametrize(("expected", "value", "contained"), CONTAINED)
def test_contains_ignores_ascii_case(expected: Any, value: Any, contained: bool) -> None:
    assert matches("icontains", expected, value) is contained
    assert matches("not_icontains", expected, value) is not contained


@pytest.mark.parametrize(
    ("expected", "value", "contained"),
    [
        (["x", "ELL"], "hello", True),
        (["x", "y"], "hello", False),
        ([], "hello", False),
        (["x", 1], 210, True),
        ("ell", "hello", True),
    ],
)
def test_contains_multi_matches_any_item(expected: Any, value: Any, contained: bool) -> None:
    assert matches("icontains_multi", expected, value) is contained
    assert matches("not_icontains_multi", expected, value) is not contained


@pytest.mark.parametrize(
    ("expected", "value", "starts", "ends"),
    [
        ("he", "Hello", True, False),
        ("HE", "hello", True, False),
        ("LO", "hello", False, True),
        ("hello", "hello", True, True),
        ("", "hello", True, True),
        ("hello!", "hello", False, False),
        ("1", 101, True, True),
        ("tr", True, True, False),
        ("l", None, False, True),
        (10, "10 or 10", True, True),
    ],
)
def test_starts_and_ends_with_ignore_case(
    expected: Any, value: Any, starts: bool, ends: bool
) -> None:
    assert matches("starts_with", expected, value) is starts
    assert matches("not_starts_with", expected, value) is not starts
    assert matches("ends_with", expected, value) is ends
    assert matches("not_ends_with", expected, value) is not ends


@pytest.mark.parametrize(
    ("expected", "value", "starts", "ends"),
    [
        ("É", "été", False, False),
        ("É", "É", True, True),
        ("ß", "SS", False, False),
        (["he", "lo"], "hello", False, False),
        (["a"], ["a"], True, True),
    ],
)
def test_starts_and_ends_with_ignore_only_ascii_case(
    expected: Any, value: Any, starts: bool, ends: bool
) -> None:
    """Like `icontains`; a list is compared as its JSON text."""
    assert matches("starts_with", expected, value) is starts
    assert matches("ends_with", expected, value) is ends


def test_pattern_that_times_out_matches_neither_way() -> None:
    for operator in ("regex", "not_regex"):
        assert not matches(operator, r"(a+)+(?!c)$", "a" * 5_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("ell", "hello", True),
        ("ELL", "hello", False),
        ("^h", "hello", True),
        (r"^\d+$", 123, True),
        ("^true$", True, True),
        ("^null$", None, True),
        (r"^\[1,2\]$", [1, 2], True),
        (10, "x10", True),
        (r"foo(?!bar)", "foobaz", True),
        (r"foo(?!bar)", "foobar", False),
        ("x", "\ud800x", False),
    ],
)
def test_regex_searches_anywhere(pattern: Any, value: Any, found: bool) -> None:
    assert matches("regex", pattern, value) is found
    assert matches("not_regex", pattern, value) is not found


@pytest.mark.parametrize("value", ["(", "", None, 5, MISSING])
@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{2,1}", "x" * 10_001])
def test_invalid_pattern_matches_neither_way(pattern: str, value: Any) -> None:
    assert not matches("regex", pattern, value)
    assert not matches("not_regex", pattern, value)


@pytest.mark.parametrize(
    ("limit", "value", "order"),
    [
        (10, 9, -1),
        (10, 10, 0),
        (10, 11, 1),
        ("10", "9", -1),
        (10, "9.99", -1),
        ("9", 10, 1),
        (10, "1e1", 0),
        (-1, "-2", -1),
        (0.1, 0.1, 0),
        (0, -0.0, 0),
        (2**53, 2**53 + 2, 1),
    ],
)
def test_numbers_are_compared(limit: Any, value: Any, order: int) -> None:
    assert matches("gt", limit, value) is (order > 0)
    assert matches("gte", limit, value) is (order >= 0)
    assert matches("lt", limit, value) is (order < 0)
    assert matches("lte", limit, value) is (order <= 0)
    assert matches("min", limit, value) is (order >= 0)
    assert matches("max", limit, value) is (order <= 0)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (10, "ten"),
        (10, ""),
        (10, None),
        (10, True),
        (10, [11]),
        (10, {}),
        (10, "2026-01-01"),
        ("ten", 10),
        ("", 10),
        (True, 10),
        ([10], 10),
        ({}, 10),
        (10, 10**400),
    ],
)
@pytest.mark.parametrize("operator", ["gt", "gte", "lt", "lte", "min", "max"])
def test_comparison_without_a_number_never_matches(
    operator: str, expected: Any, value: Any
) -> None:
    assert not matches(operator, expected, value)


@pytest.mark.parametrize(
    ("value", "inside"),
    [(1, False), (2, True), ("3", True), (4.0, True), ("4.1", False), (-3, False)],
)
def test_between_includes_its_bounds(value: Any, inside: bool) -> None:
    assert matches("between", [2, "4"], value) is inside
    assert matches("not_between", [2, "4"], value) is not inside


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ([2, 4], "three"),
        ([2, 4], None),
        ([2, 4], True),
        ([4, 2], 3),
        ([4, 2], 5),
        ([2], 3),
        ([2, 3, 4], 3),
        ([2, "four"], 3),
        ("2,4", 3),
        (2, 3),
        ({}, 3),
    ],
)
def test_between_requires_numbers(expected: Any, value: Any) -> None:
    assert not matches("between", expected, value)
    assert not matches("not_between", expected, value)


def test_missing_property_is_not_between() -> None:
    assert not matches("between", [2, 4], MISSING)
    assert matches("not_between", [2, 4], MISSING)


@pytest.mark.parametrize("value", ["x", "", None, 0, False, [], {}])
def test_any_present_value_is_set(value: Any) -> None:
    for expected in (None, "is_set", False):
        assert matches("is_set", expected, value)
        assert not matches("is_not_set", expected, value)


def test_missing_property_is_not_set() -> None:
    for expected in (None, "is_not_set", True):
        assert not matches("is_set", expected, MISSING)
        assert matches("is_not_set", expected, MISSING)


TRUE_WHEN_MISSING = {
    "is_not",
    "not_icontains",
    "not_icontains_multi",
    "not_starts_with",
    "not_ends_with",
    "not_regex",
    "is_not_set",
}


@pytest.mark.parametrize("operator", sorted(set(Operator) - {"between", "not_between"}))
@pytest.mark.parametrize("expected", ["1.0", "x", "2024-01-01", "-7d", True, False, 5])
def test_missing_property_matches_only_negated_text_operators(
    operator: Operator, expected: Any
) -> None:
    assert matches(operator, expected, MISSING) is (operator in TRUE_WHEN_MISSING)


@pytest.mark.parametrize("operator", sorted(set(Operator) - {"is_set", "is_not_set"}))
@pytest.mark.parametrize("value", ["x", None, "null", 1, MISSING])
def test_filter_without_a_value_never_matches(operator: Operator, value: Any) -> None:
    assert not matches(operator, None, value)


@pytest.mark.parametrize(
    ("expected", "value", "order"),
    [
        ("2024-01-02", "2024-01-01", -1),
        ("2024-01-02", "2024-01-02T00:00:00Z", 0),
        ("2024-01-02", "2024-01-02T00:00:00.000001Z", 1),
        ("2024-01-01T12:00:00+02:00", "2024-01-01T10:00:00Z", 0),
        ("2024-01-01T12:00:00+02:00", "2024-01-01T11:00:00+01:00", 0),
        ("2024-01-01", 1704067200, 0),
        ("2024-01-01", "1704067199", -1),
        ("2024-01-01", 1704067200.5, 1),
        # Relative dates are in the past, with either sign.
        ("7d", "2026-03-24T11:59:59Z", -1),
        ("-7d", "2026-03-24T12:00:00Z", 0),
        ("7d", "2026-03-24T12:00:01Z", 1),
        ("1m", "2026-02-28T12:00:00Z", 0),
        ("1m", "2026-02-28T11:00:00Z", -1),
        ("-1y", "2025-03-31T12:00:00Z", 0),
        ("24h", "2026-03-30T12:00:00Z", 0),
        ("2w", "2026-03-17T12:00:00Z", 0),
    ],
)
def test_dates_are_compared_as_instants(expected: str, value: Any, order: int) -> None:
    assert matches("is_date_before", expected, value) is (order < 0)
    assert matches("is_date_exact", expected, value) is (order == 0)
    assert matches("is_date_after", expected, value) is (order > 0)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("2024-01-01", "soon"),
        ("2024-01-01", ""),
        ("2024-01-01", None),
        ("2024-01-01", True),
        ("2024-01-01", ["2024-01-01"]),
        ("2024-01-01", 1e30),
        ("soon", "2024-01-01"),
        ("2024-02-30", "2024-01-01"),
        ("10000d", "2024-01-01"),
        ("9999y", "2024-01-01"),
        ("7x", "2024-01-01"),
        (1704067200, "2024-01-01"),
        (["2024-01-01"], "2024-01-01"),
        (True, "2024-01-01"),
    ],
)
@pytest.mark.parametrize("operator", ["is_date_before", "is_date_exact", "is_date_after"])
def test_invalid_date_is_never_before_or_after(operator: str, expected: Any, value: Any) -> None:
    assert not matches(operator, expected, value)


def test_date_without_an_offset_is_in_the_project_timezone() -> None:
    after = build_predicate(Operator.IS_DATE_AFTER, "2024-07-01", BERLIN)
    assert after("2024-06-30T22:00:01Z", NOW)
    assert not after("2024-06-30T22:00:00Z", NOW)
    assert after("2024-07-01T00:00:01", NOW)
    assert not after(1719784800, NOW)


def test_relative_date_uses_local_time_of_the_project() -> None:
    """On 29 March 2026 in Berlin, `-1d` at noon is noon of the day before, 23 hours ago."""
    now = datetime(2026, 3, 29, 10, tzinfo=UTC)
    after = build_predicate(Operator.IS_DATE_AFTER, "1d", BERLIN)
    assert after("2026-03-28T11:00:01Z", now)
    assert not after("2026-03-28T11:00:00Z", now)


def test_ambiguous_local_time_is_the_first_occurrence() -> None:
    exact = build_predicate(Operator.IS_DATE_EXACT, "2026-10-25T02:30", BERLIN)
    assert exact("2026-10-25T00:30:00Z", NOW)
    assert not exact("2026-10-25T01:30:00Z", NOW)


def test_relative_date_moves_with_the_clock() -> None:
    after = build_predicate(Operator.IS_DATE_AFTER, "1h")
    assert after("2026-03-31T11:30:00Z", NOW)
    assert not after("2026-03-31T11:30:00Z", NOW.replace(hour=13))


@pytest.mark.parametrize(
    ("expected", "value", "order"),
    [
        ("1.2.3", "1.2.3", 0),
        ("1.2.3", "v1.2.3", 0),
        ("v1.2.3", " 1.2.3 ", 0),
        ("1.2", "1.2.0", 0),
        ("1", "1.0.0", 0),
        ("1.02.3", "1.2.03", 0),
        ("1.2.3", "1.2.10", 1),
        ("1.10.0", "1.9.9", -1),
        ("1.0.0", "1.0.0-rc.1", -1),
        ("1.0.0-alpha", "1.0.0-alpha.1", 1),
        ("1.0.0-alpha.9", "1.0.0-alpha.10", 1),
        ("1.0.0-1", "1.0.0-a", 1),
        ("2", 1.5, -1),
    ],
)
def test_versions_are_compared_by_semver(expected: str, value: Any, order: int) -> None:
    assert matches("semver_eq", expected, value) is (order == 0)
    assert matches("semver_neq", expected, value) is (order != 0)
    assert matches("semver_gt", expected, value) is (order > 0)
    assert matches("semver_gte", expected, value) is (order >= 0)
    assert matches("semver_lt", expected, value) is (order < 0)
    assert matches("semver_lte", expected, value) is (order <= 0)


@pytest.mark.parametrize(
    ("operator", "expected", "inside", "outside"),
    [
        ("semver_tilde", "1.2.3", ["1.2.3", "1.2.99"], ["1.2.2", "1.3.0", "2.0.0", "1.2.3-rc"]),
        ("semver_tilde", "1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
        ("semver_tilde", "0.0.1", ["0.0.1", "0.0.9"], ["0.0.0", "0.1.0"]),
        ("semver_caret", "1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0", "0.9.9"]),
        ("semver_caret", "0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0", "1.0.0"]),
        ("semver_caret", "0.0.3", ["0.0.3"], ["0.0.2", "0.0.4", "0.1.0"]),
        ("semver_caret", "0.0.0", ["0.0.0"], ["0.0.1"]),
        ("semver_wildcard", "1.*", ["1.0.0", "1.99.99"], ["0.9.9", "2.0.0"]),
        ("semver_wildcard", "v1.2.*", ["1.2.0", "1.2.99"], ["1.1.9", "1.3.0"]),
        ("semver_wildcard", " 01.* ", ["1.5"], ["2"]),
        ("semver_wildcard", "*", ["0.0.0", "99.1.2"], ["x", ""]),
        ("semver_wildcard", "1.*.3", [], ["1.2.3", "1.*.3", "1.0.0"]),
        ("semver_wildcard", "*.2", [], ["1.2.0", "0.2.0"]),
        ("semver_wildcard", "", [], ["1.0.0"]),
        ("semver_wildcard", ".*", [], ["1.0.0"]),
    ],
)
def test_version_ranges(
    operator: str, expected: str, inside: list[str], outside: list[str]
) -> None:
    assert [value for value in inside + outside if matches(operator, expected, value)] == inside


@pytest.mark.parametrize(
    ("operator", "expected", "value"),
    [
        ("semver_tilde", "1.2.3", "1.3.0-alpha"),
        ("semver_tilde", "1.2.3", "1.2.4-alpha"),
        ("semver_caret", "1.2.3", "2.0.0-rc.1"),
        ("semver_caret", "0.0.3", "0.0.4-rc.1"),
        ("semver_wildcard", "1.*", "2.0.0-rc.1"),
        ("semver_wildcard", "1.2.*", "1.3.0-0"),
    ],
)
def test_pre_release_of_the_next_version_is_out_of_range(
    operator: str, expected: str, value: str
) -> None:
    assert not matches(operator, expected, value)


def test_pre_release_is_in_a_range_that_starts_with_one_of_its_version() -> None:
    assert matches("semver_caret", "1.2.3-beta", "1.2.3-rc")
    assert not matches("semver_caret", "1.2.3-beta", "1.2.3-alpha")


def test_repeated_wildcards_equal_one() -> None:
    assert matches("semver_wildcard", "1.*.*", "1.5.0")
    assert not matches("semver_wildcard", "1.*.*", "2.0.0")


SEMVER = sorted(operator for operator in Operator if operator.startswith("semver"))


@pytest.mark.parametrize("operator", SEMVER)
@pytest.mark.parametrize("value", ["x", "", "1.2.x", None, True, [], {}, MISSING])
def test_invalid_version_never_matches(operator: str, value: Any) -> None:
    expected = "1.*" if operator == "semver_wildcard" else "1.0.0"
    assert not matches(operator, expected, value)


@pytest.mark.parametrize("operator", SEMVER)
@pytest.mark.parametrize("expected", ["x", "", "1.2.x", True, [], {}, ["1.0.0"]])
def test_version_operator_without_a_version_never_matches(operator: str, expected: Any) -> None:
    assert not matches(operator, expected, "1.0.0")


@pytest.mark.parametrize("name", [*Operator, "min", "max"])
def test_every_operator_is_parsed_by_name(name: str) -> None:
    assert parse_operator(name) is not None


def test_missing_operator_is_exact() -> None:
    assert parse_operator(None) is Operator.EXACT


@pytest.mark.parametrize("name", ["EXACT", "in", "not_in", "flag_evaluates_to", 5, [], {}, True])
def test_unknown_names_are_not_operators(name: Any) -> None:
    assert parse_operator(name) is None


@given(st.sampled_from(Operator), anything, anything | st.just(MISSING))
@bounded
def test_no_operator_raises_for_any_value(operator: Operator, expected: Any, value: Any) -> None:
    assert build_predicate(operator, expected)(value, NOW) in (True, False)


NEGATIONS = [
    ("exact", "is_not"),
    ("icontains", "not_icontains"),
    ("icontains_multi", "not_icontains_multi"),
    ("starts_with", "not_starts_with"),
    ("ends_with", "not_ends_with"),
    ("is_set", "is_not_set"),
]


@given(
    st.sampled_from(NEGATIONS),
    anything.filter(lambda value: value is not None),
    anything | st.just(MISSING),
)
@bounded
def test_negation_inverts_the_result(names: tuple[str, str], expected: Any, value: Any) -> None:
    operator, negation = names
    assert matches(operator, expected, value) is not matches(negation, expected, value)


@pytest.mark.parametrize("operator", [Operator.GT, Operator.BETWEEN, Operator.IS_DATE_BEFORE])
def test_a_text_with_thousands_of_digits_is_no_number(operator: Operator) -> None:
    expected: Any = [1, 2] if operator is Operator.BETWEEN else "1"
    expected = "2026-01-01" if operator is Operator.IS_DATE_BEFORE else expected
    assert (
        build_predicate(operator, expected)("1" * 10_000, datetime(2026, 1, 1, tzinfo=UTC)) is False
    )
