"""Every vector beside this file: what is sent, and the exact answer.

A vector is `{name, why, server, world, steps}`. A step is `{request, response, save, times}`:

- request: `method`, `path`, `key` (sent as the bearer), `headers`, and one of `body` (JSON),
  `form` (pairs), `multipart` (fields), `raw`, which is text or a list of texts and
  `[text, times]`, one byte for each character, or `packed`, which is `{json, through}`: JSON
  in one layer after another, see exchange.LAYERS;
- response: `status`, `headers` (those named; null: not there) and `body` (left out: empty);
- save: `{name: "body.id"}` keeps a part of the answer, for this step's response and later ones;
- times: send the request so often, every answer being as expected.
"""

import json
from pathlib import Path

import pytest

from tests.contract.api import world
from tests.contract.api.exchange import parsed, send, unexpected
from tests.contract.api.wire import filled, picked

VECTORS = sorted(Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_answer_is_exactly_the_vectors(path: Path, servers: world.Servers) -> None:
    vector = json.loads(path.read_bytes())
    opened = servers.named(vector.get("server", "default"))
    known = world.make(vector.get("world", {}), opened)
    for number, step in enumerate(vector["steps"], start=1):
        for _ in range(step.get("times", 1)):
            answer = send(opened.client, filled(step["request"], known))
            parts = {"body": parsed(answer), "headers": answer.headers}
            known |= {name: picked(parts, at) for name, at in step.get("save", {}).items()}
            wrong = list(unexpected(filled(step["response"], known), answer, opened.server.address))
            assert not wrong, f"step {number} of {vector['name']!r}: " + "; ".join(wrong)


def test_vectors_say_what_they_claim_and_why() -> None:
    vectors = [json.loads(path.read_bytes()) for path in VECTORS]
    assert len(vectors) >= 80
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["why"]
        assert vector["steps"]
        assert vector.keys() <= {"name", "why", "server", "world", "steps"}
