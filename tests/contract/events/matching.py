"""An event store with a few events, and queries for the events that match a condition."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.listing.clauses import build_events_select
from hedgerow.events.model import Event, PersonMode
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import DEFAULT_LIMITS
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import field
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project, ProjectId
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.queries import ClickHouseEventReader

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
    """Build the event with this number, one minute older than the previous one."""
    default = Event(
        project_id=PROJECT.id,
        uuid=build_uuid(number),
        event="seen",
        distinct_id=f"id-{number}",
        properties=jsonio.encode({} if properties is None else properties).decode(),
        elements_chain="",
        timestamp=NOW - timedelta(minutes=number),
        created_at=NOW,
        person_id=build_uuid(number),
        person_created_at=NOW,
        person_properties="{}",
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )
    return msgspec.structs.replace(default, **fields)


def build_uuid(number: int) -> str:
    return str(UUID(int=0x0199AAAA_0000_7000_8000_000000000000 + number))


def build_query_context(project: Project = PROJECT, cohorts: Any = None) -> QueryContext:
    at = QueryTime(now=NOW, zone=ZoneInfo(project.timezone))
    return QueryContext(project=project, cohorts=cohorts or {}, time=at)


@contextmanager
def open_world(folder: Path, stored: Sequence[Event]) -> Iterator[ClickHouseEventStore]:
    """Open an event store with these events."""
    events = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    asyncio.run(_append(events, stored))
    try:
        yield events
    finally:
        asyncio.run(_close(events))


async def _append(events: ClickHouseEventStore, stored: Sequence[Event]) -> None:
    await events.append(stored)


async def _close(events: ClickHouseEventStore) -> None:
    await events.close()


class EventMatcher:
    def __init__(self, events: ClickHouseEventStore) -> None:
        async def get_store() -> ClickHouseEventStore:
            return events

        self._queries = ClickHouseEventReader(get_store, reads_typed_columns=lambda: True)

    async def find_numbers(self, where: Expr, context: QueryContext | None = None) -> list[int]:
        """Return the numbers of the events that match a condition."""
        query = build_events_select([field("uuid")], [where], ascending=False, limit=10_000)
        statement = compile_query(query, context or build_query_context())
        response = await self._queries.read(statement.sql, statement.parameters, DEFAULT_LIMITS)
        return sorted(UUID(str(row[0])).int & 0xFFFF_FFFF for row in response.rows)
