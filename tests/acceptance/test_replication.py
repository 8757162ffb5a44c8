"""Person replicas in a running service."""

import time
from pathlib import Path

from hedgerow.app.background_tasks import CHECK_INTERVAL_S
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.stored_events import count_waiting_persons, read_stored_events


def test_installation_with_flags_only_never_loads_chdb(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        body = {"api_key": PROJECT_KEY, "distinct_id": "ann"}
        person = {"distinct_ids": ["ann"], "properties": {"plan": "free"}}
        assert client.post("/api/projects/1/persons/", json=person).is_success
        for _ in range(3):
            assert client.post("/decide?v=3", json=body).is_success
        time.sleep(2 * CHECK_INTERVAL_S)
        assert count_waiting_persons(tmp_path) == 2
        assert server.find_engine() is None
        event = {**body, "event": "seen"}
        assert client.post("/capture/", json=event).is_success
        wait_for(lambda: not count_waiting_persons(tmp_path), at_most_s=120)
        assert server.find_engine() is not None
    replicas = read_stored_events(tmp_path, "SELECT properties FROM persons FINAL")
    assert len(replicas) == 1
    assert '"plan"' in replicas[0]["properties"]


def test_restart_with_events_runs_every_background_task(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        event = {"api_key": PROJECT_KEY, "distinct_id": "ann", "event": "seen"}
        assert client.post("/capture/", json=event).is_success
        wait_for(lambda: not count_waiting_persons(tmp_path), at_most_s=120)
    with LiveServer(tmp_path) as server:
        wait_for(lambda: server.find_engine() is not None, at_most_s=120)
        time.sleep(2 * CHECK_INTERVAL_S)
    assert "background task failed" not in server.errors
