"""Validation of property filters: each operator requires a value that it can compare."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.filters.operators import ALIASES, Operator
from hedgerow.filters.validate import check_property_filter

GOOD: dict[str, list[Any]] = {
    "exact": ["a", "", 5, 1.5, True, False, ["a", 1], []],
    "is_not": ["a", ["a"], False],
    "icontains": ["a", ""],
    "not_icontains": ["a"],
    "icontains_multi": [["a", "b"]],
    "not_icontains_multi": [["a"]],
    "regex": ["^a+$", "", r"(?=look)ahead", "ü"],
    "not_regex": ["a|b"],
    "gt": [1, 1.5, "12", "-1.5"],
    "gte": [0],
    "lt": ["0"],
    "lte": [-5],
    "min": [5],
    "max": ["5"],
    "between": [[1, 2], ["1", 2.5]],
    "not_between": [[2, 1]],
    "is_date_before": ["2026-01-01", "-7d", "3h", "2026-01-01T10:00:00+02:00"],
    "is_date_after": ["1y"],
    "is_date_exact": ["2026-01-01"],
    "semver_eq": ["1.2.3", "v1", "1.2.3-beta.1"],
    "semver_tilde": ["1.2.3"],
    "semver_caret": ["0.0.3"],
    "semver_wildcard": ["1.*", "1.2.*", "*"],
    "is_set": [None, "anything"],
    "is_not_set": [None],
}
BAD: dict[str, list[Any]] = {
    "icontains": [5, True, ["a"], {}],
    "not_icontains": [5],
    "icontains_multi": ["a", [], {}, 5],
    "not_icontains_multi": ["a"],
    "regex": ["(", "[", "*a", 5, ["a"], {}],
    "not_regex": ["(?P<a", True],
    "gt": ["many", "", True, [1], {}],
    "lte": ["1,5"],
    "min": ["x"],
    "between": [[1], [1, 2, 3], "1,2", 5, [1, "x"], {}, [None, 1], [[1], 2]],
    "not_between": [[]],
    "semver_eq": ["one", "", [1], {}, "1.2.x"],
    "semver_wildcard": ["1.*.3", "", {}],
}
BAD_DATES = ["soon", "", 5, True, ["2026-01-01"], {}, "2026-13-01", "-99999d"]
PATH = "filters.groups[0].properties[1]"


def filter_error(**filter: Any) -> Invalid:
    with pytest.raises(Invalid) as caught:
        check_property_filter({"key": "k", **filter}, PATH)
    return caught.value


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(operator, value, id=f"{operator} {value!r}")
        for operator, values in table.items()
        for value in values
    ]


@pytest.mark.parametrize(("operator", "value"), cases(GOOD))
def test_valid_values_are_accepted(operator: str, value: Any) -> None:
    check_property_filter({"key": "k", "operator": operator, "value": value}, PATH)


@pytest.mark.parametrize(("operator", "value"), cases(BAD))
def test_invalid_values_are_refused(operator: str, value: Any) -> None:
    error = filter_error(operator=operator, value=value)
    assert (error.attr, error.code) == (f"{PATH}.value", "invalid_value")


@pytest.mark.parametrize("value", BAD_DATES, ids=repr)
def test_invalid_dates_are_refused(value: Any) -> None:
    error = filter_error(operator="is_date_before", value=value)
    assert (error.attr, error.code) == (f"{PATH}.value", "invalid_date")


@pytest.mark.parametrize("operator", [*Operator, *ALIASES], ids=str)
def test_every_operator_except_is_set_requires_a_value(operator: str) -> None:
    if operator in ("is_set", "is_not_set"):
        check_property_filter({"key": "k", "operator": operator}, PATH)
        return
    for filter in ({}, {"value": None}):
        error = filter_error(operator=operator, **filter)
        assert (error.attr, error.code) == (f"{PATH}.value", "required")


def test_missing_operator_is_exact() -> None:
    check_property_filter({"key": "k", "value": "a"}, PATH)
    check_property_filter({"key": "k", "value": "a", "operator": None}, PATH)
    assert filter_error().code == "required"


@pytest.mark.parametrize("operator", ["near", "", "EXACT", 5, True, ["exact"], {"a": 1}, 0])
def test_unknown_operator_is_refused(operator: Any) -> None:
    error = filter_error(operator=operator, value="a")
    assert (error.attr, error.code) == (f"{PATH}.operator", "invalid_operator")


@pytest.mark.parametrize("operator", ["in", "not_in", "flag_evaluates_to"])
def test_cohort_and_flag_operators_are_refused(operator: str) -> None:
    error = filter_error(operator=operator, value=1)
    assert (error.attr, error.code) == (f"{PATH}.operator", "unsupported_operator")


def test_error_message_truncates_the_operator() -> None:
    assert len(filter_error(operator="x" * 10_000, value=1).detail) < 200
