"""The deliveries' SQL: a queue for each destination, and what became of what was in it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from hedgerow.pipelines.deliveries import Ages, Delivery, NewDelivery, Report
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.retry import HEALTHY, Health
from hedgerow.projects.model import ProjectId
from hedgerow.storage import (
    activity,
    bulk,
    delivered,
    delivery_ages,
    delivery_counts,
    notifications,
)
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.delivery_order import OrderedQueues
from hedgerow.storage.leases import Leases
from hedgerow.storage.packed_deliveries import packed_event, unpacked_event
from hedgerow.storage.tables import deliveries as table
from hedgerow.storage.tables import delivery_leases, delivery_logs, destination_states

TURN_BYTES = 16 * 1024 * 1024
UNREADABLE = "The event cannot be read: its row in the database is damaged."

_NONE = literal_column("0", Integer)
_WAITING = literal_column("'waiting'", Text)
_RETRYING = literal_column("'retrying'", Text)
_of = table.c.record_id == bindparam("of")


def _first(wanted: ColumnElement[bool], most: Any) -> Select[Any]:
    return (
        select(table.c.id, func.length(table.c.event))
        .where(_of & wanted)
        .order_by(table.c.due_ms, table.c.id)
        .limit(most)
        .offset(_NONE)
    )


_retry_is_due = (table.c.status == _RETRYING) & (table.c.due_ms <= bindparam("now"))
_is_waiting = table.c.status == _WAITING
_one = literal_column("1", Integer)
_any_retry = HotRead(_first(_retry_is_due, _one))
_any_waiting = HotRead(_first(_is_waiting, _one))
_retries = HotRead(_first(_retry_is_due, bindparam("most")))
_others = HotRead(_first(_is_waiting, bindparam("most")))
_not_due = select(table.c.distinct_id).where(
    _of & (table.c.status == _RETRYING) & (table.c.due_ms > bindparam("now"))
)
# Whoever keeps order sends nothing before an earlier one of the same distinct id.
_retries_in_order = HotRead(
    select(table.c.id, func.length(table.c.event))
    .where(_of & _retry_is_due & table.c.distinct_id.not_in(_not_due))
    .order_by(table.c.id)
    .limit(bindparam("most"))
    .offset(_NONE)
)
_health = HotRead(
    select(
        destination_states.c.error,
        destination_states.c.failures,
        destination_states.c.paused_until_ms,
    ).where(destination_states.c.record_id == bindparam("of"))
)

_DEAD_AT_ONCE = (
    "UPDATE deliveries SET status = 'dead', due_ms = r.due_ms, error = r.error"
    " FROM {rows} WHERE deliveries.id = r.id"
)
_COLUMNS = tuple(column.name for column in table.c if column.name != "id")

_errors = HotRead(
    select(destination_states.c.record_id, destination_states.c.error).where(
        destination_states.c.error != literal_column("''", Text)
    )
)


def add(connection: Connection, made: Sequence[NewDelivery], now: datetime) -> None:
    """Call in the transaction that ends what they are made of."""
    created_ms = int(now.timestamp() * 1000)
    bulk.insert(
        connection,
        "deliveries",
        _COLUMNS,
        [
            (
                each.event.project_id,
                each.record_id,
                each.event.uuid,
                each.event.distinct_id,
                packed_event(each.event),
                "waiting",
                0,
                0,
                "",
                created_ms,
            )
            for each in made
        ],
    )


class DeliveryRecords:
    """Where one process `is_alone` with the database, there is nobody to keep apart."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_alone = database.engine_name == "sqlite"
        self._leases = Leases(database, delivery_leases)
        self._ordered = OrderedQueues(database)

    async def has_due(self, record_id: RecordId, now_ms: int) -> bool:
        asked = {"of": record_id, "now": now_ms}
        return bool(
            await self._database.fetch(_any_waiting, asked)
            or await self._database.fetch(_any_retry, asked)
        )

    async def take(self, record_id: RecordId) -> bool:
        return self._is_alone or await self._leases.take(record_id)

    async def keep(self) -> None:
        await self._leases.renew()

    async def let_go(self) -> None:
        await self._leases.let_go()

    async def due(self, record_id: RecordId, limit: int, now_ms: int) -> Sequence[Delivery]:
        asked = {"of": record_id, "now": now_ms, "most": limit}
        found = await self._database.fetch(_retries, asked)
        if len(found) < limit:
            found += await self._database.fetch(_others, asked | {"most": limit - len(found)})
        return await self._read(found, now_ms)

    async def due_in_order(
        self, record_id: RecordId, limit: int, now_ms: int
    ) -> Sequence[Delivery]:
        asked = {"of": record_id, "now": now_ms, "most": limit}
        found = await self._database.fetch(_retries_in_order, asked)
        if len(found) < limit:
            found += await self._ordered.waiting(record_id, limit - len(found), now_ms)
        return await self._read(found, now_ms)

    async def _read(self, found: Sequence[tuple[Any, ...]], now_ms: int) -> Sequence[Delivery]:
        """These deliveries, or as many as fit into a turn, of which their sizes are known."""
        ids: list[int] = []
        size = 0
        for id, length in found:
            size += length
            if ids and size > TURN_BYTES:
                break
            ids.append(id)
        if not ids:
            return ()
        rows = await self._database.read(lambda connection: _rows(connection, ids))
        readable = [each for row in rows if (each := _delivery(row)) is not None]
        if len(readable) < len(rows):
            # What cannot be read would stand in its lane's way for ever.
            known = {each.id for each in readable}
            await self._give_up([row[0] for row in rows if row[0] not in known], now_ms)
        return readable

    async def _give_up(self, ids: Sequence[int], now_ms: int) -> None:
        rows = [(id, now_ms, UNREADABLE) for id in ids]
        await self._database.write(
            lambda connection: bulk.run(connection, _DEAD_AT_ONCE, ("id", "due_ms", "error"), rows)
        )

    async def health(self, record_id: RecordId) -> Health:
        rows = await self._database.fetch(_health, {"of": record_id})
        if not rows:
            return HEALTHY
        error, failures, paused_until_ms = rows[0]
        return Health(error=error, failures=failures, paused_until_ms=paused_until_ms)

    async def errors(self) -> Mapping[RecordId, str]:
        return dict(await self._database.fetch(_errors, {}))

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        rows = await self._database.fetch(delivery_counts.SUMS, {"since": since_ms})
        return {id: (int(delivered), int(dead)) for id, delivered, dead in rows}

    async def report(self, report: Report, now: datetime) -> None:
        def change(connection: Connection) -> None:
            _end(connection, report.delivered)
            _put_off(connection, report)
            _bury(connection, report)
            delivered.add(connection, report.record_id, report.arrived, now)
            delivery_counts.add(connection, report, now)
            _save_health(connection, report)
            _log(connection, report, now)
            if report.entry is not None:
                activity.record(connection, report.entry, now)
            if report.notice:
                notifications.add(connection, report.notice, now)

        await self._database.write(change)

    async def forget(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> None:
        """Where both are given, both must hold."""
        wanted = [("uuid", list(uuids)), ("distinct_id", list(distinct_ids))]
        asked = [(column, values) for column, values in wanted if values]
        if not asked:
            return
        conditions = [f"{column} IN ({{texts}})" for column, _ in asked]
        sql = " AND ".join(["SELECT id FROM deliveries WHERE project_id = ?", *conditions])

        def change(connection: Connection) -> None:
            found = bulk.select(connection, sql, project_id, *(values for _, values in asked))
            _end(connection, [id for (id,) in found])

        await self._database.write(change)

    async def forget_old(self, ages: Ages, now: datetime) -> None:
        await delivery_ages.forget_old(self._database, ages, now)


def _rows(connection: Connection, ids: list[int]) -> bulk.Rows:
    """In the order of their ids as they are given."""
    sql = "SELECT id, event, attempts, created_ms FROM deliveries WHERE id IN ({numbers})"
    found = {row[0]: row for row in bulk.select(connection, sql, ids)}
    return [found[id] for id in ids if id in found]


def _delivery(row: tuple[Any, ...]) -> Delivery | None:
    id, packed, attempts, created_ms = row
    if (event := unpacked_event(packed)) is None:
        return None
    return Delivery(id=id, event=event, attempts=attempts, created_ms=created_ms)


def _end(connection: Connection, ids: Iterable[int]) -> None:
    bulk.change(connection, "DELETE FROM deliveries WHERE id IN ({numbers})", list(ids))


def _put_off(connection: Connection, report: Report) -> None:
    bulk.run(
        connection,
        "UPDATE deliveries SET status = 'retrying', attempts = r.attempts, due_ms = r.due_ms,"
        " error = r.error FROM {rows} WHERE deliveries.id = r.id",
        ("id", "attempts", "due_ms", "error"),
        [(id, each.attempts, each.due_ms, each.reason) for id, each in report.retried.items()],
    )


def _bury(connection: Connection, report: Report) -> None:
    """`due_ms` says since when they are dead."""
    bulk.run(
        connection,
        "UPDATE deliveries SET status = 'dead', attempts = r.attempts, due_ms = r.due_ms,"
        " error = r.error FROM {rows} WHERE deliveries.id = r.id",
        ("id", "attempts", "due_ms", "error"),
        [(id, each.attempts, each.since_ms, each.reason) for id, each in report.dead.items()],
    )


def _save_health(connection: Connection, report: Report) -> None:
    values = {
        "error": report.health.error,
        "failures": report.health.failures,
        "paused_until_ms": report.health.paused_until_ms,
    }
    own = update(destination_states).where(destination_states.c.record_id == report.record_id)
    if not connection.execute(own.values(values)).rowcount:
        connection.execute(insert(destination_states), values | {"record_id": report.record_id})


def _log(connection: Connection, report: Report, now: datetime) -> None:
    rows = [
        {
            "record_id": report.record_id,
            "level": line.level.value,
            "message": line.message,
            "uuid": line.uuid,
            "created_at": now,
        }
        for line in report.logs
    ]
    if rows:
        connection.execute(insert(delivery_logs), rows)
