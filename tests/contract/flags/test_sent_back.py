"""A client can send back every definition as the service returned it: all fields are known."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.live import LiveServer

API = "/api/projects/1"
QUESTION = {"type": "single_choice", "question": "Why?", "choices": ["a", "b"]}
METRIC = {"kind": "ExperimentMetric", "metric_type": "mean", "source": {"event": "buy"}}
EVERYBODY = {"groups": [{"properties": [], "rollout_percentage": 100}]}
DEFINITION = {
    "type": "OR",
    "values": [{"type": "AND", "values": [{"key": "plan", "type": "person", "value": "pro"}]}],
}
BODIES: dict[str, dict[str, Any]] = {
    "feature_flags": {"key": "plain", "filters": EVERYBODY},
    "cohorts": {"name": "Pros", "filters": {"properties": DEFINITION}},
    "early_access_feature": {"name": "Dark", "stage": "beta", "payload": {"a": 1}},
    "surveys": {
        "name": "Why",
        "type": "popover",
        "questions": [QUESTION],
        "conditions": {"url": "x"},
        "targeting_flag_filters": {"groups": [{"properties": [], "rollout_percentage": 50}]},
    },
    "experiments": {"name": "Button", "feature_flag_key": "button", "metrics": [METRIC]},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with LiveServer(tmp_path_factory.mktemp("sent-back")) as server, server.client() as client:
        yield client


@pytest.mark.parametrize("kind", BODIES)
def test_response_can_be_sent_back(client: httpx.Client, kind: str) -> None:
    created = client.post(f"{API}/{kind}/", json=BODIES[kind])
    assert created.status_code == 201, created.text
    path = f"{API}/{kind}/{created.json()['id']}/"
    sent = client.get(path).json()
    answer = client.patch(path, json=sent)
    assert answer.status_code == 200, answer.text
    volatile = ("updated_at", "feature_flag", "targeting_flag", "internal_targeting_flag")
    assert {name: value for name, value in answer.json().items() if name not in volatile} == {
        name: value for name, value in sent.items() if name not in volatile
    }


def test_static_cohort_can_be_sent_back(client: httpx.Client) -> None:
    created = client.post(f"{API}/cohorts/", json={"name": "List", "is_static": True}).json()
    assert client.patch(f"{API}/cohorts/{created['id']}/", json=created).status_code == 200


def test_launched_experiment_can_be_sent_back(client: httpx.Client) -> None:
    created = client.post(
        f"{API}/experiments/",
        json={"name": "Run", "feature_flag_key": "run", "start_date": "2026-01-01T00:00:00Z"},
    ).json()
    answer = client.patch(f"{API}/experiments/{created['id']}/", json=created)
    assert (answer.status_code, answer.json()["status"]) == (200, "running"), answer.text
