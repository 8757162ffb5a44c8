"""What the worker processes of imports are asked for, and what they return. A page is bounded in
rows and bytes, and its events are already encoded: the event loop never decodes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.plugin.imports import BadRow, ImportBatch, SourceRow

# Of bad rows in a page.
MAX_SAMPLES = 20


class EventArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What parsing and encoding events needs."""

    now: datetime
    randomness: bytes
    bucket_count: int


class FileRequest(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """Read the file that comes with the request, from a position on."""

    name: str
    format: str
    position: Mapping[str, int] | None = None


class QueryRequest(msgspec.Struct, frozen=True, kw_only=True, tag="query"):
    """Run a query of an external PostgreSQL database: at one of `addresses`, the IP addresses of
    the host. Rows with the cursor value `at` are skipped if their hash is `known`. With `is_raw`,
    return the values instead of events."""

    addresses: Sequence[str]
    host: str
    port: int
    user: str
    password: str
    database: str
    ssl_mode: str
    text: str
    cursor_column: str
    at: str | None = None
    known: Sequence[str] = ()
    is_raw: bool = False


class EventsRequest(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    """Parse the file that comes with the request: a page of events of another instance."""

    host: str


class ListingRequest(msgspec.Struct, frozen=True, kw_only=True, tag="listing"):
    """Parse a page of a list of S3 objects."""

    body: bytes


class RowsRequest(msgspec.Struct, frozen=True, kw_only=True, tag="rows"):
    """Map the rows that a component of a package has read, encoded as JSON."""

    rows: bytes


class NextRequest(msgspec.Struct, frozen=True, kw_only=True, tag="next"):
    """Return the next page of what was requested before."""


Source = FileRequest | QueryRequest | EventsRequest | ListingRequest | RowsRequest | NextRequest


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one `session` read one source."""

    source: Source
    session: int = 0
    arguments: EventArguments
    mapping: Mapping[str, Any] = {}


class PreparedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Events that are encoded for the inbox, how many they are, and the rows that are none."""

    events: bytes = b""
    accepted: int = 0
    bad: int = 0
    samples: Sequence[BadRow] = ()


class EventsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What paging through another instance needs of a page of events: the number of its items, the
    timestamps of the first and the newest, and the URL of the next page."""

    count: int
    first: str
    newest: str
    following: str


class ListedObject(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    etag: str


class SourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """`position` is where the next page begins."""

    rows: PreparedRows = PreparedRows()
    position: Any = None
    total: int | None = None
    is_last: bool = False
    events: EventsSummary | None = None
    objects: Sequence[ListedObject] = ()
    next_token: str | None = None
    raw: bytes = b""
    # Why the source cannot be read, and whether a later attempt may succeed.
    error: str = ""
    is_temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch(ImportBatch):
    """A batch whose rows a worker process has already turned into events. `bad` are others."""

    rows: Sequence[SourceRow] = ()
    prepared: PreparedRows
