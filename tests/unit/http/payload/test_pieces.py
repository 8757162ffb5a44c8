"""A batch that is parsed in pieces gives the same result as one that is parsed as a whole."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.app.hosts import payload_host
from hedgerow.http.payload import pieces
from hedgerow.http.payload.limits import CAPTURE_LIMITS
from hedgerow.http.payload.raw import RawPayload
from hedgerow.http.payload.workers import (
    CaptureArguments,
    ParsedPayload,
    PayloadRequest,
    V1Headers,
    decode_response,
    encode_request,
)
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.storage.ingestion.inbox_packing import unpack_captured

V1 = V1Headers(token="phc_header", library="lib/1", sent_at="")


def _parse(body: Any, v1: V1Headers | None = None) -> ParsedPayload:
    arguments = CaptureArguments(
        now=datetime(2026, 1, 1, tzinfo=UTC),
        query_sent_at_ms=None,
        is_engage=False,
        ip="192.0.2.7",
        randomness=bytes(UUID7_RANDOM_BYTES),
        bucket_count=1,
        v1=v1,
    )
    raw = RawPayload(data=json.dumps(body).encode(), is_lenient=True)
    request = PayloadRequest(raw=raw, limits=CAPTURE_LIMITS, capture=arguments)
    return decode_response(payload_host.handle(encode_request(request)))


def _summarize(parsed: ParsedPayload) -> Any:
    batch = parsed.batch
    assert batch is not None
    events = [event for row in batch.rows for event in unpack_captured(row.events)]
    visits = [event for part in batch.cookieless for event in unpack_captured(part)]
    return (
        (batch.token, batch.event_count, batch.rejected_count, len({each.uuid for each in events})),
        [(event.event, event.properties, event.timestamp) for event in (*events, *visits)],
        (batch.rejected, batch.results),
        [(warning.type, warning.event, warning.detail) for warning in batch.warnings],
        parsed.error and parsed.error.detail,
    )


def _build_events(number: int) -> list[Any]:
    events: list[Any] = [
        {"event": f"e{n}", "distinct_id": "d", "properties": {"n": n, "big": 10**30}}
        for n in range(number)
    ]
    events[5]["distinct_id"] = "$posthog_cookieless"
    events[number - 3]["properties"]["text"] = "x\0"
    return [*events[:9], 7, *events[9:], {}]


@pytest.mark.parametrize(
    ("body", "v1"),
    [
        ({"api_key": "phc_x", "batch": _build_events(40)}, None),
        ({"batch": _build_events(40), "sent_at": "2026-01-01T00:00:00Z", "token": "phc_x"}, None),
        ({"api_key": "phc_x", "batch": [{}, 1, None] * 9}, None),
        ({"batch": [{"uuid": f"0199aaaa-0000-7000-8000-{n:012}"} for n in range(20)]}, V1),
        # Parsed as a whole: a lone surrogate, a token only in the events, and no batch.
        ({"api_key": "phc_x", "batch": [{"event": "\ud800", "distinct_id": "d"}] * 9}, None),
        ({"batch": [{"event": "e", "distinct_id": "d", "api_key": "phc_x"}] * 9}, None),
        ({"api_key": "phc_x", "event": "e", "distinct_id": "d"}, None),
    ],
)
def test_result_does_not_depend_on_pieces(
    body: Any, v1: V1Headers | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _summarize(_parse(body, v1))
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100)
    assert _summarize(_parse(body, v1)) == whole


def test_pieces_have_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 300)
    text = json.dumps({"api_key": "phc_x", "batch": _build_events(40)}).encode()
    payload = pieces.decode_in_pieces(text, has_token=False)
    assert payload is not None
    found = list(payload["batch"].iter_pieces(json.loads))
    assert len(found) > 5
    assert [start for start, _ in found][:2] == [0, len(found[0][1])]
    assert sum(len(items) for _, items in found) == 42
