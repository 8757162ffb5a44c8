"""The behaviors that flags can use."""

from sqlalchemy import Connection, select

from hedgerow.persons.behaviors.model import BehaviorState
from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import behaviors as table


def read_ready(connection: Connection, project_id: ProjectId) -> dict[str, int]:
    """Return the ids of counted behaviors by reference. The newest one counts."""
    is_ready = (table.c.project_id == project_id) & (table.c.state == BehaviorState.READY)
    columns = table.c.reference, table.c.id
    return dict(connection.execute(select(*columns).where(is_ready).order_by(table.c.id)).all())
