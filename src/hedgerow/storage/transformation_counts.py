"""What transformations did to events, counted by record and hour, and what went wrong with them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, text

from hedgerow.pipelines.deliveries import LogLevel
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import TransformedHour
from hedgerow.pipelines.transform import Tally
from hedgerow.storage.database import Database
from hedgerow.storage.delivery_counts import HOUR_MS, KEPT_HOURS, hour_of
from hedgerow.storage.tables import delivery_logs, destination_states
from hedgerow.storage.tables import transformation_counts as table

# One statement each, so that two workers who come first at the same moment do not both insert.
_count = text(
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


def add(connection: Connection, tallies: Iterable[Tally], now: datetime) -> None:
    """Call in the transaction that stores what is left of the events."""
    # In one order, or two workers would wait for each other.
    seen = sorted(filter(_is_told, tallies), key=lambda each: each.record_id)
    if not seen:
        return
    counted = [each for each in seen if each.changed or each.dropped or each.failed]
    if counted:
        connection.execute(
            _count,
            [
                {
                    "record_id": each.record_id,
                    "hour_ms": hour_of(now),
                    "changed": each.changed,
                    "dropped": each.dropped,
                    "failed": each.failed,
                }
                for each in counted
            ],
        )
    _tell_errors(connection, seen, now)


def _is_told(tally: Tally) -> bool:
    return bool(tally.seen or tally.failed)


def _tell_errors(connection: Connection, seen: Sequence[Tally], now: datetime) -> None:
    """An error goes with the first events that all went well. What is known already is not said
    again: a record may fail with every event."""
    of_these = destination_states.c.record_id.in_([each.record_id for each in seen])
    known: dict[int, str] = dict(
        connection.execute(
            select(destination_states.c.record_id, destination_states.c.error).where(of_these)
        ).all()
    )
    for each in seen:
        if known.get(each.record_id, "") != each.error:
            connection.execute(_put_error, {"record_id": each.record_id, "error": each.error})
            _log(connection, each, now)


def _log(connection: Connection, tally: Tally, now: datetime) -> None:
    lines = [
        {
            "record_id": tally.record_id,
            "level": LogLevel.ERROR.value,
            "message": f"The event was kept as it was: {reason}",
            "uuid": uuid,
            "created_at": now,
        }
        for reason, uuid in tally.reasons.items()
    ]
    if lines:
        connection.execute(insert(delivery_logs), lines)


def forget_old(connection: Connection, now: datetime) -> None:
    oldest = hour_of(now) - KEPT_HOURS * HOUR_MS
    connection.execute(delete(table).where(table.c.hour_ms < oldest))


class TransformationTrail:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def hours(self, record_id: RecordId, since_ms: int) -> list[TransformedHour]:
        statement = (
            select(table)
            .where((table.c.record_id == record_id) & (table.c.hour_ms > since_ms))
            .order_by(table.c.hour_ms)
        )

        def run(connection: Connection) -> list[TransformedHour]:
            return [
                TransformedHour(
                    hour_ms=row.hour_ms,
                    changed=row.changed,
                    dropped=row.dropped,
                    failed=row.failed,
                )
                for row in connection.execute(statement)
            ]

        return await self._database.read(run)
