"""How far each worker has saved what it learned, and the stored events to learn again."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, text, update

from hedgerow.definitions.model import SeenEvent
from hedgerow.definitions.store import (
    LearnedEvent,
    LearningMark,
    MarkStore,
    StoredEventSource,
    StoredPage,
)
from hedgerow.events.store import EventReader, QueryLimits
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.events.schema import TABLE
from hedgerow.storage.tables import definition_marks as table
from hedgerow.storage.tables import group_types
from hedgerow.storage.tables.column_types import Moment

# A page has to fit into memory. Larger events are learned by their name only.
MAX_PROPERTIES_BYTES = 16 << 10
# Events of one request share their time of acceptance, so a page can be longer than wanted.
MAX_PAGE_FACTOR = 4
GROUP_IDENTIFY = "$groupidentify"
_MOMENT = "DateTime64(6, 'UTC')"
_LIMITS = QueryLimits(timeout_s=60.0, max_rows=0, max_bytes=256 << 20, sender="definitions")
_ADVANCE = text(
    "INSERT INTO definition_marks (holder, learned_until, updated_at)"
    " VALUES (:holder, :learned_until, :updated_at)"
    " ON CONFLICT (holder) DO UPDATE SET learned_until = excluded.learned_until,"
    " updated_at = excluded.updated_at"
).bindparams(bindparam("learned_until", type_=Moment()), bindparam("updated_at", type_=Moment()))
# The engine finds the time range first, from one column, and reads the events in it afterwards.
_FIND_RANGE = f"""
    SELECT count(), max(created_at) FROM (
        SELECT created_at FROM {TABLE}
        WHERE created_at > {{after:{_MOMENT}}} AND created_at <= {{until:{_MOMENT}}}
        ORDER BY created_at LIMIT {{limit:UInt32}}
    )
"""  # noqa: S608 - our own names
_READ_RANGE = f"""
    SELECT project_id, event, if(length(properties) > {MAX_PROPERTIES_BYTES}, '', properties),
        timestamp, created_at
    FROM {TABLE}
    WHERE created_at > {{after:{_MOMENT}}} AND created_at <= {{until:{_MOMENT}}}
    LIMIT {{limit:UInt32}}
"""  # noqa: S608
_COUNT_EVENTS = f"""
    SELECT event, countIf(least(timestamp, created_at) >= {{since:{_MOMENT}}}) AS number,
        min(least(timestamp, created_at)), max(least(timestamp, created_at))
    FROM {TABLE} WHERE project_id = {{project_id:Int64}}
    GROUP BY event ORDER BY number DESC, event LIMIT {{limit:UInt32}}
"""  # noqa: S608


_GroupTypes = Mapping[tuple[ProjectId, str], int]


class SqlMarkStore(MarkStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def advance(self, holder: str, learned_until: datetime, now: datetime) -> None:
        values = {"holder": holder, "learned_until": learned_until, "updated_at": now}
        await self._database.write(lambda connection: connection.execute(_ADVANCE, values))

    async def remove(self, holder: str) -> None:
        gone = delete(table).where(table.c.holder == holder)
        await self._database.write(lambda connection: connection.execute(gone))

    async def list_abandoned(self, holder: str, updated_before: datetime) -> Sequence[LearningMark]:
        old = select(table).where(
            (table.c.holder != holder) & (table.c.updated_at < updated_before)
        )

        def run(connection: Connection) -> list[LearningMark]:
            return [LearningMark(**row._mapping) for row in connection.execute(old)]

        return await self._database.read(run)

    async def claim(
        self, mark: LearningMark, learned_until: datetime, now: datetime
    ) -> LearningMark | None:
        same = (table.c.holder == mark.holder) & (table.c.updated_at == mark.updated_at)
        changed = update(table).where(same).values(learned_until=learned_until, updated_at=now)

        def change(connection: Connection) -> LearningMark | None:
            if not connection.execute(changed).rowcount:
                return None
            return LearningMark(holder=mark.holder, learned_until=learned_until, updated_at=now)

        return await self._database.write(change)


class ClickHouseSeenEvents(StoredEventSource):
    """`may_contain_data` tells whether it is worth to open the event store."""

    def __init__(
        self, reader: EventReader, database: Database, may_contain_data: Callable[[], bool]
    ) -> None:
        self._reader = reader
        self._database = database
        self._may_contain_data = may_contain_data

    @property
    def has_events(self) -> bool:
        return self._may_contain_data()

    async def read_page(self, after: datetime, until: datetime, limit: int) -> StoredPage:
        span: dict[str, Any] = {"after": _format_moment(after), "until": _format_moment(until)}
        found = await self._reader.read(_FIND_RANGE, span | {"limit": limit}, _LIMITS)
        [[count, last]] = found.rows
        if not count:
            return StoredPage(events={}, until=None)
        last = last.astimezone(UTC)
        page = {**span, "until": _format_moment(last), "limit": MAX_PAGE_FACTOR * limit}
        rows = (await self._reader.read(_READ_RANGE, page, _LIMITS)).rows
        indexes = await self._load_group_types({row[0] for row in rows if row[1] == GROUP_IDENTIFY})
        decoded = await run_in_thread(lambda: _decode_rows(rows, indexes))
        return StoredPage(events=decoded, until=last)

    async def _load_group_types(self, projects: Collection[ProjectId]) -> _GroupTypes:
        if not projects:
            return {}
        statement = select(group_types).where(group_types.c.project_id.in_(projects))
        return await self._database.read(
            lambda connection: {
                (row.project_id, row.name): row._mapping["index"]
                for row in connection.execute(statement)
            }
        )

    async def count_events(
        self, project_id: ProjectId, since: datetime, limit: int
    ) -> Mapping[str, LearnedEvent]:
        values = {"project_id": project_id, "since": _format_moment(since), "limit": limit}
        result = await self._reader.read(_COUNT_EVENTS, values, _LIMITS)
        return {
            event: LearnedEvent(first.astimezone(UTC), last.astimezone(UTC), count)
            for event, count, first, last in result.rows
        }


def _format_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _decode_rows(
    rows: Sequence[Sequence[Any]], indexes: _GroupTypes
) -> Mapping[ProjectId, Sequence[SeenEvent]]:
    found: dict[ProjectId, list[SeenEvent]] = defaultdict(list)
    for project_id, event, properties, timestamp, created_at in rows:
        values = jsonio.parse(properties.encode() or b"{}")
        times = timestamp.astimezone(UTC), created_at.astimezone(UTC)
        group = None
        if event == GROUP_IDENTIFY and isinstance(name := values.get("$group_type"), str):
            group = indexes.get((project_id, name))
        found[project_id].append(SeenEvent(event, values, values, *times, group))
    return found
