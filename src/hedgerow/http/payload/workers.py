"""Unpacks and parses large payloads in worker processes, which run `app/hosts/payload_host.py`.

A request and a response are a length, a header in MessagePack and the payload's own bytes.
"""

from datetime import datetime
from typing import Any

import msgspec

from hedgerow.errors import AppError, Invalid, Malformed, TooLarge, Unavailable
from hedgerow.events.model import TRACEPARENT
from hedgerow.http.payload.errors import MalformedData, NoData
from hedgerow.http.payload.limits import PayloadLimits
from hedgerow.http.payload.raw import RawPayload
from hedgerow.ingestion.model import CaptureBatch, PackedBatch, PackedRow
from hedgerow.ingestion.parsing import segment_format, v1_format
from hedgerow.ingestion.parsing.request import (
    AllEventsRejected,
    AllEventsTooLarge,
    InvalidToken,
    parse_batch,
)
from hedgerow.lib.workers.pool import PoolFull, PoolLimits, WorkerPool
from hedgerow.lib.workers.process import WorkerDied

HOST_MODULE = "hedgerow.app.hosts.payload_host"
POOL_LIMITS = PoolLimits(
    max_processes=2,
    max_running_per_sender=1,
    max_waiting=64,
    max_waiting_per_sender=8,
    timeout_s=20.0,
    max_memory_bytes=1 << 30,
)
RETRY_AFTER_S = 5

_LENGTH_BYTES = 4
# The errors that a payload can cause, by the names under which they cross the processes.
_ERRORS = {
    kind.__name__: kind
    for kind in (
        *(Invalid, InvalidToken, Malformed, MalformedData, NoData, TooLarge),
        *(AllEventsRejected, AllEventsTooLarge),
    )
}


class V1Headers(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of the v1 capture format."""

    token: str
    library: str
    sent_at: str


class SegmentCall(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of Segment's tracking API, and the key of basic authentication."""

    token: str
    type: str


class CaptureArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `parse_batch`, and how to encode its events."""

    now: datetime
    query_sent_at_ms: int | None
    is_engage: bool
    ip: str
    randomness: bytes
    bucket_count: int
    v1: V1Headers | None = None
    segment: SegmentCall | None = None
    # The W3C trace context of the request, for deliveries.
    traceparent: str = ""
    # When this service got a request that an edge process received at `now`. A request that is
    # sent again has another one: the same one would not count as repeated.
    accepted_at: datetime | None = None


def parse_events(payload: Any, arguments: CaptureArguments, max_events: int) -> CaptureBatch:
    """Parse the events of a capture request, here or in a worker. Raises TooLarge if there are more
    than `max_events`."""
    items = payload.get("batch") if isinstance(payload, dict) else payload
    check_event_count(items, max_events)
    if (v1 := arguments.v1) is not None:
        payload = v1_format.to_legacy_batch(
            payload, token=v1.token, library=v1.library, sent_at=v1.sent_at
        )
    elif (call := arguments.segment) is not None:
        payload = segment_format.to_legacy_batch(payload, type=call.type, token=call.token)
    batch = parse_batch(
        payload,
        now=arguments.now,
        query_sent_at_ms=arguments.query_sent_at_ms,
        is_engage=arguments.is_engage,
        ip=arguments.ip,
        randomness=arguments.randomness,
    )
    if (accepted_at := arguments.accepted_at) is not None:
        replace = msgspec.structs.replace
        batch = replace(
            batch, events=[replace(each, accepted_at=accepted_at) for each in batch.events]
        )
    if arguments.traceparent:
        for event in batch.events:
            event.properties.setdefault(TRACEPARENT, arguments.traceparent)
    return batch


def check_event_count(items: Any, max_events: int) -> None:
    if isinstance(items, list) and len(items) > max_events:
        raise TooLarge(f"A request may hold at most {max_events} events. Send fewer in each.")


class PayloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parse a payload: its events if `capture` is given, else its JSON value. With `finds_token`,
    return only the token if it can be found without parsing."""

    raw: RawPayload
    limits: PayloadLimits
    finds_token: bool = False
    capture: CaptureArguments | None = None


class PayloadError(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    detail: str
    code: str
    attr: str | None

    @classmethod
    def from_error(cls, error: AppError) -> "PayloadError":
        kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _ERRORS)
        return cls(kind=kind, detail=error.detail, code=error.code, attr=error.attr)

    def to_error(self) -> AppError:
        kind = _ERRORS[self.kind]
        error = kind.__new__(kind)
        AppError.__init__(error, self.detail, code=self.code, attr=self.attr)
        return error


class PayloadResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`batch` has no rows and ids: they follow the header, with these sizes."""

    error: PayloadError | None = None
    token: str | None = None
    batch: PackedBatch | None = None
    row_heads: list[tuple[int, int, int, str]] = []
    id_sizes: list[int] = []


class ParsedPayload(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a worker: the token, the batch or the JSON value. An error with a batch says
    that no event of the batch is valid."""

    token: str | None = None
    batch: PackedBatch | None = None
    error: AppError | None = None
    value: Any = None


_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(PayloadRequest).decode
_decode_response = msgspec.msgpack.Decoder(PayloadResponse).decode
_decode_value = msgspec.json.Decoder().decode


class PayloadWorkers:
    def __init__(self, pool: WorkerPool | None = None) -> None:
        self._pool = pool or WorkerPool(HOST_MODULE, POOL_LIMITS)

    async def parse(self, request: PayloadRequest, sender: str) -> ParsedPayload:
        """Raises the error of the payload, TooLarge if it exceeds the time or memory of a worker,
        Unavailable if too many others wait."""
        try:
            response = await self._pool.request(encode_request(request), sender)
        except PoolFull:
            raise Unavailable(
                "Too many large requests are waiting. Try again later, or send smaller requests.",
                retry_after_s=RETRY_AFTER_S,
            ) from None
        except WorkerDied as died:
            raise _explain_death(died) from None
        return decode_response(response)

    def close(self) -> None:
        self._pool.close()


def encode_request(request: PayloadRequest) -> bytes:
    data = request.raw.data
    header = _encode(
        msgspec.structs.replace(request, raw=msgspec.structs.replace(request.raw, data=b""))
    )
    return b"".join((len(header).to_bytes(_LENGTH_BYTES), header, data))


def decode_request(frame: bytes) -> PayloadRequest:
    header, data = _split(frame)
    request = _decode_request(header)
    return msgspec.structs.replace(
        request, raw=msgspec.structs.replace(request.raw, data=bytes(data))
    )


def encode_response(response: PayloadResponse, data: bytes = b"") -> bytes:
    """`data` is the JSON value of a payload that is no batch."""
    if response.batch is None:
        return _join(response, (data,))
    rows, ids = response.batch.rows, response.batch.ids
    header = msgspec.structs.replace(
        response,
        batch=msgspec.structs.replace(response.batch, rows=(), ids=()),
        row_heads=[(row.bucket, row.number, len(row.events), row.keys) for row in rows],
        id_sizes=[len(each) for each in ids],
    )
    return _join(header, [*(row.events for row in rows), *ids])


def decode_response(frame: bytes) -> ParsedPayload:
    header, data = _split(frame)
    response = _decode_response(header)
    error = response.error.to_error() if response.error is not None else None
    if response.batch is None:
        if error is not None:
            raise error
        value = _decode_value(data) if data else None
        return ParsedPayload(token=response.token, value=value)
    rows, ids, position = [], [], 0
    for bucket, number, size, keys in response.row_heads:
        events = bytes(data[position : position + size])
        rows.append(PackedRow(bucket=bucket, number=number, events=events, keys=keys))
        position += size
    for size in response.id_sizes:
        ids.append(bytes(data[position : position + size]))
        position += size
    return ParsedPayload(
        batch=msgspec.structs.replace(response.batch, rows=rows, ids=ids), error=error
    )


def _join(header: PayloadResponse, pieces: Any) -> bytes:
    encoded = _encode(header)
    return b"".join((len(encoded).to_bytes(_LENGTH_BYTES), encoded, *pieces))


def _split(frame: bytes) -> tuple[memoryview, memoryview]:
    view = memoryview(frame)
    end = _LENGTH_BYTES + int.from_bytes(view[:_LENGTH_BYTES])
    return view[_LENGTH_BYTES:end], view[end:]


def _explain_death(died: WorkerDied) -> AppError:
    if died.timed_out:
        return TooLarge("The request takes too long to parse. Send fewer events in each request.")
    if died.out_of_memory:
        return TooLarge("The request needs too much memory. Send fewer events in each request.")
    return Unavailable("The request could not be parsed. Try again later.")
