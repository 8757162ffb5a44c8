"""References to flags in source code."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select

from hedgerow.errors import Invalid
from hedgerow.flags.code_references.scanner import CodeReference
from hedgerow.flags.code_references.store import (
    MAX_PROJECT_REFERENCES,
    SCOPE,
    CodeReferenceStore,
    CodeScan,
    ReferenceFilter,
    StoredReference,
    UnknownKey,
    UnusedFlag,
)
from hedgerow.flags.model import SURVEY_PREFIX, FlagId
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import code_references as table
from hedgerow.storage.tables import flags


class SqlCodeReferenceStore(CodeReferenceStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace_scan(
        self, project_id: ProjectId, scan: CodeScan, actor: Actor, now: datetime
    ) -> None:
        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            before = _list_keys(connection, project_id, scan.repository)
            own = table.c.project_id == project_id
            of_scan = own & (table.c.repository == scan.repository)
            connection.execute(delete(table).where(of_scan))
            others = connection.execute(select(func.count()).select_from(table).where(own))
            if others.scalar_one() + len(scan.references) > MAX_PROJECT_REFERENCES:
                raise Invalid(
                    f"A project has at most {MAX_PROJECT_REFERENCES} references. Remove those of "
                    "a repository: upload it without references.",
                    attr="references",
                )
            _insert_references(connection, project_id, scan, now)
            after = sorted({each.key for each in scan.references})
            if before != after:
                entry = _build_entry(project_id, scan, before, after, actor)
                activity.record(connection, entry, now)

        await self._database.write(change)

    async def references(
        self, project_id: ProjectId, wanted: ReferenceFilter
    ) -> tuple[Sequence[StoredReference], int]:
        page = select(table).where(table.c.project_id == project_id)
        if wanted.key is not None:
            page = page.where(table.c.flag_key == wanted.key)
        if wanted.repository is not None:
            page = page.where(table.c.repository == wanted.repository)
        page = page.order_by(table.c.repository, table.c.file, table.c.line, table.c.id)

        def read(connection: Connection) -> tuple[Sequence[StoredReference], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            found = [
                StoredReference(
                    id=row.id,
                    repository=row.repository,
                    commit=row.commit_sha,
                    reference=CodeReference(file=row.file, line=row.line, key=row.flag_key),
                    created_at=row.created_at,
                )
                for row in rows
            ]
            return found, total

        return await self._database.read(read)

    async def unused_flags(
        self, project_id: ProjectId, limit: int, offset: int
    ) -> tuple[Sequence[UnusedFlag], int]:
        used = select(table.c.flag_key).where(table.c.project_id == project_id)
        columns = flags.c
        page = (
            select(columns.id, columns.key, columns.name, columns.active, columns.last_called_at)
            .where(
                (columns.project_id == project_id)
                & columns.deleted.is_(False)
                & columns.archived.is_(False)
                & ~columns.key.startswith(SURVEY_PREFIX, autoescape=True)
                & columns.key.not_in(used)
            )
            .order_by(columns.key)
        )

        def read(connection: Connection) -> tuple[Sequence[UnusedFlag], int]:
            rows, total = read_page(connection, page, limit=limit, offset=offset)
            found = [
                UnusedFlag(
                    id=FlagId(row.id),
                    key=row.key,
                    name=row.name,
                    active=row.active,
                    last_called_at=row.last_called_at,
                )
                for row in rows
            ]
            return found, total

        return await self._database.read(read)

    async def unknown_keys(
        self, project_id: ProjectId, limit: int, offset: int
    ) -> tuple[Sequence[UnknownKey], int]:
        known = select(flags.c.key).where(
            (flags.c.project_id == project_id) & flags.c.deleted.is_(False)
        )
        # The first reference of each key stands for all of them.
        counted = (
            select(func.min(table.c.id).label("first"), func.count().label("number"))
            .where((table.c.project_id == project_id) & table.c.flag_key.not_in(known))
            .group_by(table.c.flag_key)
            .subquery()
        )
        page = (
            select(table, counted.c.number)
            .join(counted, counted.c.first == table.c.id)
            .order_by(table.c.flag_key)
        )

        def read(connection: Connection) -> tuple[Sequence[UnknownKey], int]:
            rows, total = read_page(connection, page, limit=limit, offset=offset)
            found = [
                UnknownKey(
                    key=row.flag_key,
                    references=row.number,
                    repository=row.repository,
                    file=row.file,
                    line=row.line,
                )
                for row in rows
            ]
            return found, total

        return await self._database.read(read)


def _list_keys(connection: Connection, project_id: ProjectId, repository: str) -> list[str]:
    own = (table.c.project_id == project_id) & (table.c.repository == repository)
    return sorted(connection.execute(select(table.c.flag_key).where(own).distinct()).scalars())


def _insert_references(
    connection: Connection, project_id: ProjectId, scan: CodeScan, now: datetime
) -> None:
    rows = [
        {
            "project_id": project_id,
            "repository": scan.repository,
            "commit_sha": scan.commit,
            "flag_key": each.key,
            "file": each.file,
            "line": each.line,
            "created_at": now,
        }
        for each in sorted(set(scan.references))
    ]
    if rows:
        connection.execute(insert(table), rows)


def _build_entry(
    project_id: ProjectId, scan: CodeScan, before: list[str], after: list[str], actor: Actor
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=scan.repository,
        item_name=scan.repository,
        activity="uploaded",
        actor=actor,
        project_id=project_id,
        changes=diff_fields(SCOPE, {"keys": before}, {"keys": after}),
        detail={"commit": scan.commit},
    )
