"""Segment's own packages for Python and Node, and a live server."""

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.sdk.sdk_process import FOLDER, VIRTUAL_ENVIRONMENT, find_folder, node_command
from tests.support.live import LiveServer, build_environment, wait_for

PACKAGES = "HEDGEROW_TEST_SEGMENT", VIRTUAL_ENVIRONMENT / "segment"
NODE_PACKAGE = "@segment/analytics-node"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("segment")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


class Project:
    def __init__(self, client: httpx.Client, name: str) -> None:
        made = client.post("/api/projects/", json={"name": name}).json()
        self.client, self.token, self.id = client, made["api_token"], made["id"]

    def query(self, text: str) -> list[list[Any]]:
        body = {"query": {"kind": "HogQLQuery", "query": text}}
        answer = self.client.post(f"/api/projects/{self.id}/query/", json=body)
        assert answer.status_code == 200, answer.text
        results: list[list[Any]] = answer.json()["results"]
        return results

    def find_persons(self, distinct_id: str) -> list[dict[str, Any]]:
        path = f"/api/projects/{self.id}/persons/"
        found = self.client.get(path, params={"distinct_id": distinct_id}).json()["results"]
        assert isinstance(found, list)
        return found


def run_driver(language: str, address: str, key: str) -> None:
    environment = build_environment()
    if language == "python":
        environment["PYTHONPATH"] = str(find_folder(*PACKAGES, "segment"))
        command = [sys.executable, str(FOLDER / "segment_driver.py")]
    else:
        command = node_command("segment_driver.cjs", NODE_PACKAGE)
    done = subprocess.run(
        [*command, address, key],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path.home(),
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("language", ["python", "node"])
def test_calls_become_events_and_persons(
    language: str, server: LiveServer, client: httpx.Client
) -> None:
    project = Project(client, language)
    run_driver(language, server.address, project.token)
    wait_for(lambda: project.query("select count() from events") == [[6]], at_most_s=60)
    found = project.query("select event, toString(properties) from events order by event")
    events = {name: json.loads(text) for name, text in found}
    assert set(events) == {
        "Order Completed",
        "$identify",
        "$pageview",
        "$screen",
        "$groupidentify",
        "$create_alias",
    }
    ordered = events["Order Completed"]
    assert (ordered["revenue"], ordered["$ip"]) == (39.5, "203.0.113.9")
    assert "analytics" in ordered["$lib"]
    assert events["$pageview"]["$current_url"] == "https://example.com/start"
    assert (events["$pageview"]["category"], events["$pageview"]["name"]) == ("Docs", "Start")
    assert events["$screen"]["$screen_name"] == "Basket"
    [person] = project.find_persons("seg-ann")
    assert person["properties"]["plan"] == "team"
    assert set(person["distinct_ids"]) == {"seg-ann", "seg-visitor", "seg-old"}
    groups = client.get(
        f"/api/projects/{project.id}/groups/", params={"group_type_index": 0}
    ).json()["results"]
    assert [(each["group_key"], each["group_properties"]["size"]) for each in groups] == [
        ("acme", 12)
    ]


def test_call_that_is_sent_again_counts_once(client: httpx.Client) -> None:
    project = Project(client, "again")
    body = {
        "writeKey": project.token,
        "batch": [
            {"type": "track", "event": "paid", "userId": "u", "messageId": "node-next-17-abc"},
            {"type": "track", "event": "paid", "anonymousId": "v", "messageId": "node-next-18-abc"},
            {"type": "unknown", "userId": "u"},
            7,
        ],
    }
    for _ in range(3):
        answer = client.post("/v1/batch", json=body)
        assert (answer.status_code, answer.json()) == (200, {"success": True})
    wait_for(lambda: project.query("select count() from events") == [[2]], at_most_s=60)
    assert project.query("select distinct_id from events order by distinct_id") == [["u"], ["v"]]


@pytest.mark.parametrize("path", ["/v1/track", "/v1/t", "/v1/t/"])
def test_key_is_a_user_name_and_a_body_may_be_packed(path: str, client: httpx.Client) -> None:
    project = Project(client, path)
    user = base64.b64encode(f"{project.token}:".encode()).decode()
    headers = {"Authorization": f"Basic {user}", "Content-Encoding": "gzip"}
    call = {"event": "paid", "userId": "u", "timestamp": "2026-01-02T03:04:05Z"}
    answer = client.post(path, content=gzip.compress(json.dumps(call).encode()), headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"success": True})
    found = "select toString(timestamp) from events where event = 'paid'"
    wait_for(lambda: bool(project.query(found)), at_most_s=60)
    assert project.query(found)[0][0].startswith("2026-01-02")


def test_large_batches_and_bad_calls(client: httpx.Client) -> None:
    project = Project(client, "large")
    calls = [
        {
            "type": "track",
            "event": "seen",
            "userId": f"u{n % 50}",
            "properties": {"text": "x" * 900},
        }
        for n in range(3000)
    ]
    basic = httpx.BasicAuth(project.token, "")
    assert client.post("/v1/batch", json={"batch": calls}, auth=basic).status_code == 200
    wait_for(lambda: project.query("select count() from events") == [[3000]], at_most_s=120)
    refused = {
        "no key": ({"batch": calls[:1]}, None, 401),
        "no key for a large body": ({"batch": calls}, None, 401),
        "unknown key": ({"batch": calls[:1]}, httpx.BasicAuth("phc_none", ""), 401),
        "no list": ({"batch": {"a": 1}, "writeKey": project.token}, None, 400),
        "empty": ({"batch": []}, basic, 400),
        "no object": ([1, 2], basic, 400),
        "no user": ({"batch": [{"type": "track", "event": "x"}]}, basic, 400),
        "odd types": (
            {"batch": [{"type": ["track"], "context": 7, "properties": [1], "messageId": {}}]},
            basic,
            400,
        ),
    }
    answers = {
        name: client.post("/v1/batch", json=body, auth=auth or httpx.Auth()).status_code
        for name, (body, auth, _) in refused.items()
    }
    assert answers == {name: status for name, (_, _, status) in refused.items()}
