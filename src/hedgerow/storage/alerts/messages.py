"""Messages of the service to destinations: deliveries that no captured event caused."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import msgspec
from sqlalchemy import Connection, delete, select, update

from hedgerow.alerts.checker import ALERT_EVENTS, remove_values
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.messages import name_sender
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.component import Family
from hedgerow.plugin.payload import is_message
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.new_deliveries import add_deliveries, pack_event, unpack_event
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import (
    alert_checks,
    alerts,
    chart_pictures,
    delivery_events,
    subscriptions,
)
from hedgerow.storage.tables import pipeline_records as records
from hedgerow.subscriptions.sender import EVENT, remove_pictures

# Events that are read at once: one may be large.
PAGE_ROWS = 50
# How to remove from a queued message what may show a person, by the name of its event.
_REMOVALS = dict.fromkeys(ALERT_EVENTS.values(), remove_values) | {EVENT: remove_pictures}


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
    add_deliveries(connection, [NewDelivery(event=message, record_ids=chosen)], now)
    return chosen


def forget_messages(connection: Connection, project_ids: Sequence[ProjectId]) -> None:
    """Delete what checks of alerts and pictures of subscriptions show: the values of a breakdown
    may be persons. What is being computed is computed again."""
    for table in (alerts, subscriptions):
        own = table.c.project_id.in_(project_ids)
        connection.execute(update(table).where(own).values(claimed_until=None))
    own_alerts = select(alerts.c.id).where(alerts.c.project_id.in_(project_ids))
    own_checks = alert_checks.c.alert_id.in_(own_alerts)
    connection.execute(update(alert_checks).where(own_checks).values(breaches=[]))
    own_subscriptions = select(subscriptions.c.id).where(
        subscriptions.c.project_id.in_(project_ids)
    )
    own_pictures = chart_pictures.c.subscription_id.in_(own_subscriptions)
    connection.execute(delete(chart_pictures).where(own_pictures))


async def clean_queued_messages(database: Database, project_id: ProjectId) -> None:
    """Remove from queued messages what may show a person. Looks for them outside of the writes, and
    in pages: appends would wait for a write."""
    after: int | None = 0
    while after is not None:
        find = partial(_find_uncleaned, project_id=project_id, after=after)
        cleaned, after = await database.read_in_background(find)
        if cleaned:
            await database.write(partial(_replace_events, cleaned=cleaned))


def _find_uncleaned(
    connection: Connection, project_id: ProjectId, after: int
) -> tuple[Mapping[int, bytes], int | None]:
    """Return new events for a page of queued messages, and the last id of the page if another one
    follows."""
    page = (
        select(delivery_events.c.id, delivery_events.c.event)
        .where(
            (delivery_events.c.project_id == project_id)
            & (delivery_events.c.distinct_id == name_sender(project_id))
            & (delivery_events.c.id > after)
        )
        .order_by(delivery_events.c.id)
        .limit(PAGE_ROWS)
    )
    rows = connection.execute(page).all()
    cleaned = {id: _clean(event) for id, packed in rows if (event := unpack_event(packed))}
    last = rows[-1].id if len(rows) == PAGE_ROWS else None
    return {id: packed for id, packed in cleaned.items() if packed}, last


def _clean(event: Event) -> bytes:
    """Return the event without what may show a person, nothing if it shows none."""
    remove = _REMOVALS.get(event.event)
    if remove is None or not is_message(event):
        return b""
    properties = jsonio.encode(remove(jsonio.decode(event.properties))).decode()
    return pack_event(msgspec.structs.replace(event, properties=properties))


def _replace_events(connection: Connection, cleaned: Mapping[int, bytes]) -> None:
    for id, packed in cleaned.items():
        own = delivery_events.c.id == id
        connection.execute(update(delivery_events).where(own).values(event=packed))
