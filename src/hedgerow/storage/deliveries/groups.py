"""Groups and their properties, for the events of deliveries."""

from collections.abc import Sequence

from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.pipelines.store import GroupStore, LoadedGroups
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database

_TYPES = 'SELECT name, "index" FROM group_types WHERE project_id = ?'
_GROUPS = (
    "SELECT t.name, g.key, g.properties FROM groups g"
    ' JOIN group_types t ON t.project_id = g.project_id AND t."index" = g.type_index'
    " WHERE g.project_id = ? AND g.key IN ({texts})"
)


class SqlGroupStore(GroupStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(self, project_id: ProjectId, keys: Sequence[str]) -> LoadedGroups:
        def run(connection: Connection) -> LoadedGroups:
            types = bulk.select(connection, _TYPES, project_id)
            found = bulk.select(connection, _GROUPS, project_id, list(keys))
            return LoadedGroups(
                types=dict(types),
                properties={(name, key): _encode_text(value) for name, key, value in found},
            )

        return await self._database.read(run)


def _encode_text(value: object) -> str:
    """Return JSON as text. SQLite stores it as text; PostgreSQL's driver decodes it."""
    return value if isinstance(value, str) else jsonio.encode(value).decode()
