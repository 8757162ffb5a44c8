"""An event as the legacy endpoints return it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from hedgerow.events.elements import Element, parse_chain
from hedgerow.events.query.result_json import encode_result

# The person properties in an event record.
PERSON_SUMMARY_PROPERTIES = ("email", "name", "username")


class EventPerson(msgspec.Struct, frozen=True, kw_only=True):
    """The person of an event: one distinct id, and the properties that identify people."""

    is_identified: bool
    distinct_ids: Sequence[str]
    properties: Mapping[str, Any]


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`properties` is stored JSON, copied without decoding. With `stringify`, `properties`,
    `person` and `elements` are strings that contain JSON."""

    id: str
    distinct_id: str
    properties: msgspec.Raw
    event: str
    timestamp: str
    person: EventPerson | str | None
    elements: Sequence[Element] | str
    elements_chain: str


class EventRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The columns that are read of an event, in this order."""

    uuid: str
    event: str
    distinct_id: str
    properties: str
    elements_chain: str
    timestamp: datetime


COLUMNS = EventRow.__struct_fields__


def parse_row(values: Sequence[Any]) -> EventRow:
    uuid, event, distinct_id, properties, elements_chain, timestamp = values
    return EventRow(
        uuid=str(uuid),
        event=event,
        distinct_id=distinct_id,
        properties=properties,
        elements_chain=elements_chain,
        timestamp=timestamp.astimezone(UTC),
    )


def build_record(row: EventRow, person: EventPerson | None) -> EventRecord:
    return EventRecord(
        id=row.uuid,
        distinct_id=row.distinct_id,
        properties=msgspec.Raw(row.properties.encode()),
        event=row.event,
        timestamp=row.timestamp.isoformat(),
        person=person,
        elements=parse_chain(row.elements_chain) if row.elements_chain else (),
        elements_chain=row.elements_chain,
    )


def stringify_record(record: EventRecord) -> EventRecord:
    """Return the record with all values as strings, as the specification shows them. A missing
    person is the string `null`."""
    return msgspec.structs.replace(
        record,
        properties=msgspec.Raw(encode_result(bytes(record.properties).decode())),
        person=encode_result(record.person).decode(),
        elements=encode_result(record.elements).decode(),
    )
