"""An edge process beside its origin, compared answer by answer: random flags and subjects, while
flags change and while the origin is away.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.edge import LiveEdge, Origin, create_flag
from tests.support.live import PROJECT_KEY, Installation, wait_for

TIMEOUT_S = 120
SEED = 20
FLAGS = 25
SUBJECTS = 12
CHANGES = 6
PLANS = ("free", "pro", "Pro", "", "1", "10", "2")
OPERATORS = ("exact", "is_not", "icontains", "not_icontains", "gt", "lt", "is_set", "is_not_set")
# Differ between two evaluations of one process.
VARYING = ("requestId", "evaluatedAt")


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    made = Origin(Installation(data=tmp_path / "origin", settings={}))
    try:
        yield made
    finally:
        made.server.stop()


def build_flag(draw: random.Random, number: int) -> dict[str, Any]:
    groups = [
        {
            "properties": [build_property(draw) for _ in range(draw.randint(0, 2))],
            "rollout_percentage": draw.choice((None, 0, 10, 50, 100)),
        }
        for _ in range(draw.randint(1, 3))
    ]
    filters: dict[str, Any] = {"groups": groups}
    if draw.random() < 0.4:
        filters["multivariate"] = {
            "variants": [
                {"key": "a", "rollout_percentage": 20},
                {"key": "b", "rollout_percentage": 50},
                {"key": "c", "rollout_percentage": 30},
            ]
        }
        filters["payloads"] = {"a": '{"size": 1}', "b": "2"}
    elif draw.random() < 0.5:
        filters["payloads"] = {"true": '"text"'}
    return {"key": f"random-{number}", "filters": filters, "active": draw.random() < 0.9}


def build_property(draw: random.Random) -> dict[str, Any]:
    operator = draw.choice(OPERATORS)
    value: Any = draw.choice(PLANS)
    if operator in ("gt", "lt"):
        value = draw.choice(("1", "2.5", "10"))
    elif operator in ("is_set", "is_not_set"):
        value = operator
    elif operator in ("exact", "is_not") and draw.random() < 0.5:
        value = [draw.choice(PLANS), draw.choice(PLANS)]
    key = draw.choice(("plan", "level"))
    return {"key": key, "type": "person", "operator": operator, "value": value}


def build_subjects(draw: random.Random) -> list[dict[str, Any]]:
    """Subjects with all properties that the flags depend on, so that no stored data is needed."""
    return [
        {
            "distinct_id": draw.choice(("", "é", "user ")) + str(draw.randint(0, 10**6)),
            "person_properties": {
                "plan": draw.choice((*PLANS, 1, 10, True, None)),
                "level": draw.choice((*PLANS, 2.5)),
            },
        }
        for _ in range(SUBJECTS)
    ]


def ask_all(address: str, secret: str, subjects: list[dict[str, Any]]) -> list[Any]:
    """Ask for everything that an edge process answers from memory."""
    found: list[Any] = []
    with httpx.Client(base_url=address, timeout=TIMEOUT_S, verify=False) as client:
        for subject in subjects:
            for path in (
                *(f"/decide?v={version}" for version in (1, 2, 3, 4)),
                *("/flags?v=1", "/flags?v=2", "/flags?v=2&config=true", "/flags"),
            ):
                answer = client.post(path, json={"api_key": PROJECT_KEY, **subject})
                body = {k: v for k, v in answer.json().items() if k not in VARYING}
                found.append((path, subject, answer.status_code, body))
            context = {"targetingKey": subject["distinct_id"], **subject["person_properties"]}
            for path in ("/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/random-1"):
                answer = client.post(
                    path,
                    json={"context": context},
                    headers={"Authorization": f"Bearer {PROJECT_KEY}"},
                )
                etag = answer.headers.get("etag")
                found.append((path, context, answer.status_code, etag, answer.json()))
        server = {"Authorization": f"Bearer {secret}"}
        for path in ("/flags/definitions", "/api/feature_flag/local_evaluation?send_cohorts"):
            answer = client.get(path, headers=server)
            found.append((path, answer.status_code, answer.headers.get("etag"), answer.json()))
        config = client.get(f"/array/{PROJECT_KEY}/config")
        found.append((config.status_code, config.json()))
    return found


def test_answers_are_those_of_the_origin(origin: Origin, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    subjects = build_subjects(draw)
    data = tmp_path / "edge"
    with origin.server.client() as client:
        ids = [create_flag(client, 1, build_flag(draw, number)) for number in range(FLAGS)]

    def has_last_definitions(edge: LiveEdge) -> bool:
        found = [
            httpx.get(
                f"{address}/flags/definitions",
                headers={"Authorization": f"Bearer {origin.secret}"},
                timeout=TIMEOUT_S,
                verify=False,
            )
            for address in (origin.address, edge.address)
        ]
        return found[0].headers["etag"] == found[1].headers["etag"]

    def assert_same(edge: LiveEdge, expected: list[Any]) -> None:
        found = ask_all(edge.address, origin.secret, subjects)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == theirs

    with LiveEdge(data, origin.address, origin.secret, edge_poll_interval_s="3600") as edge:
        for _ in range(CHANGES):
            with origin.server.client() as client:
                id = draw.choice(ids)
                changed = build_flag(draw, ids.index(id))
                path = f"/api/projects/1/feature_flags/{id}/"
                answer = client.patch(path, json=changed)
                assert answer.status_code == 200, answer.text
            wait_for(lambda: has_last_definitions(edge), TIMEOUT_S)
            expected = ask_all(origin.address, origin.secret, subjects)
            assert_same(edge, expected)
        origin.server.kill()
        assert_same(edge, expected)
    # Started without the origin, and after changes that it has not seen.
    with LiveEdge(data, origin.address, origin.secret) as edge:
        assert_same(edge, expected)
        with origin.start().client() as client:
            for id in ids[:3]:
                path = f"/api/projects/1/feature_flags/{id}/"
                assert client.patch(path, json={"active": False}).status_code == 200
        wait_for(lambda: has_last_definitions(edge), TIMEOUT_S)
        expected = ask_all(origin.address, origin.secret, subjects)
        assert_same(edge, expected)
