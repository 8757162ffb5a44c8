"""Events in archive files: JSON lines, and Parquet rows built from such lines."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.events.model import Event
from hedgerow.lib.clock import format_iso

TIME_COLUMNS = ("timestamp", "created_at")


class ArchiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event. JSON columns are copied into the line without decoding."""

    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    created_at: str
    properties: msgspec.Raw
    elements_chain: str
    person_id: str
    person_properties: msgspec.Raw


COLUMNS = ArchiveLine.__struct_fields__

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ArchiveLine)


def encode_line(event: Event) -> bytes:
    """Encode an event as one line, including the line break."""
    line = ArchiveLine(
        uuid=event.uuid,
        event=event.event,
        distinct_id=event.distinct_id,
        timestamp=format_iso(event.timestamp),
        created_at=format_iso(event.created_at),
        properties=_encode_raw(event.properties),
        elements_chain=event.elements_chain,
        person_id=event.person_id,
        person_properties=_encode_raw(event.person_properties),
    )
    return _encoder.encode(line) + b"\n"


def decode_rows(lines: Iterable[bytes]) -> list[Sequence[Any]]:
    """Decode lines into rows: objects stay JSON text, times become datetime."""
    return [_decode_row(_decoder.decode(line)) for line in lines]


def _decode_row(line: ArchiveLine) -> Sequence[Any]:
    return [_decode_value(name, getattr(line, name)) for name in COLUMNS]


def _decode_value(name: str, value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return datetime.fromisoformat(value) if name in TIME_COLUMNS else value


def _encode_raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode() or b"{}")
