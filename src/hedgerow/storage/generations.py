"""Numbers that go up with every change of a topic, so that processes know when to read it again."""

from sqlalchemy import Connection, bindparam, select, text

from hedgerow.projects.model import ProjectId
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.tables import generations

# "directory", "components", or "records:" or "flags:" and a project's id.
Topic = str

_current = select(generations.c.number).where(generations.c.topic == bindparam("of"))
_hot = HotRead(_current)
_hot_many = HotRead(
    select(generations.c.topic, generations.c.number).where(
        generations.c.topic.like(bindparam("alike"))
    )
)
# One statement, so that two who come first at the same moment do not both insert.
_advance = text(
    "INSERT INTO generations (topic, number) VALUES (:of, 1) "
    "ON CONFLICT (topic) DO UPDATE SET number = generations.number + 1"
)


async def number_of(database: Database, topic: Topic) -> int:
    """How often a topic has changed, by the shortest way."""
    rows = await database.fetch(_hot, {"of": topic})
    return rows[0][0] if rows else 0


async def numbers_of(database: Database, prefix: str) -> dict[Topic, int]:
    """The same for all topics that begin so."""
    return dict(await database.fetch(_hot_many, {"alike": f"{prefix}%"}))


async def project_numbers(database: Database, prefix: str) -> dict[ProjectId, int]:
    """The same for topics that end with a project's id."""
    found = await numbers_of(database, prefix)
    return {ProjectId(int(topic.removeprefix(prefix))): number for topic, number in found.items()}


def current(connection: Connection, topic: Topic) -> int:
    return connection.execute(_current, {"of": topic}).scalar() or 0


def advance(connection: Connection, topic: Topic) -> None:
    """Call in the transaction of the change itself."""
    connection.execute(_advance, {"of": topic})
