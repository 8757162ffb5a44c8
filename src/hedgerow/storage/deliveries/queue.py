"""The delivery queue of each destination, and the results that workers report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
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

from hedgerow.events.deletion import EventCopies
from hedgerow.pipelines.deliveries.model import (
    Delivery,
    DeliveryReport,
    RetentionPeriods,
)
from hedgerow.pipelines.deliveries.retry import NOT_PAUSED, PauseState
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import (
    DeliveryStore,
    DestinationHealthStore,
    TakeBytes,
    take_all,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import counts, delivered, retention
from hedgerow.storage.deliveries.logs import add_log_lines, delete_lines_of_events
from hedgerow.storage.deliveries.new_deliveries import unpack_event
from hedgerow.storage.deliveries.ordering import OrderedQueue
from hedgerow.storage.deliveries.quotes import (
    MESSAGE_TABLES,
    QuotedEvents,
    find_paused_entries,
    remove_reasons,
)
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.engine.leases import Leases
from hedgerow.storage.pipelines import notifications
from hedgerow.storage.pipelines.jobs import release_replays
from hedgerow.storage.pipelines.records import find_newest_switch_ms
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import deliveries as table
from hedgerow.storage.tables import delivery_leases, delivery_logs, destination_states

MAX_BATCH_BYTES = 16 * 1024 * 1024
# Replaces the messages about a batch if one of its deliveries was deleted meanwhile, because of its
# event or by another worker.
UNKEPT_MESSAGE = "The message was not kept: a delivery of the batch was deleted while it was sent."
UNREADABLE_EVENT_ERROR = "The event cannot be decoded: its row in the database is damaged."

_ZERO = literal_column("0", Integer)
_WAITING = literal_column("'waiting'", Text)
_RETRYING = literal_column("'retrying'", Text)
_is_of_record = table.c.record_id == bindparam("record_id")


def _select_first(wanted: ColumnElement[bool], most: Any) -> Select[Any]:
    return (
        select(table.c.id, func.length(table.c.event))
        .where(_is_of_record & wanted)
        .order_by(table.c.due_ms, table.c.id)
        .limit(most)
        .offset(_ZERO)
    )


_retry_is_due = (table.c.status == _RETRYING) & (table.c.due_ms <= bindparam("now"))
_is_waiting = table.c.status == _WAITING
_ONE = literal_column("1", Integer)
_select_any_retry = PreparedQuery(_select_first(_retry_is_due, _ONE))
_select_any_waiting = PreparedQuery(_select_first(_is_waiting, _ONE))
_select_retries = PreparedQuery(_select_first(_retry_is_due, bindparam("limit")))
_select_waiting = PreparedQuery(_select_first(_is_waiting, bindparam("limit")))
_select_pending_retries = select(table.c.distinct_id).where(
    _is_of_record & (table.c.status == _RETRYING) & (table.c.due_ms > bindparam("now"))
)
# A destination that keeps order sends nothing before an earlier delivery of the same distinct id.
_select_retries_in_order = PreparedQuery(
    select(table.c.id, func.length(table.c.event))
    .where(_is_of_record & _retry_is_due & table.c.distinct_id.not_in(_select_pending_retries))
    .order_by(table.c.id)
    .limit(bindparam("limit"))
    .offset(_ZERO)
)
_select_health = PreparedQuery(
    select(
        destination_states.c.error,
        destination_states.c.failures,
        destination_states.c.paused_until_ms,
    ).where(destination_states.c.record_id == bindparam("record_id"))
)

_MARK_DEAD = (
    "UPDATE deliveries SET status = 'dead', due_ms = r.due_ms, error = r.error"
    " FROM {rows} WHERE deliveries.id = r.id"
)

_select_errors = PreparedQuery(
    select(destination_states.c.record_id, destination_states.c.error).where(
        destination_states.c.error != literal_column("''", Text)
    )
)


def end_pause(connection: Connection, record_id: RecordId) -> None:
    """Let a paused destination get its next request now."""
    connection.execute(
        update(destination_states)
        .where(destination_states.c.record_id == record_id)
        .values(paused_until_ms=0)
    )


class SqlDeliveryStore(DeliveryStore, DestinationHealthStore, EventCopies):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_single_process = database.engine_name == "sqlite"
        self._leases = Leases(database, delivery_leases)
        self._ordered = OrderedQueue(database)

    async def has_due(self, record_id: RecordId, now_ms: int) -> bool:
        params = {"record_id": record_id, "now": now_ms}
        return bool(
            await self._database.fetch(_select_any_waiting, params)
            or await self._database.fetch(_select_any_retry, params)
        )

    async def acquire(self, record_id: RecordId) -> bool:
        return self._is_single_process or await self._leases.acquire(record_id)

    async def renew(self) -> None:
        await self._leases.renew()

    async def release(self) -> None:
        await self._leases.release()

    async def due(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        params = {"record_id": record_id, "now": now_ms, "limit": limit}
        found = await self._database.fetch(_select_retries, params)
        if len(found) < limit:
            found += await self._database.fetch(
                _select_waiting, params | {"limit": limit - len(found)}
            )
        return await self._read_batch(found, now_ms, take)

    async def due_in_order(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        params = {"record_id": record_id, "now": now_ms, "limit": limit}
        found = await self._database.fetch(_select_retries_in_order, params)
        if len(found) < limit:
            found += await self._ordered.fetch_sendable(record_id, limit - len(found), now_ms)
        return await self._read_batch(found, now_ms, take)

    async def _read_batch(
        self, found: Sequence[tuple[Any, ...]], now_ms: int, take: TakeBytes
    ) -> Sequence[Delivery]:
        """Read these deliveries, or as many as fit into a batch. `found` has ids and sizes."""
        ids: list[int] = []
        size = 0
        for id, length in found:
            size += length
            if (ids and size > MAX_BATCH_BYTES) or not take(length):
                break
            ids.append(id)
        if not ids:
            return ()
        rows = await self._database.read(lambda connection: _read_rows(connection, ids))
        readable = [each for row in rows if (each := _decode_delivery(row)) is not None]
        if len(readable) < len(rows):
            # An unreadable delivery would block its lane forever.
            known = {each.id for each in readable}
            await self._mark_unreadable([row[0] for row in rows if row[0] not in known], now_ms)
        return readable

    async def _mark_unreadable(self, ids: Sequence[int], now_ms: int) -> None:
        rows = [(id, now_ms, UNREADABLE_EVENT_ERROR) for id in ids]
        await self._database.write(
            lambda connection: bulk.execute_many(
                connection, _MARK_DEAD, ("id", "due_ms", "error"), rows
            )
        )

    async def pause_state(self, record_id: RecordId) -> PauseState:
        rows = await self._database.fetch(_select_health, {"record_id": record_id})
        if not rows:
            return NOT_PAUSED
        error, failures, paused_until_ms = rows[0]
        return PauseState(error=error, failures=failures, paused_until_ms=paused_until_ms)

    async def errors(self) -> Mapping[RecordId, str]:
        return dict(await self._database.fetch(_select_errors, {}))

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        rows = await self._database.fetch(counts.SELECT_SUMS, {"since": since_ms})
        return {id: (int(delivered), int(dead)) for id, delivered, dead in rows}

    async def save_report(self, report: DeliveryReport, now: datetime) -> None:
        def change(connection: Connection) -> None:
            kept = report if _has_all_failed(connection, report) else _remove_messages(report)
            _delete_deliveries(connection, report.delivered)
            _schedule_retries(connection, kept)
            _mark_dead(connection, kept)
            delivered.add_delivered(connection, report.record_id, report.delivered_events, now)
            counts.add_counts(connection, report, now)
            _save_pause_state(connection, kept)
            add_log_lines(connection, report.record_id, kept.logs, now)
            if kept.entry is not None:
                activity.record(connection, kept.entry, now)
            if kept.notification:
                notifications.add_notification(connection, kept.notification, now)

        await self._database.write(change)

    async def delete_copies(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> int:
        """Delete deliveries that match, and what was logged of them. If both lists are given, both
        must match."""
        condition, values = bulk.build_event_condition(uuids, distinct_ids)
        if not condition:
            return 0
        sql = f"SELECT id, uuid FROM deliveries WHERE project_id = ? AND {condition}"  # noqa: S608 - our own names

        def change(connection: Connection) -> int:
            release_replays(connection, project_id)
            found = bulk.select(connection, sql, project_id, *values)
            _delete_deliveries(connection, [id for id, _ in found])
            # Also what was logged of events that have been delivered since.
            delete_lines_of_events(connection, project_id, [*uuids, *(uuid for _, uuid in found)])
            return len(found)

        deleted = await self._database.write(change)
        await self._delete_quotes(project_id, uuids, distinct_ids)
        return deleted

    async def _delete_quotes(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> None:
        """Look for them outside of the writes, and in pages: appends would wait for a write."""
        quoted = QuotedEvents(uuids, () if uuids else distinct_ids)
        for messages in MESSAGE_TABLES:
            after: int | None = 0
            while after is not None:
                find = partial(
                    messages.find_page, project_id=project_id, after=after, quoted=quoted
                )
                found, after = await self._database.read_in_background(find)
                if found:
                    await self._database.write(partial(messages.remove, keys=found))
        find_entries = partial(find_paused_entries, project_id=project_id, quoted=quoted)
        entries = await self._database.read_in_background(find_entries)
        if entries:
            await self._database.write(partial(remove_reasons, entries=entries))

    async def find_newest_time(self) -> datetime:
        newest = select(delivery_logs.c.created_at).order_by(delivery_logs.c.id.desc()).limit(1)

        def find(connection: Connection) -> datetime:
            switched_at = datetime.fromtimestamp(find_newest_switch_ms(connection) / 1000, UTC)
            return max(connection.execute(newest).scalar() or switched_at, switched_at)

        return await self._database.read(find)

    async def follow_set_back_clock(self, now: datetime) -> None:
        await retention.follow_set_back_clock(self._database, now)

    async def expire_old(self, periods: RetentionPeriods, now: datetime) -> None:
        await retention.apply_retention(self._database, periods, now)


def _read_rows(connection: Connection, ids: list[int]) -> bulk.Rows:
    """Read rows in the order of `ids`."""
    sql = "SELECT id, event, attempts, created_ms FROM deliveries WHERE id IN ({numbers})"
    found = {row[0]: row for row in bulk.select(connection, sql, ids)}
    return [found[id] for id in ids if id in found]


def _decode_delivery(row: tuple[Any, ...]) -> Delivery | None:
    id, packed, attempts, created_ms = row
    if (event := unpack_event(packed)) is None:
        return None
    return Delivery(id=id, event=event, attempts=attempts, created_ms=created_ms)


def _delete_deliveries(connection: Connection, ids: Iterable[int]) -> None:
    bulk.execute(connection, "DELETE FROM deliveries WHERE id IN ({numbers})", list(ids))


def _has_all_failed(connection: Connection, report: DeliveryReport) -> bool:
    """Return whether no delivery that failed was deleted while it was sent. Locks them: a deletion
    that begins now waits, and then finds the messages."""
    ids = [*report.retried, *report.dead]
    sql = "SELECT id FROM deliveries WHERE id IN ({numbers}) {locked}"
    return len(bulk.select(connection, sql, ids)) == len(ids) if ids else True


def _remove_messages(report: DeliveryReport) -> DeliveryReport:
    """Remove what the receiver said, which may quote a deleted event."""
    state, entry = report.pause_state, report.entry
    if entry is not None and entry.detail:
        entry = replace(entry, detail={"reason": UNKEPT_MESSAGE})
    return replace(
        report,
        retried={id: replace(at, reason=UNKEPT_MESSAGE) for id, at in report.retried.items()},
        dead={id: replace(at, reason=UNKEPT_MESSAGE) for id, at in report.dead.items()},
        pause_state=replace(state, error=UNKEPT_MESSAGE) if state.error else state,
        logs=[],
        entry=entry,
        notification="",
    )


def _schedule_retries(connection: Connection, report: DeliveryReport) -> None:
    bulk.execute_many(
        connection,
        "UPDATE deliveries SET status = 'retrying', attempts = r.attempts, due_ms = r.due_ms,"
        " error = r.error FROM {rows} WHERE deliveries.id = r.id",
        ("id", "attempts", "due_ms", "error"),
        [(id, each.attempts, each.due_ms, each.reason) for id, each in report.retried.items()],
    )


def _mark_dead(connection: Connection, report: DeliveryReport) -> None:
    """Mark deliveries as dead. For these, `due_ms` is the time of death."""
    bulk.execute_many(
        connection,
        "UPDATE deliveries SET status = 'dead', attempts = r.attempts, due_ms = r.due_ms,"
        " error = r.error FROM {rows} WHERE deliveries.id = r.id",
        ("id", "attempts", "due_ms", "error"),
        [(id, each.attempts, each.since_ms, each.reason) for id, each in report.dead.items()],
    )


def _save_pause_state(connection: Connection, report: DeliveryReport) -> None:
    values = {
        "error": report.pause_state.error,
        "failures": report.pause_state.failures,
        "paused_until_ms": report.pause_state.paused_until_ms,
    }
    own = update(destination_states).where(destination_states.c.record_id == report.record_id)
    if not connection.execute(own.values(values)).rowcount:
        connection.execute(insert(destination_states), values | {"record_id": report.record_id})
