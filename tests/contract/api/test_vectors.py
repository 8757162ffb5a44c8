"""Every vector beside this file: what is sent, and the exact answer.

A vector is `{name, why, server, world, steps}`. A step is `{request, response, save, times}`:

- request: `method`, `path`, `key` (sent as the bearer), `headers`, and one of `body` (JSON),
  `form` (pairs), `multipart` (fields) or `raw`, which is text or a list of texts and
  `[text, times]`, one byte for each character;
- response: `status`, `headers` (those named; null: not there) and `body` (left out: empty);
- save: `{name: "body.id"}` keeps a part of the answer, for this step's response and later ones;
- times: send the request so often, every answer being as expected.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.contract.api import world
from tests.contract.api.wire import differences, filled, picked

VECTORS = sorted(Path(__file__).parent.glob("*.json"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Servers]:
    opened = world.Servers(tmp_path_factory.mktemp("api"))
    yield opened
    opened.close()


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_answer_is_exactly_the_vectors(path: Path, servers: world.Servers) -> None:
    vector = json.loads(path.read_bytes())
    server, client = servers.named(vector.get("server", "default"))
    known = world.make(vector.get("world", {}), server)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            answer = send(client, filled(step["request"], known))
            parts = {"body": parsed(answer), "headers": answer.headers}
            known |= {name: picked(parts, at) for name, at in step.get("save", {}).items()}
            wrong = list(unexpected(filled(step["response"], known), answer, server.address))
            assert not wrong, f"step {number} of {vector['name']!r}: " + "; ".join(wrong)


def test_vectors_say_what_they_claim_and_why() -> None:
    vectors = [json.loads(path.read_bytes()) for path in VECTORS]
    assert len(vectors) >= 80
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["why"]
        assert vector["steps"]
        assert vector.keys() <= {"name", "why", "server", "world", "steps"}


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    headers = dict(request.get("headers", {}))
    if "key" in request:
        headers["Authorization"] = f"Bearer {request['key']}"
    content: dict[str, Any] = {}
    if "body" in request:
        content["json"] = request["body"]
    elif "multipart" in request:
        content["files"] = {name: (None, text) for name, text in request["multipart"].items()}
    elif "form" in request:
        content["content"] = urlencode([tuple(pair) for pair in request["form"]])
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    elif "raw" in request:
        content["content"] = raw_bytes(request["raw"])
    return client.request(request["method"], request["path"], headers=headers, **content)


def raw_bytes(raw: str | list[Any]) -> bytes:
    parts = [raw] if isinstance(raw, str) else raw
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts).encode(
        "latin-1"
    )


def parsed(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    is_json = answer.headers["content-type"] == "application/json"
    return answer.json() if is_json else answer.text


def unexpected(response: dict[str, Any], answer: httpx.Response, base: str) -> Iterator[str]:
    if answer.status_code != response["status"]:
        yield f"status is {answer.status_code} and not {response['status']}"
    for name, value in response.get("headers", {}).items():
        yield from differences(value, answer.headers.get(name), base, name)
    yield from differences(response.get("body"), parsed(answer), base)
