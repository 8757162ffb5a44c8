"""Hourly counts of delivered, retried and dead deliveries per destination."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from hedgerow.pipelines.deliveries.model import DeliveryReport
from hedgerow.storage.engine.database import PreparedQuery
from hedgerow.storage.tables import delivery_counts as table

HOUR_MS = 3_600_000
RETENTION_HOURS = 24 * 30

SELECT_SUMS = PreparedQuery(
    select(table.c.record_id, func.sum(table.c.delivered), func.sum(table.c.dead))
    .where(table.c.hour_ms > bindparam("since"))
    .group_by(table.c.record_id)
)


def get_hour_ms(now: datetime) -> int:
    return int(now.timestamp() * 1000) // HOUR_MS * HOUR_MS


def add_counts(connection: Connection, report: DeliveryReport, now: datetime) -> None:
    """Add counts. Call this in the transaction that stores the report."""
    if not any(report.latencies):
        return
    counts = {
        "delivered": len(report.delivered),
        "retried": len(report.retried),
        "dead": len(report.dead),
    }
    own = (table.c.record_id == report.record_id) & (table.c.hour_ms == get_hour_ms(now))
    before = connection.execute(
        select(table.c.latencies).where(own).with_for_update()
    ).scalar_one_or_none()
    if before is None:
        values = {"record_id": report.record_id, "hour_ms": get_hour_ms(now)}
        connection.execute(insert(table), values | counts | {"latencies": report.latencies})
        return
    connection.execute(
        update(table)
        .where(own)
        .values(
            **{name: table.c[name] + number for name, number in counts.items()},
            latencies=[one + other for one, other in zip(before, report.latencies, strict=True)],
        )
    )


def delete_old_counts(connection: Connection, now: datetime) -> None:
    oldest = get_hour_ms(now) - RETENTION_HOURS * HOUR_MS
    connection.execute(delete(table).where(table.c.hour_ms < oldest))
