"""Processes are killed while scheduled changes and rollout plans are due: each change is made once,
with its entry, or not at all."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.support.live import LiveServer, wait_for

API = "/api/projects/1"
FLAGS = 12
KILLS = 3
STEPS = (10, 30, 60, 100)


def make_flag(client: httpx.Client, key: str) -> int:
    body = {"key": key, "filters": {"groups": [{"properties": [], "rollout_percentage": 1}]}}
    made = client.post(f"{API}/feature_flags/", json=body)
    assert made.status_code == 201, made.text
    id: int = made.json()["id"]
    return id


def schedule(client: httpx.Client, flag: int) -> None:
    body = {
        "record_id": flag,
        "model_name": "FeatureFlag",
        "payload": {"operation": "update_status", "value": False},
        "scheduled_at": (datetime.now(UTC) + timedelta(seconds=2)).isoformat(),
    }
    assert client.post(f"{API}/scheduled_changes/", json=body).status_code == 201


def start_plan(client: httpx.Client, flag: int) -> int:
    """A plan whose metric never has data goes on without it."""
    body = {
        "flag": flag,
        "steps": [{"rollout_percentage": each, "duration_seconds": 1} for each in STEPS],
        "metrics": [{"type": "conversion", "event": "paid", "harm": "decrease"}],
        "window_seconds": 1,
        "on_no_data": "advance",
    }
    made = client.post(f"{API}/rollout_plans/", json=body)
    assert made.status_code == 201, made.text
    id: int = made.json()["id"]
    assert client.post(f"{API}/rollout_plans/{id}/start/").status_code == 200
    return id


def count_pending(client: httpx.Client) -> int:
    count: int = client.get(f"{API}/scheduled_changes/?pending=true").json()["count"]
    return count


def read(client: httpx.Client, path: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{API}/{path}").json()
    return found


def test_changes_are_made_once(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as first, first.client() as client:
        scheduled = [make_flag(client, f"scheduled-{number}") for number in range(FLAGS)]
        guarded = make_flag(client, "guarded")
        for flag in scheduled:
            schedule(client, flag)
        plan = start_plan(client, guarded)
        # In the middle of the due changes, if possible.
        wait_for(lambda: count_pending(client) < FLAGS, at_most_s=60)
        first.kill()
    for number in range(KILLS - 1):
        victim = LiveServer(tmp_path).wait_ready()
        time.sleep(0.3 * (number + 1))
        victim.kill()
    with LiveServer(tmp_path) as last, last.client() as client:
        wait_for(lambda: not count_pending(client), at_most_s=60)
        path = f"rollout_plans/{plan}/"
        wait_for(lambda: read(client, path)["state"] == "completed", at_most_s=90)
        for flag in scheduled:
            found = read(client, f"feature_flags/{flag}/")
            assert (found["active"], found["version"]) == (False, 2)
            entries = read(client, f"feature_flags/{flag}/activity/")["results"]
            assert [each["activity"] for each in entries] == ["updated", "created"]
        found = read(client, f"feature_flags/{guarded}/")
        assert found["filters"]["groups"][0]["rollout_percentage"] == STEPS[-1]
        assert found["version"] == 1 + len(STEPS)
        entries = read(client, f"{path}activity/")["results"]
        counts = Counter(each["activity"] for each in entries)
        assert counts == {"created": 1, "started": 1, "advanced": len(STEPS) - 1, "completed": 1}
