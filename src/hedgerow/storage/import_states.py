"""How far the imports of a record have come."""

from sqlalchemy import Connection, insert, select, update

from hedgerow.pipelines.running import Step
from hedgerow.storage.tables import import_states as table
from hedgerow.storage.tables import imported_files


def save(connection: Connection, record_id: int, step: Step) -> None:
    """Call in the transaction that stores a job's step."""
    values = {"about": step.about, "cursor": step.cursor}
    own = update(table).where(table.c.record_id == record_id)
    if not connection.execute(own.values(values)).rowcount:
        connection.execute(insert(table), values | {"record_id": record_id, "schedule": ""})
    for mark in step.finished:
        file = (imported_files.c.record_id == record_id) & (imported_files.c.name == mark.name)
        known = connection.execute(select(imported_files.c.version).where(file)).scalar()
        if known is None:
            connection.execute(
                insert(imported_files),
                {"record_id": record_id, "name": mark.name, "version": mark.version},
            )
        elif known != mark.version:
            connection.execute(update(imported_files).where(file).values(version=mark.version))
