"""Large payloads in real worker processes: results, errors and limits cross the processes."""

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hedgerow.errors import AppError, TooLarge, Unavailable
from hedgerow.http.payload.errors import MalformedData, NoData
from hedgerow.http.payload.limits import CAPTURE_LIMITS, DECIDE_LIMITS, UNIDENTIFIED_LIMITS
from hedgerow.http.payload.raw import RawPayload
from hedgerow.http.payload.workers import (
    HOST_MODULE,
    POOL_LIMITS,
    CaptureArguments,
    ParsedPayload,
    PayloadRequest,
    PayloadWorkers,
    V1Headers,
)
from hedgerow.ingestion.model import AcceptedIds, PackedBatch
from hedgerow.ingestion.parsing.request import AllEventsRejected, AllEventsTooLarge, InvalidToken
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.lib.workers.pool import WorkerPool
from hedgerow.storage.ingestion.inbox_packing import unpack_captured

UUID = "0199aaaa-0000-7000-8000-000000000001"
ARGUMENTS = CaptureArguments(
    now=datetime(2026, 1, 1, tzinfo=UTC),
    query_sent_at_ms=None,
    is_engage=False,
    ip="192.0.2.7",
    randomness=bytes(UUID7_RANDOM_BYTES),
    bucket_count=4,
)


@pytest.fixture
async def workers() -> AsyncIterator[PayloadWorkers]:
    workers = PayloadWorkers()
    yield workers
    workers.close()


def ask(
    data: bytes, capture: CaptureArguments | None = ARGUMENTS, *, finds_token: bool = False
) -> PayloadRequest:
    return PayloadRequest(
        raw=RawPayload(data=data, is_lenient=capture is not None),
        limits=DECIDE_LIMITS if capture is None else CAPTURE_LIMITS,
        finds_token=finds_token,
        capture=capture,
    )


def encode(*events: Any, **fields: Any) -> bytes:
    return json.dumps({"api_key": "phc_x", "batch": events, **fields}).encode()


def get_batch(parsed: ParsedPayload) -> PackedBatch:
    assert parsed.batch is not None
    return parsed.batch


async def test_events_come_back_as_rows_of_the_inbox(workers: PayloadWorkers) -> None:
    big = 10**30
    events: list[dict[str, Any]] = [
        {"event": f"e{n}", "distinct_id": f"d{n % 7}"} for n in range(2500)
    ]
    events[9] |= {"event": "$identify", "properties": {"$anon_distinct_id": "anon"}}
    events[11]["properties"] = {"big": big, "text": "x\ud800"}
    parsed = await workers.parse(ask(gzip.compress(encode(*events, 1, {}))), "a")
    batch = get_batch(parsed)
    assert (batch.token, batch.event_count, batch.rejected_count) == ("phc_x", 2500, 2)
    assert [each.index for each in batch.rejected] == [2500, 2501]
    stored = [event for row in batch.rows for event in unpack_captured(row.events)]
    assert {event.event for event in stored} == {event["event"] for event in events}
    assert len({row.bucket for row in batch.rows}) > 1
    assert sum(row.number for row in batch.rows) == 2500
    odd = next(event for event in stored if event.event == "e11")
    assert odd.properties == {"big": big, "text": "x\ufffd"}
    assert (odd.ip, odd.accepted_at) == (ARGUMENTS.ip, ARGUMENTS.now)
    ids = [msgspec.msgpack.decode(each, type=AcceptedIds) for each in batch.ids]
    assert [each.number for each in ids] == [1000, 1000, 500]
    assert set(ids[0].names) == {*(f"d{n}" for n in range(7)), "anon"}
    assert [each.type for each in batch.warnings[:1]] == ["replaced_characters"]


async def test_v1_results_come_back(workers: PayloadWorkers) -> None:
    v1 = V1Headers(token="phc_header", library="lib/1", sent_at="")
    arguments = msgspec.structs.replace(ARGUMENTS, v1=v1)
    event = {"event": "e", "distinct_id": "d", "uuid": UUID, "properties": {}}
    body = json.dumps({"batch": [event]}).encode()
    batch = get_batch(await workers.parse(ask(body, arguments), "a"))
    assert (batch.token, batch.results) == ("phc_header", {UUID: {"result": "ok"}})
    [row] = batch.rows
    assert unpack_captured(row.events)[0].properties["$lib"] == "lib"


async def test_json_value_comes_back(workers: PayloadWorkers) -> None:
    value = {"a": [1, 2.5, None, True, "ü😀", 10**30], "distinct_id": "d"}
    parsed = await workers.parse(ask(gzip.compress(json.dumps(value).encode()), None), "a")
    assert parsed == ParsedPayload(value=value)


@pytest.mark.parametrize(
    ("body", "error", "code"),
    [
        (b"{", MalformedData, "malformed_data"),
        (b"", NoData, "no_data"),
        (gzip.compress(b"{}")[:-3], MalformedData, "malformed_data"),
        (b'{"event":"e"}', InvalidToken, "missing_api_key"),
        (b'{"api_key":"phx_x","event":"e"}', InvalidToken, "personal_api_key"),
        (b'{"api_key":"phc_x","batch":5}', AppError, "malformed_data"),
        (encode(*[1] * 200_001), TooLarge, "request_too_large"),
    ],
)
async def test_errors_come_back(
    workers: PayloadWorkers, body: bytes, error: type[AppError], code: str
) -> None:
    with pytest.raises(error) as raised:
        await workers.parse(ask(body), "a")
    assert raised.value.code == code


# Compressing takes long, and each process of a run collects all tests.
@pytest.mark.parametrize(
    ("item", "times", "end"),
    [(b"{},", 990_000, b"{}]"), (b"1,", 5_000_001, b"1]"), (b"[", 100 << 20, b"")],
)
async def test_compressed_bombs_come_back(
    workers: PayloadWorkers, item: bytes, times: int, end: bytes
) -> None:
    with pytest.raises(TooLarge) as raised:
        await workers.parse(ask(gzip.compress(b"[" + item * times + end)), "a")
    assert raised.value.code == "request_too_large"


async def test_rejected_batch_comes_back_with_its_warnings(workers: PayloadWorkers) -> None:
    for body, kind in (
        (encode({}), AllEventsRejected),
        (encode({"event": "e", "distinct_id": "d", "a": "x" * 1_000_000}), AllEventsTooLarge),
    ):
        parsed = await workers.parse(ask(body), "a")
        assert type(parsed.error) is kind
        assert parsed.error is not None
        assert get_batch(parsed).token == "phc_x"
        assert get_batch(parsed).warnings[0].type == parsed.error.code


@pytest.mark.parametrize("fields", [{}, {"more": "x" * 100_000}])
async def test_token_is_found_without_parsing(
    workers: PayloadWorkers, fields: dict[str, str]
) -> None:
    body = json.dumps({"batch": "x" * 100_000, "api_key": "phc_end", **fields}).encode()
    request = ask(gzip.compress(body), finds_token=True)
    if fields:  # not near the end: the payload is parsed, and has no list of events
        with pytest.raises(AppError, match="Expected a list"):
            await workers.parse(request, "a")
    else:
        assert await workers.parse(request, "a") == ParsedPayload(token="phc_end")


async def test_ratio_is_limited(workers: PayloadWorkers) -> None:
    body = gzip.compress(b'{"api_key":"phc_x",' + b" " * (50 << 20) + b'"event":"e"}')
    with pytest.raises(TooLarge, match="times its size"):
        await workers.parse(ask(body), "a")
    request = msgspec.structs.replace(ask(body), limits=UNIDENTIFIED_LIMITS, finds_token=True)
    with pytest.raises(TooLarge, match="times its size"):
        await workers.parse(request, "a")


async def test_worker_that_exceeds_its_memory_or_time_is_replaced() -> None:
    body = encode(*[{"event": "e", "distinct_id": "d"}] * 150_000)
    for change, reason in (
        ({"max_memory_bytes": 80 << 20}, "too much memory"),
        ({"timeout_s": 0.05}, "too long"),
    ):
        limits = replace(POOL_LIMITS, **change)
        workers = PayloadWorkers(WorkerPool(HOST_MODULE, limits))
        try:
            with pytest.raises(TooLarge, match=reason):
                await workers.parse(ask(body), "a")
            assert (await workers.parse(ask(b"5", None), "a")).value == 5
        finally:
            workers.close()


async def test_memory_does_not_grow_with_the_number_of_values() -> None:
    """The values of this batch need 600 MiB as Python objects."""
    event = {"event": "e", "distinct_id": "d", "properties": {f"k{n}": f"v{n}" for n in range(60)}}
    limits = replace(POOL_LIMITS, max_memory_bytes=400 << 20, timeout_s=60.0)
    workers = PayloadWorkers(WorkerPool(HOST_MODULE, limits))
    try:
        batch = get_batch(await workers.parse(ask(encode(*[event] * 28_000)), "a"))
        assert batch.event_count == 28_000
    finally:
        workers.close()


async def test_full_queue_and_closed_workers_are_unavailable() -> None:
    workers = PayloadWorkers(WorkerPool(HOST_MODULE, replace(POOL_LIMITS, **{"max_waiting": 0})))
    workers.close()
    with pytest.raises(Unavailable) as raised:
        await workers.parse(ask(b"{}"), "a")
    assert raised.value.headers["Retry-After"]


async def test_cookieless_events_are_not_packed(workers: PayloadWorkers) -> None:
    """They get their ids from the database of the service, before anything is stored."""
    properties = {"more than 64 bits": 10**30}
    visit = {"event": "seen", "distinct_id": "$posthog_cookieless", "properties": properties}
    other = {"event": "bought", "distinct_id": "ann", "properties": {}}
    body = {"api_key": "phc_a", "batch": [visit, other] * 300}
    parsed = await workers.parse(ask(json.dumps(body).encode()), "a")
    assert parsed.batch is not None
    packed = [event for row in parsed.batch.rows for event in unpack_captured(row.events)]
    parts = [unpack_captured(part) for part in parsed.batch.cookieless]
    assert {event.event for event in packed} == {"bought"}
    assert {event.event for part in parts for event in part} == {"seen"}
    assert parts[0][0].properties == properties
    assert [len(part) for part in parts] == [200, 100]
    assert parsed.batch.event_count == 600
