"""Replays vectors in the compact format of pipelines, flags, persons, events and capture.

The format shortens that of tests/contract/api. A file contains a list of vectors `{name, why,
world, steps}`. A step is `{ask, key, headers, body, form, multipart, raw, packed, expect, save,
times, within_s}`: `ask` is "METHOD path", `key` is the bearer token (default: an all-access key,
none for public paths; null: none), and `within_s` is the time until the response must match
(default: immediately). `expect` is `{status, headers, body, has, json, lacks, error, ordered}`:

- body: the whole body (default: empty, unless `has`, `json`, `lacks` or `error` is present);
- has: parts of the body by dotted path; json: the same for strings that contain JSON;
- lacks: fields that are absent, not even null;
- error: `[type, code, detail, attr]`;
- ordered: the fields have the order of `body`.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.contract.api import world
from tests.contract.api.exchange import find_mismatches, parse_body, send
from tests.contract.api.shape import FIELDS
from tests.contract.api.wire import Variables, find_differences, select_path, substitute

Vector = dict[str, Any]

VECTOR_PARTS = {"name", "why", "world", "steps"}
REQUEST_PARTS = ("headers", "body", "form", "multipart", "raw", "packed")
EXPECTATION_PARTS = {"status", "headers", "body", "has", "json", "lacks", "error", "ordered"}
# These accept a project key instead of a personal key.
PUBLIC_PATHS = (
    "/decide",
    "/flags",
    "/capture",
    "/e",
    "/track",
    "/engage",
    "/batch",
    "/i/",
    "/ofrep",
    "/s/",
)


def load_vectors(folder: Path) -> list[Vector]:
    """Load the vectors of all files in a folder."""
    return [
        vector for path in sorted(folder.glob("*.json")) for vector in json.loads(path.read_bytes())
    ]


def replay_vector(vector: Vector, initial_state: dict[str, Any], servers: world.Servers) -> None:
    """Run the steps in order, in a new world."""
    opened = servers.get("default")
    variables = world.build_world(initial_state, opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            faults = _run_step(step, variables, opened)
            deadline = time.monotonic() + step.get("within_s", 0)
            while faults and time.monotonic() < deadline:
                time.sleep(0.02)
                faults = _run_step(step, variables, opened)
            assert not faults, f"step {number}: " + "; ".join(faults)


def _run_step(
    step: dict[str, Any], variables: dict[str, Any], opened: world.RunningServer
) -> list[str]:
    """Send the request of a step, save variables of its response, and return the faults."""
    response = send(opened.client, build_request(step, variables))
    parts = {"body": parse_body(response), "headers": response.headers}
    variables |= {name: select_path(parts, at) for name, at in step.get("save", {}).items()}
    return list(find_faults(substitute(step["expect"], variables), response, opened.server.address))


def check_vectors(vectors: Sequence[Vector], parts: Collection[str] = VECTOR_PARTS) -> None:
    """Check that names are unique, reasons are present, and no unknown key is ignored."""
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["why"]
        assert vector.keys() <= set(parts)
        for step in vector["steps"]:
            assert step.keys() <= {
                "ask",
                "key",
                "expect",
                "save",
                "times",
                "within_s",
                *REQUEST_PARTS,
            }
            assert step["expect"].keys() <= EXPECTATION_PARTS


def build_request(step: dict[str, Any], variables: Variables) -> dict[str, Any]:
    method, _, path = step["ask"].partition(" ")
    key = step.get("key", None if path.startswith(PUBLIC_PATHS) else "{admin}")
    sent = {name: step[name] for name in REQUEST_PARTS if name in step} | (
        {"key": key} if key else {}
    )
    request: dict[str, Any] = substitute({"method": method, "path": path, **sent}, variables)
    return request


def find_faults(expect: dict[str, Any], response: httpx.Response, base: str) -> Iterator[str]:
    """Yield one line for each difference between a response and its expectation."""
    if "error" in expect:
        expect = {**expect, "body": dict(zip(FIELDS, expect["error"], strict=True))}
    body = parse_body(response)
    if not {"has", "json", "lacks"}.isdisjoint(expect):
        expect = {"body": "<any>", **expect}
    yield from find_mismatches(expect, response, base)
    for at, value in expect.get("has", {}).items():
        yield from find_differences(value, select_path(body, at), base, at)
    for at, value in expect.get("json", {}).items():
        yield from find_differences(value, json.loads(select_path(body, at) or "null"), base, at)
    yield from (f"unexpected field {name}" for name in expect.get("lacks", ()) if name in body)
    if expect.get("ordered"):
        yield from find_misordered_fields(expect["body"], body)


def find_misordered_fields(expected: Any, actual: Any, at: str = "body") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            yield f"the order of fields in {at} is {list(actual)}"
        for name in expected.keys() & actual.keys():
            yield from find_misordered_fields(expected[name], actual[name], f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list):
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            yield from find_misordered_fields(*pair, f"{at}.{index}")
