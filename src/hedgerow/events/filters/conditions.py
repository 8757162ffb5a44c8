"""The operator table of filters, as HogQL conditions.

A property is text, as in `filters.values.as_text`, and null if missing. Every condition is true or
false, never null.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from hedgerow.events.filters.semver import build_version_condition
from hedgerow.filters.operators import Operator, parse_operator
from hedgerow.filters.patterns import is_linear
from hedgerow.filters.validate import (
    LIST_OPERATORS,
    RANGE_OPERATORS,
    check_property_filter,
    raise_invalid,
)
from hedgerow.filters.values import as_text
from hedgerow.hogql.ast import Compare, Expr
from hedgerow.hogql.builders import (
    TRUE,
    all_of,
    any_of,
    call,
    compare,
    constant,
    false_if_null,
    in_list,
    negate,
)
from hedgerow.hogql.printer.conversions import DECIMAL_NUMBER
from hedgerow.lib.dates import parse_property_date, parse_relative_date
from hedgerow.lib.text import parse_number
from hedgerow.projects.model import WeekStart

# Seconds from 1970 to the year 10000, the end of the calendar.
MAX_EPOCH_SECONDS = 253_402_300_800.0
# Larger numbers have no unique text form.
MAX_PLAIN_INTEGER = 10**15

# Other names of operators in event filters.
_ALIASES = {"in": "exact", "not_in": "is_not", "is_cleaned_path_exact": "exact"}
_POSITIVE_OPERATORS = {
    Operator.IS_NOT: Operator.EXACT,
    Operator.NOT_ICONTAINS: Operator.ICONTAINS,
    Operator.NOT_ICONTAINS_MULTI: Operator.ICONTAINS_MULTI,
    Operator.NOT_STARTS_WITH: Operator.STARTS_WITH,
    Operator.NOT_ENDS_WITH: Operator.ENDS_WITH,
    Operator.NOT_REGEX: Operator.REGEX,
    Operator.IS_NOT_SET: Operator.IS_SET,
}
_COMPARISONS = {
    Operator.GT: Compare.GT,
    Operator.GTE: Compare.GT_EQ,
    Operator.LT: Compare.LT,
    Operator.LTE: Compare.LT_EQ,
}
_DATE_COMPARISONS = {
    Operator.IS_DATE_EXACT: Compare.EQ,
    Operator.IS_DATE_BEFORE: Compare.LT,
    Operator.IS_DATE_AFTER: Compare.GT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTime:
    """The current time, and the project's time zone and weeks, for relative dates."""

    now: datetime
    zone: tzinfo
    week_start: WeekStart = WeekStart.SUNDAY


def validate_operator(filter: Mapping[str, Any], attr: str) -> Operator:
    """Return the operator of a property filter. Raises Invalid for one that is not supported. An
    operator with one value also accepts a list."""
    name = filter.get("operator")
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    operator, value = parse_operator(name), filter.get("value")
    is_list = isinstance(value, list) and operator not in (*RANGE_OPERATORS, *LIST_OPERATORS)
    for each in (value or [""]) if is_list and isinstance(value, list) else [value]:
        check_property_filter({"operator": name, "value": each}, attr)
        if operator in (Operator.REGEX, Operator.NOT_REGEX) and not is_linear(str(each)):
            detail = "Lookaround and backreferences are not supported."
            raise_invalid(f"{attr}.value", detail, "invalid_value")
    assert operator is not None
    return operator


def build_condition(text: Expr, operator: Operator, value: Any, time: QueryTime) -> Expr:
    """Build the condition of an operator for a value that `filters/validate.py` accepted. Of
    is_list values one must match, or none for a negative operator."""
    if (opposite := _POSITIVE_OPERATORS.get(operator)) is not None:
        if value == []:
            return TRUE
        return negate(build_condition(text, opposite, value, time))
    if operator is Operator.IS_SET:
        return call("isNotNull", text)
    if operator in (Operator.BETWEEN, Operator.NOT_BETWEEN):
        return _build_between(text, operator, value)
    options = value if isinstance(value, list) else [value]
    if not options:
        return TRUE
    if operator is Operator.EXACT:
        return _build_exact(text, options)
    return any_of([false_if_null(_dispatch(text, operator, option, time)) for option in options])


def build_flag_condition(text: Expr, operator: Operator, value: Any, time: QueryTime) -> Expr:
    """Build the condition as feature flags evaluate it: `exact` ignores case, and booleans compare
    as true or not true."""
    if operator is Operator.IS_NOT:
        return negate(build_flag_condition(text, Operator.EXACT, value, time))
    if operator is not Operator.EXACT:
        return build_condition(text, operator, value, time)
    options = value if isinstance(value, list) else [value]
    lowered = call("lowerUTF8", text)
    texts = [as_text(option).lower() for option in options]
    if any(each not in ("true", "false") for each in texts):
        return false_if_null(_build_exact(lowered, [_lower(option) for option in options]))
    is_true = false_if_null(in_list(lowered, ["true"]))
    wants_true = "false" not in texts
    return all_of([call("isNotNull", text), is_true if wants_true else negate(is_true)])


def _lower(option: Any) -> Any:
    return option.lower() if isinstance(option, str) else option


def _build_exact(text: Expr, options: Sequence[Any]) -> Expr:
    texts = [_format_number(each) if isinstance(each, float) else as_text(each) for each in options]
    plain = [each for each in texts if each is not None]
    numbers = [each for each, shown in zip(options, texts, strict=True) if shown is None]
    parts: list[Expr] = [false_if_null(in_list(text, plain))] if plain else []
    parts += [
        false_if_null(compare(_to_number(text), Compare.EQ, constant(each))) for each in numbers
    ]
    return any_of(parts)


def _format_number(number: float) -> str | None:
    """Format a number as the event store does. Returns None where the formats may differ."""
    return str(int(number)) if number.is_integer() and abs(number) < MAX_PLAIN_INTEGER else None


def _to_number(text: Expr) -> Expr:
    """Convert text to a number, null if it is not one."""
    return call("_toNumber", text)


def _build_between(text: Expr, operator: Operator, value: Any) -> Expr:
    low, high = (parse_number(each) for each in value)
    number = _to_number(text)
    inside = all_of(
        [
            compare(number, Compare.GT_EQ, constant(low)),
            compare(number, Compare.LT_EQ, constant(high)),
        ]
    )
    if operator is Operator.BETWEEN:
        return false_if_null(inside)
    is_other_number = all_of([call("isNotNull", number), negate(false_if_null(inside))])
    return any_of([call("isNull", text), false_if_null(is_other_number)])


def _dispatch(text: Expr, operator: Operator, value: Any, time: QueryTime) -> Expr:
    for operators, build in _BUILDERS:
        if operator in operators:
            return build(text, operator, value, time)
    return build_version_condition(text, operator, value)


def _build_contains(text: Expr, _: Operator, value: Any, __: QueryTime) -> Expr:
    part = constant(as_text(value))
    return compare(call("positionCaseInsensitive", text, part), Compare.GT, constant(0))


def _build_edge(text: Expr, operator: Operator, value: Any, _: QueryTime) -> Expr:
    """Match the start of the text, or of the reversed text for `ends_with`."""
    edge: Expr = constant(as_text(value))
    if operator is Operator.ENDS_WITH:
        text, edge = call("reverse", text), call("reverse", edge)
    return compare(call("positionCaseInsensitive", text, edge), Compare.EQ, constant(1))


def _build_regex(text: Expr, _: Operator, value: Any, __: QueryTime) -> Expr:
    # In ClickHouse a dot matches line breaks, unless the flag s is off.
    return call("match", text, constant(f"(?-s){as_text(value)}"))


def _build_comparison(text: Expr, operator: Operator, value: Any, _: QueryTime) -> Expr:
    return compare(_to_number(text), _COMPARISONS[operator], constant(parse_number(value)))


def _build_date(text: Expr, operator: Operator, value: Any, time: QueryTime) -> Expr:
    """Compare dates. A number is seconds since 1970."""
    op, moment = _DATE_COMPARISONS[operator], resolve_date(value, time)
    seconds = call("toFloat", text)
    of_number = [
        compare(seconds, op, constant(moment.timestamp())),
        compare(call("abs", seconds), Compare.LT, constant(MAX_EPOCH_SECONDS)),
    ]
    return call(
        "if",
        call("match", text, constant(DECIMAL_NUMBER)),
        false_if_null(all_of(of_number)),
        false_if_null(compare(call("toDateTime", text), op, constant(moment))),
    )


def build_date_condition(column: Expr, operator: Operator, value: Any, time: QueryTime) -> Expr:
    """Compare a time column."""
    return compare(column, _DATE_COMPARISONS[operator], constant(resolve_date(value, time)))


def resolve_date(value: str, time: QueryTime) -> datetime:
    moment = parse_relative_date(value, time.now.astimezone(time.zone)) or parse_property_date(
        value, time.zone
    )
    assert moment is not None  # filters/validate.py has read it
    return moment.astimezone(UTC)


_Builder = Callable[[Expr, Operator, Any, QueryTime], Expr]
_BUILDERS: tuple[tuple[frozenset[Operator], _Builder], ...] = (
    (frozenset({Operator.ICONTAINS, Operator.ICONTAINS_MULTI}), _build_contains),
    (frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH}), _build_edge),
    (frozenset({Operator.REGEX}), _build_regex),
    (frozenset(_COMPARISONS), _build_comparison),
    (frozenset(_DATE_COMPARISONS), _build_date),
)
