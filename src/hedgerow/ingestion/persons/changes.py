"""The result of processing a batch of events: changes of persons and groups, and warnings."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from hedgerow.definitions.model import SeenEvent
from hedgerow.events.model import Event
from hedgerow.ingestion.model import IngestionWarning


class PersonChange(msgspec.Struct, frozen=True, kw_only=True):
    """A person after the batch. `id` is None for a new person, `properties` is JSON text.

    `distinct_ids` are to be added. `absorbs` are the stored persons to be merged into this one.
    Where a person can have only one value, such as a hash key of a flag, their own value takes
    precedence, then those of the absorbed persons in this order."""

    id: int | None
    uuid: str
    properties: str
    is_identified: bool
    created_at: datetime
    is_changed: bool
    distinct_ids: Sequence[str]
    absorbs: Sequence[int]


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """A group after the batch. `properties` is JSON text."""

    is_new: bool
    type_index: int
    key: str
    properties: str
    created_at: datetime


class PersonChanges(msgspec.Struct, frozen=True, kw_only=True):
    """`group_types` are the new types, with their indexes by name."""

    persons: Sequence[PersonChange]
    groups: Sequence[GroupChange]
    group_types: dict[str, int]


class PersonBatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`events` are in the order of the batch, None for a dropped event. `seen` are the others, with
    their properties before they become text."""

    events: Sequence[Event | None]
    seen: Sequence[SeenEvent]
    changes: PersonChanges
    warnings: Sequence[IngestionWarning]
