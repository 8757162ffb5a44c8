"""What receivers repeat of deleted events in their error messages, wherever these are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from hedgerow.lib import jsonio
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.tables import activity

# Replaces a message that quoted a deleted event.
DELETED_MESSAGE = "The message was deleted, because it quoted a deleted event."
# Shorter distinct ids are too common in texts to be found without their quotation marks.
MIN_BARE_ID_CHARS = 8

_OF_PROJECT = "record_id IN (SELECT id FROM pipeline_records WHERE project_id = ?)"
_LINES = f"SELECT id, message FROM delivery_logs WHERE {_OF_PROJECT}"  # noqa: S608 - our own names
_STATES = f"SELECT record_id, error FROM destination_states WHERE {_OF_PROJECT}"  # noqa: S608
_DELIVERIES = "SELECT id, error FROM deliveries WHERE project_id = ? AND error <> ''"


class QuotedEvents:
    """Events that a message may quote: by their uuid, or by their distinct id, which may be cut off
    at the end of the message."""

    def __init__(self, uuids: Iterable[str], distinct_ids: Iterable[str]) -> None:
        quoted = [jsonio.encode(id).decode() for id in distinct_ids]
        bare = [each[1:-1] for each in quoted if len(each) >= MIN_BARE_ID_CHARS + 2]
        # Within a JSON text that is itself a string.
        nested = [jsonio.encode(each).decode()[1:-1] for each in quoted]
        self._texts = [*uuids, *quoted, *bare, *nested]
        self._long = [each for each in quoted if len(each) > MIN_BARE_ID_CHARS]

    def is_in(self, message: str) -> bool:
        return any(text in message for text in self._texts) or any(
            self._ends_with_part(message, each) for each in self._long
        )

    def _ends_with_part(self, message: str, quoted: str) -> bool:
        start = message.rfind(quoted[:MIN_BARE_ID_CHARS])
        return start >= 0 and quoted.startswith(message[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotes:
    """The ids of log lines, records, deliveries and activity entries with such messages."""

    lines: Sequence[int]
    states: Sequence[int]
    deliveries: Sequence[int]
    entries: Sequence[int]

    @property
    def is_any(self) -> bool:
        return bool(self.lines or self.states or self.deliveries or self.entries)


def find_quotes(connection: Connection, project_id: ProjectId, quoted: QuotedEvents) -> Quotes:
    def find(sql: str) -> list[int]:
        rows = bulk.select(connection, sql, project_id)
        return [id for id, message in rows if quoted.is_in(message)]

    paused = select(activity.c.id, activity.c.detail).where(
        (activity.c.project_id == project_id)
        & (activity.c.scope == SCOPE)
        & (activity.c.activity == "paused")
    )
    return Quotes(
        lines=find(_LINES),
        states=find(_STATES),
        deliveries=find(_DELIVERIES),
        entries=[
            row.id
            for row in connection.execute(paused)
            if quoted.is_in(str(row.detail.get("reason", "")))
        ],
    )


def remove_quotes(connection: Connection, found: Quotes) -> None:
    delete = "DELETE FROM delivery_logs WHERE id IN ({numbers})"
    bulk.execute(connection, delete, list(found.lines))
    for table, key, ids in (
        ("destination_states", "record_id", found.states),
        ("deliveries", "id", found.deliveries),
    ):
        sql = f"UPDATE {table} SET error = ? WHERE {key} IN ({{numbers}})"  # noqa: S608 - our own names
        bulk.execute(connection, sql, DELETED_MESSAGE, list(ids))
    own = activity.c.id.in_(found.entries)
    connection.execute(update(activity).where(own).values(detail={"reason": DELETED_MESSAGE}))
