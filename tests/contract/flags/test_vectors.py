"""Every vector beside this file: what is asked of flags and of /decide, and the answer.

The language is that of tests/contract/pipelines without its families. A vector is `{name, why,
world, steps}`, has a project `{a}` of its own, and finds its flags at `{base}`. Its world may
hold `flags`, by the name that their ids get: what is left out of one is its key, which is the name
with hyphens, and its filters, which are for everybody. A step that asks /decide or /flags sends no
bearer unless it names one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import world
from tests.contract.api.exchange import parsed, send
from tests.contract.api.wire import filled, picked
from tests.contract.pipelines.test_vectors import EXPECTED, SENT, faults, request_of

VECTORS = [
    vector
    for path in sorted(Path(__file__).parent.glob("*.json"))
    for vector in json.loads(path.read_bytes())
]
EVERYBODY = {"groups": [{"properties": [], "rollout_percentage": 100}]}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Servers]:
    opened = world.Servers(tmp_path_factory.mktemp("flags"))
    yield opened
    opened.close()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_answer_is_the_vectors(vector: dict[str, Any], servers: world.Servers) -> None:
    opened = servers.named("default")
    known = world.make(whole_world(vector.get("world", {})), opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            answer = send(opened.client, request_of(with_bearer(step), known))
            parts = {"body": parsed(answer), "headers": answer.headers}
            known |= {name: picked(parts, at) for name, at in step.get("save", {}).items()}
            wrong = list(faults(filled(step["expect"], known), answer, opened.server.address))
            assert not wrong, f"step {number}: " + "; ".join(wrong)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 150
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS)
    for vector in VECTORS:
        assert vector["why"]
        assert vector.keys() <= {"name", "why", "world", "steps"}
        for step in vector["steps"]:
            assert step.keys() <= {"ask", "key", "expect", "save", "times", *SENT}
            assert step["expect"].keys() <= EXPECTED


def whole_world(wish: dict[str, Any]) -> dict[str, Any]:
    """The vector's own world, in which its flags have all that a flag needs."""
    plain = {name: value for name, value in wish.items() if name != "flags"}
    flags = {
        name: {
            "base": "{base}",
            "key": name.replace("_", "-"),
            "filters": EVERYBODY,
            **fields,
        }
        for name, fields in wish.get("flags", {}).items()
    }
    given = {"base": "/api/projects/{a}/feature_flags", **wish.get("given", {})}
    return {"projects": ["a"], **plain, "given": given, "made": flags}


def with_bearer(step: dict[str, Any]) -> dict[str, Any]:
    """Public endpoints take a project's token, not a person's."""
    is_public = step["ask"].partition(" ")[2].startswith(("/decide", "/flags"))
    return {"key": None, **step} if is_public else step
