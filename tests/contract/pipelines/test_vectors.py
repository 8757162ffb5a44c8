"""Replays the vectors of pipeline records and compares the exact responses.

The format is that of vector_runner.py. The families behave alike, so a vector runs once for
each family in `families` (default: all), in its own project `{a}`, with these values:

- `{base}`, the path of the family in `{a}`, and `{other_base}`, that of the next family;
- `{plugin}` and `{second}`, components of the family, `{plugin.name}` and `{plugin.description}`,
  and `{foreign}`, a component of the next family;
- `{settings}`, valid settings of `{plugin}`, and `{r}`, a record of `{plugin}` with those settings,
  unless the world defines its own records;
- `{job_type}`, a job of `{plugin}`, if it has any.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import vector_runner
from tests.contract.api import world

FAMILIES: dict[str, dict[str, Any]] = {
    "destination": {
        "path": "pipeline_destination_configs",
        "plugin": 3,
        "plugin.name": "Local files",
        "plugin.description": "Writes events to files on the server, rotated by size and age.",
        "second": 4,
        "foreign": 21,
        "settings": {"folder": "archive"},
        "job_type": "replay",
    },
    "frontend_app": {
        "path": "pipeline_frontend_apps_configs",
        "plugin": 22,
        "plugin.name": "Custom script",
        "plugin.description": "Runs your own JavaScript on your pages, with access to posthog.",
        "second": 21,
        "foreign": 41,
        "settings": {"code": "posthog.capture('seen')"},
    },
    "import_app": {
        "path": "pipeline_import_apps_configs",
        "plugin": 41,
        "plugin.name": "Files",
        "plugin.description": "Imports events from CSV, JSON lines or Parquet files.",
        "second": 42,
        "foreign": 61,
        "settings": {"source": "past.csv"},
        "job_type": "import",
    },
    "transformation": {
        "path": "pipeline_transformation_configs",
        "plugin": 63,
        "plugin.name": "Remove properties",
        "plugin.description": "Removes properties of events before they are stored.",
        "second": 65,
        "foreign": 1,
        "settings": {"names": ["email"]},
    },
}
NAMES = list(FAMILIES)
NEXT_FAMILY = dict(zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))
VECTORS = vector_runner.load_vectors(Path(__file__).parent)
RUNS = [
    pytest.param(vector, family, id=f"{family}: {vector['name']}")
    for vector in VECTORS
    for family in vector.get("families", FAMILIES)
]


@pytest.mark.parametrize(("vector", "family"), RUNS)
def test_response_matches_the_vector(
    vector: vector_runner.Vector, family: str, servers: world.Servers
) -> None:
    vector_runner.replay_vector(vector, complete_world(vector.get("world", {}), family), servers)


def test_vectors_have_a_name_and_a_reason() -> None:
    assert len(VECTORS) >= 120
    vector_runner.check_vectors(VECTORS, {*vector_runner.VECTOR_PARTS, "families"})


def complete_world(declared: dict[str, Any], family: str) -> dict[str, Any]:
    """Add the variables of the family and a default record to the world of a vector."""
    own, other = FAMILIES[family], FAMILIES[NEXT_FAMILY[family]]
    bases = {
        "base": f"/api/environments/{{a}}/{own['path']}",
        "other_base": f"/api/environments/{{a}}/{other['path']}",
    }
    record = {"base": "{base}", "plugin": "{plugin}", "config": "{settings}"}
    return {
        "projects": ["a"],
        "made": {"r": record},
        **declared,
        "given": {**own, **bases, **declared.get("given", {})},
    }
