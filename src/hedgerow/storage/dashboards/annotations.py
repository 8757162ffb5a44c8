"""Annotations."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, insert, select, update

from hedgerow.dashboards.model import Annotation, AnnotationId, AnnotationScope
from hedgerow.dashboards.store import (
    AnnotationFilter,
    AnnotationStore,
    AnnotationWrite,
    AnnotationWriteContext,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.deletions import is_deleted
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import annotations as table
from hedgerow.storage.tables import dashboards, saved_insights


class SqlAnnotationStore(AnnotationStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def annotations(
        self, project_id: ProjectId, wanted: AnnotationFilter
    ) -> tuple[Sequence[Annotation], int]:
        conditions = _build_conditions(project_id, wanted)
        order = func.coalesce(table.c.date_marker, table.c.created_at).desc(), table.c.id.desc()
        page = select(table).where(*conditions).order_by(*order)

        def read(connection: Connection) -> tuple[list[Annotation], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(read)

    async def annotation(self, project_id: ProjectId, id: AnnotationId) -> Annotation | None:
        return await self._database.read(lambda connection: _find(connection, project_id, id))

    async def write_annotation(
        self,
        project_id: ProjectId,
        decide: Callable[[AnnotationWriteContext], AnnotationWrite],
        now: datetime,
    ) -> Annotation:
        def change(connection: Connection) -> Annotation:
            lock_project(connection, project_id)
            write = decide(_read_context(connection, project_id))
            annotation = _write_row(connection, write.annotation)
            entry = write.build_entry(annotation)
            if entry is not None:
                activity.record(connection, entry, now)
            return annotation

        return await self._database.write(change)


def _read_context(connection: Connection, project_id: ProjectId) -> AnnotationWriteContext:
    live = (table.c.project_id == project_id) & table.c.deleted.is_(False)
    number = select(func.count()).select_from(table).where(live)

    def has(of: Table, id: int) -> bool:
        own = (of.c.project_id == project_id) & (of.c.id == id) & of.c.deleted.is_(False)
        return connection.execute(select(of.c.id).where(own)).scalar() is not None

    return AnnotationWriteContext(
        find=lambda id: _find(connection, project_id, id),
        has_insight=lambda id: has(saved_insights, id),
        has_dashboard=lambda id: has(dashboards, id),
        count=connection.execute(number).scalar_one(),
    )


def _is_visible(project_id: ProjectId) -> ColumnElement[bool]:
    """Of the project, or of the whole organization: an installation has one."""
    is_common = (table.c.scope == AnnotationScope.ORGANIZATION.value) & ~is_deleted(
        table.c.project_id
    )
    return (table.c.project_id == project_id) | is_common


def _build_conditions(project_id: ProjectId, wanted: AnnotationFilter) -> list[ColumnElement[bool]]:
    found = [_is_visible(project_id), table.c.deleted.is_(False)]
    if wanted.search:
        needle = wanted.search.lower()
        found.append(func.lower(table.c.content).contains(needle, autoescape=True))
    if wanted.scope is not None:
        found.append(table.c.scope == wanted.scope.value)
    if wanted.after is not None:
        found.append(table.c.date_marker >= wanted.after)
    if wanted.before is not None:
        found.append(table.c.date_marker <= wanted.before)
    if wanted.insight_id is not None:
        found.append(table.c.insight_id == wanted.insight_id)
    if wanted.dashboard_id is not None:
        found.append(table.c.dashboard_id == wanted.dashboard_id)
    return found


def _find(connection: Connection, project_id: ProjectId, id: AnnotationId) -> Annotation | None:
    row = connection.execute(
        select(table).where(_is_visible(project_id) & (table.c.id == id))
    ).one_or_none()
    return None if row is None else _decode(row)


def _decode(row: Row[Any]) -> Annotation:
    return Annotation(**{**row._mapping, "scope": AnnotationScope(row.scope)})


def _write_row(connection: Connection, annotation: Annotation) -> Annotation:
    values = asdict(annotation) | {"scope": annotation.scope.value}
    del values["id"]
    if annotation.id:
        connection.execute(update(table).where(table.c.id == annotation.id).values(values))
        return annotation
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(annotation, id=AnnotationId(id))
