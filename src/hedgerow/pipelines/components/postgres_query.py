"""PostgreSQL query: events from the rows of your own database."""

from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.pipelines.component import Component, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import MAPPING, RUN_IMPORT, SCHEDULE, TEST_CONNECTION
from hedgerow.pipelines.database_address import DatabaseAddress, database_address
from hedgerow.pipelines.imports.mapping import check_mapping
from hedgerow.pipelines.imports.model import Around, Portion, Query, SourceRow
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.pipelines.imports.values import plain
from hedgerow.pipelines.model import Family, JobProblem

# Rows that share the cursor's last value are read again, and left out by what they hold: so many
# are known.
KNOWN = 1000


def check(settings: Settings) -> None:
    check_mapping(settings.get("mapping") or {})
    check_schedule(settings.get("schedule") or "")
    url = settings.get("url")
    if isinstance(url, str):
        _address(url)


def _address(url: str) -> DatabaseAddress:
    try:
        return database_address(url)
    except ValueError as problem:
        raise Invalid(f"The address cannot be used: {problem}.", attr="config__url") from None


async def read(settings: Mapping[str, Any], cursor: Any, around: Around) -> AsyncIterator[Portion]:
    """In the order of the cursor column, from where the last run ended."""
    at: str | None = cursor["at"] if cursor else None
    known: list[str] = list(cursor["known"]) if cursor else []
    query = Query(
        address=_address(settings["url"]),
        text=settings["query"],
        cursor_column=settings["cursor_column"],
        start=at,
    )
    async with around.queried.rows(query) as portions:
        async for portion in portions:
            rows = []
            for value, columns in portion:
                if value is None:
                    raise JobProblem("The cursor column has a row without a value.")
                values = plain(columns)
                hash = sha256(jsonio.encode(values)).hexdigest()
                if value != at:
                    at, known = value, []
                elif hash in known:
                    continue
                if len(known) < KNOWN:
                    known.append(hash)
                rows.append(
                    SourceRow(
                        identity=f"{value}\n{hash}",
                        place=f"{query.cursor_column} {value}",
                        values=values,
                    )
                )
            yield Portion(rows=rows, cursor={"at": at, "known": list(known)})


async def reach(settings: Mapping[str, Any], around: Around) -> None:
    query = Query(
        address=_address(settings["url"]),
        text=settings["query"],
        cursor_column=settings["cursor_column"],
        start=None,
    )
    async with around.queried.rows(query) as portions:
        await anext(aiter(portions), None)


COMPONENT = Component(
    key="hedgerow/postgres-query",
    family=Family.IMPORT_APP,
    name="PostgreSQL query",
    description="Imports events from a query, each time from where the last run ended.",
    version="1.0.0",
    settings=(
        SettingField(
            key="url",
            name="Connection address",
            required=True,
            secret=True,
            hint="postgresql://user:password@host:5432/database",
        ),
        SettingField(key="query", name="Query", type=SettingType.TEXT, required=True),
        SettingField(
            key="cursor_column",
            name="Cursor column",
            required=True,
            hint="A column that only grows, such as id or updated_at.",
        ),
        MAPPING,
        SCHEDULE,
    ),
    jobs=(RUN_IMPORT, TEST_CONNECTION),
    check=check,
    read=read,
    reach=reach,
)
