"""How many events of each project wait, for `hedgerow doctor`."""

from collections import Counter

from sqlalchemy import Connection, func, select

from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion.inbox_packing import unpack_keys
from hedgerow.storage.tables.ingestion import inbox, ready_events

# Rows of processed events name their projects only inside, so the newest ones stand for all.
SAMPLE_ROWS = 100


def count_waiting(connection: Connection) -> tuple[int, Counter[ProjectId]]:
    """Return how many events wait, and how many of them belong to each project. The second is
    incomplete if many processed events wait for the event store."""
    by_project = select(inbox.c.project_id, func.sum(inbox.c.number)).group_by(inbox.c.project_id)
    projects: Counter[ProjectId] = Counter(
        {ProjectId(id): number for id, number in connection.execute(by_project)}
    )
    unprocessed = projects.total()
    unstored = connection.execute(select(func.sum(ready_events.c.number))).scalar() or 0
    newest = select(ready_events.c.events).order_by(ready_events.c.id.desc()).limit(SAMPLE_ROWS)
    for packed in connection.execute(newest).scalars():
        projects.update(project_id for project_id, _ in unpack_keys(packed))
    return unprocessed + unstored, projects
