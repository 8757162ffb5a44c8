"""SQL of the events that nobody could settle or store. They are kept as they were, until somebody
decides.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, select

from hedgerow.events.model import Event
from hedgerow.ingestion.model import Accepted, Arrived, IngestionWarning
from hedgerow.ingestion.store import Ready, SetAside
from hedgerow.lib.text import storable_text
from hedgerow.projects.model import ProjectId
from hedgerow.storage import bulk, ingestion_warnings
from hedgerow.storage.database import Database
from hedgerow.storage.inbox_packing import packed_whole
from hedgerow.storage.tables import inbox, ready_events
from hedgerow.storage.tables import set_aside_events as table

WARNING = "event_set_aside"
# So many rows are named in one statement.
AT_ONCE = 500
# What a column can hold; bytes that were damaged may say anything.
MAX_ID = 2**63


class SetAsideRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, limit: int) -> tuple[list[SetAside], int]:
        columns = [column for column in table.c if column.name not in ("events", "bucket")]
        oldest = select(*columns).order_by(table.c.id).limit(limit)

        def run(connection: Connection) -> tuple[list[SetAside], int]:
            found = [SetAside(**row._asdict()) for row in connection.execute(oldest)]
            return found, number(connection)

        return await self._database.read(run)

    async def content(self, id: int) -> bytes | None:
        query = select(table.c.events).where(table.c.id == id)
        return await self._database.read(
            lambda connection: connection.execute(query).scalar_one_or_none()
        )

    async def retry(self, ids: Sequence[int] | None, now: datetime) -> int:
        """They count for nobody who waits: they were done with when they were set aside."""

        def change(connection: Connection) -> int:
            # Held, so that what goes is what was sent on, whatever others do or add meanwhile.
            wanted = select(table.c.id).order_by(table.c.id).with_for_update()
            if ids is not None:
                wanted = wanted.where(table.c.id.in_(ids))
            held = connection.execute(wanted).scalars().all()
            return sum(
                _sent_on(connection, held[start : start + AT_ONCE], now)
                for start in range(0, len(held), AT_ONCE)
            )

        return await self._database.write(change)

    async def newest(self) -> int:
        """The last id there is, 0 without any."""
        query = select(func.max(table.c.id))
        return await self._database.read(lambda connection: connection.execute(query).scalar() or 0)

    async def discard(self, ids: Sequence[int]) -> int:
        return await self._database.write(lambda connection: _removed(connection, _named(ids)))

    async def discard_until(self, newest: int) -> int:
        """And none that came after what somebody decided about."""
        older = table.c.id <= newest
        return await self._database.write(lambda connection: _removed(connection, older))

    async def forget(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> None:
        """Where both are given, both must hold. What cannot be read is nobody's."""
        wanted = [("uuid", list(uuids)), ("distinct_id", list(distinct_ids))]
        asked = [(column, values) for column, values in wanted if values]
        if asked:
            conditions = [f"{column} IN ({{texts}})" for column, _ in asked]
            sql = " AND ".join(["DELETE FROM set_aside_events WHERE project_id = ?", *conditions])
            values = [values for _, values in asked]
            await self._database.write(
                lambda connection: bulk.change(connection, sql, project_id, *values)
            )


def number(connection: Connection) -> int:
    """How many events there are."""
    return connection.execute(select(func.sum(table.c.number))).scalar() or 0


def add_accepted(
    connection: Connection, bucket: int, row: Accepted, reason: str, now: datetime
) -> None:
    fields = {"stage": "settle", "bucket": bucket, "project_id": row.project_id}
    said = _facts(row.events) | fields | {"reason": reason, "set_aside_at": now}
    if row.problem:
        _copy(connection, inbox, row, said)
    else:
        connection.execute(insert(table), said | _packed(row.events))
    warning = IngestionWarning(
        type=WARNING,
        detail=f"The event could not be processed and is set aside: {reason}",
        event=said["event"],
        uuid=said["uuid"],
        distinct_id=said["distinct_id"],
    )
    ingestion_warnings.add(connection, row.project_id, [warning], now)


def add_ready(connection: Connection, bucket: int, row: Ready, reason: str, now: datetime) -> None:
    fields = {"stage": "store", "bucket": bucket, "reason": reason, "set_aside_at": now}
    project_id = row.events[0].project_id if row.events else None
    if project_id is not None and not 0 <= project_id < MAX_ID:
        project_id = None
    said = _facts(row.events) | fields | {"project_id": project_id}
    if row.problem:
        _copy(connection, ready_events, row, said)
    else:
        connection.execute(insert(table), said | _packed(row.events))


def _facts(events: Sequence[Arrived] | Sequence[Event]) -> dict[str, Any]:
    first = events[0] if events else None
    return {
        name: storable_text(getattr(first, name, "")) for name in ("uuid", "event", "distinct_id")
    }


def _packed(events: Sequence[Arrived] | Sequence[Event]) -> dict[str, Any]:
    return {"events": packed_whole(events), "number": len(events)}


def _copy(
    connection: Connection, source: Any, row: Accepted | Ready, said: Mapping[str, Any]
) -> None:
    """What cannot be read does not pass through our hands."""
    values = [*(literal(value, table.c[name].type) for name, value in said.items())]
    copied = select(*values, source.c.events, literal(max(1, row.number)))
    names = [*said, "events", "number"]
    connection.execute(insert(table).from_select(names, copied.where(source.c.id == row.id)))


def _sent_on(connection: Connection, ids: Sequence[int], now: datetime) -> int:
    now_ms = literal(int(now.timestamp() * 1000))
    common = (table.c.bucket, table.c.events, literal(0), now_ms)
    kept = _named(ids)
    settling = select(table.c.project_id, *common).where(kept, table.c.stage == "settle")
    storing = select(*common).where(kept, table.c.stage == "store")
    names = ["bucket", "events", "number", "accepted_ms"]
    connection.execute(
        insert(inbox).from_select(["project_id", *names], settling.order_by(table.c.id))
    )
    connection.execute(insert(ready_events).from_select(names, storing.order_by(table.c.id)))
    return _removed(connection, kept)


def _named(ids: Sequence[int]) -> ColumnElement[bool]:
    return table.c.id.in_(ids)


def _removed(connection: Connection, chosen: ColumnElement[bool]) -> int:
    gone = delete(table).where(chosen)
    return sum(connection.execute(gone.returning(table.c.number)).scalars())
