"""The clock is set back and forward under scheduled changes and rollout plans: a change is made
once and not forgotten, and no step of a plan ends before its metrics were looked at."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.contract.flags.test_rollouts import (
    METRICS,
    expose,
    make_plan,
    read_percentage,
    read_plan,
)
from tests.fault.test_clock import HOUR_S, clock, set_clock, settings
from tests.support.clock_shift import ShiftedClock
from tests.support.live import LiveServer, wait_for

__all__ = ["clock", "settings"]

API = "/api/projects/1"
DAY_S = 24 * HOUR_S
LATENCY = METRICS[1]
STEPS = [
    {"rollout_percentage": percentage, "duration_seconds": HOUR_S} for percentage in (20, 50, 100)
]
AT_MOST_S = 120


def make_flag(client: httpx.Client, key: str) -> int:
    body = {"key": key, "filters": {"groups": [{"properties": [], "rollout_percentage": 1}]}}
    made = client.post(f"{API}/feature_flags/", json=body)
    assert made.status_code == 201, made.text
    id: int = made.json()["id"]
    return id


def schedule(client: httpx.Client, flag: int, after_s: float, **fields: Any) -> None:
    """Schedule a change in terms of the real time."""
    body = {
        "record_id": flag,
        "model_name": "FeatureFlag",
        "payload": {
            "operation": "update_rollout",
            "value": {"rollout_percentage": 30, "condition_index": 0},
        },
        "scheduled_at": (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(),
        **fields,
    }
    made = client.post(f"{API}/scheduled_changes/", json=body)
    assert made.status_code == 201, made.text


def count_executions(client: httpx.Client, flag: int) -> int:
    """Count the changes of a flag in its activity log, which must agree with its version."""
    entries = client.get(f"{API}/feature_flags/{flag}/activity/").json()["results"]
    number = [each["activity"] for each in entries].count("updated")
    assert client.get(f"{API}/feature_flags/{flag}/").json()["version"] == 1 + number
    return number


def is_pending(client: httpx.Client, flag: int) -> bool:
    path = f"{API}/scheduled_changes/?pending=true&record_id={flag}"
    return bool(client.get(path).json()["count"])


def await_pass(client: httpx.Client, key: str, shift_s: int) -> None:
    """Wait until what is due at the time of the service was executed: the oldest is first."""
    flag = make_flag(client, key)
    schedule(client, flag, shift_s + 1)
    wait_for(lambda: not is_pending(client, flag), at_most_s=AT_MOST_S)


def test_scheduled_changes_are_made_once(
    clock: ShiftedClock, tmp_path: Path, settings: dict[str, str]
) -> None:
    with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
        once, daily, later = (make_flag(client, key) for key in ("once", "daily", "later"))
        schedule(client, once, HOUR_S / 2)
        schedule(
            client, daily, HOUR_S / 2, is_recurring=True, recurrence_interval="daily", payload=TURN
        )
        set_clock(clock, client, -HOUR_S)
        await_pass(client, "after-back", -HOUR_S)
        assert [count_executions(client, flag) for flag in (once, daily)] == [0, 0]
        set_clock(clock, client, DAY_S)
        wait_for(lambda: not is_pending(client, once), at_most_s=AT_MOST_S)
        await_pass(client, "after-forward", DAY_S)
        # What recurs is made up for once, and goes on.
        assert [count_executions(client, flag) for flag in (once, daily)] == [1, 1]
        schedule(client, later, DAY_S + 60)
        set_clock(clock, client, DAY_S - HOUR_S)
        await_pass(client, "after-back-again", DAY_S - HOUR_S)
        assert [count_executions(client, flag) for flag in (once, daily, later)] == [1, 1, 0]
        set_clock(clock, client, 2 * DAY_S)
        wait_for(lambda: not is_pending(client, later), at_most_s=AT_MOST_S)
        await_pass(client, "at-last", 2 * DAY_S)
        assert [count_executions(client, flag) for flag in (once, daily, later)] == [1, 2, 1]
        assert is_pending(client, daily)


# Adds a condition each time, so that each execution changes the flag.
TURN = {
    "operation": "add_release_condition",
    "value": {"groups": [{"properties": [], "rollout_percentage": 1}]},
}


def read_history(client: httpx.Client, plan: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"{API}/rollout_plans/{plan['id']}/evaluations/"
    found: list[dict[str, Any]] = client.get(path).json()["results"]
    return found


def has(client: httpx.Client, plan: dict[str, Any], kind: str, why: str = "") -> bool:
    found = read_history(client, plan)
    return any(each["kind"] == kind and why in each["why"] for each in found)


def test_no_step_ends_without_a_look(
    clock: ShiftedClock, tmp_path: Path, settings: dict[str, str]
) -> None:
    with LiveServer(tmp_path / "data", **settings) as server, server.client() as client:
        # People count an hour after their exposure: nothing is known before the clock is set.
        common = {"steps": STEPS, "metrics": [LATENCY], "window_seconds": HOUR_S}
        harmful = make_plan(client, **common)
        waiting = make_plan(client, **common)
        going = make_plan(client, **common, on_no_data="advance")
        expose(client, harmful, is_harmful=True)
        wait_for(lambda: has(client, harmful, "checked"), at_most_s=AT_MOST_S)
        set_clock(clock, client, DAY_S)
        wait_for(lambda: read_plan(client, harmful)["state"] != "running", at_most_s=AT_MOST_S)
        assert read_plan(client, harmful)["state"] == "rolled_back"
        assert not has(client, harmful, "advanced")
        assert read_percentage(client, harmful) == 0
        over = "The time of the step is over, and it waits for data"
        wait_for(lambda: has(client, waiting, "checked", over), at_most_s=AT_MOST_S)
        assert read_percentage(client, waiting) == 20
        # The next step has its own hour: none is skipped.
        wait_for(lambda: has(client, going, "advanced"), at_most_s=AT_MOST_S)
        wait_for(lambda: count_checks(client, going, 1) >= 1, at_most_s=AT_MOST_S)
        assert (read_percentage(client, going), count(client, going, "advanced")) == (50, 1)
        set_clock(clock, client, DAY_S - HOUR_S)
        set_back = "The clock was set back, so that the step begins again."
        wait_for(lambda: set_back in read_plan(client, going)["reason"], at_most_s=AT_MOST_S)
        checks = count_checks(client, going, 1)
        wait_for(lambda: count_checks(client, going, 1) > checks, at_most_s=AT_MOST_S)
        assert (read_percentage(client, going), count(client, going, "advanced")) == (50, 1)
        set_clock(clock, client, 2 * DAY_S)
        wait_for(lambda: count(client, going, "advanced") == 2, at_most_s=AT_MOST_S)
        assert read_percentage(client, going) == 100


def count(client: httpx.Client, plan: dict[str, Any], kind: str) -> int:
    return [each["kind"] for each in read_history(client, plan)].count(kind)


def count_checks(client: httpx.Client, plan: dict[str, Any], step: int) -> int:
    found = read_history(client, plan)
    return sum(each["kind"] == "checked" and each["step_index"] == step for each in found)
