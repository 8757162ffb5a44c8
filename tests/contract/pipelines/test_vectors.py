"""Every vector beside this file: what is asked of pipeline records, and the answer.

The language is that of tests/contract/short.py. Since the families answer alike, a vector has
`families` besides, and runs once for every family that it names (left out: all), in a project
`{a}` of its own, and finds

- `{base}`, the family's address in `{a}`, and `{other_base}`, that of the next family;
- `{plugin}` and `{second}`, components of the family, `{plugin.name}` and `{plugin.description}`,
  and `{foreign}`, a component of the next family;
- `{settings}`, which `{plugin}` takes, and `{r}`, a record of `{plugin}` with those settings, when
  the world does not say which records it makes.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract import short
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
    },
    "frontend_app": {
        "path": "pipeline_frontend_apps_configs",
        "plugin": 22,
        "plugin.name": "Custom script",
        "plugin.description": "Runs JavaScript of your own on your pages, with posthog at hand.",
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
NEXT = dict(zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))
VECTORS = short.read(Path(__file__).parent)
RUNS = [
    pytest.param(vector, family, id=f"{family}: {vector['name']}")
    for vector in VECTORS
    for family in vector.get("families", FAMILIES)
]


@pytest.mark.parametrize(("vector", "family"), RUNS)
def test_the_answer_is_the_vectors(
    vector: short.Vector, family: str, servers: world.Servers
) -> None:
    short.replay(vector, whole_world(vector.get("world", {}), family), servers)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 120
    short.check(VECTORS, {*short.PARTS, "families"})


def whole_world(wish: dict[str, Any], family: str) -> dict[str, Any]:
    """The vector's own world, in which everything that the family gives has a name."""
    own, other = FAMILIES[family], FAMILIES[NEXT[family]]
    bases = {
        "base": f"/api/environments/{{a}}/{own['path']}",
        "other_base": f"/api/environments/{{a}}/{other['path']}",
    }
    record = {"base": "{base}", "plugin": "{plugin}", "config": "{settings}"}
    return {
        "projects": ["a"],
        "made": {"r": record},
        **wish,
        "given": {**own, **bases, **wish.get("given", {})},
    }
