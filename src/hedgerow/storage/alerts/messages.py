"""Messages of the service to destinations: deliveries that no captured event caused."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from hedgerow.events.model import Event
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.tables import pipeline_records as records


def list_destinations(connection: Connection, project_id: ProjectId) -> set[RecordId]:
    """Return the ids of all destinations of a project, whether they are enabled or not."""
    own = (
        (records.c.project_id == project_id)
        & (records.c.family == Family.DESTINATION.value)
        & records.c.deleted.is_(False)
    )
    return {RecordId(row.id) for row in connection.execute(select(records.c.id).where(own))}


def queue_message(
    connection: Connection, message: Event | None, ids: Sequence[RecordId], now: datetime
) -> Sequence[RecordId]:
    """Add a delivery for each of these destinations that is enabled, and return those."""
    if message is None or not ids:
        return ()
    enabled = select(records.c.id).where(
        records.c.id.in_(ids)
        & (records.c.project_id == message.project_id)
        & (records.c.family == Family.DESTINATION.value)
        & records.c.enabled.is_(True)
        & records.c.deleted.is_(False)
    )
    found = {row.id for row in connection.execute(enabled)}
    chosen = [id for id in ids if id in found]
    deliveries = [NewDelivery(record_id=id, event=message) for id in chosen]
    if deliveries:
        add_deliveries(connection, deliveries, now)
    return chosen
