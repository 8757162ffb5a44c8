"""Captured events, from the request to the inbox."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.persons.processing.changes import IngestionWarning
from hedgerow.projects.model import ProjectId


class CapturedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A parsed, valid event, as the inbox stores it. `properties` includes `$set` and `$set_once`,
    wherever the client sent them. Inbox rows hold the fields in this order: only append."""

    uuid: str
    event: str
    distinct_id: str
    properties: dict[str, Any]
    timestamp: datetime
    accepted_at: datetime
    ip: str = ""
    historical_migration: bool = False


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


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the inbox: events of one request, in their order.

    `number` is how many accepted events the row counts for: it includes dropped events, and is 0
    for a retried dead letter. `rest` are the events that stay in the row after these have been
    processed. `size` tells whether the row has changed since it was read. A row with a `problem`
    cannot be decoded."""

    id: int
    project_id: ProjectId
    events: Sequence[CapturedEvent]
    number: int
    size: int = 0
    rest: Sequence[CapturedEvent] = ()
    problem: str = ""
