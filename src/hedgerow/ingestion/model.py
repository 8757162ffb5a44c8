"""Events between the door and the event store, and what is said about those that were refused."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.projects.model import ProjectId


class Arrived(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An accepted event: checked, dated, with an id of its own. This is what lies in the inbox.
    `$set` and `$set_once` are in the properties, wherever they were sent."""

    uuid: str
    event: str
    distinct_id: str
    properties: dict[str, Any]
    timestamp: datetime
    accepted_at: datetime
    ip: str = ""
    historical_migration: bool = False


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """An event that was refused: where it stood in the request, and why."""

    index: int
    uuid: str | None
    code: str
    detail: str


class IngestionWarning(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Something about an event that its sender was not told, or may not have read."""

    type: str
    detail: str
    event: str = ""
    uuid: str = ""
    distinct_id: str = ""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one request brought. `spelt` are the uuids that were sent in another spelling than
    events have here."""

    token: str
    events: Sequence[Arrived]
    rejected: Sequence[Rejected] = ()
    warnings: Sequence[IngestionWarning] = ()
    spelt: Mapping[str, str] = {}


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the inbox: events of one request, in their order. It counts as `number` events: also
    those that were dropped, and none if they were counted before.

    `rest` stays in the row when this much of it is done with. `size` tells whether the row is still
    as it was read. A row with a `problem` cannot be read at all."""

    id: int
    project_id: ProjectId
    events: Sequence[Arrived]
    number: int
    size: int = 0
    rest: Sequence[Arrived] = ()
    problem: str = ""
