"""Flags for visitors without cookies: the visitor of /flags is the visitor of the events."""

from typing import Any

import httpx
import pytest

from tests.contract.sdk.projects import Project
from tests.support.live import LiveServer, wait_for

SENTINEL_ID = "$posthog_cookieless"
VARIANTS = [{"key": f"v{number}", "rollout_percentage": 5} for number in range(20)]
AGENTS = [f"Agent/{number}" for number in range(10)]


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    project.create_flag("shades", multivariate={"variants": VARIANTS})
    return project


def capture(client: httpx.Client, project: Project, agent: str) -> None:
    properties = {"$cookieless_mode": True, "$raw_user_agent": agent, "$host": "www.example.com"}
    body = {"event": agent, "distinct_id": SENTINEL_ID, "properties": properties}
    response = client.post("/e/", json={"api_key": project.token, **body})
    assert response.status_code == 200, response.text


def evaluate(client: httpx.Client, project: Project, agent: str, path: str, **body: Any) -> Any:
    response = client.post(
        path,
        json={"api_key": project.token, **body},
        headers={"User-Agent": agent, "Origin": "https://shop.example.com"},
    )
    assert response.status_code == 200, response.text
    return response.json()["featureFlags"]["shades"]


@pytest.mark.parametrize("path", ["/decide?v=3", "/flags?v=1"])
def test_flags_are_those_of_the_visitor(live: LiveServer, project: Project, path: str) -> None:
    with live.client(key=None) as client:
        for agent in AGENTS:
            capture(client, project, agent)
        wait_for(lambda: {each["event"] for each in project.events()} >= set(AGENTS), at_most_s=60)
        ids = {each["event"]: each["distinct_id"] for each in project.events()}
        shown = {
            agent: evaluate(client, project, agent, path, distinct_id=SENTINEL_ID)
            for agent in AGENTS
        }
    assert len(set(ids.values())) == len(AGENTS)
    assert shown == {agent: project.evaluate_flags(id)["shades"] for agent, id in ids.items()}
    assert len(set(shown.values())) > 1


def test_flags_need_nothing_but_the_distinct_id(live: LiveServer, project: Project) -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"timezone": 5, "cookieless_hash_extra": ["x"]},
        {"timezone": "no/zone", "$anon_distinct_id": SENTINEL_ID, "$device_id": SENTINEL_ID},
    ]
    with live.client(key=None) as client:
        for body in odd:
            shade = evaluate(client, project, "", "/flags?v=1", distinct_id=SENTINEL_ID, **body)
            assert shade.startswith("v")
