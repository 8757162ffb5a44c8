"""The backlog of each destination, counted by index outside the event loop."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection

from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog, BacklogStore
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database

_COUNTS = "SELECT record_id, status, count(*) FROM deliveries GROUP BY record_id, status"
_PROJECTS = "SELECT id, project_id FROM pipeline_records WHERE id IN ({numbers})"
_FIRST_WAITING = (
    "SELECT created_ms FROM deliveries WHERE record_id = ? AND status = 'waiting'"
    " ORDER BY due_ms, id LIMIT 1"
)
_FIRST_RETRIED = (
    "SELECT record_id, min(created_ms) FROM deliveries WHERE status = 'retrying' GROUP BY record_id"
)


class SqlBacklogStore(BacklogStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def backlogs(self) -> Mapping[RecordId, Backlog]:
        return await self._database.read_in_background(read_backlogs)


def read_backlogs(connection: Connection) -> Mapping[RecordId, Backlog]:
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for id, status, number in bulk.select(connection, _COUNTS):
        counts[id][status] = number
    oldest: dict[int, int] = dict(bulk.select(connection, _FIRST_RETRIED))
    for id, some in counts.items():
        if "waiting" in some:
            ((first,),) = bulk.select(connection, _FIRST_WAITING, id)
            oldest[id] = min(first, oldest.get(id, first))
    projects: dict[int, int] = dict(bulk.select(connection, _PROJECTS, list(counts)))
    return {
        RecordId(id): Backlog(
            project_id=ProjectId(projects[id]), oldest_ms=oldest.get(id, 0), **some
        )
        for id, some in counts.items()
    }
