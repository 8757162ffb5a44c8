"""PostgreSQL table: inserts one row per event into a table of your database."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.plugin.component import Component, Family, SettingField, Settings
from hedgerow.plugin.database_address import parse_database_address
from hedgerow.plugin.delivery import DeliveryContext, TableTarget
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from hedgerow.plugin.presets import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    RETRY_DEAD_LETTERS_JOB,
    TEST_CONNECTION_JOB,
    batch_settings,
)

# PostgreSQL silently truncates longer names.
NAME_BYTES = 63


def check(settings: Settings) -> None:
    try:
        parse_database_address(settings["url"])
    except ValueError as error:
        detail = f"A URL such as postgresql://user:password@host/database is required: {error}."
        raise Invalid(detail, attr="config__url") from None
    for key in ("schema", "table"):
        name = settings[key]
        if not 0 < len(name.encode()) <= NAME_BYTES or not name.isprintable():
            raise Invalid(f"A name of 1 to {NAME_BYTES} bytes is required.", attr=f"config__{key}")


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    target = TableTarget(
        address=parse_database_address(settings["url"]),
        schema=settings["schema"],
        table=settings["table"],
    )
    try:
        result = await ctx.tables.insert(target, events)
    except TransportError as error:
        # Wrong settings or an unreachable database are not the fault of the events, so they wait.
        return [Failed(reason=str(error))] * len(events)
    return [
        Failed(reason=result.rejected[number], is_final=True, event_rejected=True)
        if number in result.rejected
        else Delivered()
        for number in range(len(events))
    ]


COMPONENT = Component(
    key="hedgerow/postgres-table",
    family=Family.DESTINATION,
    name="PostgreSQL table",
    description="Inserts events into a PostgreSQL table, once each; creates the table if needed.",
    version="1.0.0",
    settings=(
        SettingField(
            key="url",
            name="Connection URL",
            required=True,
            secret=True,
            hint="postgresql://user:password@host:5432/database, optionally with ?sslmode=…",
        ),
        SettingField(key="schema", name="Schema", default="public", is_address=False),
        SettingField(key="table", name="Table", default="hedgerow_events", is_address=False),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=200, seconds=2),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
