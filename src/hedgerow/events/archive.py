"""Events as files hold them: lines of JSON, and rows of Parquet made of such lines."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.events.model import Event
from hedgerow.lib.clock import iso

MOMENTS = ("timestamp", "created_at")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One event. What is JSON already goes into the line as it is."""

    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    created_at: str
    properties: msgspec.Raw
    elements_chain: str
    person_id: str
    person_properties: msgspec.Raw


COLUMNS = Line.__struct_fields__

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)


def line_of(event: Event) -> bytes:
    """With its end."""
    line = Line(
        uuid=event.uuid,
        event=event.event,
        distinct_id=event.distinct_id,
        timestamp=iso(event.timestamp),
        created_at=iso(event.created_at),
        properties=_raw(event.properties),
        elements_chain=event.elements_chain,
        person_id=event.person_id,
        person_properties=_raw(event.person_properties),
    )
    return _encoder.encode(line) + b"\n"


def rows_of(lines: Iterable[bytes]) -> list[Sequence[Any]]:
    """The lines as rows: objects as their JSON, moments as such."""
    return [_row(_decoder.decode(line)) for line in lines]


def _row(line: Line) -> Sequence[Any]:
    return [_value(name, getattr(line, name)) for name in COLUMNS]


def _value(name: str, value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return datetime.fromisoformat(value) if name in MOMENTS else value


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode() or b"{}")
