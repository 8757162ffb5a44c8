"""The operator table once more, as questions to the event store: what a filter asks of a text.

A property is a text there, as in `properties.values.as_text`, and null where there is none. Every
condition is true or false and never null.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from hedgerow.events.expressions import (
    TRUE,
    all_of,
    among,
    any_of,
    call,
    compared,
    not_,
    surely,
    value,
)
from hedgerow.events.versions import version_condition
from hedgerow.filters.operators import Operator, operator_named
from hedgerow.filters.patterns import is_linear
from hedgerow.filters.rules import LIST_OPERATORS, RANGE_OPERATORS, check_property, refuse
from hedgerow.filters.values import as_moment, as_number, as_text, relative_moment
from hedgerow.hogql.ast import Compare, Expr

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# So many seconds from 1970 no calendar goes on.
SECONDS_MAX = 253_402_300_800.0
# Beyond it, a number has no text that all agree on.
PLAIN_MAX = 10**15

# An operator's other names, where filters on events may have them.
_MORE_NAMES = {"in": "exact", "not_in": "is_not", "is_cleaned_path_exact": "exact"}
_OPPOSITES = {
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
class Moment:
    """When and where a question is asked: relative dates need it."""

    now: datetime
    zone: tzinfo


def checked_operator(filter: Mapping[str, Any], place: str) -> Operator:
    """The operator of a filter on a property, or Invalid for one that cannot be asked. Where one
    value is possible, so are several."""
    name = filter.get("operator")
    name = _MORE_NAMES.get(name, name) if isinstance(name, str) else name
    operator, wanted = operator_named(name), filter.get("value")
    several = isinstance(wanted, list) and operator not in (*RANGE_OPERATORS, *LIST_OPERATORS)
    for each in (wanted or [""]) if several and isinstance(wanted, list) else [wanted]:
        check_property({"operator": name, "value": each}, place)
        if operator in (Operator.REGEX, Operator.NOT_REGEX) and not is_linear(str(each)):
            detail = "Look-around and back references are not possible here."
            refuse(f"{place}.value", detail, "invalid_value")
    assert operator is not None
    return operator


def condition(text: Expr, operator: Operator, wanted: Any, at: Moment) -> Expr:
    """What the operator asks, of a value that filters/rules.py let pass. Of several values one
    must do, or none where the operator says not."""
    if (opposite := _OPPOSITES.get(operator)) is not None:
        if wanted == []:
            return TRUE
        return not_(condition(text, opposite, wanted, at))
    if operator is Operator.IS_SET:
        return call("isNotNull", text)
    if operator in (Operator.BETWEEN, Operator.NOT_BETWEEN):
        return _between(text, operator, wanted)
    options = wanted if isinstance(wanted, list) else [wanted]
    if not options:
        return TRUE
    if operator is Operator.EXACT:
        return _exact(text, options)
    return any_of([surely(_asked(text, operator, option, at)) for option in options])


def folded_condition(text: Expr, operator: Operator, wanted: Any, at: Moment) -> Expr:
    """The same as flags ask it: upper and lower case are alike to `exact`, and whatever is not true
    is false."""
    if operator is Operator.IS_NOT:
        return not_(folded_condition(text, Operator.EXACT, wanted, at))
    if operator is not Operator.EXACT:
        return condition(text, operator, wanted, at)
    options = wanted if isinstance(wanted, list) else [wanted]
    lowered = call("lowerUTF8", text)
    texts = [as_text(option).lower() for option in options]
    if any(each not in ("true", "false") for each in texts):
        return surely(_exact(lowered, [_lowered(option) for option in options]))
    is_true = surely(among(lowered, ["true"]))
    wants_true = "false" not in texts
    return all_of([call("isNotNull", text), is_true if wants_true else not_(is_true)])


def _lowered(option: Any) -> Any:
    return option.lower() if isinstance(option, str) else option


def _exact(text: Expr, options: Sequence[Any]) -> Expr:
    texts = [_number_text(each) if isinstance(each, float) else as_text(each) for each in options]
    plain = [each for each in texts if each is not None]
    numbers = [each for each, shown in zip(options, texts, strict=True) if shown is None]
    parts: list[Expr] = [surely(among(text, plain))] if plain else []
    parts += [surely(compared(_number(text), Compare.EQ, value(each))) for each in numbers]
    return any_of(parts)


def _number_text(number: float) -> str | None:
    """As the engine writes it; None where that is not sure."""
    return str(int(number)) if number.is_integer() and abs(number) < PLAIN_MAX else None


def _number(text: Expr) -> Expr:
    """Null for what is no number."""
    return call("if", call("match", text, value(NUMBER)), call("toFloat", text), value(None))


def _between(text: Expr, operator: Operator, wanted: Any) -> Expr:
    low, high = (as_number(each) for each in wanted)
    number = _number(text)
    inside = all_of(
        [
            compared(number, Compare.GT_EQ, value(low)),
            compared(number, Compare.LT_EQ, value(high)),
        ]
    )
    if operator is Operator.BETWEEN:
        return surely(inside)
    is_other_number = all_of([call("isNotNull", number), not_(surely(inside))])
    return any_of([call("isNull", text), surely(is_other_number)])


def _asked(text: Expr, operator: Operator, wanted: Any, at: Moment) -> Expr:
    for operators, build in _BUILDERS:
        if operator in operators:
            return build(text, operator, wanted, at)
    return version_condition(text, operator, wanted)


def _containing(text: Expr, _: Operator, wanted: Any, __: Moment) -> Expr:
    part = value(as_text(wanted))
    return compared(call("positionCaseInsensitive", text, part), Compare.GT, value(0))


def _edge(text: Expr, operator: Operator, wanted: Any, _: Moment) -> Expr:
    """Found at the beginning, of what is reversed for the other end."""
    edge: Expr = value(as_text(wanted))
    if operator is Operator.ENDS_WITH:
        text, edge = call("reverse", text), call("reverse", edge)
    return compared(call("positionCaseInsensitive", text, edge), Compare.EQ, value(1))


def _pattern(text: Expr, _: Operator, wanted: Any, __: Moment) -> Expr:
    # To the engine a dot is also a line break, unless it is told otherwise.
    return call("match", text, value(f"(?-s){as_text(wanted)}"))


def _comparison(text: Expr, operator: Operator, wanted: Any, _: Moment) -> Expr:
    return compared(_number(text), _COMPARISONS[operator], value(as_number(wanted)))


def _date(text: Expr, operator: Operator, wanted: Any, at: Moment) -> Expr:
    """A number is seconds since 1970."""
    op, moment = _DATE_COMPARISONS[operator], asked_date(wanted, at)
    seconds = call("toFloat", text)
    of_number = [
        compared(seconds, op, value(moment.timestamp())),
        compared(call("abs", seconds), Compare.LT, value(SECONDS_MAX)),
    ]
    return call(
        "if",
        call("match", text, value(NUMBER)),
        surely(all_of(of_number)),
        surely(compared(call("toDateTime", text), op, value(moment))),
    )


def date_condition(column: Expr, operator: Operator, wanted: Any, at: Moment) -> Expr:
    """Of a column that holds moments."""
    return compared(column, _DATE_COMPARISONS[operator], value(asked_date(wanted, at)))


def asked_date(wanted: str, at: Moment) -> datetime:
    moment = relative_moment(wanted, at.now.astimezone(at.zone)) or as_moment(wanted, at.zone)
    assert moment is not None  # filters/rules.py has read it
    return moment.astimezone(UTC)


_Builder = Callable[[Expr, Operator, Any, Moment], Expr]
_BUILDERS: tuple[tuple[frozenset[Operator], _Builder], ...] = (
    (frozenset({Operator.ICONTAINS, Operator.ICONTAINS_MULTI}), _containing),
    (frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH}), _edge),
    (frozenset({Operator.REGEX}), _pattern),
    (frozenset(_COMPARISONS), _comparison),
    (frozenset(_DATE_COMPARISONS), _date),
)
