"""One request of every shape that a generation of PostHog's SDKs sends: the versions that no test
runs any more, but that people have (shapes.json, recorded), and the languages that no test runs
(shapes_by_source.json, read in their source). Each is understood, what it sends is stored, and the
answer has what its parser needs.

The language of the vectors is that of tests/contract/short.py. A vector has a project `{a}` of its
own, with flags as below, and a personal key `{own}` that sees nothing else.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from posthog import Posthog

from tests.contract import short
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
def test_what_an_sdk_sends_is_understood(vector: short.Vector, servers: world.Servers) -> None:
    short.replay(vector, WORLD, servers)


def test_every_generation_has_its_vector() -> None:
    short.check(VECTORS)
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
def test_newer_doors_take_what_the_sdk_itself_sends(
    options: dict[str, Any], servers: world.Servers
) -> None:
    opened = servers.named("default")
    known = world.make({"projects": ["a"]}, opened)
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
