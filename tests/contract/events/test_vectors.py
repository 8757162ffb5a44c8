"""Every vector beside this file: what is asked of the legacy event endpoints, and the answer.

The language is that of tests/contract/short.py. A vector has a project `{a}` of its own; `{events}`
is the address of its events.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import short
from tests.contract.api import world

VECTORS = short.read(Path(__file__).parent)
PLACES = {
    "base": "/api/projects/{a}",
    "events": "{base}/events",
    "persons": "{base}/persons",
    "cohorts": "{base}/cohorts",
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_answer_is_the_vectors(vector: short.Vector, servers: world.Servers) -> None:
    short.replay(vector, whole_world(vector.get("world", {})), servers)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 20
    short.check(VECTORS)


def whole_world(wish: dict[str, Any]) -> dict[str, Any]:
    return {"projects": ["a"], **wish, "given": PLACES | wish.get("given", {})}
