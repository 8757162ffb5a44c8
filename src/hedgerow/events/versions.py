"""Semantic versions as the event store compares them: as tuples of what they are made of."""

from typing import Any

from hedgerow.events.expressions import all_of, any_of, call, equal, not_, value
from hedgerow.filters.operators import Operator, end_of_range, wildcard_numbers, wildcard_range
from hedgerow.filters.values import Version, as_version
from hedgerow.hogql.ast import Array, Expr, Field, Lambda, Tuple

_WHOLE = (
    r"^\s*[vV]?[0-9]{1,18}(\.[0-9]{1,18})?(\.[0-9]{1,18})?"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?\s*$"
)
_PARTS = (
    r"^\s*[vV]?([0-9]{1,18})",
    r"^\s*[vV]?[0-9]+\.([0-9]{1,18})",
    r"^\s*[vV]?[0-9]+\.[0-9]+\.([0-9]{1,18})",
)
_PRE = r"^[^+-]*-([0-9A-Za-z.-]+)"
_SIGNS = {
    Operator.SEMVER_EQ: "equals",
    Operator.SEMVER_NEQ: "notEquals",
    Operator.SEMVER_GT: "greater",
    Operator.SEMVER_GTE: "greaterOrEquals",
    Operator.SEMVER_LT: "less",
    Operator.SEMVER_LTE: "lessOrEquals",
}


def version_condition(text: Expr, operator: Operator, wanted: Any) -> Expr:
    is_version = call("match", text, value(_WHOLE))
    if operator in _SIGNS:
        limit = as_version(wanted)
        assert limit is not None  # filters/rules.py has read it
        return all_of([is_version, call(_SIGNS[operator], _of(text), _known(limit))])
    if operator is Operator.SEMVER_WILDCARD:
        numbers = wildcard_numbers(str(wanted))
        inside = _inside(text, *wildcard_range(numbers)) if numbers else not_(_is_pre(text))
    else:
        start = as_version(wanted)
        assert start is not None
        inside = _inside(text, start, end_of_range(operator, start.numbers))
    return all_of([is_version, inside])


def _inside(text: Expr, start: Version, end: Version) -> Expr:
    """A pre-release is in a range only if the range begins with one of the same version."""
    released: list[Expr] = [not_(_is_pre(text))]
    if start.pre:
        released.append(
            all_of([equal(each, n) for each, n in zip(_numbers(text), start.numbers, strict=True)])
        )
    return all_of(
        [
            any_of(released),
            call("greaterOrEquals", _of(text), _known(start)),
            call("less", _of(text), _known(end)),
        ]
    )


def _is_pre(text: Expr) -> Expr:
    return call("notEmpty", _pre_text(text))


def _pre_text(text: Expr) -> Expr:
    return call("extract", _present(text), value(_PRE))


def _present(text: Expr) -> Expr:
    return call("ifNull", text, value(""))


def _numbers(text: Expr) -> list[Expr]:
    found = (call("extract", _present(text), value(each)) for each in _PARTS)
    return [call("ifNull", call("toInt", each), value(0)) for each in found]


def _of(text: Expr) -> Expr:
    """Numbers, whether it is a release, and what comes before one: a number is less than a word."""
    part = Field(chain=["part"])
    is_number = call("match", part, value("^[0-9]{1,18}$"))
    number = call("ifNull", call("toInt", part), value(0))
    each = Tuple(
        exprs=[
            call("if", is_number, value(0), value(1)),
            call("if", is_number, number, value(0)),
            call("if", is_number, value(""), part),
        ]
    )
    parts = call("splitByChar", value("."), _pre_text(text))
    listed = call("arrayMap", Lambda(args=["part"], expr=each), parts)
    return Tuple(exprs=[*_numbers(text), call("empty", _pre_text(text)), listed])


def _known(version: Version) -> Expr:
    parts = version.pre or ((1, 0, ""),)  # as of an empty text
    return Tuple(
        exprs=[
            *(value(each) for each in version.numbers),
            value(0 if version.pre else 1),
            Array(exprs=[Tuple(exprs=[value(each) for each in part]) for part in parts]),
        ]
    )
