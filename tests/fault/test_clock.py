"""A clock that is set back or forward, while the service runs or not, stops nothing."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.support.clock_shift import ShiftedClock
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, Receiver

HOUR_S = 3600
RECORDS = "/api/projects/1/pipeline_destination_configs/"
EVENTS = 8
# A clock that was set back is noticed within a second, on PostgreSQL within another one.
NOTICED_S = 4


@pytest.fixture
def clock() -> Iterator[ShiftedClock]:
    with TemporaryDirectory(prefix="hr-clock-") as folder:
        # As root, PostgreSQL runs as another user, who cannot read pytest's directory.
        Path(folder).chmod(0o755)
        clock = ShiftedClock(Path(folder))
        with patch.dict(os.environ, clock.environment):
            yield clock


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, clock: ShiftedClock) -> Iterator[dict[str, str]]:
    """PostgreSQL has the same clock, which is the one that counts."""
    settings = {"allow_private_destinations": "true"}
    if request.param == "sqlite":
        yield settings
        return
    postgres = PostgresTestServer()
    try:
        yield {**settings, "database_url": postgres.create_migrated_database()}
    finally:
        clock.set(0)
        postgres.close()


def set_clock(clock: ShiftedClock, client: httpx.Client, seconds: int) -> None:
    """Set the clock, and wait until the service follows it: with PostgreSQL within a second."""

    def follows() -> bool:
        body = {"name": "Clock", "is_static": True}
        made = client.post("/api/projects/1/cohorts/", json=body).json()
        ahead = datetime.fromisoformat(made["created_at"]) - datetime.now(UTC)
        return abs(ahead - timedelta(seconds=seconds)) < timedelta(seconds=HOUR_S / 2)

    clock.set(seconds)
    wait_for(follows, at_most_s=60)


def add_destination(client: httpx.Client, url: str, **config: Any) -> str:
    path = f"{RECORDS}{client.post(RECORDS, json={'plugin': 1}).json()['id']}/"
    assert client.put(f"{path}config/", json={"url": url, **config}).status_code == 200
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path


def capture(client: httpx.Client, name: str) -> None:
    batch = [{"event": name, "distinct_id": f"user {each}"} for each in range(EVENTS)]
    response = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert response.status_code == 200


def count_received(receiver: Receiver, name: str) -> int:
    """Count the different events with this name, alone or in batches."""
    bodies = [request.json for request in list(receiver.received)]
    items = [item for body in bodies for item in (body if isinstance(body, list) else [body])]
    return len({item["event"]["uuid"] for item in items if item["event"]["event"] == name})


def is_paused(client: httpx.Client, path: str) -> bool:
    return "Paused" in client.get(path).json()["error"]


def test_a_clock_that_is_set_stops_no_destination(
    clock: ShiftedClock, tmp_path: Path, settings: dict[str, str]
) -> None:
    with Receiver() as receiver, Receiver() as batches:
        receiver.decide = lambda _: PlannedResponse(
            status=503, headers={"Retry-After": "5"}, body=b"later"
        )
        with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
            path = add_destination(client, receiver.url)
            add_destination(client, batches.url, batch_size=100, batch_seconds=10)
            capture(client, "before")
            wait_for(lambda: is_paused(client, path), at_most_s=60)
            set_clock(clock, client, -HOUR_S)
            del receiver.received[:]
            receiver.decide = lambda _: PlannedResponse()
            wait_for(lambda: count_received(receiver, "before") == EVENTS, at_most_s=60)
            wait_for(lambda: count_received(batches, "before") == EVENTS, at_most_s=60)
            capture(client, "back")
            wait_for(lambda: count_received(receiver, "back") == EVENTS, at_most_s=60)
            set_clock(clock, client, HOUR_S)
            capture(client, "forward")
            wait_for(lambda: count_received(receiver, "forward") == EVENTS, at_most_s=60)
            receiver.decide = lambda _: PlannedResponse(status=503)
            capture(client, "stopped")
            wait_for(lambda: is_paused(client, path), at_most_s=60)
        clock.set(-HOUR_S)
        receiver.decide = lambda _: PlannedResponse()
        del receiver.received[:]
        with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
            wait_for(lambda: count_received(receiver, "stopped") == EVENTS, at_most_s=60)
            wait_for(lambda: client.get(f"{path}deliveries/").json()["count"] == 0, at_most_s=60)
            assert client.get(f"{path}metrics/").json()["delivered"] == 4 * EVENTS


def deliver_what_was_accepted_before_the_correction(
    clock: ShiftedClock, client: httpx.Client, receiver: Receiver, name: str
) -> None:
    """The clock is an hour behind. The events are routed after it is corrected."""
    time.sleep(NOTICED_S)
    capture(client, name)
    clock.set(0)
    wait_for(lambda: count_received(receiver, name) == EVENTS, at_most_s=60)


def test_events_accepted_before_the_clock_is_corrected_are_delivered(
    clock: ShiftedClock, tmp_path: Path, settings: dict[str, str]
) -> None:
    with Receiver() as receiver:
        with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
            add_destination(client, receiver.url)
            set_clock(clock, client, -HOUR_S)
            deliver_what_was_accepted_before_the_correction(clock, client, receiver, "running")
            set_clock(clock, client, 0)
            add_destination(client, receiver.url)
        clock.set(-HOUR_S)
        with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
            set_clock(clock, client, -HOUR_S)
            deliver_what_was_accepted_before_the_correction(clock, client, receiver, "started")
