"""The operator table: compile a filter's operator and value to a predicate.

`build_predicate` is called once per filter; the predicate is called for each value. It never
raises: values that cannot be compared do not match.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from hedgerow.filters import patterns
from hedgerow.filters.patterns import BadPattern, compile_search
from hedgerow.filters.values import MISSING, TOO_LONG, Version, as_text, as_version
from hedgerow.lib.dates import is_relative_date, parse_property_date, parse_relative_date
from hedgerow.lib.text import parse_number

ValuePredicate = Callable[[Any, datetime], bool]


class Operator(StrEnum):
    EXACT = "exact"
    IS_NOT = "is_not"
    ICONTAINS = "icontains"
    NOT_ICONTAINS = "not_icontains"
    ICONTAINS_MULTI = "icontains_multi"
    NOT_ICONTAINS_MULTI = "not_icontains_multi"
    STARTS_WITH = "starts_with"
    NOT_STARTS_WITH = "not_starts_with"
    ENDS_WITH = "ends_with"
    NOT_ENDS_WITH = "not_ends_with"
    REGEX = "regex"
    NOT_REGEX = "not_regex"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    BETWEEN = "between"
    NOT_BETWEEN = "not_between"
    IS_SET = "is_set"
    IS_NOT_SET = "is_not_set"
    IS_DATE_EXACT = "is_date_exact"
    IS_DATE_BEFORE = "is_date_before"
    IS_DATE_AFTER = "is_date_after"
    SEMVER_EQ = "semver_eq"
    SEMVER_NEQ = "semver_neq"
    SEMVER_GT = "semver_gt"
    SEMVER_GTE = "semver_gte"
    SEMVER_LT = "semver_lt"
    SEMVER_LTE = "semver_lte"
    SEMVER_TILDE = "semver_tilde"
    SEMVER_CARET = "semver_caret"
    SEMVER_WILDCARD = "semver_wildcard"


ALIASES = {"min": Operator.GTE, "max": Operator.LTE}


def parse_operator(name: Any) -> Operator | None:
    """Return the operator with this name, None if there is none. Without a name it is `exact`."""
    if name is None:
        return Operator.EXACT
    try:
        return ALIASES.get(name) or Operator(name)
    except (ValueError, TypeError):
        return None


def build_predicate(operator: Operator, expected: Any, zone: tzinfo = UTC) -> ValuePredicate:
    if operator is Operator.IS_SET:
        return lambda value, now: value is not MISSING
    if operator is Operator.IS_NOT_SET:
        return lambda value, now: value is MISSING
    if expected is None:
        return _never
    for part, build in _BUILDERS:
        if operator in part:
            return build(operator, expected, zone)
    return _never


# Of one comparison with a text of the maximum length.
COMPARISON_COST_US = 30
SEARCH_COST_US = 80


def estimate_cost_us(operator: Operator, expected: Any) -> int:
    """Return how long the predicate can take at worst, in microseconds of CPU time."""
    if operator in (Operator.REGEX, Operator.NOT_REGEX):
        return patterns.estimate_cost_us(as_text(expected))
    if "icontains" in operator:
        parts = len(expected) if isinstance(expected, list) else 1
        return COMPARISON_COST_US + SEARCH_COST_US * parts
    return COMPARISON_COST_US


def _never(value: Any, now: datetime) -> bool:
    return False


def _negated(matches: ValuePredicate) -> ValuePredicate:
    return lambda value, now: not matches(value, now)


def _equality(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    options = expected if isinstance(expected, list) else [expected]
    if all(_is_truth_text(option) for option in options):
        truth = _is_true(expected)

        def exact(value: Any, now: datetime) -> bool:
            return value is not MISSING and _is_true(value) is truth
    else:
        texts = frozenset(as_text(option).lower() for option in options)

        def exact(value: Any, now: datetime) -> bool:
            if value.__class__ is str:
                return value.lower() in texts
            return value is not MISSING and as_text(value).lower() in texts

    return exact if operator is Operator.EXACT else _negated(exact)


def _is_truth_text(value: Any) -> bool:
    return isinstance(value, bool) or (
        isinstance(value, str) and value.lower() in ("true", "false")
    )


def _is_true(value: Any) -> bool:
    """A list is true if all its values are."""
    if isinstance(value, list):
        return all(_is_true(each) for each in value)
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _containing(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    several = operator in (Operator.ICONTAINS_MULTI, Operator.NOT_ICONTAINS_MULTI)
    parts = [
        _folded(part)
        for part in (expected if several and isinstance(expected, list) else [expected])
    ]

    ascii_parts = [part.decode() for part in parts if part.isascii()]

    def contains(value: Any, now: datetime) -> bool:
        if value.__class__ is str and value.isascii():
            lowered = value.lower()
            for part in ascii_parts:  # noqa: SIM110 - faster than any()
                if part in lowered:
                    return True
            return False
        if value is MISSING:
            return False
        text = _folded(value)
        return any(part in text for part in parts)

    positive = operator in (Operator.ICONTAINS, Operator.ICONTAINS_MULTI)
    return contains if positive else _negated(contains)


def _folded(value: Any) -> bytes:
    """Lower-case the ASCII letters only."""
    return as_text(value).encode("utf-8", "surrogatepass").lower()


def _edges(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    edge = _folded(expected)
    at_start = operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH)

    def matches(value: Any, now: datetime) -> bool:
        if value is MISSING:
            return False
        text = _folded(value)
        return text.startswith(edge) if at_start else text.endswith(edge)

    positive = operator in (Operator.STARTS_WITH, Operator.ENDS_WITH)
    return matches if positive else _negated(matches)


def _pattern(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    try:
        search = compile_search(as_text(expected))
    except BadPattern:
        return _never

    is_positive = operator is Operator.REGEX

    def matches(value: Any, now: datetime) -> bool:
        if value is MISSING:
            return not is_positive
        if value is TOO_LONG:
            return False
        return search(value if value.__class__ is str else as_text(value)) is is_positive

    return matches


def _comparison(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    limit = parse_number(expected)
    if limit is None:
        return _never
    compare = {
        Operator.GT: limit.__lt__,
        Operator.GTE: limit.__le__,
        Operator.LT: limit.__gt__,
        Operator.LTE: limit.__ge__,
    }[operator]

    def matches(value: Any, now: datetime) -> bool:
        number = parse_number(value)
        return number is not None and compare(number)

    return matches


def _between(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    if not isinstance(expected, list) or len(expected) != 2:
        return _never
    low, high = map(parse_number, expected)
    if low is None or high is None or low > high:
        return _never
    inside = operator is Operator.BETWEEN

    def matches(value: Any, now: datetime) -> bool:
        if value is MISSING:
            return not inside
        number = parse_number(value)
        return number is not None and (low <= number <= high) is inside

    return matches


def _date(operator: Operator, expected: Any, zone: tzinfo) -> ValuePredicate:
    if not isinstance(expected, str):
        return _never
    relative = is_relative_date(expected)
    fixed = None if relative else parse_property_date(expected, zone)
    if not relative and fixed is None:
        return _never

    limits: dict[datetime, datetime | None] = {}

    def matches(value: Any, now: datetime) -> bool:
        moment = parse_property_date(value, zone)
        limit = fixed
        if relative:
            if now not in limits:  # many persons are compared at one time
                limits.clear()
                limits[now] = parse_relative_date(expected, now.astimezone(zone))
            limit = limits[now]
        if moment is None or limit is None:
            return False
        if operator is Operator.IS_DATE_BEFORE:
            return moment < limit
        return moment > limit if operator is Operator.IS_DATE_AFTER else moment == limit

    return matches


def _semver(operator: Operator, expected: Any, _: tzinfo) -> ValuePredicate:
    inside = _version_range(operator, expected)
    if inside is None:
        return _never

    def matches(value: Any, now: datetime) -> bool:
        version = None if value is MISSING else as_version(value)
        return version is not None and inside(version)

    return matches


def _version_range(operator: Operator, expected: Any) -> Callable[[Version], bool] | None:
    if operator is Operator.SEMVER_WILDCARD:
        return _wildcard(as_text(expected))
    limit = as_version(expected)
    if limit is None:
        return None
    compare = _VERSION_COMPARISONS.get(operator)
    if compare is not None:
        return lambda version: compare(version, limit)
    return _range(limit, end_of_range(operator, limit.numbers))


def _range(start: Version, end: Version) -> Callable[[Version], bool]:
    """A pre-release is in a range only if the range starts with a pre-release of the same
    version."""

    def inside(version: Version) -> bool:
        if version.pre and not (start.pre and version.numbers == start.numbers):
            return False
        return start <= version < end

    return inside


def end_of_range(operator: Operator, numbers: tuple[int, int, int]) -> Version:
    """Return the end of ~1.2.3 and ^1.2.3. A caret keeps the first number that is not zero."""
    major, minor, patch = numbers
    if operator is Operator.SEMVER_TILDE:
        return Version((major, minor + 1, 0))
    if major:
        return Version((major + 1, 0, 0))
    return Version((0, minor + 1, 0)) if minor else Version((0, 0, patch + 1))


def _wildcard(text: str) -> Callable[[Version], bool] | None:
    """Parse `1.*`, `1.2.*` or `*`. Only stars can follow a star."""
    numbers = wildcard_numbers(text)
    if numbers is None:
        return None
    if not numbers:
        return lambda version: not version.pre
    return _range(*wildcard_range(numbers))


def wildcard_range(numbers: Sequence[int]) -> tuple[Version, Version]:
    """Return the start and the end of the versions with these first numbers."""
    start = Version((*numbers, 0, 0, 0)[:3])  # type: ignore[arg-type]
    end = Version((*numbers[:-1], numbers[-1] + 1, 0, 0)[:3])  # type: ignore[arg-type]
    return start, end


def wildcard_numbers(text: str) -> Sequence[int] | None:
    """Return the numbers before the stars, None if the text is not a wildcard."""
    parts = text.strip().lstrip("vV").split(".")
    fixed = [part for part in parts if part != "*"]
    good = (
        len(fixed) < len(parts) <= 3
        and parts[: len(fixed)] == fixed
        and all(part.isascii() and part.isdecimal() and len(part) < 19 for part in fixed)
    )
    return [int(part) for part in fixed] if good else None


_VERSION_COMPARISONS: dict[Operator, Callable[[Version, Version], bool]] = {
    Operator.SEMVER_EQ: eq,
    Operator.SEMVER_NEQ: ne,
    Operator.SEMVER_GT: gt,
    Operator.SEMVER_GTE: ge,
    Operator.SEMVER_LT: lt,
    Operator.SEMVER_LTE: le,
}
_SEMVER_ALL = frozenset(operator for operator in Operator if operator.startswith("semver"))
_BUILDERS: tuple[
    tuple[frozenset[Operator], Callable[[Operator, Any, tzinfo], ValuePredicate]], ...
] = (
    (frozenset({Operator.EXACT, Operator.IS_NOT}), _equality),
    (frozenset(o for o in Operator if "icontains" in o), _containing),
    (frozenset(o for o in Operator if o.endswith("s_with")), _edges),
    (frozenset({Operator.REGEX, Operator.NOT_REGEX}), _pattern),
    (frozenset({Operator.GT, Operator.GTE, Operator.LT, Operator.LTE}), _comparison),
    (frozenset({Operator.BETWEEN, Operator.NOT_BETWEEN}), _between),
    (frozenset(o for o in Operator if o.startswith("is_date")), _date),
    (_SEMVER_ALL, _semver),
)
