"""One request of every shape that a generation of PostHog's SDKs sends: versions that are still in
use but that no test runs (shapes.json, recorded), and languages that no test runs
(shapes_by_source.json, from their source). Each is accepted and stored, and the response has the
fields that the SDK's parser needs.

vector_runner.py defines the format. Each vector has its own project `{a}`, with the flags
below, and a personal key `{own}` for that project only.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from posthog import Posthog

from tests.contract import vector_runner
from tests.contract.api import world

VECTORS = [
    vector
    for name in ("shapes.json", "shapes_by_source.json")
    for vector in json.loads((Path(__file__).parent / name).read_bytes())
]
EVERYBODY = {"properties": [], "rollout_percentage": 100}
MAILS = {"key": "email", "type": "person", "operator": "icontains", "value": "@example.com"}
FLAGS: dict[str, dict[str, Any]] = {
    "on": {"filters": {"groups": [EVERYBODY], "payloads": {"true": '{"a": 1}'}}},
    "off": {"filters": {"groups": [{"properties": [], "rollout_percentage": 0}]}},
    "split": {
        "filters": {
            "groups": [EVERYBODY],
            "multivariate": {"variants": [{"key": "all", "rollout_percentage": 100}]},
        }
    },
    "mail": {"filters": {"groups": [{"properties": [MAILS], "rollout_percentage": 100}]}},
    "settings": {
        "filters": {"groups": [EVERYBODY], "payloads": {"true": '{"b": 2}'}},
        "is_remote_configuration": True,
        "evaluation_runtime": "server",
        "active": True,
    },
}
WORLD = {
    "projects": ["a"],
    "keys": {"own": {"scopes": ["feature_flag:read"], "projects": ["a"]}},
    "made": {
        name: {"base": "/api/projects/{a}/feature_flags", "key": name, **fields}
        for name, fields in FLAGS.items()
    },
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_sdk_request_is_accepted(vector: vector_runner.Vector, servers: world.Servers) -> None:
    vector_runner.replay_vector(vector, WORLD, servers)


def test_every_generation_has_its_vector() -> None:
    vector_runner.check_vectors(VECTORS)
    languages = [vector["name"].split()[0] for vector in VECTORS]
    assert {name: languages.count(name) for name in set(languages)} == {
        "posthog-python": 4,
        "posthog-node": 5,
        "posthog-js": 7,
        "posthog-ios": 1,
        "posthog-android": 1,
        "posthog-server": 1,
        "posthog-go": 2,
        "posthog-ruby": 1,
        "posthog-php": 1,
        "posthog-elixir": 1,
        "posthog-rs": 1,
        "posthog-dotnet": 1,
    }


@pytest.mark.parametrize("options", [{"capture_mode": "v1"}, {"enable_full_ai_capture": True}])
def test_newer_endpoints_accept_real_sdk_requests(
    options: dict[str, Any], servers: world.Servers
) -> None:
    opened = servers.get("default")
    known = world.build_world({"projects": ["a"]}, opened)
    failed: list[Exception] = []
    client = Posthog(
        known["a.token"],
        host=opened.server.address,
        on_error=lambda error, _: failed.append(error),
        **options,
    )
    client.capture("bought", distinct_id="ann", properties={"price": 3})
    client.set(distinct_id="ann", properties={"plan": "pro"})
    if "enable_full_ai_capture" in options:
        client.capture_ai("$ai_generation", distinct_id="ann", properties={"$ai_model": "m"})
    client.shutdown()
    assert failed == []
    events = opened.admin.get(f"/api/projects/{known['a']}/events/").json()["results"]
    by_name = {event["event"]: event["properties"] for event in events}
    assert by_name["bought"]["price"] == 3
    assert by_name["bought"]["$lib"] == "posthog-python"
    assert "enable_full_ai_capture" not in options or by_name["$ai_generation"]["$ai_model"] == "m"
    people = opened.admin.get(f"/api/projects/{known['a']}/persons/").json()["results"]
    assert [person["properties"]["plan"] for person in people] == ["pro"]
