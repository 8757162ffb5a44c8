"""Definitions are learned again after kill -9, and learned from events of earlier versions."""

import httpx

from tests.fault.stored_state import change_rows, fetch_rows
from tests.support.live import PROJECT_KEY, Installation, wait_for

API = "/api/projects/1"
MARKS = "SELECT holder FROM definition_marks"


def capture(client: httpx.Client, event: str) -> None:
    body = {"api_key": PROJECT_KEY, "event": event, "distinct_id": "ann"}
    answer = client.post("/capture/", json=body | {"properties": {f"of {event}": 1}})
    assert answer.json() == {"status": 1}


def list_definitions(client: httpx.Client) -> tuple[dict[str, int], set[str]]:
    events = client.get(f"{API}/event_definitions/").json()["results"]
    properties = client.get(f"{API}/property_definitions/?search=of").json()["results"]
    return {each["name"]: each["volume_30_day"] for each in events}, {
        each["name"] for each in properties
    }


def test_killed_worker_and_old_events_are_learned_again(installation: Installation) -> None:
    with installation.server() as server, server.client() as client:
        # The events are stored before the answer; what was learned may not be saved.
        for event in ("first", "second"):
            capture(client, event)
        assert len(client.get(f"{API}/events/").json()["results"]) == 2
        server.kill()
    assert fetch_rows(installation, MARKS)
    # As if the last second had not been saved, some time ago.
    change_rows(
        installation,
        "DELETE FROM event_definitions",
        "DELETE FROM property_definitions",
        "UPDATE definition_marks SET updated_at = '1970-01-01 00:00:00.000000'",
    )
    with installation.server() as server, server.client() as client:
        expected = {"first": 1, "second": 1}, {"of first", "of second"}
        wait_for(lambda: list_definitions(client) == expected, 60)
        wait_for(lambda: len(fetch_rows(installation, MARKS)) == 1, 60)
        server.stop()
    # A worker that stops leaves nothing to learn again.
    assert not fetch_rows(installation, MARKS)
