"""A project does not wait for the events of another: the attacks, with a real service."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, READ_TIMEOUT_S, LiveServer, run_concurrently

FLOOD_BATCHES, BATCH_EVENTS, SENDERS = 40, 1_000, 4
WEBHOOK, REMOVE_PROPERTIES = 1, 63
# Each pattern with look-around may take 5 ms.
SLOW_TEXT = "a" * 500
SLOW_PATTERNS = [
    {"key": "text", "type": "event", "operator": "regex", "value": f"(?!{number})(a|aa)+$"}
    for number in range(5)
]
RECORDS = 20
SLOW_EVENTS = 300


@dataclass(frozen=True, slots=True)
class World:
    """The attacker has the first project, the victim another one."""

    client: httpx.Client
    victim_key: str
    victim_project: int

    def send(self, key: str, events: list[dict[str, Any]]) -> None:
        body = {"api_key": key, "batch": events}
        assert self.client.post("/batch/", json=body).status_code == 200

    def add_records(self, family: str, plugin: int, **settings: Any) -> None:
        path = f"/api/projects/1/pipeline_{family}_configs/"
        for _ in range(RECORDS):
            own = f"{path}{self.client.post(path, json={'plugin': plugin}).json()['id']}/"
            config = {"properties": SLOW_PATTERNS, **settings}
            assert self.client.put(f"{own}config/", json=config).status_code == 200
            assert self.client.patch(own, json={"enabled": True}).status_code == 200

    def capture_and_read_as_victim(self) -> None:
        """The listing waits for all events of its project."""
        properties = {"$set": {"plan": "pro"}}
        event = {"event": "bought", "distinct_id": "ann", "properties": properties}
        self.send(self.victim_key, [event])
        project = f"/api/projects/{self.victim_project}"
        listed = self.client.get(f"{project}/events/", params={"event": "bought"})
        assert [each["event"] for each in listed.json()["results"]] == ["bought"]
        assert "x-hedgerow-stale" not in listed.headers
        persons = self.client.get(f"{project}/persons/", params={"distinct_id": "ann"})
        assert [each["properties"]["plan"] for each in persons.json()["results"]] == ["pro"]
        assert "x-hedgerow-stale" not in persons.headers

    def count_waiting(self) -> float:
        metrics = self.client.get("/metrics").text
        found = re.search(r"^hedgerow_inbox_events_waiting ([\d.e+]+)$", metrics, re.MULTILINE)
        assert found is not None
        return float(found[1])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with (
        LiveServer(tmp_path, read_after_write_timeout_s=READ_TIMEOUT_S) as server,
        server.client() as client,
    ):
        victim = client.post("/api/projects/", json={"name": "Victim"}).json()
        made = World(client, victim["api_token"], victim["id"])
        # The first event opens the event store.
        made.send(made.victim_key, [{"event": "first", "distinct_id": "ann"}])
        client.get(f"/api/projects/{victim['id']}/events/")
        yield made


def _build_flood(number: int, **properties: Any) -> list[dict[str, Any]]:
    return [
        {"event": "flood", "distinct_id": f"p{each}", "properties": properties}
        for each in range(number)
    ]


def test_a_flood_of_events_delays_its_project_only(world: World) -> None:
    def send(sender: int) -> None:
        for batch in range(FLOOD_BATCHES // SENDERS):
            events = _build_flood(BATCH_EVENTS, **{"$set": {"batch": batch}})
            for event in events:
                event["distinct_id"] = f"{sender}-{batch}-{event['distinct_id']}"
            world.send(PROJECT_KEY, events)

    run_concurrently([partial(send, sender) for sender in range(SENDERS)])
    world.capture_and_read_as_victim()
    assert world.count_waiting() > BATCH_EVENTS


def test_slow_transformations_delay_their_project_only(world: World) -> None:
    world.add_records("transformation", REMOVE_PROPERTIES, names=["nothing"])
    world.send(PROJECT_KEY, _build_flood(SLOW_EVENTS, text=SLOW_TEXT))
    world.capture_and_read_as_victim()
    assert world.count_waiting() > SLOW_EVENTS / 2


def test_slow_filters_of_destinations_delay_their_project_only(world: World) -> None:
    world.add_records("destination", WEBHOOK, url="https://192.0.2.1/hook")
    world.send(PROJECT_KEY, _build_flood(SLOW_EVENTS, text=SLOW_TEXT))
    world.capture_and_read_as_victim()
    # Their events are stored, so that they can be read as well, and wait for their deliveries.
    listed = world.client.get("/api/projects/1/events/", params={"event": "flood", "limit": "1"})
    assert len(listed.json()["results"]) == 1
    assert world.count_waiting() > SLOW_EVENTS / 2
