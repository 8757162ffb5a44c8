"""Which stored events a replay is about: what its payload says, and what that came to when it
began. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.dates import asked_moment

USUAL = timedelta(hours=24)
MAX_NAMES = 1000
ATTR = "job__payload__"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Events that happened from `after` until before `before`, of these names if there are any.
    What was accepted later than `as_of` takes the usual way."""

    after: datetime
    before: datetime
    as_of: datetime
    names: Sequence[str] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The last event that was looked at."""

    timestamp: datetime
    uuid: str


def check_payload(payload: Mapping[str, Any], now: datetime) -> None:
    """Raise Invalid for what no span can be made of."""
    span_of(payload, now)


def span_of(payload: Mapping[str, Any], now: datetime) -> Span:
    """What a payload says to somebody who reads it `now`."""
    names = payload.get("events") or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Invalid("A list of event names is required.", attr=f"{ATTR}events")
    if len(names) > MAX_NAMES:
        raise Invalid(f"No more than {MAX_NAMES} names.", attr=f"{ATTR}events")
    before = _moment(payload, "date_to", now) or now
    after = _moment(payload, "date_from", now) or before - USUAL
    if after >= before:
        raise Invalid("The time ends before it begins.", attr=f"{ATTR}date_to")
    return Span(after=after, before=before, as_of=now, names=names)


def _moment(payload: Mapping[str, Any], name: str, now: datetime) -> datetime | None:
    said = payload.get(name)
    return asked_moment(said, now, UTC, ATTR + name) if said else None
