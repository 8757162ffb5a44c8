"""Every vector beside this file: what is asked of flags and of /decide, and the answer.

The language is that of tests/contract/short.py. A vector has a project `{a}` of its own, and finds
its flags at `{base}`. Its world may hold `flags`, by the name that their ids get: what is left out
of one is its key, which is the name with hyphens, and its filters, which are for everybody.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import short
from tests.contract.api import world

VECTORS = short.read(Path(__file__).parent)
EVERYBODY = {"groups": [{"properties": [], "rollout_percentage": 100}]}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_answer_is_the_vectors(vector: short.Vector, servers: world.Servers) -> None:
    short.replay(vector, whole_world(vector.get("world", {})), servers)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 150
    short.check(VECTORS)


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
