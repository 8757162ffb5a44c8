"""The worker process for large payloads. http/payload/workers.py starts it with `python -m`.

It imports little, so that it starts fast and needs little memory.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from hedgerow.errors import AppError
from hedgerow.http.payload.documents import check_counts, parse_json
from hedgerow.http.payload.layers import decode
from hedgerow.http.payload.limits import MAX_EVENTS
from hedgerow.http.payload.pieces import (
    MAX_REPORTED_REJECTIONS,
    EncodedItems,
    decode_in_pieces,
    join_batches,
)
from hedgerow.http.payload.token_search import HEAD_BYTES, TAIL_BYTES, search_json
from hedgerow.http.payload.workers import (
    CaptureArguments,
    PayloadError,
    PayloadRequest,
    PayloadResponse,
    check_event_count,
    decode_request,
    encode_response,
    parse_events,
)
from hedgerow.ingestion.changed_names import collect_changed_names
from hedgerow.ingestion.cookieless.resolve import is_cookieless
from hedgerow.ingestion.model import AcceptedIds, CaptureBatch, CapturedEvent, PackedBatch
from hedgerow.ingestion.parsing.request import AllEventsRejected
from hedgerow.ingestion.parsing.v1_format import build_results
from hedgerow.lib.ids import derive_randomness
from hedgerow.lib.workers.process import serve_requests
from hedgerow.storage.ingestion.inbox_packing import pack_captured

# Small enough for the event loop to register in a millisecond.
EVENTS_PER_IDS = 1000
EVENTS_PER_PART = 200
PART_BYTES = 256 * 1024
# After larger requests, memory is given back to the system.
LARGE_BYTES = 4 << 20

_encode_ids = msgspec.msgpack.Encoder().encode
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
_encode_json = msgspec.json.Encoder().encode


class _TokenFound(Exception):
    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token


def handle(frame: bytes) -> bytes:
    try:
        return _respond(decode_request(frame))
    except AppError as error:
        return encode_response(PayloadResponse(error=PayloadError.from_error(error)))
    except _TokenFound as found:
        return encode_response(PayloadResponse(token=found.token))


def _respond(request: PayloadRequest) -> bytes:
    if request.capture is None:
        return encode_response(PayloadResponse(), msgspec.json.encode(_decode(request)))
    packed, error = _parse_and_pack(request, request.capture)
    return encode_response(PayloadResponse(batch=packed, error=error))


def _parse_and_pack(
    request: PayloadRequest, arguments: CaptureArguments
) -> tuple[PackedBatch, PayloadError | None]:
    """The events are freed on return, before the response is assembled."""
    payload = _decode(request)
    items = payload.get("batch") if isinstance(payload, dict) else None
    if not isinstance(items, EncodedItems):
        return _parse_and_pack_piece(payload, arguments)
    check_event_count(items, MAX_EVENTS)
    parse = partial(parse_json, is_lenient=request.raw.is_lenient, limits=request.limits)
    packed: list[tuple[int, PackedBatch]] = []
    errors: list[PayloadError | None] = []
    for start, piece in items.iter_pieces(parse):
        batch, error = _parse_and_pack_piece({**payload, "batch": piece}, arguments)
        packed.append((start, batch))
        errors.append(error)
        # Every piece has its own uuids, and a repeated request the same ones again.
        arguments = replace(arguments, randomness=derive_randomness(arguments.randomness))
    joined = join_batches(packed)
    return joined, None if joined.event_count else next(filter(None, errors), None)


def _parse_and_pack_piece(
    payload: Any, arguments: CaptureArguments
) -> tuple[PackedBatch, PayloadError | None]:
    try:
        return _pack(parse_events(payload, arguments, MAX_EVENTS), arguments), None
    except AllEventsRejected as refused:
        return _pack(refused.batch, arguments), PayloadError.from_error(refused)


def _decode(request: PayloadRequest) -> Any:
    raw = request.raw
    limits = request.limits.for_body(len(raw.data))

    def find_or_parse(text: bytes) -> Any:
        token = search_json(text[:HEAD_BYTES], text[-TAIL_BYTES:]).decisive
        if token:
            raise _TokenFound(token)
        return parse_json(text, raw.is_lenient, limits)

    def parse_in_pieces(text: bytes) -> Any:
        check_counts(text, raw.is_lenient, limits)
        capture = request.capture
        has_token = capture is not None and (capture.v1 or capture.segment) is not None
        payload = decode_in_pieces(text, has_token=has_token)
        return parse_json(text, raw.is_lenient, limits) if payload is None else payload

    if request.finds_token:
        return decode(raw, limits, find_or_parse)
    return decode(raw, limits, None if request.capture is None else parse_in_pieces)


def _pack(batch: CaptureBatch, arguments: CaptureArguments) -> PackedBatch:
    packed = pack_batch(batch, arguments.bucket_count)
    return packed if arguments.v1 is None else replace(packed, results=build_results(batch))


def pack_batch(batch: CaptureBatch, bucket_count: int) -> PackedBatch:
    ordinary = [event for event in batch.events if not is_cookieless(event)]
    cookieless = [event for event in batch.events if is_cookieless(event)]
    return PackedBatch(
        token=batch.token,
        rows=list(pack_captured(ordinary, bucket_count)),
        ids=[_encode_ids(each) for each in _collect_ids(ordinary)],
        cookieless=list(_pack_parts(cookieless)),
        event_count=len(batch.events),
        rejected=batch.rejected[:MAX_REPORTED_REJECTIONS],
        rejected_count=len(batch.rejected),
        warnings=batch.warnings,
    )


def _collect_ids(events: Sequence[CapturedEvent]) -> Iterator[AcceptedIds]:
    for start in range(0, len(events), EVENTS_PER_IDS):
        part = events[start : start + EVENTS_PER_IDS]
        yield AcceptedIds(number=len(part), names=sorted(collect_changed_names(part)))


def _pack_parts(events: Sequence[CapturedEvent]) -> Iterator[bytes]:
    """Encode events in lists that the event loop decodes and stores in a few milliseconds. As JSON:
    MessagePack has no integers of more than 64 bits."""
    part: list[CapturedEvent] = []
    size = 0
    for event in events:
        part.append(event)
        size += len(_encode_json(event))
        if size > PART_BYTES or len(part) == EVENTS_PER_PART:
            yield _encode_json(part)
            part, size = [], 0
    if part:
        yield _encode_json(part)


def give_back_memory() -> None:
    """glibc keeps freed memory for itself unless it is requested to give it back."""
    gc.collect()
    if _trim is not None:
        _trim(0)


def _handle_and_trim(frame: bytes) -> bytes:
    response = handle(frame)
    if max(len(frame), len(response)) > LARGE_BYTES:
        give_back_memory()
    return response


def build_handler() -> Callable[[bytes], bytes]:
    # JSON values have no cycles, and collections in between would take longer than parsing.
    gc.disable()
    return _handle_and_trim


if __name__ == "__main__":
    serve_requests(build_handler)
