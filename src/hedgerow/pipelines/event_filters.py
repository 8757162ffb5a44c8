"""Event filters of records: names, property filters, and for destinations a sampling rate.

Filters are checked when they are set, and compiled into one function per record. Pure.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha1
from typing import Any

from hedgerow.errors import AppError, Conflict, Invalid
from hedgerow.events.model import Event
from hedgerow.filters.known_fields import PROPERTY_FILTER
from hedgerow.filters.operators import (
    Operator,
    ValuePredicate,
    build_predicate,
    parse_operator,
)
from hedgerow.filters.patterns import is_linear
from hedgerow.filters.validate import check_property_filter
from hedgerow.filters.values import MISSING
from hedgerow.lib import jsonio
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.optional_packages import name_error
from hedgerow.pipelines import config as settings
from hedgerow.plugin.component import Component
from hedgerow.plugin.payload import ACTIVITY_EVENT, is_activity
from hedgerow.plugin.presets import EVENT_SOURCE
from hedgerow.plugin.transform import IncomingEvent
from hedgerow.projects.activity import ACTIVITY_LOG
from hedgerow.projects.validation import check_known_fields

MAX_NAMES = 1000
MAX_FILTERS = 100
MAX_BACKTRACKING_PATTERNS = 5
MAX_BATCH = 1000
MAX_BATCH_SECONDS = 3600

EventPredicate = Callable[[Event, datetime], bool]


def is_of_activity_log(config: Mapping[str, Any]) -> bool:
    """Whether a destination with these settings receives the activity log, not captured events."""
    return config.get(EVENT_SOURCE.key) == ACTIVITY_LOG


def check_settings(component: Component, config: Mapping[str, Any], cipher: Cipher) -> None:
    """Raise Invalid for the first setting that is missing or cannot be used."""
    settings.check_complete(component, config)
    if component.deliver is not None:
        check_destination_settings(config)
    if component.transform is not None:
        check_filters(config, of=("event",))
    # Settings encrypted with an unknown key are checked when the key is back.
    with contextlib.suppress(Conflict):
        _check_by_component(component, settings.decrypt_settings(component, config, cipher))


def check_filter_fields(
    component: Component, config: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    """Raise Invalid for an unknown field in property filters, unless `before` has the same ones. A
    misspelled field would have no effect, and more events would match than intended."""
    filters = config.get("properties")
    has_filters = component.deliver is not None or component.transform is not None
    if not has_filters or jsonio.is_equal(filters, before.get("properties")):
        return
    for number, filter in enumerate(filters if isinstance(filters, list) else ()):
        check_known_fields(filter, PROPERTY_FILTER, f"config__properties.{number}")


def _check_by_component(component: Component, plain: Mapping[str, Any]) -> None:
    if component.check is None:
        return
    try:
        component.check(plain)
    except AppError:
        raise
    except BaseException as error:  # noqa: BLE001 - a package's check may raise anything
        detail = f"{component.name} failed to check these settings: {name_error(error)}."
        raise Invalid(detail) from None


def check_destination_settings(config: Mapping[str, Any]) -> None:
    """Raise Invalid for the first filter, sampling or batch setting that cannot be used."""
    if is_of_activity_log(config):
        _check_activity_filters(config)
    else:
        check_filters(config, of=("event", "person"))
    for key, least, most in (
        ("sampling", 1, 100),
        ("batch_size", 1, MAX_BATCH),
        ("batch_seconds", 0, MAX_BATCH_SECONDS),
    ):
        value = config.get(key)
        if isinstance(value, int) and not least <= value <= most:
            raise Invalid(f"A number from {least} to {most} is required.", attr=f"config__{key}")


def check_filters(config: Mapping[str, Any], of: Sequence[str]) -> None:
    """Raise Invalid for event names or property filters that cannot be used. `of` lists whose
    properties may be filtered: `event`, `person`."""
    names = config.get("events", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Invalid("A list of event names is required.", attr="config__events")
    if len(names) > MAX_NAMES:
        raise Invalid(f"No more than {MAX_NAMES} names.", attr="config__events")
    filters = config.get("properties", [])
    if not isinstance(filters, list) or len(filters) > MAX_FILTERS:
        detail = f"A list of no more than {MAX_FILTERS} filters is required."
        raise Invalid(detail, attr="config__properties")
    for number, filter in enumerate(filters):
        _check_filter(filter, f"config__properties.{number}", of)
    if sum(map(_is_backtracking, filters)) > MAX_BACKTRACKING_PATTERNS:
        raise Invalid(
            f"No more than {MAX_BACKTRACKING_PATTERNS} patterns with look-around, which take long.",
            attr="config__properties",
        )


def _check_activity_filters(config: Mapping[str, Any]) -> None:
    """Raise Invalid for filters that cannot be used for the activity log. They are applied in the
    transaction of a change, so that none may take long."""
    check_filters(config, of=("event",))
    if set(config.get("events", ())) - {ACTIVITY_EVENT}:
        raise Invalid(
            f"The only event of the activity log is {ACTIVITY_EVENT}. Leave the list empty.",
            attr="config__events",
        )
    if any(map(_is_backtracking, config.get("properties", ()))):
        raise Invalid(
            "Filters of the activity log cannot have patterns with look-around, which take long.",
            attr="config__properties",
        )


def _check_filter(filter: Any, place: str, of: Sequence[str]) -> None:
    if not isinstance(filter, Mapping) or not isinstance(filter.get("key"), str):
        raise Invalid("A filter has a key, an operator and a value.", attr=place)
    if filter.get("type", "event") not in of:
        whose = " or ".join(f"the {each}" for each in of)
        raise Invalid(
            f"Unsupported property type. Expected properties of {whose}.", attr=f"{place}.type"
        )
    check_property_filter(filter, place)


def _is_backtracking(filter: Mapping[str, Any]) -> bool:
    """Whether a pattern takes up to 5 ms for an event, unlike patterns in linear time."""
    is_pattern = parse_operator(filter.get("operator")) in (Operator.REGEX, Operator.NOT_REGEX)
    return is_pattern and not is_linear(str(filter.get("value")))


def compile_event_filter(config: Mapping[str, Any]) -> EventPredicate:
    """Compile the filters of a destination. The settings must have passed the check."""
    names = frozenset(config.get("events") or ())
    of_event, of_person = (
        [
            _compile_property_filter(each)
            for each in config.get("properties") or ()
            if each.get("type", "event") == of
        ]
        for of in ("event", "person")
    )
    share = int((config.get("sampling") or 100) / 100 * 2**32)
    wants_activity = is_of_activity_log(config)

    def matches_event(event: Event, now: datetime) -> bool:
        if is_activity(event) is not wants_activity:
            return False
        if names and event.event not in names:
            return False
        if share < 2**32 and _sampling_hash(event.uuid) >= share:
            return False
        if of_event and not _match_all(of_event, event.properties, now):
            return False
        return not of_person or _match_all(of_person, event.person_properties, now)

    return matches_event


def compile_transformation_filter(
    config: Mapping[str, Any],
) -> Callable[[IncomingEvent], bool] | None:
    """Compile the filters of a transformation; None if it applies to every event.

    Relative dates count from the time the event was accepted, so the result is repeatable.
    """
    names = frozenset(config.get("events") or ())
    predicates = [_compile_property_filter(each) for each in config.get("properties") or ()]
    if not names and not predicates:
        return None

    def matches_event(event: IncomingEvent) -> bool:
        if names and event.event not in names:
            return False
        properties = event.properties
        return all(
            matches(properties.get(key, MISSING), event.accepted_at) for key, matches in predicates
        )

    return matches_event


def _compile_property_filter(filter: Mapping[str, Any]) -> tuple[str, ValuePredicate]:
    operator = parse_operator(filter.get("operator"))
    assert operator is not None
    return filter["key"], build_predicate(operator, filter.get("value"))


def _match_all(predicates: Sequence[tuple[str, ValuePredicate]], text: str, now: datetime) -> bool:
    properties = _decode_properties(text) if text else {}
    return all(matches(properties.get(key, MISSING), now) for key, matches in predicates)


@lru_cache(maxsize=4)
def _decode_properties(text: str) -> Mapping[str, Any]:
    """Decode properties once for all destinations, which look at the same event one after another.
    Two threads may match events, each of which has properties and those of a person."""
    decoded: Mapping[str, Any] = jsonio.decode(text)
    return decoded


def _sampling_hash(uuid: str) -> int:
    """Return a number below 2**32 that is always the same for an event."""
    return int.from_bytes(sha1(uuid.encode(), usedforsecurity=False).digest()[:4])
