"""Every vector beside this file: what is asked of pipeline records, and the answer.

The language is that of tests/contract/api, made shorter, since the families answer alike. A file
holds a list of vectors `{name, why, families, world, steps}`; each runs once for every family that
it names (left out: all three), in a project `{a}` of its own, and finds

- `{base}`, the family's address in `{a}`, and `{other_base}`, that of the next family;
- `{plugin}` and `{second}`, components of the family, `{plugin.name}` and `{plugin.description}`,
  and `{foreign}`, a component of the next family;
- `{settings}`, which `{plugin}` takes, and `{r}`, a record of `{plugin}` with those settings, when
  the world does not say which records it makes.

A step is `{ask, key, headers, body, form, multipart, raw, packed, expect, save, times}`, where
`ask` is "METHOD path" and `key` is the bearer (left out: one that may do everything; null: none).
`expect` is `{status, headers, body, has, json, error, ordered}`:

- body: all of it (left out: empty, unless `has`, `json` or `error` is given);
- has: parts of it by their dotted path; json: the same for texts that hold JSON;
- error: `[type, code, detail, attr]`;
- ordered: fields stand in the order of `body`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.api import world
from tests.contract.api.exchange import parsed, send, unexpected
from tests.contract.api.shape import FIELDS
from tests.contract.api.wire import Known, differences, filled, picked

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
        "foreign": 1,
        "settings": {"source": "past.csv"},
    },
}
NEXT = {"destination": "frontend_app", "frontend_app": "import_app", "import_app": "destination"}
FILES = sorted(Path(__file__).parent.glob("*.json"))
VECTORS = [vector for path in FILES for vector in json.loads(path.read_bytes())]
RUNS = [
    pytest.param(vector, family, id=f"{family}: {vector['name']}")
    for vector in VECTORS
    for family in vector.get("families", FAMILIES)
]
SENT = ("headers", "body", "form", "multipart", "raw", "packed")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Servers]:
    opened = world.Servers(tmp_path_factory.mktemp("pipelines"))
    yield opened
    opened.close()


@pytest.mark.parametrize(("vector", "family"), RUNS)
def test_the_answer_is_the_vectors(
    vector: dict[str, Any], family: str, servers: world.Servers
) -> None:
    opened = servers.named("default")
    known = world.make(whole_world(vector.get("world", {}), family), opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            answer = send(opened.client, request_of(step, known))
            parts = {"body": parsed(answer), "headers": answer.headers}
            known |= {name: picked(parts, at) for name, at in step.get("save", {}).items()}
            wrong = list(faults(filled(step["expect"], known), answer, opened.server.address))
            assert not wrong, f"step {number}: " + "; ".join(wrong)


def test_vectors_are_many_and_say_what_they_claim_and_why() -> None:
    assert len(VECTORS) >= 120
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS)
    for vector in VECTORS:
        assert vector["why"]
        assert vector.keys() <= {"name", "why", "families", "world", "steps"}
        for step in vector["steps"]:
            assert step.keys() <= {"ask", "key", "expect", "save", "times", *SENT}
            assert step["expect"].keys() <= EXPECTED


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


def request_of(step: dict[str, Any], known: Known) -> dict[str, Any]:
    method, _, path = step["ask"].partition(" ")
    key = step.get("key", "{admin}")
    sent = {name: step[name] for name in SENT if name in step} | ({"key": key} if key else {})
    request: dict[str, Any] = filled({"method": method, "path": path, **sent}, known)
    return request


EXPECTED = {"status", "headers", "body", "has", "json", "error", "ordered"}


def faults(expect: dict[str, Any], answer: httpx.Response, base: str) -> Iterator[str]:
    """What is not as expected."""
    if "error" in expect:
        expect = {**expect, "body": dict(zip(FIELDS, expect["error"], strict=True))}
    found = parsed(answer)
    if not {"has", "json"}.isdisjoint(expect):
        expect = {"body": "<any>", **expect}
    yield from unexpected(expect, answer, base)
    for at, value in expect.get("has", {}).items():
        yield from differences(value, picked(found, at), base, at)
    for at, value in expect.get("json", {}).items():
        yield from differences(value, json.loads(picked(found, at) or "null"), base, at)
    if expect.get("ordered"):
        yield from misplaced(expect["body"], found)


def misplaced(expected: Any, actual: Any, at: str = "body") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            yield f"the fields of {at} stand in the order {list(actual)}"
        for name in expected.keys() & actual.keys():
            yield from misplaced(expected[name], actual[name], f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list):
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            yield from misplaced(*pair, f"{at}.{index}")
