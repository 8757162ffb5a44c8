"""Queues messages about entries of the activity log, in the transaction of the entries."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from hedgerow.errors import AppError
from hedgerow.pipelines.deliveries.activity_messages import build_activity_message
from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.event_filters import (
    EventPredicate,
    check_destination_settings,
    compile_event_filter,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import RecordedActivity
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.new_deliveries import add_deliveries

# The destinations of each project with their filters.
ActivityRoutes = dict[ProjectId, list[tuple[RecordId, EventPredicate]]]


def queue_activity(
    connection: Connection,
    entries: Sequence[RecordedActivity],
    receivers: Sequence[Row[Any]],
    now: datetime,
) -> None:
    """Add a delivery of each entry for each receiver of its project that it matches. `receivers`
    are rows of destinations."""
    routes = _compile_routes(receivers)
    made: list[NewDelivery] = []
    for recorded in entries:
        project_id = recorded.entry.project_id
        if project_id is None or not (own := routes.get(project_id)):
            continue
        message = build_activity_message(project_id, recorded)
        ids = [id for id, matches in own if matches(message, now)]
        made.append(NewDelivery(event=message, record_ids=ids))
    add_deliveries(connection, made, now)


def _compile_routes(receivers: Sequence[Row[Any]]) -> ActivityRoutes:
    routes: ActivityRoutes = defaultdict(list)
    for row in receivers:
        try:
            check_destination_settings(row.config)
        except AppError:  # the health of the destination shows it
            continue
        matches = compile_event_filter(row.config)
        routes[ProjectId(row.project_id)].append((RecordId(row.id), matches))
    return routes
