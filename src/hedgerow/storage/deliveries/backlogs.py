"""The backlog of each destination, counted by index outside the event loop."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection

from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog, BacklogStore
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database

_WAITING = "SELECT record_id, sum(number), min(created_ms) FROM delivery_batches GROUP BY record_id"
_FAILED = "SELECT record_id, status, count(*) FROM deliveries GROUP BY record_id, status"
_PROJECTS = "SELECT id, project_id FROM pipeline_records WHERE id IN ({numbers})"
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
    for id, status, number in bulk.select(connection, _FAILED):
        counts[id][status] = number
    oldest: dict[int, int] = dict(bulk.select(connection, _FIRST_RETRIED))
    for id, number, first_ms in bulk.select(connection, _WAITING):
        counts[id]["waiting"] = int(number)
        oldest[id] = min(first_ms, oldest.get(id, first_ms))
    projects: dict[int, int] = dict(bulk.select(connection, _PROJECTS, list(counts)))
    return {
        RecordId(id): Backlog(
            project_id=ProjectId(projects[id]), oldest_ms=oldest.get(id, 0), **some
        )
        for id, some in counts.items()
    }
