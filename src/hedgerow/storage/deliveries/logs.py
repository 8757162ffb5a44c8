"""Log lines of destinations, transformations and jobs."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from hedgerow.pipelines.deliveries.model import LogLine
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.tables import delivery_logs as table

MAX_LOG_LINES = 1000

_OF_PROJECT = "record_id IN (SELECT id FROM pipeline_records WHERE project_id = ?)"


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


def delete_lines_of_events(
    connection: Connection, project_id: ProjectId, uuids: Sequence[str]
) -> None:
    """Delete what was logged of these events: a receiver may repeat them in its error message."""
    sql = f"DELETE FROM delivery_logs WHERE uuid IN ({{texts}}) AND {_OF_PROJECT}"  # noqa: S608 - our own names
    bulk.execute(connection, sql, list(uuids), project_id)
