"""Hourly counts of changed, dropped and failed events per transformation, and its last error."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select, text

from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import TransformationHistory, TransformationHour
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.storage.deliveries.counts import HOUR_MS, RETENTION_HOURS, get_hour_ms
from hedgerow.storage.deliveries.logs import add_log_lines
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import destination_states
from hedgerow.storage.tables import transformation_counts as table

# Single statements, so that two workers with the first count of an hour do not both insert.
_add_counts = text(
    "INSERT INTO transformation_counts (record_id, hour_ms, changed, dropped, failed)"
    " VALUES (:record_id, :hour_ms, :changed, :dropped, :failed)"
    " ON CONFLICT (record_id, hour_ms) DO UPDATE"
    " SET changed = transformation_counts.changed + excluded.changed,"
    " dropped = transformation_counts.dropped + excluded.dropped,"
    " failed = transformation_counts.failed + excluded.failed"
)
_put_error = text(
    "INSERT INTO destination_states (record_id, error, failures, paused_until_ms)"
    " VALUES (:record_id, :error, 0, 0)"
    " ON CONFLICT (record_id) DO UPDATE SET error = excluded.error"
)


def add_counts(
    connection: Connection, tallies: Iterable[TransformationCounts], now: datetime
) -> None:
    """Add counts. Call this in the transaction that stores the transformed events."""
    # Sorted, so that two workers lock rows in the same order and cannot deadlock.
    seen = sorted(filter(_has_events, tallies), key=lambda each: each.record_id)
    if not seen:
        return
    counted = [each for each in seen if each.changed or each.dropped or each.failed]
    if counted:
        connection.execute(
            _add_counts,
            [
                {
                    "record_id": each.record_id,
                    "hour_ms": get_hour_ms(now),
                    "changed": each.changed,
                    "dropped": each.dropped,
                    "failed": each.failed,
                }
                for each in counted
            ],
        )
    _update_errors(connection, seen, now)


def _has_events(tally: TransformationCounts) -> bool:
    return bool(tally.matched or tally.failed)


def _update_errors(
    connection: Connection, seen: Sequence[TransformationCounts], now: datetime
) -> None:
    """Set or clear the error of each transformation.

    A batch without failures clears the error. An unchanged error is not logged again, because a
    transformation may fail for every event.
    """
    of_these = destination_states.c.record_id.in_([each.record_id for each in seen])
    known: dict[int, str] = dict(
        connection.execute(
            select(destination_states.c.record_id, destination_states.c.error).where(of_these)
        ).all()
    )
    for each in seen:
        if known.get(each.record_id, "") != each.error:
            connection.execute(_put_error, {"record_id": each.record_id, "error": each.error})
            add_log_lines(connection, each.record_id, _build_log_lines(each), now)


def _build_log_lines(tally: TransformationCounts) -> list[LogLine]:
    return [
        LogLine(level=LogLevel.ERROR, message=f"The event was left unchanged: {reason}", uuid=uuid)
        for reason, uuid in tally.reasons.items()
    ]


def delete_old_counts(connection: Connection, now: datetime) -> None:
    oldest = get_hour_ms(now) - RETENTION_HOURS * HOUR_MS
    connection.execute(delete(table).where(table.c.hour_ms < oldest))


class SqlTransformationHistory(TransformationHistory):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def hours(self, record_id: RecordId, since_ms: int) -> list[TransformationHour]:
        statement = (
            select(table)
            .where((table.c.record_id == record_id) & (table.c.hour_ms > since_ms))
            .order_by(table.c.hour_ms)
        )

        def run(connection: Connection) -> list[TransformationHour]:
            return [
                TransformationHour(
                    hour_ms=row.hour_ms,
                    changed=row.changed,
                    dropped=row.dropped,
                    failed=row.failed,
                )
                for row in connection.execute(statement)
            ]

        return await self._database.read(run)
