"""Every filter operator gives the same result in the event store and in Python."""

import math
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hedgerow.events.filters.conditions import (
    build_condition,
    build_flag_condition,
    validate_operator,
)
from hedgerow.filters.operators import Operator, build_predicate, parse_operator
from hedgerow.filters.values import MISSING, as_text
from hedgerow.hogql.builders import field
from tests.contract.events.matching import (
    NOW,
    PROJECT,
    EventMatcher,
    build_query_context,
    event,
    open_world,
)

ZONE = ZoneInfo(PROJECT.timezone)
VALUES: list[Any] = [
    "Pro",
    "pro",
    "PRO plan",
    "",
    "true",
    "TRUE",
    "false",
    True,
    False,
    0,
    1,
    5,
    -3,
    1.5,
    123456789012345678,
    "5",
    "05",
    "5.5",
    "-3",
    "1e3",
    "+7",
    ".5",
    "5.",
    "abc",
    "5x",
    "Ärger",
    "ärger",
    'a"b\\c',
    "line\nbreak",
    "50%",
    "a_b",
    "a.b",
    "🌿",
    "nul",
    "inf",
    "nan",
    [1, "a"],
    [],
    {"a": [1, {"b": None}]},
    {},
    None,
    MISSING,
    "2026-01-02",
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05+02:00",
    "2026-01-02 03:04:05",
    "2026/01/02",
    1767323045,
    "1767323045",
    "2026-03-29T10:20:30Z",
    "2026-03-30T09:00:00Z",
    "1.2.3",
    "v1.2.4",
    "1.2",
    "1",
    "1.2.3-rc.1",
    "1.2.3-rc.2",
    "1.2.3-rc",
    "1.2.3-1",
    "1.3.0-beta",
    "2.0.0+build.5",
    "0.2.5",
    "0.0.3",
    "1.2.3.4",
    "1.2.3-",
]
TEXTS: list[Any] = [
    "pro",
    "Pro",
    "",
    "a",
    "ÄRGER",
    "ärger",
    '"',
    "\\",
    "%",
    "_",
    ".",
    "🌿",
    "\n",
    5,
    "5",
    1.5,
    True,
]
OPERANDS: dict[str, list[Any]] = {
    "exact": [
        *TEXTS,
        "true",
        "false",
        False,
        1e20,
        [],
        ["pro", 5, "abc"],
        [True, False],
        [1, "a"],
        {"a": [1, {"b": None}]},
    ],
    "is_not": [*TEXTS, "true", [], ["pro", 5, "abc"]],
    "icontains": [text for text in TEXTS if isinstance(text, str)] + [["pro", "x"]],
    "not_icontains": ["pro", "a", ["pro", "x"]],
    "icontains_multi": [["pro", "x"]],
    "not_icontains_multi": [["pro", "x"]],
    "starts_with": ["pro", "", "ä", "a"],
    "not_starts_with": ["pro", "ä"],
    "ends_with": ["o", "plan", "é", "er"],
    "not_ends_with": ["o"],
    "regex": [
        "^pro$",
        "(?i)^PRO",
        "a.b",
        "line.break",
        "line(?s).break",
        r"^\d+$",
        "🌿|%",
        "",
        ["^a", "^5"],
        r"[\\\"]",
        "^$",
    ],
    "not_regex": ["^pro$", r"^\d+$"],
    "gt": [0, 1, 1.5, "5", -3, 1e20],
    "gte": [5, "1.5"],
    "lt": [1, "0", 1e3],
    "lte": [1, -3],
    "min": [5],
    "max": [1],
    "between": [[0, 5], [5, 5], ["-3", 1]],
    "not_between": [[0, 5]],
    "is_set": [None],
    "is_not_set": [None],
    "is_date_exact": ["2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02T01:04:05Z"],
    "is_date_before": ["2026-01-02T03:04:05Z", "-1d", "1d", "-1h", "1767323045"],
    "is_date_after": ["2026-01-02", "-1d", "-1y", "2026-01-02T03:04:05+02:00"],
    "semver_eq": ["1.2.3", "v1.2", "1.2.3-rc.1"],
    "semver_neq": ["1.2.3"],
    "semver_gt": ["1.2.3-rc.1", "1.2", "1.2.3-1"],
    "semver_gte": ["1.2.3"],
    "semver_lt": ["1.2.3", "1.2.3-rc"],
    "semver_lte": ["1.2.3-rc.2"],
    "semver_tilde": ["1.2.3", "1.2.3-rc.1", "0.0.1"],
    "semver_caret": ["1.2.3", "0.2.3", "0.0.3", "1.2.3-rc"],
    "semver_wildcard": ["1.*", "1.2.*", "*", "0.*"],
}


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventMatcher]:
    stored = [
        event(number, {} if value is MISSING else {"key": value})
        for number, value in enumerate(VALUES)
    ]
    with open_world(tmp_path_factory.mktemp("operators"), stored) as events:
        yield EventMatcher(events)


def test_every_operator_is_covered() -> None:
    assert {parse_operator(name) for name in OPERANDS} == set(Operator)


@pytest.mark.parametrize("name", OPERANDS)
async def test_the_event_store_agrees_with_python(name: str, matcher: EventMatcher) -> None:
    for operand in OPERANDS[name]:
        operator = validate_operator({"operator": name, "value": operand}, "properties[0]")
        condition = build_condition(
            field("properties", "key"), operator, operand, build_query_context().time
        )
        expected = [
            n for n, value in enumerate(VALUES) if matches_in_python(operator, operand, value)
        ]
        assert select_values(await matcher.find_numbers(condition)) == select_values(expected), (
            operand
        )


@pytest.mark.parametrize("name", [n for n in OPERANDS if n not in ("is_set", "is_not_set")])
async def test_cohort_conditions_agree_with_flags(name: str, matcher: EventMatcher) -> None:
    for operand in OPERANDS[name]:
        if operand == [] or (isinstance(operand, list) and name in ONE_VALUE):
            continue  # not valid in a cohort
        operator = parse_operator(name)
        assert operator is not None
        condition = build_flag_condition(
            field("properties", "key"), operator, operand, build_query_context().time
        )
        matches = build_predicate(operator, operand, ZONE)
        expected = [n for n, value in enumerate(VALUES) if matches(normalize_null(value), NOW)]
        found = select_values(await matcher.find_numbers(condition))
        # In flags, an empty list matches.
        assert [v for v in found if v != []] == [v for v in select_values(expected) if v != []], (
            operand
        )


ONE_VALUE = ("icontains", "not_icontains", "regex", "not_regex")


def select_values(numbers: list[int]) -> list[Any]:
    return [VALUES[number] for number in numbers]


def normalize_null(value: Any) -> Any:
    """The event store treats null as missing."""
    return MISSING if value is None else value


def matches_in_python(operator: Operator, operand: Any, value: Any) -> bool:
    value = normalize_null(value)
    if operand == []:
        return True
    if operator in (Operator.EXACT, Operator.IS_NOT):
        options = operand if isinstance(operand, list) else [operand]
        same = value is not MISSING and any(
            convert_to_text(value) == convert_to_text(each) for each in options
        )
        return same is (operator is Operator.EXACT)
    several = isinstance(operand, list) and "between" not in operator and "multi" not in operator
    answers = [
        build_predicate(operator, each, ZONE)(value, NOW)
        for each in (operand if several else [operand])
    ]
    return all(answers) if "not" in operator else any(answers)


def convert_to_text(value: Any) -> str:
    is_whole = isinstance(value, float) and math.isfinite(value) and value.is_integer()
    return str(int(value)) if is_whole else as_text(value)
