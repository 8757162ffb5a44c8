"""PostgreSQL query: imports events from rows of your database."""

from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.pipelines.imports.mapping import check_mapping
from hedgerow.pipelines.imports.rows import to_json_value
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.plugin.component import Component, Family, SettingField, Settings, SettingType
from hedgerow.plugin.database_address import DatabaseAddress, parse_database_address
from hedgerow.plugin.imports import DatabaseQuery, ImportBatch, ImportContext, JobError, SourceRow
from hedgerow.plugin.presets import (
    IMPORT_JOB,
    MAPPING_SETTING,
    SCHEDULE_SETTING,
    TEST_CONNECTION_JOB,
)

# Rows with the last value of the cursor are read again and skipped by the hash of their content.
MAX_KNOWN_HASHES = 1000


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
    at: str | None = cursor["at"] if cursor else None
    known: list[str] = list(cursor["known"]) if cursor else []
    query = DatabaseQuery(
        address=_parse_address(settings["url"]),
        text=settings["query"],
        cursor_column=settings["cursor_column"],
        start=at,
    )
    async with ctx.database.rows(query) as batches:
        async for batch in batches:
            rows = []
            for value, columns in batch:
                if value is None:
                    raise JobError("A row has no value in the cursor column.")
                values = to_json_value(columns)
                hash = sha256(jsonio.encode(values)).hexdigest()
                if value != at:
                    at, known = value, []
                elif hash in known:
                    continue
                if len(known) < MAX_KNOWN_HASHES:
                    known.append(hash)
                rows.append(
                    SourceRow(
                        identity=f"{value}\n{hash}",
                        location=f"{query.cursor_column} {value}",
                        values=values,
                    )
                )
            yield ImportBatch(rows=rows, cursor={"at": at, "known": list(known)})


async def check_connection(settings: Mapping[str, Any], ctx: ImportContext) -> None:
    query = DatabaseQuery(
        address=_parse_address(settings["url"]),
        text=settings["query"],
        cursor_column=settings["cursor_column"],
        start=None,
    )
    async with ctx.database.rows(query) as batches:
        await anext(aiter(batches), None)


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
