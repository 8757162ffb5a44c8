"""What events do to persons and groups, as values: nothing here reads or writes.

`storage/person_changes.py` stores them. How they are decided is in `process.py`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

Mode = Literal["full", "propertyless", "force_upgrade"]

# Since when there is a person whom nobody keeps.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its person. `person_properties` is JSON text, as of this event."""

    distinct_id: str
    person_uuid: str
    person_created_at: datetime
    person_properties: str
    mode: Mode
    properties: dict[str, Any]


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not done as an event wished."""

    type: str
    detail: str
    event: str
    uuid: str
    distinct_id: str


class PersonChange(msgspec.Struct, frozen=True, kw_only=True):
    """A person as they are after the batch; `id` is None for a new one. `distinct_ids` become
    theirs. `absorbs` are the stored persons merged into them: what these have of a kind that
    allows one only counts in this order, after their own. `properties` is JSON text."""

    id: int | None
    uuid: str
    properties: str
    is_identified: bool
    created_at: datetime
    is_changed: bool
    distinct_ids: Sequence[str]
    absorbs: Sequence[int]


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it is after the batch. `properties` is JSON text."""

    is_new: bool
    type_index: int
    key: str
    properties: str
    created_at: datetime


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """`group_types` are the new ones, by their names."""

    persons: Sequence[PersonChange]
    groups: Sequence[GroupChange]
    group_types: dict[str, int]
    warnings: Sequence[Warned]


class Processed(msgspec.Struct, frozen=True, kw_only=True):
    """`placed` stands beside the events, None for one that was dropped."""

    placed: Sequence[Placed | None]
    changes: Changes
