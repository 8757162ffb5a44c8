"""Batches for tests of capture, and checks of what was stored."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import httpx

from tests.support.live import PROJECT_KEY, Installation
from tests.support.stored_events import read_stored_events

Event = dict[str, Any]

# A flag that must exist for its calls to be counted.
COUNTED_FLAG = "counted"


def build_event(name: str = "seen", distinct_id: str = "ann", **properties: Any) -> Event:
    """Build an event with a UUID."""
    return {
        "event": name,
        "distinct_id": distinct_id,
        "uuid": str(uuid4()),
        "properties": properties,
    }


def build_flag_call(distinct_id: str = "ann") -> Event:
    """Build a flag call. Calls are counted, so double processing is visible."""
    called = {"$feature_flag": COUNTED_FLAG, "$feature_flag_response": True}
    return build_event("$feature_flag_called", distinct_id, **called)


def build_batches(distinct_id: str) -> Iterator[Sequence[Event]]:
    """Yield batches of one person; each sets a property to the number of batches so far."""
    for number in itertools.count():
        updates = {"$set": {"n": number}, "$set_once": {"first": number}}
        batch = [
            build_event("seen", distinct_id, **updates, number=number),
            build_flag_call(distinct_id),
        ]
        if number % 5 == 4:
            batch.append(build_event("$identify", distinct_id, **_earlier(distinct_id, number)))
        yield batch


def _earlier(distinct_id: str, number: int) -> dict[str, Any]:
    return {"$anon_distinct_id": f"{distinct_id} before {number}"}


def send_batch(client: httpx.Client, batch: Sequence[Event], **more: Any) -> httpx.Response:
    return client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch, **more})


def get_uuids(batch: Sequence[Event]) -> set[str]:
    return {each["uuid"] for each in batch}


def assert_stored_once(installation: Installation, acknowledged: set[str]) -> list[dict[str, Any]]:
    """Check that everything acknowledged is stored exactly once. The server must have stopped."""
    rows = read_stored_events(installation.data)
    counts = Counter(row["uuid"] for row in rows)
    assert acknowledged - counts.keys() == set()
    assert [uuid for uuid, count in counts.items() if count > 1] == []
    return rows


def get_properties(row: dict[str, Any], column: str = "properties") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row[column])
    return found
