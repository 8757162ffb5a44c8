"""Subscriptions, the pictures of their messages, and what they send."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from hedgerow.dashboards.model import InsightId
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.projects.recurrence import Frequency, Weekday
from hedgerow.storage.alerts.messages import queue_message
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.engine.row_claims import is_free
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import chart_pictures, dashboard_tiles, dashboards, pipeline_records
from hedgerow.storage.tables import saved_insights as insights
from hedgerow.storage.tables import subscriptions as table
from hedgerow.subscriptions.model import (
    ChartSource,
    SubscribedContent,
    Subscription,
    SubscriptionId,
    TargetType,
)
from hedgerow.subscriptions.store import (
    SentSubscription,
    SubscriptionFilter,
    SubscriptionStore,
    SubscriptionWrite,
    SubscriptionWriteContext,
)

NO_DESTINATION = "The destination is disabled or deleted."


class SqlSubscriptionStore(SubscriptionStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def subscriptions(
        self, project_id: ProjectId, wanted: SubscriptionFilter
    ) -> tuple[Sequence[Subscription], int]:
        own = (table.c.project_id == project_id) & table.c.deleted.is_(False)
        if wanted.insight_id is not None:
            own &= table.c.insight_id == wanted.insight_id
        if wanted.dashboard_id is not None:
            own &= table.c.dashboard_id == wanted.dashboard_id
        page = select(table).where(own).order_by(table.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[Subscription], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(read)

    async def subscription(self, project_id: ProjectId, id: SubscriptionId) -> Subscription | None:
        return await self._database.read(lambda connection: _find(connection, project_id, id))

    async def write_subscription(
        self,
        project_id: ProjectId,
        decide: Callable[[SubscriptionWriteContext], SubscriptionWrite],
        now: datetime,
    ) -> Subscription:
        def change(connection: Connection) -> Subscription:
            lock_project(connection, project_id)
            write = decide(_read_context(connection, project_id))
            stored = _write_row(connection, write.subscription)
            if (entry := write.build_entry(stored)) is not None:
                activity.record(connection, entry, now)
            return stored

        return await self._database.write(change)

    async def content(self, subscription: Subscription, limit: int) -> SubscribedContent | None:
        def read(connection: Connection) -> SubscribedContent | None:
            if subscription.insight_id is not None:
                return _read_insight(connection, subscription.insight_id)
            return _read_dashboard(connection, subscription, limit)

        return await self._database.read(read)

    async def list_due_projects(self, now: datetime, until: datetime) -> Sequence[ProjectId]:
        due = select(table.c.project_id).where(_is_due(now, until)).distinct()
        return await self._database.read(
            lambda connection: [ProjectId(id) for id in connection.execute(due).scalars()]
        )

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> Subscription | None:
        due = _is_due(now, until) & (table.c.project_id == project_id)
        first = select(table.c.id).where(due).order_by(table.c.next_delivery_date).limit(1)
        # A process that waited for another's claim finds that the row is no longer free.
        claim = (
            update(table)
            .where(due & (table.c.id == first.scalar_subquery()))
            .values(claimed_until=until)
            .returning(table)
        )

        def change(connection: Connection) -> Subscription | None:
            row = connection.execute(claim).one_or_none()
            return None if row is None else _decode(row)

        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return None
        return await self._database.write(change)

    async def save_sent(self, sent: SentSubscription, now: datetime) -> bool:
        before = sent.subscription

        def change(connection: Connection) -> bool:
            unchanged = (
                (table.c.id == before.id)
                & (table.c.claimed_until == sent.claimed_until)
                & (table.c.next_delivery_date == before.next_delivery_date)
                & table.c.enabled.is_(True)
                & table.c.deleted.is_(False)
            )
            values = {"next_delivery_date": sent.next_delivery_date, "claimed_until": None}
            if not connection.execute(update(table).where(unchanged).values(values)).rowcount:
                return False
            receivers = queue_message(connection, sent.message, [before.destination_id], now)
            error = sent.error or ("" if receivers else NO_DESTINATION)
            after: dict[str, Any] = {"last_error": error}
            if receivers:
                after["last_delivery_date"] = now
                _add_pictures(connection, before.id, sent.pictures, now)
            connection.execute(update(table).where(table.c.id == before.id).values(after))
            return True

        return await self._database.write(change)

    async def picture(self, token: str) -> bytes | None:
        wanted = select(chart_pictures.c.picture).where(chart_pictures.c.token == token)
        return await self._database.read(lambda connection: connection.execute(wanted).scalar())

    async def delete_pictures(self, before: datetime) -> None:
        old = delete(chart_pictures).where(chart_pictures.c.created_at < before)
        await self._database.write(lambda connection: connection.execute(old))


def _decode(row: Row[Any]) -> Subscription:
    values = {name: value for name, value in row._mapping.items() if name != "claimed_until"}
    return Subscription(
        **values
        | {
            "target_type": TargetType(row.target_type),
            "frequency": Frequency(row.frequency),
            "byweekday": tuple(Weekday(each) for each in row.byweekday),
        }
    )


def _find(connection: Connection, project_id: ProjectId, id: SubscriptionId) -> Subscription | None:
    own = (table.c.project_id == project_id) & (table.c.id == id) & table.c.deleted.is_(False)
    row = connection.execute(select(table).where(own)).one_or_none()
    return None if row is None else _decode(row)


def _read_context(connection: Connection, project_id: ProjectId) -> SubscriptionWriteContext:
    def exists(condition: ColumnElement[bool], id: Any) -> bool:
        return connection.execute(select(id).where(condition)).first() is not None

    own = (table.c.project_id == project_id) & table.c.deleted.is_(False)
    records = pipeline_records.c
    destinations = select(records.id, records.component_id).where(
        (records.project_id == project_id)
        & (records.family == Family.DESTINATION.value)
        & records.deleted.is_(False)
    )
    return SubscriptionWriteContext(
        find=lambda id: _find(connection, project_id, id),
        has_insight=lambda id: exists(
            (insights.c.project_id == project_id)
            & (insights.c.id == id)
            & insights.c.deleted.is_(False),
            insights.c.id,
        ),
        has_dashboard=lambda id: exists(
            (dashboards.c.project_id == project_id)
            & (dashboards.c.id == id)
            & dashboards.c.deleted.is_(False),
            dashboards.c.id,
        ),
        destinations={
            RecordId(row.id): ComponentId(row.component_id)
            for row in connection.execute(destinations)
        },
        count=connection.execute(select(func.count()).select_from(table).where(own)).scalar_one(),
    )


def _write_row(connection: Connection, subscription: Subscription) -> Subscription:
    values = asdict(subscription) | {
        "target_type": subscription.target_type.value,
        "frequency": subscription.frequency.value,
        "byweekday": [each.value for each in subscription.byweekday],
        "claimed_until": None,
    }
    del values["id"]
    if subscription.id:
        own = table.c.id == subscription.id
        connection.execute(update(table).where(own).values(**values))
        return subscription
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(subscription, id=SubscriptionId(id))


def _read_insight(connection: Connection, id: InsightId) -> SubscribedContent | None:
    live = (insights.c.id == id) & insights.c.deleted.is_(False)
    row = connection.execute(select(insights).where(live)).one_or_none()
    if row is None:
        return None
    chart = _build_source(row)
    return SubscribedContent(name=chart.name, charts=[chart], filters={}, total=1)


def _read_dashboard(
    connection: Connection, subscription: Subscription, limit: int
) -> SubscribedContent | None:
    """Read a dashboard with its first charts, in the order of the screen."""
    live = (dashboards.c.id == subscription.dashboard_id) & dashboards.c.deleted.is_(False)
    found = connection.execute(select(dashboards).where(live)).one_or_none()
    if found is None:
        return None
    tiles = (
        select(insights, dashboard_tiles.c.layouts, dashboard_tiles.c.id.label("tile_id"))
        .join(dashboard_tiles, dashboard_tiles.c.insight_id == insights.c.id)
        .where((dashboard_tiles.c.dashboard_id == found.id) & insights.c.deleted.is_(False))
    )
    rows = sorted(connection.execute(tiles), key=lambda row: (*_place(row.layouts), row.tile_id))
    return SubscribedContent(
        name=found.name,
        charts=[_build_source(row) for row in rows[:limit]],
        filters=found.filters,
        total=len(rows),
    )


def _place(layouts: Mapping[str, Any]) -> tuple[float, float]:
    """Return the row and the column of a tile on a large screen."""
    layout = layouts.get("sm")
    if not isinstance(layout, Mapping):
        return (float("inf"), 0)
    numbers = [layout.get(name) for name in ("y", "x")]
    y, x = (each if isinstance(each, int | float) else 0 for each in numbers)
    return (y, x)


def _build_source(row: Row[Any]) -> ChartSource:
    return ChartSource(short_id=row.short_id, name=row.name or row.derived_name, query=row.query)


def _add_pictures(
    connection: Connection, id: SubscriptionId, pictures: Mapping[str, bytes], now: datetime
) -> None:
    rows = [
        {"token": token, "subscription_id": id, "picture": picture, "created_at": now}
        for token, picture in pictures.items()
    ]
    if rows:
        connection.execute(insert(chart_pictures), rows)


def _is_due(now: datetime, until: datetime) -> ColumnElement[bool]:
    return (
        (table.c.next_delivery_date <= now)
        & table.c.enabled.is_(True)
        & table.c.deleted.is_(False)
        & is_free(table.c.claimed_until, now, until + (until - now))
    )
