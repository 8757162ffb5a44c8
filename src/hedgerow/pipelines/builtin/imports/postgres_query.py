"""PostgreSQL query: imports events from rows of your database."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.mapping import check_mapping
from hedgerow.pipelines.imports.reading import PreparedBatch
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.plugin.component import Component, Family, SettingField, Settings, SettingType
from hedgerow.plugin.database_address import DatabaseAddress, parse_database_address
from hedgerow.plugin.imports import DatabaseQuery, ImportBatch, ImportContext
from hedgerow.plugin.presets import (
    IMPORT_JOB,
    MAPPING_SETTING,
    SCHEDULE_SETTING,
    TEST_CONNECTION_JOB,
)


def check(settings: Settings) -> None:
    check_mapping(settings.get("mapping") or {})
    check_schedule(settings.get("schedule") or "")
    url = settings.get("url")
    if isinstance(url, str):
        _parse_address(url)


def _parse_address(url: str) -> DatabaseAddress:
    try:
        return parse_database_address(url)
    except ValueError as error:
        raise Invalid(f"The URL cannot be used: {error}.", attr="config__url") from None


async def read(
    settings: Mapping[str, Any], cursor: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    """Read rows in the order of the cursor column, from the end of the last run on."""
    query = _build_query(settings, cursor["at"] if cursor else None)
    known = cursor["known"] if cursor else ()
    async with aclosing(ctx.reader.read_query(query, known)) as pages:
        async for page in pages:
            if page.position is not None:
                yield PreparedBatch(prepared=page.rows, cursor=page.position)


async def check_connection(settings: Mapping[str, Any], ctx: ImportContext) -> None:
    async with aclosing(ctx.reader.read_query(_build_query(settings, None))) as pages:
        await anext(pages, None)


def _build_query(settings: Mapping[str, Any], start: str | None) -> DatabaseQuery:
    return DatabaseQuery(
        address=_parse_address(settings["url"]),
        text=settings["query"],
        cursor_column=settings["cursor_column"],
        start=start,
    )


COMPONENT = Component(
    key="hedgerow/postgres-query",
    family=Family.IMPORT_APP,
    name="PostgreSQL query",
    description="Imports events from a query. Each run continues where the last one ended.",
    version="1.0.0",
    settings=(
        SettingField(
            key="url",
            name="Connection URL",
            required=True,
            secret=True,
            hint="postgresql://user:password@host:5432/database",
        ),
        SettingField(key="query", name="Query", type=SettingType.TEXT, required=True),
        SettingField(
            key="cursor_column",
            name="Cursor column",
            required=True,
            is_address=False,
            hint="A column whose values only increase, such as id or updated_at.",
        ),
        MAPPING_SETTING,
        SCHEDULE_SETTING,
    ),
    jobs=(IMPORT_JOB, TEST_CONNECTION_JOB),
    check=check,
    read=read,
    check_connection=check_connection,
)
