"""Behavioral filters of cohorts, as PostHog writes them. Pure.

Evidence: PostHog's posthog/hogql_queries/hogql_cohort_query.py, and BehavioralFilter in
posthog/api/cohort.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.known_fields import DISPLAY_FIELDS
from hedgerow.filters.operators import Operator, parse_operator
from hedgerow.filters.patterns import is_linear
from hedgerow.filters.validate import PATTERN_OPERATORS, check_property_filter, raise_invalid
from hedgerow.lib import jsonio
from hedgerow.lib.dates import EARLIEST, is_relative_date, parse_relative_date, parse_stored_date
from hedgerow.lib.shape import Shape
from hedgerow.lib.text import parse_whole_number, truncate
from hedgerow.projects.validation import check_known_fields

BEHAVIORAL = "behavioral"
MAX_COUNT = 1000
# A sequence looks at so many of the latest occurrences of each of its two events.
SEQUENCE_DEPTH = 100
# How many of the latest occurrences of an event are kept. Filters that need nearly as many share
# them.
DEPTHS = (1, 10, SEQUENCE_DEPTH, MAX_COUNT + 1)
MAX_EVENT_FILTERS = 20
MAX_NAME_CHARS = 200
MAX_WINDOW = timedelta(days=36_500)

INTERVALS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}
# They follow the calendar, except between the two events of a sequence.
_CALENDAR_UNITS = {"month": "m", "year": "y"}
COUNT_OPERATORS = ("gte", "lte", "gt", "lt", "eq", "exact")


class BehaviorKind(StrEnum):
    PERFORMED = "performed_event"
    MULTIPLE = "performed_event_multiple"
    FIRST_TIME = "performed_event_first_time"
    SEQUENCE = "performed_event_sequence"
    STOPPED = "stopped_performing_event"


SUPPORTED_KINDS = ", ".join(BehaviorKind)
_UNSUPPORTED_KINDS = {
    "missed_event_sequence": "Use performed_event_sequence with `negation`.",
    "performed_event_regularly": "It needs counts of each period, which are not kept.",
    "restarted_performing_event": "It needs occurrences before a pause, which are not kept.",
}
_FIELDS = (
    *("key", "value", "operator", "type", "negation", "event_type", "operator_value"),
    *("time_value", "time_interval", "explicit_datetime", "explicit_datetime_to"),
    *("seq_event_type", "seq_event", "seq_time_value", "seq_time_interval"),
)
_EVENT_FILTER = Shape("key", "value", "operator", "type", unused=DISPLAY_FIELDS)
BEHAVIORAL_FILTER = Shape(
    *_FIELDS,
    event_filters=_EVENT_FILTER,
    unused=(
        *("id", "sort_key", "bytecode", "bytecode_error", "conditionHash", *DISPLAY_FIELDS),
        *("total_periods", "min_periods", "value_property"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedEvent:
    """Occurrences that a filter needs: of an event or of an action, with filters on properties, and
    not after `until`. `reference` is its canonical text: equal ones are tracked once."""

    event_type: str
    key: str
    filters: Sequence[Mapping[str, Any]]
    until: datetime | None
    depth: int

    @property
    def reference(self) -> str:
        until = self.until.isoformat() if self.until else None
        parts = [self.event_type, self.key, list(self.filters), until, self.depth]
        return jsonio.encode_canonical(parts).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """The time until now, or until `until`. `start` is a time ago such as `-7d`, a date or a
    length."""

    start: str | datetime | timedelta
    until: datetime | None = None

    def find_start(self, now: datetime) -> datetime:
        if isinstance(self.start, datetime):
            return self.start
        if isinstance(self.start, timedelta):
            return now - self.start
        found = parse_relative_date(self.start, now.astimezone(UTC))
        assert found is not None  # checked when it was parsed
        return max(found, EARLIEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class BehavioralFilter:
    """`operator` and `count` are those of MULTIPLE. `next` is the second event of a SEQUENCE, and
    `within` how long after the first one it must happen; of STOPPED, `within` is the time without
    the event."""

    kind: BehaviorKind
    event: TrackedEvent
    window: TimeWindow
    operator: str = "gte"
    count: int = 1
    next: TrackedEvent | None = None
    within: timedelta = timedelta()

    @property
    def tracked(self) -> Sequence[TrackedEvent]:
        return [self.event] if self.next is None else [self.event, self.next]


def is_behavioral(filter: Any) -> bool:
    return isinstance(filter, Mapping) and filter.get("type") == BEHAVIORAL


def iterate_behavioral_filters(definition: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the behavioral filters of a cohort's definition."""
    pending = [definition]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping) and isinstance(node.get("values"), list):
            pending += node["values"]
        elif is_behavioral(node):
            yield node


def list_action_keys(definition: Any) -> set[str]:
    """Return the ids of the actions that a cohort counts."""
    found: set[str] = set()
    for filter in iterate_behavioral_filters(definition):
        with suppress(Invalid):
            tracked = parse_behavioral_filter(filter).tracked
            found |= {each.key for each in tracked if each.event_type == "actions"}
    return found


def list_references(definition: Any) -> set[str]:
    """Return the references of what a cohort counts. Filters that cannot be used have none."""
    found: set[str] = set()
    for filter in iterate_behavioral_filters(definition):
        with suppress(Invalid):
            found.update(each.reference for each in parse_behavioral_filter(filter).tracked)
    return found


def parse_behavioral_filter(filter: Mapping[str, Any], place: str = "") -> BehavioralFilter:
    """Parse and check a filter. Raises Invalid, with the path of the field."""
    check_known_fields(filter, BEHAVIORAL_FILTER, place)
    kind = _parse_kind(filter.get("value"), f"{place}.value")
    operator, count = "gte", 1
    if kind is BehaviorKind.MULTIPLE:
        operator, count = _parse_count(filter, place)
    window = _parse_window(filter, kind, place)
    depth = _find_depth(kind, operator, count)
    event = _parse_event(filter, "event_type", "key", window, depth, place)
    follows = kind is BehaviorKind.SEQUENCE
    within = timedelta()
    if follows or kind is BehaviorKind.STOPPED:
        within = _parse_length(filter, "seq_time_value", "seq_time_interval", place)
    return BehavioralFilter(
        kind=kind,
        event=event,
        window=window,
        operator=operator,
        count=count,
        next=_parse_event(filter, "seq_event_type", "seq_event", window, depth, place)
        if follows
        else None,
        within=within,
    )


def _parse_kind(value: Any, place: str) -> BehaviorKind:
    if value in list(BehaviorKind):
        return BehaviorKind(value)
    hint = _UNSUPPORTED_KINDS.get(value, "") if isinstance(value, str) else ""
    problem = "is not supported" if hint else "is no behavior"
    detail = f"`{truncate(value)}` {problem}. {hint} Expected one of: {SUPPORTED_KINDS}."
    code = "not_supported" if hint else "invalid_choice"
    return raise_invalid(place, detail.replace("  ", " "), code)


def _parse_count(filter: Mapping[str, Any], place: str) -> tuple[str, int]:
    operator = filter.get("operator") or "exact"
    if operator not in COUNT_OPERATORS:
        detail = f"Expected one of: {', '.join(COUNT_OPERATORS)}."
        raise_invalid(f"{place}.operator", detail, "unsupported_operator")
    count = _parse_number(filter.get("operator_value"), f"{place}.operator_value", MAX_COUNT)
    return ("exact" if operator == "eq" else operator), count


def _parse_number(value: Any, place: str, most: int) -> int:
    number = parse_whole_number(value) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise_invalid(place, f"A whole number from 1 to {most} is required.")
    return number


def _find_depth(kind: BehaviorKind, operator: str, count: int) -> int:
    """Return how many of the latest occurrences the result depends on."""
    if kind is BehaviorKind.SEQUENCE:
        return SEQUENCE_DEPTH
    if kind is not BehaviorKind.MULTIPLE:
        return 1
    needed = count if operator in ("gte", "lt") else count + 1
    return next(depth for depth in DEPTHS if depth >= needed)


def _parse_event(
    filter: Mapping[str, Any],
    type_field: str,
    key_field: str,
    window: TimeWindow,
    depth: int,
    place: str,
) -> TrackedEvent:
    event_type, key = filter.get(type_field), filter.get(key_field)
    if event_type not in ("events", "actions"):
        raise_invalid(f"{place}.{type_field}", "Expected `events` or `actions`.", "invalid_choice")
    if event_type == "actions":
        key = str(_parse_number(key, f"{place}.{key_field}", 2**53))
    if not isinstance(key, str) or not key:
        raise_invalid(f"{place}.{key_field}", "This field is required.", "required")
    if len(key) > MAX_NAME_CHARS:
        detail = f"Ensure this field has no more than {MAX_NAME_CHARS} characters."
        raise_invalid(f"{place}.{key_field}", detail, "max_length")
    filters = _parse_event_filters(filter, place) if key_field == "key" else []
    return TrackedEvent(
        event_type=event_type, key=key, filters=filters, until=window.until, depth=depth
    )


def _parse_event_filters(filter: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    sent, place = filter.get("event_filters") or [], f"{place}.event_filters"
    if not isinstance(sent, list):
        raise_invalid(place, "A list is required.", "not_a_list")
    if len(sent) > MAX_EVENT_FILTERS:
        raise_invalid(place, f"Expected at most {MAX_EVENT_FILTERS} filters.", "max_length")
    return [check_event_filter(each, f"{place}[{number}]") for number, each in enumerate(sent)]


def check_event_filter(filter: Any, place: str) -> dict[str, Any]:
    """Check a filter on a property of an event, and return the fields that have an effect. The
    result must not depend on when it is evaluated."""
    if not isinstance(filter, Mapping):
        raise_invalid(place, "Expected an object.")
    if filter.get("type", "event") != "event":
        detail = "Expected `event`: cohorts support filters on properties of the event only."
        raise_invalid(f"{place}.type", detail, "invalid_choice")
    key, operator = filter.get("key"), parse_operator(filter.get("operator"))
    if not isinstance(key, str) or not key:
        raise_invalid(f"{place}.key", "This field is required.", "required")
    check_property_filter(filter, place)
    assert operator is not None
    if operator.startswith("is_date"):
        detail = "Dates in properties of events are not supported in cohorts."
        raise_invalid(f"{place}.operator", detail, "unsupported_operator")
    if operator in PATTERN_OPERATORS and not is_linear(str(filter.get("value"))):
        detail = "Lookaround and backreferences are not supported."
        raise_invalid(f"{place}.value", detail, "invalid_value")
    kept: dict[str, Any] = {"key": key, "operator": operator.value}
    if operator not in (Operator.IS_SET, Operator.IS_NOT_SET):
        kept["value"] = filter["value"]
    return kept


def _parse_window(filter: Mapping[str, Any], kind: BehaviorKind, place: str) -> TimeWindow:
    explicit, until = filter.get("explicit_datetime"), filter.get("explicit_datetime_to")
    if not explicit:
        if until:
            raise_invalid(f"{place}.explicit_datetime", "This field is required.", "required")
        return TimeWindow(start=_parse_start(filter, place))
    if kind is BehaviorKind.STOPPED:
        detail = "Use `time_value` and `time_interval` for stopped_performing_event."
        raise_invalid(f"{place}.explicit_datetime", detail, "not_supported")
    start = _parse_explicit_start(explicit, f"{place}.explicit_datetime")
    return TimeWindow(
        start=start,
        until=_parse_date(until, f"{place}.explicit_datetime_to") if until else None,
    )


def _parse_explicit_start(value: Any, place: str) -> str | datetime:
    if isinstance(value, str) and is_relative_date(value):
        if parse_relative_date(value, datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise_invalid(place, "This time is too long ago.", "invalid_date")
        return value
    return _parse_date(value, place)


def _parse_date(value: Any, place: str) -> datetime:
    try:
        return parse_stored_date(value)
    except ValueError:
        what = "A date such as 2026-01-31 is required"
        more = ", or a time ago such as -7d" if place.endswith("explicit_datetime") else ""
        raise_invalid(place, f"{what}{more}.", "invalid_date")


def _parse_start(filter: Mapping[str, Any], place: str) -> str | timedelta:
    length = _parse_length(filter, "time_value", "time_interval", place)
    unit = _CALENDAR_UNITS.get(filter["time_interval"])
    if unit is None:
        return length
    return f"-{_parse_number(filter['time_value'], place, 10**6)}{unit}"


def _parse_length(filter: Mapping[str, Any], value: str, interval: str, place: str) -> timedelta:
    unit = INTERVALS.get(filter.get(interval)) if isinstance(filter.get(interval), str) else None  # type: ignore[arg-type]
    if unit is None:
        detail = f"Expected one of: {', '.join(INTERVALS)}."
        raise_invalid(f"{place}.{interval}", detail, "invalid_choice")
    return unit * _parse_number(filter.get(value), f"{place}.{value}", MAX_WINDOW // unit)
