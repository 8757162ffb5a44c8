"""Stores what became of deliveries. One that succeeds is only taken from its batch; one that fails
gets a row.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection

from hedgerow.pipelines.deliveries.model import DeliveryReport
from hedgerow.pipelines.model import RecordId
from hedgerow.storage.deliveries.batches import find_segments, remove_events
from hedgerow.storage.engine import bulk

# By event: status, attempts, when it is due or died, and why.
FailedRow = tuple[str, int, int, str]

_INSERT = (
    "INSERT INTO deliveries (record_id, event_id, project_id, uuid, distinct_id, status, attempts,"
    " due_ms, error, created_ms)"
    " SELECT r.record_id, e.id, e.project_id, e.uuid, e.distinct_id, r.status, r.attempts,"
    " r.due_ms, r.error, r.created_ms FROM {rows} JOIN delivery_events AS e ON e.id = r.event_id"
)
_UPDATE = (
    "UPDATE deliveries SET status = r.status, attempts = r.attempts, due_ms = r.due_ms,"
    " error = r.error FROM {rows}"
    " WHERE deliveries.event_id = r.event_id AND deliveries.record_id = r.record_id"
)
_DELETE = "DELETE FROM deliveries WHERE record_id = ? AND event_id IN ({numbers})"
_INSERT_COLUMNS = ("record_id", "event_id", "status", "attempts", "due_ms", "error", "created_ms")
_UPDATE_COLUMNS = _INSERT_COLUMNS[:-1]


def save_outcomes(connection: Connection, report: DeliveryReport) -> Collection[int]:
    """Store the outcomes of a report. Return the segments of which it needs some events no more.
    An outcome of a delivery that does not exist any more has no effect."""
    failed = _build_failed_rows(report)
    ids = [*report.delivered, *failed]
    if not ids:
        return ()
    record_id = report.record_id
    segments = find_segments(connection, ids)
    removed = remove_events(connection, ids, segments, record_id)
    add_failed(connection, record_id, failed, removed.created_ms)
    later = ((id, row) for id, row in failed.items() if id not in removed.created_ms)
    rows = [(record_id, id, *row) for id, row in later]
    bulk.execute_many(connection, _UPDATE, _UPDATE_COLUMNS, rows)
    delivered = [id for id in report.delivered if id not in removed.created_ms]
    if delivered and delete_failed(connection, record_id, delivered):
        return segments
    return removed.segments


def add_failed(
    connection: Connection,
    record_id: RecordId,
    failed: Mapping[int, FailedRow],
    created_ms: Mapping[int, int],
) -> None:
    """Add rows for events that were removed from batches. `created_ms` is the time of these."""
    rows = [(record_id, id, *row, created_ms[id]) for id, row in failed.items() if id in created_ms]
    bulk.execute_many(connection, _INSERT, _INSERT_COLUMNS, rows)


def delete_failed(connection: Connection, record_id: RecordId, event_ids: Iterable[int]) -> int:
    return bulk.execute(connection, _DELETE, record_id, list(event_ids))


def _build_failed_rows(report: DeliveryReport) -> dict[int, FailedRow]:
    """For dead deliveries, `due_ms` is the time of death."""
    rows: dict[int, FailedRow] = {
        id: ("retrying", each.attempts, each.due_ms, each.reason)
        for id, each in report.retried.items()
    }
    dead = report.dead.items()
    return rows | {id: ("dead", each.attempts, each.since_ms, each.reason) for id, each in dead}
