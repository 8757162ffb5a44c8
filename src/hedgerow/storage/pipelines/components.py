"""Ids of components from installed packages: assigned once and never reused."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from hedgerow.pipelines.model import ComponentId
from hedgerow.pipelines.store import ComponentStore
from hedgerow.plugin.component import Component
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.generations import advance
from hedgerow.storage.tables import components as table

# Lower ids belong to built-in components.
FIRST_PACKAGE_COMPONENT_ID = 1000


class SqlComponentStore(ComponentStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def component_ids(
        self, components: Iterable[Component], now: datetime
    ) -> Mapping[str, ComponentId]:
        keys = [component.key for component in components]

        def change(connection: Connection) -> dict[str, ComponentId]:
            # Locks the generation's row, so that two processes cannot assign the same id.
            advance(connection, "components")
            known = {row.key: ComponentId(row.id) for row in connection.execute(select(table))}
            last = (
                connection.execute(select(func.max(table.c.id))).scalar()
                or FIRST_PACKAGE_COMPONENT_ID - 1
            )
            for number, key in enumerate((key for key in keys if key not in known), last + 1):
                connection.execute(insert(table), {"key": key, "id": number, "first_seen_at": now})
                known[key] = ComponentId(number)
            return known

        return await self._database.write(change) if keys else {}
