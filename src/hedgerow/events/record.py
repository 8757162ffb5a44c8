"""An event as the legacy endpoints show it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from hedgerow.events.elements import Element, parsed_elements

# What is told of a person beside an event.
TOLD_PROPERTIES = ("email", "name", "username")


class EventPerson(msgspec.Struct, frozen=True, kw_only=True):
    """Who an event is by: an id of theirs, and those properties by which people are known."""

    is_identified: bool
    distinct_ids: Sequence[str]
    properties: Mapping[str, Any]


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`properties` is JSON as it is stored: nothing is gained by reading it to write it again."""

    id: str
    distinct_id: str
    properties: msgspec.Raw
    event: str
    timestamp: str
    person: EventPerson | None
    elements: Sequence[Element]
    elements_chain: str


class Row(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is read of an event, in this order."""

    uuid: str
    event: str
    distinct_id: str
    properties: str
    elements_chain: str
    timestamp: datetime


COLUMNS = Row.__struct_fields__


def row_of(values: Sequence[Any]) -> Row:
    uuid, event, distinct_id, properties, elements_chain, timestamp = values
    return Row(
        uuid=str(uuid),
        event=event,
        distinct_id=distinct_id,
        properties=properties,
        elements_chain=elements_chain,
        timestamp=timestamp.astimezone(UTC),
    )


def record_of(row: Row, person: EventPerson | None) -> EventRecord:
    return EventRecord(
        id=row.uuid,
        distinct_id=row.distinct_id,
        properties=msgspec.Raw(row.properties.encode()),
        event=row.event,
        timestamp=row.timestamp.isoformat(),
        person=person,
        elements=parsed_elements(row.elements_chain) if row.elements_chain else (),
        elements_chain=row.elements_chain,
    )
