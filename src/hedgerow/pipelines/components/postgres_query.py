"""PostgreSQL query: events from the rows of your own database."""

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import MAPPING, RUN_IMPORT, SCHEDULE, TEST_CONNECTION
from hedgerow.pipelines.model import Family

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
)
