"""Every vector in this directory: captured events, the response, and the stored result.

vector_runner.py defines the format. Each vector has its own project `{a}` at `{base}`;
`{persons}`, `{flags}` and `{warnings}` are paths below it.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import vector_runner
from tests.contract.api import world

VECTORS = vector_runner.load_vectors(Path(__file__).parent)
PATHS = {
    "base": "/api/projects/{a}",
    "persons": "{base}/persons",
    "flags": "{base}/feature_flags",
    "warnings": "{base}/ingestion_warnings",
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_response_matches_the_vector(vector: vector_runner.Vector, servers: world.Servers) -> None:
    vector_runner.replay_vector(vector, complete_world(vector.get("world", {})), servers)


def test_vectors_have_a_name_and_a_reason() -> None:
    assert len(VECTORS) >= 45
    vector_runner.check_vectors(VECTORS)


def complete_world(declared: dict[str, Any]) -> dict[str, Any]:
    return {"projects": ["a"], **declared, "given": PATHS | declared.get("given", {})}
