"""Events between the request and the event store, the rows of the inbox, and warnings."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from hedgerow.events.model import Event
from hedgerow.lib.dates import EPOCH
from hedgerow.projects.model import ProjectId

E = TypeVar("E")


class CapturedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A parsed, valid event, as the inbox stores it. Processing turns it into an `Event`, the form
    that is stored: with a person, and with its properties as text. `properties` includes `$set` and
    `$set_once`, wherever the client sent them. Inbox rows hold the fields in this order: only
    append."""

    uuid: str
    event: str
    distinct_id: str
    properties: dict[str, Any]
    timestamp: datetime
    accepted_at: datetime
    ip: str = ""
    historical_migration: bool = False


class IngestionWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with an event that its sender may not see in the response. The store sets `id` and
    `created_at`."""

    type: str
    detail: str
    event: str = ""
    uuid: str = ""
    distinct_id: str = ""
    id: int = 0
    created_at: datetime = EPOCH


class EventRejection(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid event: its index in the request, and the reason."""

    index: int
    uuid: str | None
    code: str
    detail: str


class CaptureBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one request. `original_uuids` maps the normalized uuids to the notation that
    the client sent, where it differs."""

    token: str
    events: Sequence[CapturedEvent]
    rejected: Sequence[EventRejection] = ()
    warnings: Sequence[IngestionWarning] = ()
    original_uuids: Mapping[str, str] = {}


class PackedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Encoded events of one bucket, as the inbox stores them. `keys` are the hashes of what they
    change, as decimal numbers separated by commas; empty if there is only one bucket."""

    bucket: int
    events: bytes
    number: int
    keys: str = ""


class AcceptedIds(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The distinct ids and groups that `number` consecutive events of a batch change."""

    number: int
    names: Sequence[str]


class PackedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A large request, parsed and encoded in a worker process: decoding its events here would block
    the event loop. Each of `ids` is an encoded AcceptedIds. The rows lack cookieless events, which
    need the database: each of `cookieless` is an encoded list of some of them. `rejected` are the
    first of `rejected_count`; `results` is the response body of the v1 format."""

    token: str
    rows: Sequence[PackedRow] = ()
    ids: Sequence[bytes] = ()
    cookieless: Sequence[bytes] = ()
    event_count: int = 0
    rejected: Sequence[EventRejection] = ()
    rejected_count: int = 0
    warnings: Sequence[IngestionWarning] = ()
    results: Mapping[str, Mapping[str, str]] = {}


class QueueRow(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """A row of events that wait for the next step, in their order.

    `number` is how many accepted events the row counts for: it includes dropped events, and is 0
    for a retried dead letter. `rest` are the events that stay in the row after these have been
    processed. `size` tells whether the row has changed since it was read. A row with a `problem`
    cannot be decoded."""

    id: int
    events: Sequence[E]
    number: int
    size: int = 0
    rest: Sequence[E] = ()
    problem: str = ""


class InboxRow(QueueRow[CapturedEvent], frozen=True, kw_only=True):
    """Captured events of one request. They have no project of their own. In a stream, `previous` is
    the row before it in its bucket, and `size` the number of its events that were processed
    before."""

    project_id: ProjectId
    previous: int = 0


class ProcessedRow(QueueRow[Event], frozen=True, kw_only=True):
    """Processed events that wait for the event store. Rows of earlier versions hold events of
    several projects; theirs is UNKNOWN_PROJECT."""

    project_id: ProjectId
