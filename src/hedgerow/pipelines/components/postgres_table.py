"""PostgreSQL table: one row per event in a table of your own database."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.pipelines.component import Component, SettingField, Settings
from hedgerow.pipelines.components.fields import (
    DELIVERY,
    FILTERS,
    REPLAY,
    TEST_CONNECTION,
    batching,
)
from hedgerow.pipelines.database_address import database_address
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.sending import (
    CannotSend,
    Failed,
    Outcome,
    Sent,
    Surroundings,
    TablePlace,
)

# PostgreSQL cuts longer names short without a word.
NAME_BYTES = 63


def check(settings: Settings) -> None:
    try:
        database_address(settings["url"])
    except ValueError as problem:
        detail = (
            f"An address such as postgresql://user:password@host/database is required: {problem}."
        )
        raise Invalid(detail, attr="config__url") from None
    for key in ("schema", "table"):
        name = settings[key]
        if not 0 < len(name.encode()) <= NAME_BYTES or not name.isprintable():
            raise Invalid(f"A name of 1 to {NAME_BYTES} bytes is required.", attr=f"config__{key}")


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    place = TablePlace(
        address=database_address(settings["url"]),
        schema=settings["schema"],
        table=settings["table"],
    )
    try:
        inserted = await around.tables.insert(place, events)
    except CannotSend as reason:
        # Wrong settings or a database that is away: no fault of the events, so they wait.
        return [Failed(reason=str(reason))] * len(events)
    return [
        Failed(reason=inserted.refused[number], is_final=True, is_events_fault=True)
        if number in inserted.refused
        else Sent()
        for number in range(len(events))
    ]


COMPONENT = Component(
    key="hedgerow/postgres-table",
    family=Family.DESTINATION,
    name="PostgreSQL table",
    description="Inserts events into a PostgreSQL table, once each; makes the table if need be.",
    version="1.0.0",
    settings=(
        SettingField(
            key="url",
            name="Connection address",
            required=True,
            secret=True,
            hint="postgresql://user:password@host:5432/database, with ?sslmode=… if need be",
        ),
        SettingField(key="schema", name="Schema", default="public"),
        SettingField(key="table", name="Table", default="hedgerow_events"),
        *FILTERS,
        *DELIVERY,
        *batching(size=200, seconds=2),
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    check=check,
    deliver=deliver,
)
