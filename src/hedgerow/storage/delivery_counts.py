"""What became of deliveries, counted by record and hour."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from hedgerow.pipelines.deliveries import Report
from hedgerow.storage.database import HotRead
from hedgerow.storage.tables import delivery_counts as table

HOUR_MS = 3_600_000
KEPT_HOURS = 24 * 30

SUMS = HotRead(
    select(table.c.record_id, func.sum(table.c.delivered), func.sum(table.c.dead))
    .where(table.c.hour_ms > bindparam("since"))
    .group_by(table.c.record_id)
)


def hour_of(now: datetime) -> int:
    return int(now.timestamp() * 1000) // HOUR_MS * HOUR_MS


def add(connection: Connection, report: Report, now: datetime) -> None:
    """Call in the transaction that records what is counted."""
    if not any(report.latencies):
        return
    counts = {
        "delivered": len(report.delivered),
        "retried": len(report.retried),
        "dead": len(report.dead),
    }
    own = (table.c.record_id == report.record_id) & (table.c.hour_ms == hour_of(now))
    before = connection.execute(
        select(table.c.latencies).where(own).with_for_update()
    ).scalar_one_or_none()
    if before is None:
        values = {"record_id": report.record_id, "hour_ms": hour_of(now)}
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


def forget_old(connection: Connection, now: datetime) -> None:
    oldest = hour_of(now) - KEPT_HOURS * HOUR_MS
    connection.execute(delete(table).where(table.c.hour_ms < oldest))
