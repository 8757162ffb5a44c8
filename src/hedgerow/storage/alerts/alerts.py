"""Alerts, their checks, and the deliveries that a check causes."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, insert, select, update

from hedgerow.alerts.model import (
    MAX_CHECKS,
    Alert,
    AlertCheck,
    AlertCondition,
    AlertConfig,
    AlertInsight,
    AlertState,
    AlertView,
    CheckInterval,
    ConditionType,
)
from hedgerow.alerts.store import (
    AlertFilter,
    AlertStore,
    AlertWrite,
    AlertWriteContext,
    CheckedAlert,
)
from hedgerow.dashboards.model import InsightId
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.alerts.messages import list_destinations, queue_message
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.engine.row_claims import is_free
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import alert_checks as checks_table
from hedgerow.storage.tables import alerts as table
from hedgerow.storage.tables import saved_insights


class SqlAlertStore(AlertStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def alerts(
        self, project_id: ProjectId, wanted: AlertFilter, checks: int
    ) -> tuple[Sequence[AlertView], int]:
        own = table.c.project_id == project_id
        if wanted.insight_id is not None:
            own &= table.c.insight_id == wanted.insight_id
        page = _select_alerts(own).order_by(table.c.created_at.desc(), table.c.id)

        def read(connection: Connection) -> tuple[Sequence[AlertView], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return _build_views(connection, rows, checks), total

        return await self._database.read(read)

    async def alert(self, project_id: ProjectId, id: str, checks: int) -> AlertView | None:
        def read(connection: Connection) -> AlertView | None:
            own = (table.c.project_id == project_id) & (table.c.id == id)
            rows = connection.execute(_select_alerts(own)).all()
            return _build_views(connection, rows, checks)[0] if rows else None

        return await self._database.read(read)

    async def write_alert(
        self,
        project_id: ProjectId,
        decide: Callable[[AlertWriteContext], AlertWrite],
        now: datetime,
    ) -> AlertView:
        def change(connection: Connection) -> AlertView:
            lock_project(connection, project_id)
            write = decide(_read_context(connection, project_id))
            if write.is_deleted:
                view = _find_view(connection, write.alert.id)
                own = checks_table.c.alert_id == write.alert.id
                connection.execute(delete(checks_table).where(own))
                connection.execute(delete(table).where(table.c.id == write.alert.id))
            else:
                _write_row(connection, write.alert)
                view = _find_view(connection, write.alert.id)
            if write.entry is not None:
                activity.record(connection, write.entry, now)
            return view

        return await self._database.write(change)

    async def list_due_projects(self, now: datetime, until: datetime) -> Sequence[ProjectId]:
        due = select(table.c.project_id).where(_is_due(now, until)).distinct()
        return await self._database.read(
            lambda connection: [ProjectId(id) for id in connection.execute(due).scalars()]
        )

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> AlertView | None:
        due = _is_due(now, until) & (table.c.project_id == project_id)
        first = select(table.c.id).where(due).order_by(table.c.next_check_at).limit(1)
        # A process that waited for another's claim finds that the row is no longer free.
        claim = (
            update(table)
            .where(due & (table.c.id == first.scalar_subquery()))
            .values(claimed_until=until)
            .returning(table.c.id)
        )

        def change(connection: Connection) -> AlertView | None:
            id = connection.execute(claim).scalar()
            return None if id is None else _find_view(connection, id)

        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return None
        return await self._database.write(change)

    async def postpone(self, alert: Alert, next_check_at: datetime) -> None:
        values = {"next_check_at": next_check_at, "claimed_until": None}
        later = update(table).where(_is_unchanged(alert)).values(values)
        await self._database.write(lambda connection: connection.execute(later))

    async def save_check(self, checked: CheckedAlert, now: datetime) -> Sequence[RecordId] | None:
        alert, verdict = checked.alert, checked.verdict

        def change(connection: Connection) -> Sequence[RecordId] | None:
            values: dict[str, Any] = {
                "state": verdict.state.value,
                "last_checked_at": now,
                "last_value": verdict.value,
                "next_check_at": checked.next_check_at,
                "snoozed_until": None,
                "claimed_until": None,
            }
            is_held = _is_unchanged(alert) & (table.c.claimed_until == checked.claimed_until)
            changed = update(table).where(is_held).values(values)
            if not connection.execute(changed).rowcount:
                return None
            notified = queue_message(connection, checked.message, alert.destinations, now)
            if notified:
                marked = update(table).where(table.c.id == alert.id).values(last_notified_at=now)
                connection.execute(marked)
            _add_check(connection, checked, notified, now)
            return notified

        return await self._database.write(change)


def _is_unchanged(alert: Alert) -> ColumnElement[bool]:
    """Whether the alert is still due for the check that it was claimed for."""
    return (
        (table.c.id == alert.id)
        & (table.c.next_check_at == alert.next_check_at)
        & table.c.enabled.is_(True)
    )


def _select_alerts(condition: ColumnElement[bool]) -> Select[Any]:
    insight = saved_insights.c
    return (
        select(
            table,
            insight.short_id.label("insight_short_id"),
            insight.name.label("insight_name"),
            insight.derived_name.label("insight_derived_name"),
            insight.query.label("insight_query"),
            insight.deleted.label("insight_deleted"),
        )
        .join(saved_insights, insight.id == table.c.insight_id)
        .where(condition)
    )


def _find_view(connection: Connection, id: str) -> AlertView:
    rows = connection.execute(_select_alerts(table.c.id == id)).all()
    return _build_views(connection, rows, 0)[0]


def _build_views(
    connection: Connection, rows: Sequence[Row[Any]], checks: int
) -> Sequence[AlertView]:
    found = _read_checks(connection, [row.id for row in rows], checks)
    return [
        AlertView(
            alert=_decode_alert(row),
            insight=AlertInsight(
                id=InsightId(row.insight_id),
                short_id=row.insight_short_id,
                name=row.insight_name or row.insight_derived_name,
                query=row.insight_query,
                deleted=row.insight_deleted,
            ),
            checks=found[row.id],
        )
        for row in rows
    ]


def _read_checks(
    connection: Connection, ids: Sequence[str], limit: int
) -> dict[str, list[AlertCheck]]:
    """Return the newest checks of each alert, newest first."""
    found = defaultdict[str, list[AlertCheck]](list)
    if not ids or not limit:
        return found
    number = func.row_number().over(
        partition_by=checks_table.c.alert_id, order_by=checks_table.c.id.desc()
    )
    numbered = (
        select(checks_table, number.label("number")).where(checks_table.c.alert_id.in_(ids))
    ).subquery()
    newest = select(numbered).where(numbered.c.number <= limit).order_by(numbered.c.id.desc())
    for row in connection.execute(newest):
        found[row.alert_id].append(_decode_check(row))
    return found


def _decode_check(row: Row[Any]) -> AlertCheck:
    return AlertCheck(
        id=row.id,
        created_at=row.created_at,
        value=row.value,
        state=AlertState(row.state),
        breaches=row.breaches,
        error=row.error,
        notified=row.notified,
    )


def _decode_alert(row: Row[Any]) -> Alert:
    values = {
        name: value
        for name, value in row._mapping.items()
        if name in table.c and name != "claimed_until"
    }
    condition = row.condition | {"type": ConditionType(row.condition["type"])}
    return Alert(
        **values
        | {
            "condition": AlertCondition(**condition),
            "config": AlertConfig(**row.config),
            "calculation_interval": CheckInterval(row.calculation_interval),
            "state": AlertState(row.state),
        }
    )


def _read_context(connection: Connection, project_id: ProjectId) -> AlertWriteContext:
    own = table.c.project_id == project_id

    def find(id: str) -> Alert | None:
        row = connection.execute(select(table).where(own & (table.c.id == id))).one_or_none()
        return None if row is None else _decode_alert(row)

    def find_insight(id: InsightId) -> AlertInsight | None:
        columns = saved_insights.c
        mine = (columns.project_id == project_id) & (columns.id == id)
        row = connection.execute(select(saved_insights).where(mine)).one_or_none()
        if row is None:
            return None
        return AlertInsight(
            id=id,
            short_id=row.short_id,
            name=row.name or row.derived_name,
            query=row.query,
            deleted=row.deleted,
        )

    return AlertWriteContext(
        find=find,
        find_insight=find_insight,
        count=connection.execute(select(func.count()).select_from(table).where(own)).scalar_one(),
        destinations=list_destinations(connection, project_id),
    )


def _write_row(connection: Connection, alert: Alert) -> None:
    values = asdict(alert) | {
        "calculation_interval": alert.calculation_interval.value,
        "state": alert.state.value,
        "subscribed_users": list(alert.subscribed_users),
        "destinations": list(alert.destinations),
        "claimed_until": None,
    }
    own = update(table).where(table.c.id == alert.id)
    if not connection.execute(own.values(**values)).rowcount:
        connection.execute(insert(table), values)


def _add_check(
    connection: Connection, checked: CheckedAlert, notified: Sequence[RecordId], now: datetime
) -> None:
    """Add a check to the history and delete the oldest ones."""
    verdict, id = checked.verdict, checked.alert.id
    values = {
        "alert_id": id,
        "created_at": now,
        "value": verdict.value,
        "state": verdict.state.value,
        "breaches": list(verdict.breaches),
        "error": verdict.error,
        "notified": list(notified),
    }
    connection.execute(insert(checks_table), values)
    own = checks_table.c.alert_id == id
    kept = select(checks_table.c.id).where(own).order_by(checks_table.c.id.desc()).limit(MAX_CHECKS)
    old = own & checks_table.c.id.not_in(kept.scalar_subquery())
    connection.execute(delete(checks_table).where(old))


def _is_due(now: datetime, until: datetime) -> ColumnElement[bool]:
    return (
        (table.c.next_check_at <= now)
        & table.c.enabled.is_(True)
        & is_free(table.c.claimed_until, now, until + (until - now))
    )
