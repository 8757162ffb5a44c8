"""What the tests of capture share: batches, and how they are sent and found again."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import httpx

from tests.live import PROJECT_KEY, Installation
from tests.stored_events import stored_events

Event = dict[str, Any]

# A flag that has to be there for its calls to be counted.
COUNTED = "counted"


def event(name: str = "seen", distinct_id: str = "ann", **properties: Any) -> Event:
    """With an id by which it is found again."""
    return {
        "event": name,
        "distinct_id": distinct_id,
        "uuid": str(uuid4()),
        "properties": properties,
    }


def call(distinct_id: str = "ann") -> Event:
    """Of a flag: it is counted, so that whatever is done twice can be seen."""
    called = {"$feature_flag": COUNTED, "$feature_flag_response": True}
    return event("$feature_flag_called", distinct_id, **called)


def story(distinct_id: str) -> Iterator[Sequence[Event]]:
    """Batches of somebody who is told by each of them how many there were."""
    for number in itertools.count():
        told = {"$set": {"n": number}, "$set_once": {"first": number}}
        batch = [event("seen", distinct_id, **told, number=number), call(distinct_id)]
        if number % 5 == 4:
            batch.append(event("$identify", distinct_id, **_earlier(distinct_id, number)))
        yield batch


def _earlier(distinct_id: str, number: int) -> dict[str, Any]:
    return {"$anon_distinct_id": f"{distinct_id} before {number}"}


def sent(client: httpx.Client, batch: Sequence[Event], **more: Any) -> httpx.Response:
    return client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch, **more})


def uuids(batch: Sequence[Event]) -> set[str]:
    return {each["uuid"] for each in batch}


def assert_stored_once(installation: Installation, acknowledged: set[str]) -> list[dict[str, Any]]:
    """Everything acknowledged is there, and nothing is there twice. The server has ended."""
    rows = stored_events(installation.data)
    counts = Counter(row["uuid"] for row in rows)
    assert acknowledged - counts.keys() == set()
    assert [uuid for uuid, count in counts.items() if count > 1] == []
    return rows


def properties(row: dict[str, Any], column: str = "properties") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row[column])
    return found
