"""Semantic version operators. The event store compares versions as tuples."""

from typing import Any

from hedgerow.filters.operators import Operator, end_of_range, wildcard_numbers, wildcard_range
from hedgerow.filters.values import Version, as_version
from hedgerow.hogql.ast import Array, Expr, Field, Lambda, Tuple
from hedgerow.hogql.builders import all_of, any_of, call, constant, equals, negate

_VERSION = (
    r"^\s*[vV]?[0-9]{1,18}(\.[0-9]{1,18})?(\.[0-9]{1,18})?"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?\s*$"
)
_NUMBER_PARTS = (
    r"^\s*[vV]?([0-9]{1,18})",
    r"^\s*[vV]?[0-9]+\.([0-9]{1,18})",
    r"^\s*[vV]?[0-9]+\.[0-9]+\.([0-9]{1,18})",
)
_PRERELEASE = r"^[^+-]*-([0-9A-Za-z.-]+)"
_COMPARISON_FUNCTIONS = {
    Operator.SEMVER_EQ: "equals",
    Operator.SEMVER_NEQ: "notEquals",
    Operator.SEMVER_GT: "greater",
    Operator.SEMVER_GTE: "greaterOrEquals",
    Operator.SEMVER_LT: "less",
    Operator.SEMVER_LTE: "lessOrEquals",
}


def build_version_condition(text: Expr, operator: Operator, sent: Any) -> Expr:
    is_version = call("match", text, constant(_VERSION))
    if operator in _COMPARISON_FUNCTIONS:
        limit = as_version(sent)
        assert limit is not None  # filters/validate.py has read it
        return all_of(
            [
                is_version,
                call(_COMPARISON_FUNCTIONS[operator], _version_tuple(text), _constant_tuple(limit)),
            ]
        )
    if operator is Operator.SEMVER_WILDCARD:
        numbers = wildcard_numbers(str(sent))
        inside = (
            _in_range(text, *wildcard_range(numbers)) if numbers else negate(_is_prerelease(text))
        )
    else:
        start = as_version(sent)
        assert start is not None
        inside = _in_range(text, start, end_of_range(operator, start.numbers))
    return all_of([is_version, inside])


def _in_range(text: Expr, start: Version, end: Version) -> Expr:
    """Match a version in a range. A pre-release matches only if the range starts with one of the
    same version."""
    released: list[Expr] = [negate(_is_prerelease(text))]
    if start.pre:
        released.append(
            all_of(
                [
                    equals(each, n)
                    for each, n in zip(_version_numbers(text), start.numbers, strict=True)
                ]
            )
        )
    return all_of(
        [
            any_of(released),
            call("greaterOrEquals", _version_tuple(text), _constant_tuple(start)),
            call("less", _version_tuple(text), _constant_tuple(end)),
        ]
    )


def _is_prerelease(text: Expr) -> Expr:
    return call("notEmpty", _prerelease_text(text))


def _prerelease_text(text: Expr) -> Expr:
    return call("extract", _text_or_empty(text), constant(_PRERELEASE))


def _text_or_empty(text: Expr) -> Expr:
    return call("ifNull", text, constant(""))


def _version_numbers(text: Expr) -> list[Expr]:
    found = (call("extract", _text_or_empty(text), constant(each)) for each in _NUMBER_PARTS)
    return [call("ifNull", call("toInt", each), constant(0)) for each in found]


def _version_tuple(text: Expr) -> Expr:
    """Build a tuple of the numbers, whether it is a release, and the pre-release parts, in which
    numbers sort before words."""
    part = Field(chain=["part"])
    is_number = call("match", part, constant("^[0-9]{1,18}$"))
    number = call("ifNull", call("toInt", part), constant(0))
    each = Tuple(
        exprs=[
            call("if", is_number, constant(0), constant(1)),
            call("if", is_number, number, constant(0)),
            call("if", is_number, constant(""), part),
        ]
    )
    parts = call("splitByChar", constant("."), _prerelease_text(text))
    listed = call("arrayMap", Lambda(args=["part"], expr=each), parts)
    return Tuple(exprs=[*_version_numbers(text), call("empty", _prerelease_text(text)), listed])


def _constant_tuple(version: Version) -> Expr:
    parts = version.pre or ((1, 0, ""),)  # what splitting an empty text gives
    return Tuple(
        exprs=[
            *(constant(each) for each in version.numbers),
            constant(0 if version.pre else 1),
            Array(exprs=[Tuple(exprs=[constant(each) for each in part]) for part in parts]),
        ]
    )
