"""Ids that nobody can store are strangers to flags, on either engine: nothing gives a 5xx."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, Installation

NUL, SURROGATE = "a\x00b", "a\ud800"
STRANGE = {"nul": NUL, "surrogate": SURROGATE, "long": "x" * 5000, "empty": ""}


@pytest.fixture(scope="module")
def client(installation: Installation) -> Iterator[httpx.Client]:
    with installation.server() as server, server.client() as client:
        asks = [{"key": "plan", "value": "pro"}]
        by_group = [{"key": "size", "type": "group", "group_type_index": 0, "value": 5}]
        group = {"group_type": "company", "group_key": "acme"}
        assert client.post("/api/projects/1/groups/", json=group).status_code == 201
        for flag in (
            {"key": "asks", "filters": {"groups": [{"properties": asks}]}},
            {
                "key": "lasts",
                "filters": {"groups": [{"rollout_percentage": 50}]},
                "ensure_experience_continuity": True,
            },
            {
                "key": "of-group",
                "filters": {
                    "aggregation_group_type_index": 0,
                    "groups": [{"properties": by_group}],
                },
            },
        ):
            made = client.post("/api/projects/1/feature_flags/", json=flag)
            assert made.status_code == 201, made.text
        ann = {"distinct_ids": ["ann"], "properties": {"plan": "pro"}}
        assert client.post("/api/projects/1/persons/", json=ann).status_code == 201
        yield client


def decide(client: httpx.Client, **body: Any) -> httpx.Response:
    sent = json.dumps({"api_key": PROJECT_KEY, "distinct_id": "ann", **body})
    return client.post("/decide?v=3", content=sent, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("id", STRANGE.values(), ids=STRANGE)
def test_unusual_distinct_id_is_an_unknown_person(client: httpx.Client, id: str) -> None:
    answer = decide(client, distinct_id=id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["featureFlags"]["asks"] is False


@pytest.mark.parametrize("id", STRANGE.values(), ids=STRANGE)
def test_unusual_anonymous_id_is_harmless(client: httpx.Client, id: str) -> None:
    answer = decide(client, **{"$anon_distinct_id": id})
    assert answer.status_code == 200, answer.text
    assert answer.json()["featureFlags"]["asks"] is True


@pytest.mark.parametrize("key", STRANGE.values(), ids=STRANGE)
def test_unusual_group_key_is_unknown(client: httpx.Client, key: str) -> None:
    answer = decide(client, groups={"company": key, key: "acme"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["featureFlags"]["of-group"] is False


@pytest.mark.parametrize("id", ["a%00b", "%ED%A0%80", "x" * 3000])
def test_reasons_are_returned_for_unknown_persons(client: httpx.Client, id: str) -> None:
    answer = client.get(f"/api/projects/1/feature_flags/evaluation_reasons/?distinct_id={id}")
    assert answer.status_code in (200, 400), answer.text


@pytest.mark.parametrize("count", [2_000, 70_000])
def test_person_with_many_ids_is_created_or_rejected(client: httpx.Client, count: int) -> None:
    ids = [f"many-{count}-{n}" for n in range(count)]
    answer = client.post("/api/projects/1/persons/", json={"distinct_ids": ids})
    assert answer.status_code in (201, 400, 413), answer.text
