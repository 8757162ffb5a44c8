"""The requests of PostHog's own clients, by generation: what differs is where things stand."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.ingestion.requests import (
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
    # These wrote it in a way that PostHog does not read.
    ("python 2 to 6", batch(server_event("a", context={}), sentAt="2020-01-01T00:00:00")),
    ("node 4", batch(server_event("a", **OLD_NODE), sent_at=SENT)),
    ("js, one", browser_event("a")),
    ("js, a queue", [browser_event("a"), browser_event("b")]),
    ("js, in a batch", batch(browser_event("a"), browser_event("b"), sent_at=SENT)),
]


@pytest.mark.parametrize(("client", "payload"), SHAPES)
def test_every_client_is_understood(client: str, payload: Any) -> None:
    result = read(payload)
    assert result.token == TOKEN
    assert (list(result.rejected), list(result.warnings)) == ([], [])
    for each in result.events:
        assert (each.uuid, each.distinct_id) == (UUID, "ann")
        assert timedelta(seconds=9) < NOW - each.timestamp < timedelta(seconds=10)


def test_the_time_in_the_query_is_when_js_sent_it() -> None:
    a_minute_fast = int(NOW.timestamp() * 1000) + 60_000
    (arrived,) = read(browser_event("a"), query_sent_at_ms=a_minute_fast).events
    assert timedelta(seconds=69) < NOW - arrived.timestamp < timedelta(seconds=70)


def test_old_js_says_how_long_ago_it_was() -> None:
    queued = browser_event("a", offset=1500)
    del queued["timestamp"]
    (arrived,) = read([queued], query_sent_at_ms=1794744060000).events
    assert arrived.timestamp == NOW - timedelta(milliseconds=1500)


def test_what_identifies_a_person_is_among_the_properties() -> None:
    identify = browser_event("$identify", **{"$set": {"email": "a@b.c"}, "$set_once": {"n": 1}})
    identify["properties"]["$anon_distinct_id"] = "anonymous"
    (arrived,) = read(identify).events
    assert arrived.properties["$set"] == {"email": "a@b.c"}
    assert arrived.properties["$set_once"] == {"n": 1}
    assert arrived.properties["$anon_distinct_id"] == "anonymous"


def test_the_call_of_the_specification() -> None:
    (arrived,) = read({"api_key": TOKEN, **event(properties={"$feature/beta": "test"})}).events
    assert (arrived.event, arrived.distinct_id) == ("bought", "ann")
    assert arrived.properties == {"$feature/beta": "test"}
    assert arrived.timestamp == arrived.accepted_at == NOW
