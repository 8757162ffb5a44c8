"""Groups as deliveries tell of them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.pipelines.store import KnownGroups
from hedgerow.projects.model import ProjectId
from hedgerow.storage import bulk
from hedgerow.storage.database import Database

_TYPES = 'SELECT name, "index" FROM group_types WHERE project_id = ?'
_GROUPS = (
    "SELECT t.name, g.key, g.properties FROM groups g"
    ' JOIN group_types t ON t.project_id = g.project_id AND t."index" = g.type_index'
    " WHERE g.project_id = ? AND g.key IN ({texts})"
)


class DeliveredGroups:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(self, project_id: ProjectId, keys: Sequence[str]) -> KnownGroups:
        def run(connection: Connection) -> KnownGroups:
            types = bulk.select(connection, _TYPES, project_id)
            found = bulk.select(connection, _GROUPS, project_id, list(keys))
            return KnownGroups(
                types=dict(types),
                properties={(name, key): _text(value) for name, key, value in found},
            )

        return await self._database.read(run)


def _text(value: object) -> str:
    """SQLite keeps JSON as text, PostgreSQL's driver reads it."""
    return value if isinstance(value, str) else jsonio.encode(value).decode()
