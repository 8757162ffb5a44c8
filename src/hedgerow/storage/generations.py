"""Numbers that go up with every change of a topic, so that processes know when to read it again."""

from typing import Literal

from sqlalchemy import Connection, bindparam, insert, select, update

from hedgerow.storage.tables import generations

Topic = Literal["directory"]

_current = select(generations.c.number).where(generations.c.topic == bindparam("of"))
_advance = (
    update(generations)
    .where(generations.c.topic == bindparam("of"))
    .values(number=generations.c.number + 1)
)


def current(connection: Connection, topic: Topic) -> int:
    return connection.execute(_current, {"of": topic}).scalar() or 0


def advance(connection: Connection, topic: Topic) -> None:
    """Call in the transaction of the change itself."""
    if connection.execute(_advance, {"of": topic}).rowcount == 0:
        connection.execute(insert(generations), {"topic": topic, "number": 1})
