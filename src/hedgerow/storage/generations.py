"""Numbers that go up with every change of a topic, so that processes know when to read it again."""

from sqlalchemy import Connection, bindparam, select, text

from hedgerow.storage.database import Topic
from hedgerow.storage.tables import generations

_current = select(generations.c.number).where(generations.c.topic == bindparam("of"))
# One statement, so that two who come first at the same moment do not both insert.
_advance = text(
    "INSERT INTO generations (topic, number) VALUES (:of, 1) "
    "ON CONFLICT (topic) DO UPDATE SET number = generations.number + 1"
)


def current(connection: Connection, topic: Topic) -> int:
    return connection.execute(_current, {"of": topic}).scalar() or 0


def advance(connection: Connection, topic: Topic) -> None:
    """Call in the transaction of the change itself."""
    connection.execute(_advance, {"of": topic})
