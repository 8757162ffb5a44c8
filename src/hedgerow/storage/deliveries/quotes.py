"""What receivers repeat of deleted events in their error messages, wherever these are kept."""

import re
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

# Rows that are searched at once.
PAGE_ROWS = 1000

_OF_PROJECT = "record_id IN (SELECT id FROM pipeline_records WHERE project_id = ?)"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class QuotedEvents:
    """Events that a message may quote: by their uuid, or by their distinct id, which may be cut off
    at the end of the message."""

    def __init__(self, uuids: Iterable[str], distinct_ids: Iterable[str]) -> None:
        self._uuids = frozenset(uuids)
        quoted = [jsonio.encode(id).decode() for id in distinct_ids]
        bare = [each[1:-1] for each in quoted if len(each) >= MIN_BARE_ID_CHARS + 2]
        # Within a JSON text that is itself a string.
        nested = [jsonio.encode(each).decode()[1:-1] for each in quoted]
        self._texts = [*quoted, *bare, *nested]
        self._long = [each for each in quoted if len(each) > MIN_BARE_ID_CHARS]

    def is_in(self, message: str) -> bool:
        return (
            any(text in message for text in self._texts)
            or any(self._ends_with_part(message, each) for each in self._long)
            or any(uuid.lower() in self._uuids for uuid in _UUID.findall(message))
        )

    def _ends_with_part(self, message: str, quoted: str) -> bool:
        start = message.rfind(quoted[:MIN_BARE_ID_CHARS])
        return start >= 0 and quoted.startswith(message[start:])


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTable:
    """A table with messages of receivers. `is_own` selects the rows of a project, and `removal`
    removes the messages of some of them."""

    name: str
    key: str
    message: str
    is_own: str
    removal: str

    def find_page(
        self, connection: Connection, project_id: ProjectId, after: int, quoted: QuotedEvents
    ) -> tuple[list[int], int | None]:
        """Return the keys of the rows in a page that quote the events, and the last key of the page
        if another one follows."""
        sql = (
            f"SELECT {self.key}, {self.message} FROM {self.name} WHERE {self.is_own}"  # noqa: S608 - our own names
            f" AND {self.key} > ? ORDER BY {self.key} LIMIT {PAGE_ROWS}"
        )
        rows = bulk.select(connection, sql, project_id, after)
        found = [key for key, message in rows if quoted.is_in(str(message))]
        return found, rows[-1][0] if len(rows) == PAGE_ROWS else None

    def remove(self, connection: Connection, keys: Sequence[int]) -> None:
        values = (DELETED_MESSAGE,) if "?" in self.removal else ()
        sql = f"{self.removal} WHERE {self.key} IN ({{numbers}})"
        bulk.execute(connection, sql, *values, list(keys))


MESSAGE_TABLES = (
    MessageTable(
        name="delivery_logs",
        key="id",
        message="message",
        is_own=_OF_PROJECT,
        removal="DELETE FROM delivery_logs",
    ),
    MessageTable(
        name="destination_states",
        key="record_id",
        message="error",
        is_own=_OF_PROJECT,
        removal="UPDATE destination_states SET error = ?",
    ),
    MessageTable(
        name="deliveries",
        key="id",
        message="error",
        is_own="project_id = ? AND error <> ''",
        removal="UPDATE deliveries SET error = ?",
    ),
)


def find_paused_entries(
    connection: Connection, project_id: ProjectId, quoted: QuotedEvents
) -> list[int]:
    """Find the activity entries about pauses that quote the events."""
    paused = select(activity.c.id, activity.c.detail).where(
        (activity.c.project_id == project_id)
        & (activity.c.scope == SCOPE)
        & (activity.c.activity == "paused")
    )
    return [
        row.id
        for row in connection.execute(paused)
        if quoted.is_in(str(row.detail.get("reason", "")))
    ]


def remove_reasons(connection: Connection, entries: Sequence[int]) -> None:
    own = activity.c.id.in_(entries)
    connection.execute(update(activity).where(own).values(detail={"reason": DELETED_MESSAGE}))
