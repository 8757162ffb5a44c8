"""Replays the wire vectors in this folder and compares the exact responses.

A vector is `{name, why, server, world, steps}`. A step is `{request, response, save, times}`:

- request: `method`, `path`, `key` (sent as the bearer), `headers`, and one of `body` (JSON),
  `form` (pairs), `multipart` (fields), `raw`, which is text or a list of texts and
  `[text, times]`, one byte for each character, or `packed`, which is `{json, through}`: JSON
  encoded in one layer after another, see exchange.LAYERS;
- response: `status`, `headers` (only the listed ones; null: absent) and `body` (default: empty);
- save: `{name: "body.id"}` stores a part of the response in a variable for this and later steps;
- times: the number of times to send the request; every response must match.
"""

import json
from pathlib import Path

import pytest

from tests.contract.api import world
from tests.contract.api.exchange import find_mismatches, parse_body, send
from tests.contract.api.wire import select_path, substitute

VECTORS = sorted(Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_response_matches_the_vector(path: Path, servers: world.Servers) -> None:
    vector = json.loads(path.read_bytes())
    opened = servers.get(vector.get("server", "default"))
    known = world.build_world(vector.get("world", {}), opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            answer = send(opened.client, substitute(step["request"], known))
            parts = {"body": parse_body(answer), "headers": answer.headers}
            known |= {name: select_path(parts, at) for name, at in step.get("save", {}).items()}
            wrong = list(
                find_mismatches(substitute(step["response"], known), answer, opened.server.address)
            )
            assert not wrong, f"step {number} of {vector['name']!r}: " + "; ".join(wrong)


def test_vectors_have_a_name_and_a_reason() -> None:
    vectors = [json.loads(path.read_bytes()) for path in VECTORS]
    assert len(vectors) >= 80
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["why"]
        assert vector["steps"]
        assert vector.keys() <= {"name", "why", "server", "world", "steps"}
