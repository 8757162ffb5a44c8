"""Persons, groups and cohorts beside the events of a running service."""

import time
from pathlib import Path

from hedgerow.app.mirror import COPY_EVERY_S
from tests.live import PROJECT_KEY, LiveServer, seconds_until
from tests.stored_events import people_waiting, stored_events

ENGINE = "_chdb"


def _memory_map(server: LiveServer) -> str:
    return Path(f"/proc/{server.process.pid}/maps").read_text()


def test_who_uses_flags_only_never_loads_the_engine_of_events(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        asked = {"api_key": PROJECT_KEY, "distinct_id": "ann"}
        person = {"distinct_ids": ["ann"], "properties": {"plan": "free"}}
        assert client.post("/api/projects/1/persons/", json=person).is_success
        for _ in range(3):
            assert client.post("/decide?v=3", json=asked).is_success
        time.sleep(2 * COPY_EVERY_S)
        assert people_waiting(tmp_path) == 2
        assert ENGINE not in _memory_map(server)
        event = {**asked, "event": "seen"}
        assert client.post("/capture/", json=event).is_success
        seconds_until(lambda: not people_waiting(tmp_path), at_most_s=30)
        assert ENGINE in _memory_map(server)
    copies = stored_events(tmp_path, "SELECT properties FROM persons FINAL")
    assert len(copies) == 1
    assert '"plan"' in copies[0]["properties"]
