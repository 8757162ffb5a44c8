"""Validate filters on properties. Invalid names the path."""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, NoReturn

from hedgerow.errors import Invalid
from hedgerow.filters.operators import Operator, parse_operator, wildcard_numbers
from hedgerow.filters.patterns import BadPattern, compile_search
from hedgerow.filters.values import as_version
from hedgerow.lib.dates import is_relative_date, parse_property_date
from hedgerow.lib.text import parse_number, truncate

TEXT_OPERATORS = frozenset(
    {Operator.ICONTAINS, Operator.NOT_ICONTAINS, Operator.REGEX, Operator.NOT_REGEX}
)
NUMBER_OPERATORS = frozenset({Operator.GT, Operator.GTE, Operator.LT, Operator.LTE})
LIST_OPERATORS = frozenset({Operator.ICONTAINS_MULTI, Operator.NOT_ICONTAINS_MULTI})
RANGE_OPERATORS = frozenset({Operator.BETWEEN, Operator.NOT_BETWEEN})
PATTERN_OPERATORS = frozenset({Operator.REGEX, Operator.NOT_REGEX})
# Of a flag or a cohort. Compiling one takes up to 3 ms.
MAX_PATTERNS = 200
# For cohorts and flags only.
OTHER_OPERATORS = ("in", "not_in", "flag_evaluates_to")


def check_property_filter(filter: Mapping[str, Any], place: str) -> None:
    """Check the operator and the value of a filter on a person or group property."""
    name = filter.get("operator")
    operator = parse_operator(name)
    if operator is None:
        code = "unsupported_operator" if name in OTHER_OPERATORS else ""
        detail = f'"{truncate(name)}" is no operator for a property.'
        raise_invalid(f"{place}.operator", detail, code or "invalid_operator")
    if operator not in (Operator.IS_SET, Operator.IS_NOT_SET):
        _check_value(operator, filter.get("value"), f"{place}.value")


def is_pattern(filter: Any) -> bool:
    """Whether a filter has a regular expression."""
    return isinstance(filter, Mapping) and filter.get("operator") in ("regex", "not_regex")


def collect_patterns(definition: Any) -> list[str]:
    """Return the regular expressions of a definition, as many as it may have."""
    found: list[str] = []
    waiting = [definition]
    while waiting and len(found) < MAX_PATTERNS:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
            if is_pattern(value) and isinstance(value.get("value"), str):
                found.append(value["value"])
    return found


def check_patterns(patterns: Iterable[str]) -> int:
    """Return how many are no regular expressions. Later uses find the others compiled."""
    return sum(bool(_find_pattern_problem(each)) for each in patterns)


def check_pattern_count(count: int, place: str) -> None:
    if count > MAX_PATTERNS:
        raise_invalid(place, f"Expected at most {MAX_PATTERNS} regular expressions.", "max_length")


def _check_value(operator: Operator, value: Any, place: str) -> None:
    if value is None:
        raise_invalid(place, "This field is required.", "required")
    problem = _find_problem(operator, value)
    if problem:
        code = "invalid_date" if operator.startswith("is_date") else "invalid_value"
        raise_invalid(place, problem, code)


def _find_problem(operator: Operator, value: Any) -> str:
    """Why an operator cannot compare with a value; "" if it can."""
    if operator in TEXT_OPERATORS and not isinstance(value, str):
        return "A text is required."
    if operator in PATTERN_OPERATORS:
        return _find_pattern_problem(value)
    if operator in NUMBER_OPERATORS and parse_number(value) is None:
        return "A number is required."
    if operator in LIST_OPERATORS and not (isinstance(value, list) and value):
        return "Expected a list of strings."
    if operator in RANGE_OPERATORS and not (
        isinstance(value, list) and len(value) == 2 and None not in map(parse_number, value)
    ):
        return "A list of two numbers is required."
    if operator.startswith("is_date"):
        is_date = isinstance(value, str) and (
            is_relative_date(value) or parse_property_date(value, UTC) is not None
        )
        return "" if is_date else "A date is required, or a time ago such as -7d."
    if operator.startswith("semver") and not _is_version(operator, value):
        return "A semantic version such as 1.2.3 is required."
    return ""


def _find_pattern_problem(pattern: str) -> str:
    try:
        compile_search(pattern)
    except BadPattern as error:
        return f"This is no regular expression: {truncate(error)}."
    return ""


def _is_version(operator: Operator, value: Any) -> bool:
    if operator is not Operator.SEMVER_WILDCARD:
        return as_version(value) is not None
    return wildcard_numbers(str(value)) is not None


def raise_invalid(place: str, detail: str, code: str = "invalid_input") -> NoReturn:
    raise Invalid(detail, attr=place, code=code)
