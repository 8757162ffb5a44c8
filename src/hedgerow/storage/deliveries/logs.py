"""Log lines of destinations, transformations and jobs."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from hedgerow.pipelines.deliveries.model import LogLine
from hedgerow.pipelines.model import RecordId
from hedgerow.storage.tables import delivery_logs as table

MAX_LOG_LINES = 1000


def add_log_lines(
    connection: Connection, record_id: int, lines: Iterable[LogLine], now: datetime
) -> None:
    rows = [
        {
            "record_id": record_id,
            "level": line.level.value,
            "message": line.message,
            "uuid": line.uuid,
            "created_at": now,
        }
        for line in lines
    ]
    if rows:
        connection.execute(insert(table), rows)


def delete_old_log_lines(record_id: RecordId, connection: Connection) -> None:
    """Delete all but the newest log lines of a record."""
    own = table.c.record_id == record_id
    newest_deleted = connection.execute(
        select(table.c.id).where(own).order_by(table.c.id.desc()).limit(1).offset(MAX_LOG_LINES)
    ).scalar()
    if newest_deleted is not None:
        connection.execute(delete(table).where(own & (table.c.id <= newest_deleted)))
