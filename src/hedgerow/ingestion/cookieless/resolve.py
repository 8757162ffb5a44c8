"""Give cookieless events the ids of their visitors, and remove what identifies the visitors.

posthog-js with `cookieless_mode` stores nothing in the browser and sends one distinct id for all
visitors. This happens before an event is written anywhere: the IP address and the user agent are
never on disk.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from msgspec.structs import replace

from hedgerow.ingestion.cookieless.identity import (
    DEVICE_ID_PREFIX,
    DISTINCT_ID_PREFIX,
    SALT_BYTES,
    SENTINEL_ID,
    Visitor,
    find_local_day,
    format_distinct_id,
    hash_visitor,
    is_current,
    last_expired_day,
)
from hedgerow.ingestion.cookieless.visits import Visit
from hedgerow.ingestion.model import CaptureBatch, CapturedEvent, IngestionWarning
from hedgerow.ingestion.parsing.event import COOKIELESS_MODE
from hedgerow.ingestion.persons.enrich import LocateIp
from hedgerow.ingestion.persons.process import PROCESS_PERSON_PROFILE
from hedgerow.ingestion.store import CookielessStore
from hedgerow.lib.ids import UUID7_RANDOM_BYTES, generate_uuid7s
from hedgerow.projects.model import ProjectId

EXTRA = "$cookieless_extra"
ANONYMOUS_ID = "$anon_distinct_id"
# Other requests are answered, and other changes written, between the parts of a large batch.
PART_EVENTS = 100
UNSUPPORTED_EVENTS = ("$create_alias", "$merge_dangerously")

IDENTIFYING = frozenset(
    {
        "$ip",
        "$raw_user_agent",
        "$user_agent",
        "$initial_ip",
        "$initial_raw_user_agent",
        "$initial_user_agent",
        EXTRA,
    }
)
# Without coordinates and postal code, which may be those of one household.
LOCATION = frozenset(
    {
        "$geoip_city_name",
        "$geoip_country_name",
        "$geoip_country_code",
        "$geoip_continent_name",
        "$geoip_continent_code",
        "$geoip_time_zone",
        "$geoip_subdivision_1_code",
        "$geoip_subdivision_1_name",
    }
)

# Returns the time zone of a project.
GetTimezone = Callable[[ProjectId], str]


def is_cookieless(event: CapturedEvent) -> bool:
    properties = event.properties
    return (
        properties.get(COOKIELESS_MODE) is True
        or event.distinct_id == SENTINEL_ID
        or properties.get(ANONYMOUS_ID) == SENTINEL_ID
    )


class CookielessVisitors:
    """`get_timezone` is for visitors who send no time zone."""

    def __init__(
        self, store: CookielessStore, locate_ip: LocateIp, get_timezone: GetTimezone
    ) -> None:
        self._store = store
        self._locate_ip = locate_ip
        self._get_timezone = get_timezone
        self._salts: dict[str, bytes] = {}

    async def resolve(
        self, project_id: ProjectId, batch: CaptureBatch, now: datetime
    ) -> CaptureBatch:
        """Replace the cookieless events of a batch. An event that cannot be assigned to a visitor
        is dropped, with a warning."""
        events: list[CapturedEvent] = []
        warnings = [*batch.warnings]
        for start in range(0, len(batch.events), PART_EVENTS):
            part = batch.events[start : start + PART_EVENTS]
            resolved, problems = await self._resolve_part(project_id, part, now)
            events += resolved
            warnings += problems
        return replace(batch, events=events, warnings=warnings)

    async def _resolve_part(
        self, project_id: ProjectId, part: Sequence[CapturedEvent], now: datetime
    ) -> tuple[list[CapturedEvent], Iterable[IngestionWarning]]:
        visits: dict[int, Visit] = {}
        problems: dict[int, IngestionWarning] = {}
        for index, event in enumerate(part):
            if is_cookieless(event) and not _is_resolved(event):
                visit = await self._build_visit(project_id, event, now)
                if isinstance(visit, Visit):
                    visits[index] = visit
                else:
                    problems[index] = visit
        found = await self._store.apply_visits(project_id, list(visits.values())) if visits else ()
        numbers = dict(zip(visits, found, strict=True))
        resolved = [
            self._anonymize(event, visits[index], *numbers[index])
            if index in visits
            else _remove_identifying(event)
            for index, event in enumerate(part)
            if index not in problems
        ]
        return resolved, problems.values()

    async def find_distinct_id(
        self, project_id: ProjectId, visitor: Visitor, zone: Any, now: datetime
    ) -> str:
        """Return the distinct id of a visitor who was not identified today."""
        day = find_local_day(now, zone, self._get_timezone(project_id))
        salt = await self._get_salt(day)
        return format_distinct_id(hash_visitor(salt, project_id, visitor), 0)

    async def delete_expired(self, now: datetime) -> None:
        """Delete the salts of days that are over everywhere, and forget them."""
        last = last_expired_day(now).isoformat()
        self._salts = {day: salt for day, salt in self._salts.items() if day > last}
        await self._store.delete_days(last)

    async def _build_visit(
        self, project_id: ProjectId, event: CapturedEvent, now: datetime
    ) -> Visit | IngestionWarning:
        properties = event.properties
        visitor = Visitor(
            ip=_read_ip(event),
            host=_read_text(properties, "$host"),
            user_agent=_read_text(properties, "$raw_user_agent"),
            extra=_read_text(properties, EXTRA),
        )
        zone = properties.get("$timezone")
        day = find_local_day(event.timestamp, zone, self._get_timezone(project_id))
        if problem := _find_problem(event, visitor, day, now):
            type, detail = problem
            return IngestionWarning(
                type=type,
                detail=f"{detail} The event is dropped.",
                event=event.event,
                uuid=event.uuid,
                distinct_id=event.distinct_id,
            )
        salt = await self._get_salt(day)
        return Visit(
            device=hash_visitor(salt, project_id, visitor),
            day=day.isoformat(),
            uuid=event.uuid,
            at_ms=int(event.timestamp.timestamp() * 1000),
            is_identify=_identifies_visitor(event),
            is_anonymous=event.distinct_id == SENTINEL_ID,
            new_session_id=next(generate_uuid7s(event.timestamp, os.urandom(UUID7_RANDOM_BYTES))),
        )

    async def _get_salt(self, day: date) -> bytes:
        name = day.isoformat()
        salt = self._salts.get(name)
        if salt is None:
            salt = await self._store.get_salt(name, os.urandom(SALT_BYTES))
            self._salts[name] = salt
        return salt

    def _anonymize(
        self, event: CapturedEvent, visit: Visit, number: int, session_id: str
    ) -> CapturedEvent:
        event_without = _remove_identifying(event)
        distinct_id = format_distinct_id(visit.device, number)
        properties = event_without.properties | {
            COOKIELESS_MODE: True,
            "$session_id": session_id,
            "$device_id": DEVICE_ID_PREFIX + visit.device,
        }
        if not properties.get("$geoip_disable"):
            location = self._locate_ip(_read_ip(event))
            properties |= {name: location[name] for name in location if name in LOCATION}
        if visit.is_identify:
            properties[ANONYMOUS_ID] = distinct_id
        if not visit.is_anonymous:
            return replace(event_without, properties=properties)
        for name in ("distinct_id", "$distinct_id"):
            if name in properties:
                properties[name] = distinct_id
        properties[PROCESS_PERSON_PROFILE] = False
        return replace(event_without, distinct_id=distinct_id, properties=properties)


def _identifies_visitor(event: CapturedEvent) -> bool:
    """posthog-js sends `$identify` without a profile if the visitor rejected cookies. Processing
    drops it, so the visitor must stay the same."""
    return (
        event.event == "$identify"
        and event.distinct_id != SENTINEL_ID
        and event.properties.get(PROCESS_PERSON_PROFILE) is not False
    )


def _is_resolved(event: CapturedEvent) -> bool:
    """Whether another system assigned this event to a visitor, and it is imported now."""
    return event.distinct_id.startswith(DISTINCT_ID_PREFIX) or (
        event.historical_migration and event.distinct_id != SENTINEL_ID
    )


def _find_problem(
    event: CapturedEvent, visitor: Visitor, day: date, now: datetime
) -> tuple[str, str] | None:
    if event.event in UNSUPPORTED_EVENTS:
        return "cookieless_unsupported_event", f"{event.event} is not supported without cookies."
    if not visitor.ip:
        return "cookieless_missing_ip", "A cookieless event needs the IP address of the visitor."
    if not visitor.user_agent:
        return "cookieless_missing_user_agent", "A cookieless event needs $raw_user_agent."
    if not visitor.host:
        return "cookieless_missing_host", "A cookieless event needs $host."
    if not is_current(day, now):
        detail = f"A cookieless event must be of today, not of {day.isoformat()}."
        return "cookieless_timestamp_out_of_range", detail
    return None


def _remove_identifying(event: CapturedEvent) -> CapturedEvent:
    if not is_cookieless(event):
        return event
    properties = _without_identifying(event.properties)
    for name in ("$set", "$set_once"):
        if isinstance(updates := properties.get(name), dict):
            properties[name] = _without_identifying(updates)
    return replace(event, properties=properties, ip="")


def _without_identifying(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in IDENTIFYING}


def _read_ip(event: CapturedEvent) -> str:
    """A backend sends the address of the visitor as a property."""
    return _read_text(event.properties, "$ip") or event.ip


def _read_text(properties: Mapping[str, Any], name: str) -> str:
    value = properties.get(name)
    return value if isinstance(value, str) else ""
