"""Replays the vectors of saved insights, dashboards, annotations and shared links, on SQLite and on
PostgreSQL.

The language is that of vector_runner.py. A vector has its own project `{a}` at `{base}`;
`{insights}`, `{dashboards}` and `{annotations}` are the paths below it, `{trend}` is a query.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import vector_runner
from tests.contract.api import world
from tests.support.live import LiveServer

VECTORS = vector_runner.load_vectors(Path(__file__).parent)
PATHS = {
    "base": "/api/projects/{a}",
    "insights": "{base}/insights",
    "dashboards": "{base}/dashboards",
    "annotations": "{base}/annotations",
    "trend": {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "signed up"}]},
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[world.Servers]:
    folder = tmp_path_factory.mktemp("vectors")
    if request.param == "sqlite":
        opened = world.Servers(folder, request.getfixturevalue("live"))
        yield opened
        opened.close()
        return
    url = request.getfixturevalue("postgres").create_migrated_database()
    with LiveServer(folder / "live", database_url=url) as server:
        opened = world.Servers(folder, server)
        yield opened
        opened.close()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_response_matches_the_vector(vector: vector_runner.Vector, servers: world.Servers) -> None:
    vector_runner.replay_vector(vector, complete_world(vector.get("world", {})), servers)


def test_vectors_have_a_name_and_a_reason() -> None:
    assert len(VECTORS) >= 15
    vector_runner.check_vectors(VECTORS)


def complete_world(partial: dict[str, Any]) -> dict[str, Any]:
    return {"projects": ["a"], **partial, "given": PATHS | partial.get("given", {})}
