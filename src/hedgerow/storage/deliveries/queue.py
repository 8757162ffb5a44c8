"""The delivery queue of each destination, and the results that workers report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Text,
    bindparam,
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
from hedgerow.pipelines.deliveries.retry import (
    MAX_RETRY_AFTER_MS,
    NOT_PAUSED,
    DeadDelivery,
    PauseState,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import (
    DeliveryStore,
    DestinationHealthStore,
    TakeBytes,
    take_all,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import counts, delivered, retention
from hedgerow.storage.deliveries.batches import (
    Batch,
    fetch_batches,
    remove_events,
    remove_from_batches,
)
from hedgerow.storage.deliveries.logs import add_log_lines, delete_lines_of_events
from hedgerow.storage.deliveries.new_deliveries import unpack_event
from hedgerow.storage.deliveries.ordering import OrderedQueue
from hedgerow.storage.deliveries.outcomes import delete_failed, save_outcomes
from hedgerow.storage.deliveries.quotes import (
    MESSAGE_TABLES,
    QuotedEvents,
    find_paused_entries,
    remove_reasons,
)
from hedgerow.storage.deliveries.sweep import EventSweep
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

# Events that one deletion takes from the batches of all destinations at once.
DELETED_EVENTS = 100

_ZERO = literal_column("0", Integer)
_RETRYING = literal_column("'retrying'", Text)
_is_of_record = table.c.record_id == bindparam("record_id")
_retry_is_due = (table.c.status == _RETRYING) & (table.c.due_ms <= bindparam("now"))
_select_retries = PreparedQuery(
    select(table.c.event_id, table.c.attempts, table.c.created_ms)
    .where(_is_of_record & _retry_is_due)
    .order_by(table.c.due_ms, table.c.id)
    .limit(bindparam("limit"))
    .offset(_ZERO)
)
_select_pending_retries = select(table.c.distinct_id).where(
    _is_of_record & (table.c.status == _RETRYING) & (table.c.due_ms > bindparam("now"))
)
# A destination that keeps order sends nothing before an earlier delivery of the same distinct id.
_select_retries_in_order = PreparedQuery(
    select(table.c.event_id, table.c.attempts, table.c.created_ms)
    .where(_is_of_record & _retry_is_due & table.c.distinct_id.not_in(_select_pending_retries))
    .order_by(table.c.event_id)
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

_SELECT_DUE = (
    "SELECT r.id FROM pipeline_records AS r LEFT JOIN destination_states AS s"
    " ON s.record_id = r.id WHERE r.id IN ({numbers})"
    # A pause beyond the maximum was stored before the clock was corrected.
    " AND coalesce(s.paused_until_ms, 0) NOT BETWEEN ? AND ?"
    " AND (EXISTS (SELECT 1 FROM delivery_batches AS b WHERE b.record_id = r.id)"
    " OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.record_id = r.id"
    " AND d.status = 'retrying' AND d.due_ms <= ?))"
)
_SELECT_SIZES = "SELECT id, length(event) FROM delivery_events WHERE id IN ({numbers})"
_SELECT_EVENTS = "SELECT id, event FROM delivery_events WHERE id IN ({numbers})"
_LOCK_EVENTS = "SELECT id FROM delivery_events WHERE id IN ({numbers}) ORDER BY id {shared}"
_DELETE_EVENTS = "DELETE FROM delivery_events WHERE id IN ({numbers})"
_DELETE_DELIVERIES = "DELETE FROM deliveries WHERE event_id IN ({numbers})"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    """A delivery without its event. `batch_id` is None if it was attempted before."""

    event_id: int
    attempts: int
    created_ms: int
    batch_id: int | None


class SqlDeliveryStore(DeliveryStore, DestinationHealthStore, EventCopies):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_single_process = database.engine_name == "sqlite"
        self._leases = Leases(database, delivery_leases)
        self._ordered = OrderedQueue(database)
        self._sweep = EventSweep(database)

    async def find_due(self, record_ids: Sequence[RecordId], now_ms: int) -> set[RecordId]:
        ids: list[int] = list(record_ids)
        rows = await self._database.read(
            lambda connection: bulk.select(
                connection, _SELECT_DUE, ids, now_ms + 1, now_ms + MAX_RETRY_AFTER_MS, now_ms
            )
        )
        return {RecordId(id) for (id,) in rows}

    async def acquire(self, record_id: RecordId) -> bool:
        return self._is_single_process or await self._leases.acquire(record_id)

    async def renew(self) -> None:
        await self._leases.renew()

    async def release(self) -> None:
        await self._leases.release()

    async def due(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        found = await self._fetch_retries(_select_retries, record_id, limit, now_ms)
        if len(found) < limit:
            missing = limit - len(found)
            found += _list_due(await fetch_batches(self._database, record_id, missing))[:missing]
        return await self._load(record_id, found, now_ms, take)

    async def due_in_order(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        found = await self._fetch_retries(_select_retries_in_order, record_id, limit, now_ms)
        if len(found) < limit:
            missing = limit - len(found)
            batches = await self._ordered.fetch_sendable(record_id, missing, now_ms)
            found += _list_due(batches)[:missing]
        return await self._load(record_id, found, now_ms, take)

    async def _fetch_retries(
        self, query: PreparedQuery, record_id: RecordId, limit: int, now_ms: int
    ) -> list[DueDelivery]:
        params = {"record_id": record_id, "now": now_ms, "limit": limit}
        return [
            DueDelivery(event_id=id, attempts=attempts, created_ms=created_ms, batch_id=None)
            for id, attempts, created_ms in await self._database.fetch(query, params)
        ]

    async def _load(
        self, record_id: RecordId, due: Sequence[DueDelivery], now_ms: int, take: TakeBytes
    ) -> Sequence[Delivery]:
        """Load the events of deliveries, or of as many as fit into a batch."""
        if not due:
            return ()
        sizes = await self._select_by_id(_SELECT_SIZES, [each.event_id for each in due])
        chosen: list[DueDelivery] = []
        total = 0
        for each in due:
            size = sizes.get(each.event_id, 0)
            total += size
            if (chosen and total > MAX_BATCH_BYTES) or not take(size):
                break
            chosen.append(each)
        packed = await self._select_by_id(_SELECT_EVENTS, [each.event_id for each in chosen])
        loaded: list[Delivery] = []
        for each in chosen:
            if (event := unpack_event(packed.get(each.event_id, b""))) is not None:
                loaded.append(
                    Delivery(
                        id=each.event_id,
                        event=event,
                        attempts=each.attempts,
                        created_ms=each.created_ms,
                    )
                )
        if len(loaded) < len(chosen):
            # An unreadable event would block the lane forever.
            known = {each.id for each in loaded}
            unreadable = [each for each in chosen if each.event_id not in known]
            await self._give_up(record_id, unreadable, packed.keys(), now_ms)
        return loaded

    async def _select_by_id(self, sql: str, ids: list[int]) -> dict[int, Any]:
        return dict(await self._database.read(lambda connection: bulk.select(connection, sql, ids)))

    async def _give_up(
        self,
        record_id: RecordId,
        unreadable: Sequence[DueDelivery],
        there: Collection[int],
        now_ms: int,
    ) -> None:
        """Turn deliveries of damaged events into dead letters, and remove those without an event:
        another worker has ended them in the meantime, or the database is damaged."""
        dead = DeadDelivery(since_ms=now_ms, attempts=0, reason=UNREADABLE_EVENT_ERROR)
        report = DeliveryReport(
            record_id=record_id,
            pause_state=NOT_PAUSED,
            dead={each.event_id: dead for each in unreadable if each.event_id in there},
        )
        gone = [each for each in unreadable if each.event_id not in there]
        await self._database.write(lambda connection: save_outcomes(connection, report))
        if gone:
            ids = [each.event_id for each in gone]
            batches = sorted({each.batch_id for each in gone if each.batch_id is not None})

            def remove(connection: Connection) -> None:
                remove_from_batches(connection, batches, ids)
                delete_failed(connection, record_id, ids)

            await self._database.write(remove)

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
        def change(connection: Connection) -> Collection[int]:
            kept = report if _has_all_failed(connection, report) else _remove_messages(report)
            released = save_outcomes(connection, kept)
            delivered.add_delivered(connection, report.record_id, report.delivered_events, now)
            counts.add_counts(connection, report, now)
            _save_pause_state(connection, kept)
            add_log_lines(connection, report.record_id, kept.logs, now)
            if kept.entry is not None:
                activity.record(connection, kept.entry, now)
            if kept.notification:
                notifications.add_notification(connection, kept.notification, now)
            return released

        self._sweep.add(await self._database.write(change))

    async def delete_delivered(self) -> None:
        await self._sweep.run()

    async def delete_copies(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> int:
        """Delete deliveries that match, and what was logged of them. If both lists are given, both
        must match."""
        condition, values = bulk.build_event_condition(uuids, distinct_ids)
        if not condition:
            return 0
        sql = (
            "SELECT id, uuid, segment FROM delivery_events WHERE project_id = ? AND id > ?"  # noqa: S608 - our own names
            f" AND {condition} ORDER BY id LIMIT {DELETED_EVENTS} {{locked_for_deletion}}"
        )

        def change(after: int, connection: Connection) -> tuple[int | None, int]:
            release_replays(connection, project_id)
            found = bulk.select(connection, sql, project_id, after, *values)
            number = _delete_events(connection, [id for id, *_ in found], {row[2] for row in found})
            # Also what was logged of events that have been delivered since.
            uuids_of_lines = [*uuids, *(uuid for _, uuid, _ in found)]
            delete_lines_of_events(connection, project_id, uuids_of_lines)
            return found[-1][0] if len(found) == DELETED_EVENTS else None, number

        deleted = 0
        after: int | None = 0
        while after is not None:
            after, number = await self._database.write(partial(change, after))
            deleted += number
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
        await self._sweep.run_for_all()


def _list_due(batches: Sequence[Batch]) -> list[DueDelivery]:
    return [
        DueDelivery(event_id=id, attempts=0, created_ms=batch.created_ms, batch_id=batch.id)
        for batch in batches
        for id in batch.event_ids
    ]


def _delete_events(connection: Connection, ids: list[int], segments: Collection[int]) -> int:
    """Delete events with their deliveries, and return the number of these."""
    removed = remove_events(connection, ids, sorted(segments))
    number = sum(removed.numbers.values())
    number += bulk.execute(connection, _DELETE_DELIVERIES, ids)
    bulk.execute(connection, _DELETE_EVENTS, ids)
    return number


def _has_all_failed(connection: Connection, report: DeliveryReport) -> bool:
    """Return whether no event that failed was deleted while it was sent. Locks them: a deletion
    that begins now waits, and then finds the messages."""
    ids = [*report.retried, *report.dead]
    return len(bulk.select(connection, _LOCK_EVENTS, ids)) == len(ids) if ids else True


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


def _save_pause_state(connection: Connection, report: DeliveryReport) -> None:
    values = {
        "error": report.pause_state.error,
        "failures": report.pause_state.failures,
        "paused_until_ms": report.pause_state.paused_until_ms,
    }
    own = update(destination_states).where(destination_states.c.record_id == report.record_id)
    if not connection.execute(own.values(values)).rowcount:
        connection.execute(insert(destination_states), values | {"record_id": report.record_id})
