"""Guarded rollouts from outside: exposures and events are captured, and the flag follows within
seconds. On PostgreSQL two processes check the plan."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

API = "/api/projects/1"
WINDOW = timedelta(seconds=1)
PERSONS = 600
# A plan rests four times as long as a check took, which is long on a busy machine.
TIMEOUT_S = 300
METRICS: list[dict[str, Any]] = [
    {"name": "paid", "type": "conversion", "event": "paid", "harm": "decrease"},
    {"name": "latency", "type": "mean", "event": "loaded", "property": "ms", "harm": "increase"},
    {
        "name": "errors",
        "type": "ratio",
        "event": "failed",
        "denominator_event": "loaded",
        "harm": "increase",
    },
    {
        "name": "slow",
        "type": "hogql",
        "event": "loaded",
        "expression": "toFloat(properties.ms) > 450",
        "harm": "increase",
    },
]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def clients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[httpx.Client]]:
    data: Path = tmp_path_factory.mktemp("rollouts")
    if request.param == "sqlite":
        with LiveServer(data) as server, server.client() as client:
            yield [client]
        return
    settings = {
        "database_url": request.getfixturevalue("postgres").create_migrated_database(),
        "clickhouse_url": request.getfixturevalue("clickhouse").create_database(),
        "encryption_keys": generate_encryption_key(),
    }
    with (
        LiveServer(data / "one", **settings) as one,
        LiveServer(data / "two", **settings) as two,
        one.client() as here,
        two.client() as there,
    ):
        yield [here, there]


def make_plan(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    flag = {"key": f"guarded-{uuid4()}", "filters": {"groups": [{"rollout_percentage": 0}]}}
    made = client.post(f"{API}/feature_flags/", json=flag).json()
    body = {
        "flag": made["id"],
        "steps": [{"rollout_percentage": 50, "duration_seconds": 3600}],
        "metrics": METRICS,
        "window_seconds": int(WINDOW.total_seconds()),
        **fields,
    }
    created = client.post(f"{API}/rollout_plans/", json=body)
    assert created.status_code == 201, created.text
    started = client.post(f"{API}/rollout_plans/{created.json()['id']}/start/")
    assert started.status_code == 200, started.text
    plan: dict[str, Any] = started.json()
    return plan


def expose(client: httpx.Client, plan: dict[str, Any], *, is_harmful: bool) -> None:
    """Capture exposures and events of persons, half of them with the feature. A third of those
    without it pay."""
    start = datetime.fromisoformat(plan["step_started_at"]) + timedelta(milliseconds=1)
    chance = random.Random(1)
    batch: list[dict[str, Any]] = []
    for number in range(PERSONS):
        is_treated = number % 2 == 0
        is_worse = is_treated and is_harmful
        person = f"{plan['flag_key']} {number}"

        def add(event: str, after_ms: int, person: str = person, **properties: Any) -> None:
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

        exposure = {"$feature_flag": plan["flag_key"], "$feature_flag_response": is_treated}
        add("$feature_flag_called", 0, **exposure)
        add("loaded", 1, ms=chance.gauss(600 if is_worse else 400, 50))
        if chance.random() < (0.4 if is_worse else 0.1):
            add("failed", 2)
        if chance.random() < (0.1 if is_worse else 0.33):
            add("paid", 3)
        add("paid", 5_000)  # after the window
    sent = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert sent.status_code == 200, sent.text


def read_plan(client: httpx.Client, plan: dict[str, Any]) -> dict[str, Any]:
    response = client.get(f"{API}/rollout_plans/{plan['id']}/")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def read_percentage(client: httpx.Client, plan: dict[str, Any]) -> Any:
    flag = client.get(f"{API}/feature_flags/{plan['flag']}/").json()
    return flag["filters"]["groups"][0]["rollout_percentage"]


def test_harm_is_rolled_back_and_explained(clients: list[httpx.Client]) -> None:
    client = clients[0]
    # A check may come while only some of the events are stored.
    metrics = [{**metric, "min_persons": PERSONS // 2} for metric in METRICS]
    plan = make_plan(client, metrics=metrics)
    expose(client, plan, is_harmful=True)
    wait_for(lambda: read_plan(client, plan)["state"] != "running", at_most_s=TIMEOUT_S)
    found = read_plan(clients[-1], plan)
    assert found["state"] == "rolled_back", found
    assert read_percentage(clients[-1], plan) == 0
    assert {each["name"]: each["verdict"] for each in found["evidence"]} == {
        "paid": "harm",
        "latency": "harm",
        "errors": "harm",
        "slow": "harm",
    }
    paid, latency, _, slow = found["evidence"]
    assert (paid["treated"]["persons"], paid["control"]["persons"]) == (PERSONS // 2,) * 2
    assert 0.2 < paid["control"]["value"] < 0.45
    assert 190 < latency["difference"] < 210
    assert slow["treated"]["value"] > 0.9
    assert found["reason"].startswith("Harm found. paid: ")
    history = client.get(f"{API}/rollout_plans/{plan['id']}/evaluations/").json()["results"]
    assert [each["kind"] for each in history if each["kind"] != "checked"] == [
        "rolled_back",
        "started",
    ]


def test_plan_without_harm_goes_on_to_its_end(clients: list[httpx.Client]) -> None:
    client = clients[0]
    steps = [
        {"rollout_percentage": 50, "duration_seconds": 2},
        {"rollout_percentage": 100, "duration_seconds": 1},
    ]
    plan = make_plan(client, steps=steps, metrics=METRICS[:2])
    wait_for(lambda: "waits for data" in read_plan(client, plan)["reason"], at_most_s=TIMEOUT_S)
    assert read_percentage(client, plan) == 50
    expose(client, plan, is_harmful=False)
    wait_for(lambda: read_plan(client, plan)["state"] == "completed", at_most_s=TIMEOUT_S)
    assert read_percentage(clients[-1], plan) == 100
    history = client.get(f"{API}/rollout_plans/{plan['id']}/evaluations/").json()["results"]
    [advanced] = [each for each in history if each["kind"] == "advanced"]
    assert [each["verdict"] for each in advanced["evidence"]] == ["no_harm_found"] * 2
