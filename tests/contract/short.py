"""The short language of vectors, in which pipelines, flags and people are asked.

It is that of tests/contract/api, made shorter. A file holds a list of vectors `{name, why, world,
steps}`. A step is `{ask, key, headers, body, form, multipart, raw, packed, expect, save, times,
within_s}`, where `ask` is "METHOD path", `key` is the bearer (left out: one that may do everything,
or none where the address is public; null: none), and `within_s` is the time until the answer must
be as expected (left out: at once). `expect` is `{status, headers, body, has, json, lacks, error,
ordered}`:

- body: all of it (left out: empty, unless `has`, `json`, `lacks` or `error` is given);
- has: parts of it by their dotted path; json: the same for texts that hold JSON;
- lacks: fields that it does not have, not even as null;
- error: `[type, code, detail, attr]`;
- ordered: fields stand in the order of `body`.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.contract.api import world
from tests.contract.api.exchange import parsed, send, unexpected
from tests.contract.api.shape import FIELDS
from tests.contract.api.wire import Known, differences, filled, picked

Vector = dict[str, Any]

PARTS = {"name", "why", "world", "steps"}
SENT = ("headers", "body", "form", "multipart", "raw", "packed")
EXPECTED = {"status", "headers", "body", "has", "json", "lacks", "error", "ordered"}
# They take a project's token, not a person's.
PUBLIC = (
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


def read(folder: Path) -> list[Vector]:
    """The vectors of all files in a folder."""
    return [
        vector for path in sorted(folder.glob("*.json")) for vector in json.loads(path.read_bytes())
    ]


def replay(vector: Vector, whole_world: dict[str, Any], servers: world.Servers) -> None:
    """Each step in its turn, in a world of the vector's own."""
    opened = servers.named("default")
    known = world.make(whole_world, opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            wrong = _asked(step, known, opened)
            deadline = time.monotonic() + step.get("within_s", 0)
            while wrong and time.monotonic() < deadline:
                time.sleep(0.02)
                wrong = _asked(step, known, opened)
            assert not wrong, f"step {number}: " + "; ".join(wrong)


def _asked(step: dict[str, Any], known: dict[str, Any], opened: world.Opened) -> list[str]:
    """What is not as expected. Parts of the answer that are to be saved are known from then on."""
    answer = send(opened.client, request_of(step, known))
    parts = {"body": parsed(answer), "headers": answer.headers}
    known |= {name: picked(parts, at) for name, at in step.get("save", {}).items()}
    return list(faults(filled(step["expect"], known), answer, opened.server.address))


def check(vectors: Sequence[Vector], parts: Collection[str] = PARTS) -> None:
    """They have names of their own, say why, and hold nothing that would pass unread."""
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["why"]
        assert vector.keys() <= set(parts)
        for step in vector["steps"]:
            assert step.keys() <= {"ask", "key", "expect", "save", "times", "within_s", *SENT}
            assert step["expect"].keys() <= EXPECTED


def request_of(step: dict[str, Any], known: Known) -> dict[str, Any]:
    method, _, path = step["ask"].partition(" ")
    key = step.get("key", None if path.startswith(PUBLIC) else "{admin}")
    sent = {name: step[name] for name in SENT if name in step} | ({"key": key} if key else {})
    request: dict[str, Any] = filled({"method": method, "path": path, **sent}, known)
    return request


def faults(expect: dict[str, Any], answer: httpx.Response, base: str) -> Iterator[str]:
    """What is not as expected."""
    if "error" in expect:
        expect = {**expect, "body": dict(zip(FIELDS, expect["error"], strict=True))}
    found = parsed(answer)
    if not {"has", "json", "lacks"}.isdisjoint(expect):
        expect = {"body": "<any>", **expect}
    yield from unexpected(expect, answer, base)
    for at, value in expect.get("has", {}).items():
        yield from differences(value, picked(found, at), base, at)
    for at, value in expect.get("json", {}).items():
        yield from differences(value, json.loads(picked(found, at) or "null"), base, at)
    yield from (f"there is a field {name}" for name in expect.get("lacks", ()) if name in found)
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
