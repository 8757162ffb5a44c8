"""Messages of the service to destinations: deliveries that no captured event caused."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select, update

from hedgerow.events.model import Event
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.tables import alert_checks, alerts, chart_pictures, subscriptions
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


def forget_messages(connection: Connection, project_ids: Sequence[ProjectId]) -> None:
    """Delete what checks of alerts and pictures of subscriptions show: the values of a breakdown
    may be persons."""
    own_alerts = select(alerts.c.id).where(alerts.c.project_id.in_(project_ids))
    own_checks = alert_checks.c.alert_id.in_(own_alerts)
    connection.execute(update(alert_checks).where(own_checks).values(breaches=[]))
    own = select(subscriptions.c.id).where(subscriptions.c.project_id.in_(project_ids))
    connection.execute(delete(chart_pictures).where(chart_pictures.c.subscription_id.in_(own)))
