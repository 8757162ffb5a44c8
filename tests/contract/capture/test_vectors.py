"""Every vector beside this file: events as clients send them, the answer, and what came of them.

The language is that of tests/contract/short.py. A vector has a project `{a}` of its own, at
`{base}`; `{persons}`, `{flags}` and `{warnings}` are the addresses below it.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import short
from tests.contract.api import world

VECTORS = short.read(Path(__file__).parent)
PLACES = {
    "base": "/api/projects/{a}",
    "persons": "{base}/persons",
    "flags": "{base}/feature_flags",
    "warnings": "{base}/ingestion_warnings",
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_answer_is_the_vectors(vector: short.Vector, servers: world.Servers) -> None:
    short.replay(vector, whole_world(vector.get("world", {})), servers)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 45
    short.check(VECTORS)


def whole_world(wish: dict[str, Any]) -> dict[str, Any]:
    return {"projects": ["a"], **wish, "given": PLACES | wish.get("given", {})}
