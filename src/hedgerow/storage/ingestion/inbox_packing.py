"""Encoding of events in inbox rows: MessagePack, in rows of bounded size. A worker process loads
this module, so it imports no database driver.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.changed_names import GROUPS, collect_changed_names, hash_name
from hedgerow.ingestion.model import CapturedEvent, PackedRow
from hedgerow.ingestion.persons.loaded_state import GROUP_IDENTIFY, MERGE_PROPERTIES
from hedgerow.ingestion.store import FAN_OUT_EVENTS, PROCESS_BATCH_EVENTS
from hedgerow.projects.model import ProjectId

# No row is larger, unless it holds a single event.
MAX_ROW_BYTES = 1 << 20


class _EventPrefix(msgspec.Struct, array_like=True):
    """The first fields of an encoded event."""

    project_id: ProjectId
    uuid: str


class _CapturedPrefix(msgspec.Struct, array_like=True):
    """The first fields of an encoded captured event."""

    uuid: str
    event: str
    distinct_id: str


_pack = msgspec.msgpack.Encoder().encode
_decode_msgpack = msgspec.msgpack.Decoder(list[CapturedEvent]).decode
_decode_json = msgspec.json.Decoder(list[CapturedEvent]).decode
_decode_prefixes = msgspec.msgpack.Decoder(list[_EventPrefix]).decode
_decode_captured_prefixes = msgspec.msgpack.Decoder(list[_CapturedPrefix]).decode
# Rows without these change nothing but the persons of their distinct ids.
_NAMES_OF_OTHERS = [name.encode() for name in (GROUPS, GROUP_IDENTIFY, *MERGE_PROPERTIES)]

unpack_processed = msgspec.msgpack.Decoder(list[Event]).decode

# Exceptions that decoding raises for damaged rows.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError, RecursionError)


def pack_captured(events: Sequence[CapturedEvent], bucket_count: int) -> Iterator[PackedRow]:
    """Yield the rows of each bucket."""
    for bucket, of_bucket in _split_by_bucket(events, bucket_count).items():
        for start in range(0, len(of_bucket), PROCESS_BATCH_EVENTS):
            part = of_bucket[start : start + PROCESS_BATCH_EVENTS]
            keys = _list_keys(part) if bucket_count > 1 else ""
            for packed, number in _split(part, _pack_captured):
                yield PackedRow(bucket=bucket, events=packed, number=number, keys=keys)


def pack_processed(events: Sequence[Event]) -> Iterator[tuple[bytes, int]]:
    """Yield at least one row. A row is stored, and its deliveries are created, as a whole."""
    for start in range(0, max(1, len(events)), FAN_OUT_EVENTS):
        yield from _split(events[start : start + FAN_OUT_EVENTS], _pack)


def pack_single_row(events: Sequence[CapturedEvent] | Sequence[Event]) -> bytes:
    """Encode the rest of an existing row, which cannot exceed the limit."""
    return _pack_captured(events)


def pack_text(text: str) -> tuple[bytes, bytes]:
    """Encode a text as it is within a row, in either format."""
    return _pack(text), msgspec.json.encode(text)


def unpack_captured(packed: bytes) -> list[CapturedEvent]:
    return _decode_json(packed) if packed[:1] == b"[" else _decode_msgpack(packed)


def unpack_untyped(packed: bytes) -> Any:
    """Decode a row to plain values, for display to the operator."""
    return (msgspec.json if packed[:1] == b"[" else msgspec.msgpack).decode(packed)


def unpack_keys(packed: bytes) -> list[EventKey]:
    """Return the keys of the encoded events; empty if the row cannot be decoded."""
    try:
        return [(key.project_id, key.uuid) for key in _decode_prefixes(packed)]
    except DECODE_ERRORS:
        return []


def unpack_changed_names(packed: bytes) -> set[str]:
    """Return what the encoded events change (`changed_names.py`); empty if the row cannot be
    decoded. A quarter of the cost of decoding the events, for most rows."""
    try:
        if packed[:1] == b"[" or any(name in packed for name in _NAMES_OF_OTHERS):
            return collect_changed_names(unpack_captured(packed))
        return {each.distinct_id for each in _decode_captured_prefixes(packed)}
    except DECODE_ERRORS:
        return set()


def _split_by_bucket(
    events: Sequence[CapturedEvent], bucket_count: int
) -> Mapping[int, Sequence[CapturedEvent]]:
    if bucket_count == 1:
        return {0: events}
    by_bucket: dict[int, list[CapturedEvent]] = defaultdict(list)
    for event in events:
        by_bucket[crc32(event.distinct_id.encode()) % bucket_count].append(event)
    return by_bucket


def _list_keys(events: Sequence[CapturedEvent]) -> str:
    return ",".join(str(hash_name(name)) for name in collect_changed_names(events))


def _split(
    events: Sequence[Any], pack: Callable[[Sequence[Any]], bytes]
) -> Iterator[tuple[bytes, int]]:
    packed = pack(events)
    if len(packed) <= MAX_ROW_BYTES or len(events) < 2:
        yield packed, len(events)
        return
    half = len(events) // 2
    yield from _split(events[:half], pack)
    yield from _split(events[half:], pack)


def _pack_captured(events: Sequence[Any]) -> bytes:
    try:
        return _pack(events)
    except OverflowError:  # MessagePack has no integers of more than 64 bits
        return msgspec.json.encode(events)
