"""A number per topic that increases with every change, so that processes know when to reload."""

from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, select, text

from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables import generations

# "directory", "components", or a prefix such as "records:" or "flags:" followed by a project id.
Topic = str

# Of what queries read of a project: its events, and the replicas of its persons and groups.
_EVENTS = "events:"
# Of the schemas of events, and of what happens to events that break them.
SCHEMAS = "schemas:"

_current = select(generations.c.number).where(generations.c.topic == bindparam("topic"))
_fetch_one = PreparedQuery(_current)
_fetch_many = PreparedQuery(
    select(generations.c.topic, generations.c.number).where(
        generations.c.topic.like(bindparam("pattern"))
    )
)
# One statement, so that concurrent first changes do not both insert.
_advance = text(
    "INSERT INTO generations (topic, number) VALUES (:topic, 1) "
    "ON CONFLICT (topic) DO UPDATE SET number = generations.number + 1"
)


# For changes that are rare: sessions that notify commit one after the other.
CHANNEL = "hedgerow_changes"
_notify = text(f"SELECT pg_notify('{CHANNEL}', :topic)")


async def fetch_generation(database: Database, topic: Topic) -> int:
    """Fetch the generation of a topic, 0 if it never changed."""
    rows = await database.fetch(_fetch_one, {"topic": topic})
    return rows[0][0] if rows else 0


async def fetch_generations(database: Database, prefix: str) -> dict[Topic, int]:
    """Fetch the generations of all topics with this prefix."""
    return dict(await database.fetch(_fetch_many, {"pattern": f"{prefix}%"}))


async def fetch_project_generations(database: Database, prefix: str) -> dict[ProjectId, int]:
    """Fetch the generations of the topics that consist of this prefix and a project id."""
    found = await fetch_generations(database, prefix)
    return {ProjectId(int(topic.removeprefix(prefix))): number for topic, number in found.items()}


def list_project_ids(topics: Iterable[Topic], prefix: str) -> list[ProjectId]:
    """List the projects in the topics with this prefix."""
    return [ProjectId(int(each.removeprefix(prefix))) for each in topics if each.startswith(prefix)]


def read_generation(connection: Connection, topic: Topic) -> int:
    return connection.execute(_current, {"topic": topic}).scalar() or 0


def advance(connection: Connection, topic: Topic, *, notifies: bool = True) -> None:
    """Increment the generation. Call this in the transaction of the change: PostgreSQL notifies
    other processes when it is committed."""
    connection.execute(_advance, {"topic": topic})
    if notifies and connection.dialect.name == "postgresql":
        connection.execute(_notify, {"topic": topic})


def event_topic(project_id: ProjectId) -> Topic:
    return f"{_EVENTS}{project_id}"


def schema_topic(project_id: ProjectId) -> Topic:
    return f"{SCHEMAS}{project_id}"


def advance_events(connection: Connection, project_ids: Iterable[ProjectId]) -> None:
    """Record that queries of these projects read something else now. Call this last in the
    transaction: others that advance the same project wait for its end."""
    topics = [{"topic": event_topic(id)} for id in sorted(set(project_ids))]
    if topics:
        connection.execute(_advance, topics)
