"""Bandits from outside: exposures and events are captured, and the split follows. On PostgreSQL two
processes reallocate."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

from tests.contract.flags.test_rollouts import API, clients
from tests.support.live import PROJECT_KEY, wait_for

__all__ = ["clients"]

WINDOW = {"conversion_window": 1, "conversion_window_unit": "second"}
PAID = {"metric_type": "funnel", "series": [{"event": "paid"}], **WINDOW}
REFUNDS = {
    "metric_type": "ratio",
    "numerator": {"event": "refund"},
    "denominator": {"event": "order"},
    "goal": "decrease",
    **WINDOW,
}
VARIANTS = ("control", "blue")


def make_bandit(client: httpx.Client, metric: dict[str, Any]) -> dict[str, Any]:
    variants = [{"key": key, "rollout_percentage": 50} for key in VARIANTS]
    filters = {"groups": [{"rollout_percentage": 100}], "multivariate": {"variants": variants}}
    flag = {"key": f"learning-{uuid4()}", "filters": filters}
    made = client.post(f"{API}/feature_flags/", json=flag).json()
    created = client.post(f"{API}/bandits/", json={"flag": made["id"], "metric": metric})
    assert created.status_code == 201, created.text
    bandit: dict[str, Any] = created.json()
    return bandit


def act(client: httpx.Client, bandit: dict[str, Any], action: str) -> dict[str, Any]:
    done = client.post(f"{API}/bandits/{bandit['id']}/{action}/")
    assert done.status_code == 200, done.text
    result: dict[str, Any] = done.json()
    return result


def expose(client: httpx.Client, bandits: list[dict[str, Any]]) -> None:
    """Capture 200 persons of each variant: of control a tenth pay, of blue three tenths. Each has
    two orders; three quarters of control and half of blue get a refund for one. Ten of control come
    back and see blue, and then pay after the window."""
    start = max(datetime.fromisoformat(each["started_at"]) for each in bandits)
    batch: list[dict[str, Any]] = []

    def add(person: str, event: str, after_ms: int, **properties: Any) -> None:
        at = start + timedelta(milliseconds=after_ms)
        batch.append(
            {
                "event": event,
                "distinct_id": person,
                "timestamp": at.isoformat(),
                "uuid": str(uuid4()),
                "properties": properties,
            }
        )

    def see(person: str, variant: str, after_ms: int) -> None:
        for each in bandits:
            seen = {"$feature_flag": each["flag_key"], "$feature_flag_response": variant}
            add(person, "$feature_flag_called", after_ms, **seen)

    for number in range(400):
        person, variant = f"{bandits[0]['flag_key']} {number}", VARIANTS[number % 2]
        see(person, variant, 1)
        position = number // 2
        if position % 10 < (3 if variant == "blue" else 1):
            add(person, "paid", 2)
        add(person, "order", 3)
        add(person, "order", 4)
        if position % 4 < (3 if variant == "control" else 2):
            add(person, "refund", 5)
        if variant == "control" and position < 10:
            see(person, "blue", 10)
            add(person, "paid", 5_000)
    sent = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert sent.status_code == 200, sent.text


def read_history(client: httpx.Client, bandit: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"{API}/bandits/{bandit['id']}/allocations/"
    found: list[dict[str, Any]] = client.get(path).json()["results"]
    return found


def read_split(client: httpx.Client, bandit: dict[str, Any]) -> dict[str, float]:
    flag = client.get(f"{API}/feature_flags/{bandit['flag']}/").json()
    variants = flag["filters"]["multivariate"]["variants"]
    return {each["key"]: each["rollout_percentage"] for each in variants}


def test_split_follows_what_people_do(clients: list[httpx.Client]) -> None:
    client = clients[0]
    paid, refunds = (act(client, make_bandit(client, each), "start") for each in (PAID, REFUNDS))
    expose(client, [paid, refunds])

    def has_moved(bandit: dict[str, Any]) -> bool:
        """A resumed bandit is computed at once."""
        if read_history(client, bandit)[0]["kind"] in ("started", "checked"):
            act(client, bandit, "pause")
            act(client, bandit, "resume")
        return any(each["kind"] == "reallocated" for each in read_history(client, bandit))

    for bandit in (paid, refunds):
        wait_for(partial(has_moved, bandit), at_most_s=60)
        assert read_split(clients[-1], bandit) == {"control": 5, "blue": 95}
    [moved] = [each for each in read_history(client, paid) if each["kind"] == "reallocated"]
    control, blue = moved["variants"]
    # Who has seen both counts for the first, and what was paid after the window does not.
    assert (control["persons"], control["total"]) == (200, 20)
    assert (blue["persons"], blue["total"], blue["value"]) == (200, 60, 0.3)
    assert blue["posterior"]["distribution"] == "beta"
    assert blue["posterior"]["mean"] == 61 / 202
    assert blue["probability_best"] > 0.99
    assert (blue["rollout_percentage_before"], blue["rollout_percentage"]) == (50, 95)
    [moved] = [each for each in read_history(client, refunds) if each["kind"] == "reallocated"]
    assert [each["value"] for each in moved["variants"]] == [0.375, 0.25]
    assert [each["denominator"] for each in moved["variants"]] == [400, 400]
    for bandit in (paid, refunds):
        act(client, bandit, "stop")


def test_start_under_a_policy_is_a_change_request(clients: list[httpx.Client]) -> None:
    client = clients[0]
    bandit = make_bandit(client, PAID)
    policy = client.post(
        f"{API}/approval_policies/",
        json={
            "action_key": "feature_flag.update",
            "conditions": {"changed_percent": 90},
            "approver_config": {"quorum": 1},
        },
    )
    assert policy.status_code == 201, policy.text
    refused = client.post(f"{API}/bandits/{bandit['id']}/start/")
    assert (refused.status_code, refused.json()["resource_type"]) == (409, "bandit")
    request = refused.json()["change_request"]
    assert (request["action_key"], request["state"]) == ("bandit.start", "pending")
    assert request["intent"]["gated_changes"]["floor_percent"] == 5
    again = client.post(f"{API}/bandits/{bandit['id']}/start/")
    assert again.json()["change_request_id"] == request["id"]
    path = f"{API}/change_requests/{request['id']}"
    mine = client.post(f"{path}/approve/", json={})
    assert mine.status_code == 403
    assert client.get(f"{API}/bandits/{bandit['id']}/").json()["state"] == "draft"
    done = client.post(f"{path}/break_glass/", json={"reason": "No one else is here"})
    assert done.status_code == 200, done.text
    found = clients[-1].get(f"{API}/bandits/{bandit['id']}/").json()
    assert (found["state"], found["change_request_id"]) == ("running", request["id"])
    act(client, bandit, "stop")
    gone = {"X-Break-Glass": "The test is over"}
    client.delete(f"{API}/approval_policies/{policy.json()['id']}/", headers=gone)
