"""Replays the vectors of flag management and evaluation.

The language is that of vector_runner.py. A vector has its own project `{a}`, with its flags
at `{base}`. Its world can define `flags` by the variable of their id; the key defaults to that name
with hyphens, and the filters to a rollout of 100 %.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import vector_runner
from tests.contract.api import world

VECTORS = vector_runner.load_vectors(Path(__file__).parent)
FULL_ROLLOUT = {"groups": [{"properties": [], "rollout_percentage": 100}]}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_response_matches_the_vector(vector: vector_runner.Vector, servers: world.Servers) -> None:
    vector_runner.replay_vector(vector, complete_world(vector.get("world", {})), servers)


def test_vectors_have_a_name_and_a_reason() -> None:
    assert len(VECTORS) >= 150
    vector_runner.check_vectors(VECTORS)


def complete_world(partial: dict[str, Any]) -> dict[str, Any]:
    """Complete the flags of a world with default values."""
    plain = {name: value for name, value in partial.items() if name != "flags"}
    flags = {
        name: {
            "base": "{base}",
            "key": name.replace("_", "-"),
            "filters": FULL_ROLLOUT,
            **fields,
        }
        for name, fields in partial.get("flags", {}).items()
    }
    given = {"base": "/api/projects/{a}/feature_flags", **partial.get("given", {})}
    return {"projects": ["a"], **plain, "given": given, "made": flags}
