"""What a filter on a property may hold. Invalid names the place."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any, NoReturn

from hedgerow.errors import Invalid
from hedgerow.filters.operators import Operator, operator_named, wildcard_numbers
from hedgerow.filters.patterns import BadPattern, searcher
from hedgerow.filters.values import as_moment, as_number, as_version, is_relative_date
from hedgerow.lib.text import cut_short

TEXT_OPERATORS = frozenset(
    {Operator.ICONTAINS, Operator.NOT_ICONTAINS, Operator.REGEX, Operator.NOT_REGEX}
)
NUMBER_OPERATORS = frozenset({Operator.GT, Operator.GTE, Operator.LT, Operator.LTE})
LIST_OPERATORS = frozenset({Operator.ICONTAINS_MULTI, Operator.NOT_ICONTAINS_MULTI})
RANGE_OPERATORS = frozenset({Operator.BETWEEN, Operator.NOT_BETWEEN})
# For cohorts and flags only.
OTHER_OPERATORS = ("in", "not_in", "flag_evaluates_to")


def check_property(filter: Mapping[str, Any], place: str) -> None:
    """A filter on a property of a person or group: the operator and what it compares with."""
    name = filter.get("operator")
    operator = operator_named(name)
    if operator is None:
        code = "unsupported_operator" if name in OTHER_OPERATORS else ""
        detail = f'"{cut_short(name)}" is no operator for a property.'
        refuse(f"{place}.operator", detail, code or "invalid_operator")
    if operator not in (Operator.IS_SET, Operator.IS_NOT_SET):
        _check_value(operator, filter.get("value"), f"{place}.value")


def _check_value(operator: Operator, value: Any, place: str) -> None:
    if value is None:
        refuse(place, "This field is required.", "required")
    problem = _problem(operator, value)
    if problem:
        code = "invalid_date" if operator.startswith("is_date") else "invalid_value"
        refuse(place, problem, code)


def _problem(operator: Operator, value: Any) -> str:
    """Why an operator cannot compare with a value; "" if it can."""
    if operator in TEXT_OPERATORS and not isinstance(value, str):
        return "A text is required."
    if operator in (Operator.REGEX, Operator.NOT_REGEX):
        return _pattern_problem(value)
    if operator in NUMBER_OPERATORS and as_number(value) is None:
        return "A number is required."
    if operator in LIST_OPERATORS and not (isinstance(value, list) and value):
        return "A list of texts is required."
    if operator in RANGE_OPERATORS and not (
        isinstance(value, list) and len(value) == 2 and None not in map(as_number, value)
    ):
        return "A list of two numbers is required."
    if operator.startswith("is_date"):
        is_date = isinstance(value, str) and (
            is_relative_date(value) or as_moment(value, UTC) is not None
        )
        return "" if is_date else "A date is required, or a time ago such as -7d."
    if operator.startswith("semver") and not _is_version(operator, value):
        return "A semantic version such as 1.2.3 is required."
    return ""


def _pattern_problem(pattern: str) -> str:
    try:
        searcher(pattern)
    except BadPattern as error:
        return f"This is no regular expression: {cut_short(error)}."
    return ""


def _is_version(operator: Operator, value: Any) -> bool:
    if operator is not Operator.SEMVER_WILDCARD:
        return as_version(value) is not None
    return wildcard_numbers(str(value)) is not None


def refuse(place: str, detail: str, code: str = "invalid_input") -> NoReturn:
    raise Invalid(detail, attr=place, code=code)
