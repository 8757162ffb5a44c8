"""Large payloads: where they are parsed, for whom, and within which limits."""

import base64
import gzip
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.errors import TooLarge
from hedgerow.http.auth.project_key import InvalidProjectKey
from hedgerow.http.payload.layers import decode
from hedgerow.http.payload.limits import (
    CAPTURE_LIMITS,
    INLINE_LIMITS,
    MAX_INLINE_EVENTS,
    UNIDENTIFIED_LIMITS,
    PayloadLimits,
)
from hedgerow.http.payload.raw import RawPayload
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.payload.workers import (
    CaptureArguments,
    ParsedPayload,
    V1Headers,
    parse_events,
)
from hedgerow.ingestion.model import CaptureBatch
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from tests.unit.fake_time import FakeTime
from tests.unit.http.asgi import http_scope, make_receive
from tests.unit.http.payload.readers import RecordingWorkers, make_reader
from tests.unit.projects.factories import TOKEN, FakeProjectStore, make_directory

PARSED = ParsedPayload(value="parsed")
FILLER = "x" * INLINE_LIMITS.max_unpacked_bytes
ARGUMENTS = CaptureArguments(
    now=datetime(2026, 1, 1, tzinfo=UTC),
    query_sent_at_ms=None,
    is_engage=False,
    ip="",
    randomness=bytes(UUID7_RANDOM_BYTES),
    bucket_count=1,
)


async def make_capture_reader(*responses: ParsedPayload) -> tuple[PayloadReader, RecordingWorkers]:
    workers = RecordingWorkers(*responses)
    directory = await make_directory(FakeProjectStore(), FakeTime())
    reader = make_reader(
        CAPTURE_LIMITS, max_bytes=1 << 24, is_lenient=True, workers=workers, directory=directory
    )
    return reader, workers


def encode(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


async def test_known_key_is_parsed_in_the_queue_of_its_project() -> None:
    for body in (
        encode(api_key=TOKEN, a=FILLER),
        encode(a=FILLER, api_key=TOKEN),
        gzip.compress(encode(token=TOKEN, a=FILLER)),
        encode(batch=[{"properties": {"token": TOKEN, "a": FILLER}}]),
    ):
        reader, workers = await make_capture_reader(PARSED)
        assert await reader.read(http_scope("POST"), make_receive(body)) == "parsed"
        [(sender, request)] = workers.requests
        assert sender == "project 1"
        assert (request.limits, request.finds_token) == (CAPTURE_LIMITS, False)
        assert request.raw.data == body


@pytest.mark.parametrize(
    "body",
    [
        encode(api_key="phc_unknown", a=FILLER),
        encode(a=FILLER, api_key="phc_unknown"),
        gzip.compress(encode(api_key="phc_unknown", a=FILLER)),
        json.dumps([{"properties": {"token": "phc_unknown"}}, FILLER]).encode(),
    ],
)
async def test_unknown_key_is_refused_without_a_worker(body: bytes) -> None:
    reader, workers = await make_capture_reader()
    with pytest.raises(InvalidProjectKey):
        await reader.read(http_scope("POST"), make_receive(body))
    assert workers.requests == []


async def test_payload_without_a_visible_key_waits_for_its_address_within_low_limits() -> None:
    body = gzip.compress(encode(a=FILLER, api_key="phc_unknown"))
    reader, workers = await make_capture_reader(PARSED)
    assert await reader.read(http_scope("POST"), make_receive(body)) == "parsed"
    [(sender, request)] = workers.requests
    assert (sender, request.finds_token) == ("address 192.0.2.1", True)
    assert request.limits == UNIDENTIFIED_LIMITS


async def test_key_that_a_worker_finds_leads_to_the_project_or_is_refused() -> None:
    body = gzip.compress(encode(a=FILLER, api_key=TOKEN))
    reader, workers = await make_capture_reader(ParsedPayload(token=TOKEN), PARSED)
    assert await reader.read(http_scope("POST"), make_receive(body)) == "parsed"
    assert [sender for sender, _ in workers.requests] == ["address 192.0.2.1", "project 1"]
    reader, _ = await make_capture_reader(ParsedPayload(token="phc_unknown"))
    with pytest.raises(InvalidProjectKey):
        await reader.read(http_scope("POST"), make_receive(body))


async def test_key_of_the_v1_header_comes_first() -> None:
    body = encode(batch=[], a=FILLER)
    for token in (TOKEN, "phc_unknown"):
        v1 = V1Headers(token=token, library="", sent_at="")
        arguments = CaptureArguments(
            **{name: getattr(ARGUMENTS, name) for name in ARGUMENTS.__struct_fields__} | {"v1": v1}
        )
        reader, workers = await make_capture_reader(PARSED)
        read = reader.read_events(http_scope("POST"), make_receive(body), len, arguments)
        if token == TOKEN:
            assert await read == PARSED
            assert workers.requests[0][1].capture == arguments
        else:
            with pytest.raises(InvalidProjectKey):
                await read


@pytest.mark.parametrize(
    "body",
    [
        b'{"api_key":"%s","a":[%s1]}' % (TOKEN.encode(), b"1," * 20_001),
        b'{"api_key":"%s","a":[%s1]}' % (TOKEN.encode(), b"[]," * 2_000),
        b'{"api_key":"%s","a":%s' % (TOKEN.encode(), b"[" * 2_001),
        gzip.compress(b'{"api_key":"%s","a":[%s1]}' % (TOKEN.encode(), b"{}," * 2_000), mtime=0),
    ],
)
async def test_small_body_of_many_values_is_large(body: bytes) -> None:
    assert len(body) < INLINE_LIMITS.max_unpacked_bytes
    reader, workers = await make_capture_reader(PARSED)
    assert await reader.read(http_scope("POST"), make_receive(body)) == "parsed"
    assert len(workers.requests) == 1


async def test_many_events_are_large_and_few_are_not() -> None:
    def parse(payload: Any) -> CaptureBatch:
        return parse_events(payload, ARGUMENTS, MAX_INLINE_EVENTS)

    for number in (MAX_INLINE_EVENTS, MAX_INLINE_EVENTS + 1):
        event = {"event": "e", "distinct_id": "d"}
        body = encode(api_key=TOKEN, batch=[event] + [1] * (number - 1))
        reader, _ = await make_capture_reader(PARSED)
        result = await reader.read_events(http_scope("POST"), make_receive(body), parse, ARGUMENTS)
        if number == MAX_INLINE_EVENTS:
            assert isinstance(result, CaptureBatch)
            assert (len(result.events), len(result.rejected)) == (1, number - 1)
        else:
            assert result == PARSED


def test_ratio_limits_what_a_body_may_unpack_to() -> None:
    limits = PayloadLimits(
        max_unpacked_bytes=1000, max_objects=1, max_values=1, max_ratio=10, free_bytes=50
    )
    for size, allowed in ((1, 50), (5, 50), (6, 60), (100, 1000), (1000, 1000)):
        assert limits.for_body(size).max_unpacked_bytes == allowed
    assert INLINE_LIMITS.for_body(1) == INLINE_LIMITS


def test_ratio_limits_the_beginning_of_a_body_too() -> None:
    limits = PayloadLimits(
        max_unpacked_bytes=1 << 20, max_objects=1, max_values=1, max_ratio=50, free_bytes=10_000
    )
    filler = random.Random(1).randbytes(20_000).hex().encode()
    blanks = gzip.compress(b'{"a":"' + b" " * 100_000 + filler + b'"}')
    honest = gzip.compress(b'{"a":"' + filler + b" " * 100_000 + b'"}')
    assert 50 * len(honest) > 140_000
    decode(RawPayload(data=honest), limits)
    for body in (blanks, gzip.compress(b"") + blanks, base64.b64encode(blanks)):
        with pytest.raises(TooLarge, match="more than 50 times its size"):
            decode(RawPayload(data=body), limits)


async def test_query_string_may_be_large_too() -> None:
    packed = gzip.compress(encode(api_key="phc_unknown", a=FILLER)).hex().encode()
    query = b"data=" + b"%" + b"%".join(packed[n : n + 2] for n in range(0, len(packed), 2))
    reader, workers = await make_capture_reader()
    with pytest.raises(InvalidProjectKey):
        await reader.read(http_scope("GET", query=query), make_receive())
    assert workers.requests == []


async def test_body_beyond_the_limit_is_refused_before_anything_else() -> None:
    reader, workers = await make_capture_reader()
    scope = http_scope("POST", headers={"Content-Length": str(1 << 25)})
    with pytest.raises(TooLarge):
        await reader.read(scope, make_receive(b"{}"))
    assert workers.requests == []
