"""The requests of PostHog's SDKs, by generation: the fields are in different places."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.ingestion.parsing.requests import (
    NOW,
    TOKEN,
    UUID,
    batch,
    browser_event,
    event,
    read,
    server_event,
)

SENT = "2026-11-15T12:00:00.000Z"
OLD_NODE = {"type": "capture", "library": "posthog-node", "library_version": "2.6.0"}

SHAPES: list[tuple[str, Any]] = [
    ("python 7", batch(server_event("a"), historical_migration=False, sent_at=SENT)),
    # These SDKs send `sentAt`, which PostHog ignores.
    ("python 2 to 6", batch(server_event("a", context={}), sentAt="2020-01-01T00:00:00")),
    ("node 4", batch(server_event("a", **OLD_NODE), sent_at=SENT)),
    ("js, one", browser_event("a")),
    ("js, a queue", [browser_event("a"), browser_event("b")]),
    ("js, in a batch", batch(browser_event("a"), browser_event("b"), sent_at=SENT)),
]


@pytest.mark.parametrize(("client", "payload"), SHAPES)
def test_every_client_format_is_parsed(client: str, payload: Any) -> None:
    result = read(payload)
    assert result.token == TOKEN
    assert (list(result.rejected), list(result.warnings)) == ([], [])
    for each in result.events:
        assert (each.uuid, each.distinct_id) == (UUID, "ann")
        assert timedelta(seconds=9) < NOW - each.timestamp < timedelta(seconds=10)


def test_query_contains_the_sent_time_of_posthog_js() -> None:
    a_minute_fast = int(NOW.timestamp() * 1000) + 60_000
    (captured,) = read(browser_event("a"), query_sent_at_ms=a_minute_fast).events
    assert timedelta(seconds=69) < NOW - captured.timestamp < timedelta(seconds=70)


def test_old_posthog_js_sends_an_offset() -> None:
    queued = browser_event("a", offset=1500)
    del queued["timestamp"]
    (captured,) = read([queued], query_sent_at_ms=1794744060000).events
    assert captured.timestamp == NOW - timedelta(milliseconds=1500)


def test_person_updates_become_properties() -> None:
    identify = browser_event("$identify", **{"$set": {"email": "a@b.c"}, "$set_once": {"n": 1}})
    identify["properties"]["$anon_distinct_id"] = "anonymous"
    (captured,) = read(identify).events
    assert captured.properties["$set"] == {"email": "a@b.c"}
    assert captured.properties["$set_once"] == {"n": 1}
    assert captured.properties["$anon_distinct_id"] == "anonymous"


def test_minimal_request_is_parsed() -> None:
    (captured,) = read({"api_key": TOKEN, **event(properties={"$feature/beta": "test"})}).events
    assert (captured.event, captured.distinct_id) == ("bought", "ann")
    assert captured.properties == {"$feature/beta": "test"}
    assert captured.timestamp == captured.accepted_at == NOW
