"""PostgreSQL table: one row per event in a table of your own database."""

from hedgerow.pipelines.component import Component, SettingField
from hedgerow.pipelines.components.fields import BATCHING, FILTERS, REPLAY, TEST_CONNECTION
from hedgerow.pipelines.model import Family

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
            hint="postgresql://user:password@host:5432/database",
        ),
        SettingField(key="schema", name="Schema", default="public"),
        SettingField(key="table", name="Table", default="hedgerow_events"),
        *FILTERS,
        *BATCHING,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
)
