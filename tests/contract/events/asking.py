"""A small world of events in a real event store, and questions to it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.events.compile import compiled
from hedgerow.events.conditions import Moment
from hedgerow.events.expressions import field
from hedgerow.events.model import Event, PersonMode
from hedgerow.events.question import of_events
from hedgerow.events.reading import PLAIN
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Expr
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project, ProjectId
from hedgerow.storage.connect import EventPlace, open_events
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.events import EventRecords

NOW = datetime(2026, 3, 30, 10, 20, 30, tzinfo=UTC)
PROJECT = Project(
    id=ProjectId(1),
    uuid="0199aaaa-0000-7000-8000-00000000000a",
    organization_id="",
    name="",
    timezone="Europe/Berlin",
    api_token="",
    created_at=NOW,
    updated_at=NOW,
)


def event(number: int, properties: Any = None, **fields: Any) -> Event:
    """The `number`-th event, a minute before the one before it."""
    plain = Event(
        project_id=PROJECT.id,
        uuid=uuid_of(number),
        event="seen",
        distinct_id=f"id-{number}",
        properties=jsonio.encode({} if properties is None else properties).decode(),
        elements_chain="",
        timestamp=NOW - timedelta(minutes=number),
        created_at=NOW,
        person_id=uuid_of(number),
        person_created_at=NOW,
        person_properties="{}",
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )
    return msgspec.structs.replace(plain, **fields)


def uuid_of(number: int) -> str:
    return str(UUID(int=0x0199AAAA_0000_7000_8000_000000000000 + number))


def surroundings(project: Project = PROJECT, cohorts: Any = None) -> Surroundings:
    at = Moment(now=NOW, zone=ZoneInfo(project.timezone))
    return Surroundings(project=project, cohorts=cohorts or {}, at=at)


@contextmanager
def opened_world(folder: Path, stored: Sequence[Event]) -> Iterator[EventRecords]:
    """An event store that holds these events."""
    events = open_events(EventPlace(url="", folder=folder, timeout_s=5))
    asyncio.run(_append(events, stored))
    try:
        yield events
    finally:
        asyncio.run(_close(events))


async def _append(events: EventRecords, stored: Sequence[Event]) -> None:
    await events.append(stored)


async def _close(events: EventRecords) -> None:
    await events.close()


class Asking:
    def __init__(self, events: EventRecords) -> None:
        async def reached() -> EventRecords:
            return events

        self._queries = EventQueries(reached)

    async def numbers(self, where: Expr, around: Surroundings | None = None) -> list[int]:
        """The numbers of the events for which something holds."""
        query = of_events([field("uuid")], [where], ascending=False, limit=10_000)
        statement = compiled(query, around or surroundings())
        answer = await self._queries.read(statement.sql, statement.parameters, PLAIN)
        return sorted(UUID(str(row[0])).int & 0xFFFF_FFFF for row in answer.rows)
