"""Being alone with a project: whoever changes its things takes its lock first."""

from sqlalchemy import Connection, select

from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import projects


def lock_project(connection: Connection, project_id: ProjectId) -> bool:
    """Holds the project until the end of the transaction; SQLite has one writer anyway. False if
    there is no such project."""
    own = select(projects.c.id).where(projects.c.id == project_id)
    return connection.execute(own.with_for_update()).one_or_none() is not None
