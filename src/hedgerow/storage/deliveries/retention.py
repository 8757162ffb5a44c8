"""Retention of deliveries: expires old ones, deletes dead ones, old counts and old log lines.

Queues may be long. Each is read by its index from the oldest row, in small batches, so that other
transactions do not wait long.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy import Column, Connection, bindparam, func, select

from hedgerow.pipelines.deliveries import notifications
from hedgerow.pipelines.deliveries.model import DeliveryReport, RetentionPeriods
from hedgerow.pipelines.deliveries.retry import (
    MAX_ATTEMPTS,
    MAX_RETRY_AFTER_MS,
    NOT_PAUSED,
    DeadDelivery,
    compute_backoff_ms,
    compute_probe_interval_ms,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.storage.deliveries import counts, delivered
from hedgerow.storage.deliveries.batches import decode_ids
from hedgerow.storage.deliveries.logs import delete_old_log_lines
from hedgerow.storage.deliveries.outcomes import save_outcomes
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines import transformation_counts
from hedgerow.storage.pipelines.records import date_back_switches
from hedgerow.storage.tables import deliveries, delivery_batches, delivery_logs

BATCH_SIZE = 500

TOO_OLD = "Gave up, the delivery is too old."
_MARK_DEAD = (
    "UPDATE deliveries SET status = 'dead', due_ms = ?,"  # noqa: S608 - our own text
    f" error = trim('{TOO_OLD} ' || error) WHERE id IN ({{numbers}})"
)
_DELETE = "DELETE FROM deliveries WHERE id IN ({numbers})"
# Batches are in the order of their creation: if the first is not too old, none is.
_SELECT_OLD_BATCH = (
    "SELECT id, event_ids FROM (SELECT id, event_ids, created_ms FROM delivery_batches"
    " WHERE record_id = ? ORDER BY id LIMIT 1) AS first WHERE created_ms < ?"
)
_DELETE_BATCH = "DELETE FROM delivery_batches WHERE id = ?"
_SELECT_OLD_RETRYING = (
    "SELECT id FROM deliveries WHERE status = 'retrying' AND created_ms < ?"
    " ORDER BY created_ms LIMIT ?"
)
# No retry is scheduled this far ahead, unless the clock was wrong.
_SELECT_DISTANT_RETRIES = (
    "SELECT id FROM deliveries WHERE record_id = ? AND status = 'retrying' AND due_ms > ?"
    " ORDER BY due_ms LIMIT ?"
)
_RESCHEDULE = "UPDATE deliveries SET due_ms = ? WHERE id IN ({numbers})"
_SELECT_OLD_DEAD = (
    "SELECT id FROM deliveries WHERE record_id = ? AND status = 'dead' AND due_ms < ?"
    " ORDER BY due_ms LIMIT ?"
)


def _build_case(column: str, compute: Callable[[int], int]) -> str:
    """Build an expression that has the value of `compute` for the number in a column."""
    cases = " ".join(f"WHEN {number} THEN {compute(number)}" for number in range(MAX_ATTEMPTS))
    return f"CASE {column} {cases} ELSE {compute(MAX_ATTEMPTS)} END"


_BACKOFF_MS = _build_case("attempts", compute_backoff_ms)
_PROBE_INTERVAL_MS = _build_case("failures", compute_probe_interval_ms)
_NOTIFICATION_WAIT_MS = _build_case("attempts", notifications.compute_wait_ms)
_SELECT_LATE_RETRIES = (
    "SELECT id FROM deliveries WHERE record_id = ? AND status = 'retrying'"  # noqa: S608 - our own
    f" AND due_ms > ? AND due_ms - {_BACKOFF_MS} > ? LIMIT ?"
)
_SHORTEN_RETRIES = f"UPDATE deliveries SET due_ms = ? + {_BACKOFF_MS} WHERE id IN ({{numbers}})"  # noqa: S608
_SHORTEN_PAUSES = (
    f"UPDATE destination_states SET paused_until_ms = ? + {_PROBE_INTERVAL_MS}"  # noqa: S608
    f" WHERE paused_until_ms - {_PROBE_INTERVAL_MS} > ?"
)
_SHORTEN_NOTIFICATIONS = (
    f"UPDATE notifications SET due_ms = ? + {_NOTIFICATION_WAIT_MS}"  # noqa: S608
    f" WHERE due_ms - {_NOTIFICATION_WAIT_MS} > ?"
)


async def follow_set_back_clock(database: Database, now: datetime) -> None:
    now_ms = int(now.timestamp() * 1000)

    def shorten_retries(id: RecordId, connection: Connection) -> int:
        rows = bulk.select(connection, _SELECT_LATE_RETRIES, id, now_ms, now_ms, BATCH_SIZE)
        found = _unwrap_ids(rows)
        return bulk.execute(connection, _SHORTEN_RETRIES, now_ms, found) if found else 0

    def shorten_others(connection: Connection) -> None:
        bulk.execute(connection, _SHORTEN_PAUSES, now_ms, now_ms)
        bulk.execute(connection, _SHORTEN_NOTIFICATIONS, now_ms, now_ms)

    await database.write(partial(date_back_switches, now=now))
    await database.write(shorten_others)
    for id in await _list_records(database, deliveries.c.record_id):
        await _repeat_until_done(database, partial(shorten_retries, id))


async def apply_retention(database: Database, periods: RetentionPeriods, now: datetime) -> None:
    now_ms = int(now.timestamp() * 1000)
    too_old, long_dead = now_ms - periods.waiting_ms, now_ms - periods.dead_ms

    def expire_retrying(connection: Connection) -> int:
        found = _unwrap_ids(bulk.select(connection, _SELECT_OLD_RETRYING, too_old, BATCH_SIZE))
        return bulk.execute(connection, _MARK_DEAD, now_ms, found) if found else 0

    def expire_batch(id: RecordId, connection: Connection) -> int:
        dead = DeadDelivery(since_ms=now_ms, attempts=0, reason=TOO_OLD)
        for batch_id, event_ids in bulk.select(connection, _SELECT_OLD_BATCH, id, too_old):
            report = DeliveryReport(
                record_id=id,
                pause_state=NOT_PAUSED,
                dead=dict.fromkeys(decode_ids(event_ids), dead),
            )
            save_outcomes(connection, report)
            # Nothing is left of it, unless its events are gone.
            bulk.execute(connection, _DELETE_BATCH, batch_id)
            return BATCH_SIZE
        return 0

    def delete_dead(id: RecordId, connection: Connection) -> int:
        found = _unwrap_ids(bulk.select(connection, _SELECT_OLD_DEAD, id, long_dead, BATCH_SIZE))
        return bulk.execute(connection, _DELETE, found) if found else 0

    def reschedule_distant(id: RecordId, connection: Connection) -> int:
        latest = now_ms + MAX_RETRY_AFTER_MS
        found = _unwrap_ids(
            bulk.select(connection, _SELECT_DISTANT_RETRIES, id, latest, BATCH_SIZE)
        )
        return bulk.execute(connection, _RESCHEDULE, now_ms, found) if found else 0

    await _repeat_until_done(database, expire_retrying)
    for id in await _list_records(database, delivery_batches.c.record_id):
        await _repeat_until_done(database, partial(expire_batch, id))
    for id in await _list_records(database, deliveries.c.record_id):
        await _repeat_until_done(database, partial(delete_dead, id))
        await _repeat_until_done(database, partial(reschedule_distant, id))
    await database.write(lambda connection: counts.delete_old_counts(connection, now))
    before_ms = now_ms - periods.delivered_ms
    await _repeat_until_done(
        database, partial(delivered.delete_old_delivered, before_ms, BATCH_SIZE)
    )
    await database.write(
        lambda connection: transformation_counts.delete_old_counts(connection, now)
    )
    for id in await _list_records(database, delivery_logs.c.record_id):
        await database.write(partial(delete_old_log_lines, id))


async def _repeat_until_done(database: Database, run_batch: Callable[[Connection], int]) -> None:
    while await database.write(run_batch) >= BATCH_SIZE:
        pass


async def _list_records(database: Database, column: Column[int]) -> list[RecordId]:
    """List the records that have rows in a table, with one index lookup each."""

    def run(connection: Connection) -> list[RecordId]:
        found: list[RecordId] = []
        following = select(func.min(column)).where(column > bindparam("last"))
        last: int | None = 0
        while (last := connection.execute(following, {"last": last}).scalar()) is not None:
            found.append(RecordId(last))
        return found

    return await database.read(run)


def _unwrap_ids(rows: bulk.Rows) -> list[int]:
    return [id for (id,) in rows]
