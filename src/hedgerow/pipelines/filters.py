"""Which events a record is about: names, property filters, for a destination a sample. Checked when
they are set, and made into one function that is asked for every event. Pure.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha1
from typing import Any

from hedgerow.errors import AppError, Conflict, Invalid
from hedgerow.events.model import Event
from hedgerow.filters.operators import Predicate, operator_named, predicate
from hedgerow.filters.rules import check_property
from hedgerow.filters.values import MISSING
from hedgerow.lib import jsonio
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.transforming import Incoming

MAX_NAMES = 1000
MAX_FILTERS = 100
MAX_BATCH = 1000
MAX_BATCH_SECONDS = 3600

Wants = Callable[[Event, datetime], bool]


def check_settings(component: Component, config: Mapping[str, Any], sealer: Sealer) -> None:
    """Raise Invalid for the first setting that is missing or cannot be used."""
    settings.check_complete(component, config)
    if component.deliver is not None:
        check_destination(config)
    if component.transform is not None:
        check_filters(config, of=("event",))
    # What was sealed with a key that is not here is judged when the key is back.
    with contextlib.suppress(Conflict):
        _check_by_component(component, settings.unsealed(component, config, sealer))


def _check_by_component(component: Component, plain: Mapping[str, Any]) -> None:
    if component.check is None:
        return
    try:
        component.check(plain)
    except AppError:
        raise
    except BaseException as error:  # noqa: BLE001 - somebody else's check may raise anything
        detail = f"{component.name} cannot judge these settings: {type(error).__name__}."
        raise Invalid(detail) from None


def check_destination(config: Mapping[str, Any]) -> None:
    """Raise Invalid for the first of the shared settings that cannot be used."""
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
    """Raise Invalid for names or property filters that cannot be used. `of` is whose properties
    there are."""
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


def _check_filter(filter: Any, place: str, of: Sequence[str]) -> None:
    if not isinstance(filter, Mapping) or not isinstance(filter.get("key"), str):
        raise Invalid("A filter has a key, an operator and a value.", attr=place)
    if filter.get("type", "event") not in of:
        whose = " or ".join(f"the {each}" for each in of)
        raise Invalid(f"Only properties of {whose}.", attr=f"{place}.type")
    check_property(filter, place)


def wants(config: Mapping[str, Any]) -> Wants:
    """Whether an event is wanted. Settings must have passed the check."""
    names = frozenset(config.get("events") or ())
    of_event, of_person = (
        [_asked(each) for each in config.get("properties") or () if each.get("type", "event") == of]
        for of in ("event", "person")
    )
    share = int((config.get("sampling") or 100) / 100 * 2**32)

    def wanted(event: Event, now: datetime) -> bool:
        if names and event.event not in names:
            return False
        if share < 2**32 and _place(event.uuid) >= share:
            return False
        if of_event and not _all(of_event, event.properties, now):
            return False
        return not of_person or _all(of_person, event.person_properties, now)

    return wanted


def concerns(config: Mapping[str, Any]) -> Callable[[Incoming], bool] | None:
    """Whether a transformation is about an event; None if it is about all. The same whenever it is
    asked: what is relative to now is relative to when the event was accepted."""
    names = frozenset(config.get("events") or ())
    asked = [_asked(each) for each in config.get("properties") or ()]
    if not names and not asked:
        return None

    def concerned(event: Incoming) -> bool:
        if names and event.event not in names:
            return False
        properties = event.properties
        return all(
            matches(properties.get(key, MISSING), event.accepted_at) for key, matches in asked
        )

    return concerned


def _asked(filter: Mapping[str, Any]) -> tuple[str, Predicate]:
    operator = operator_named(filter.get("operator"))
    assert operator is not None
    return filter["key"], predicate(operator, filter.get("value"))


def _all(asked: Sequence[tuple[str, Predicate]], text: str, now: datetime) -> bool:
    properties = jsonio.decode(text) if text else {}
    return all(matches(properties.get(key, MISSING), now) for key, matches in asked)


def _place(uuid: str) -> int:
    """A number below 2**32 that an event always has."""
    return int.from_bytes(sha1(uuid.encode(), usedforsecurity=False).digest()[:4])
