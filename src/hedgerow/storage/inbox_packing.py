"""What the rows of the inbox hold: events as bytes, in parts of a bounded size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.model import Arrived
from hedgerow.projects.model import ProjectId

# No row has more, unless it is one event.
ROW_BYTES = 2 << 20


class _Key(msgspec.Struct, array_like=True):
    """How an event begins."""

    project_id: ProjectId
    uuid: str


_pack = msgspec.msgpack.Encoder().encode
_from_msgpack = msgspec.msgpack.Decoder(list[Arrived]).decode
_from_json = msgspec.json.Decoder(list[Arrived]).decode
_keys = msgspec.msgpack.Decoder(list[_Key]).decode

unpacked_events = msgspec.msgpack.Decoder(list[Event]).decode

# What decoding raises for bytes that are no events of ours, and for what is no bytes.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError, RecursionError)


def packed_arrived(events: Sequence[Arrived]) -> Iterator[tuple[bytes, int]]:
    """Each part, and how many events it has."""
    return _parts(events, _pack_arrived)


def packed_events(events: Sequence[Event]) -> Iterator[tuple[bytes, int]]:
    return _parts(events, _pack)


def packed_whole(events: Sequence[Arrived] | Sequence[Event]) -> bytes:
    """For a row that has no more than it had."""
    return _pack_arrived(events)


def unpacked_arrived(packed: bytes) -> list[Arrived]:
    return _from_json(packed) if packed[:1] == b"[" else _from_msgpack(packed)


def unpacked_plain(packed: bytes) -> Any:
    """What is in there, for somebody to look at, if it is anything."""
    return (msgspec.json if packed[:1] == b"[" else msgspec.msgpack).decode(packed)


def unpacked_keys(packed: bytes) -> list[EventKey]:
    """Of events that are packed; none of what cannot be read."""
    try:
        return [(key.project_id, key.uuid) for key in _keys(packed)]
    except UNREADABLE:
        return []


def _parts(
    events: Sequence[Any], pack: Callable[[Sequence[Any]], bytes]
) -> Iterator[tuple[bytes, int]]:
    packed = pack(events)
    if len(packed) <= ROW_BYTES or len(events) < 2:
        yield packed, len(events)
        return
    half = len(events) // 2
    yield from _parts(events[:half], pack)
    yield from _parts(events[half:], pack)


def _pack_arrived(events: Sequence[Any]) -> bytes:
    try:
        return _pack(events)
    except OverflowError:  # MessagePack has no integers of more than 64 bits
        return msgspec.json.encode(events)
