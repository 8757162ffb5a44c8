import json
from typing import Any

from hedgerow.errors import Unavailable
from hedgerow.http.health import Readiness, liveness
from hedgerow.http.trace import Trace
from tests.unit.http.asgi import http_scope, receiving


async def well() -> None:
    pass


async def away() -> None:
    raise Unavailable("The database does not answer.")


async def asked(readiness: Readiness) -> tuple[int, Any, dict[bytes, bytes]]:
    scope = http_scope(path="/_readiness")
    answer = await readiness.page(scope, receiving(), Trace(scope))
    return answer.status, json.loads(answer.body), dict(answer.headers)


async def test_a_process_that_answers_is_alive() -> None:
    scope = http_scope(path="/_liveness")
    answer = await liveness(scope, receiving(), Trace(scope))
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')


async def test_a_starting_process_says_what_it_waits_for() -> None:
    readiness = Readiness(away)
    status, body, headers = await asked(readiness)
    assert (status, body) == (503, {"status": "not ready", "missing": ["starting"]})
    assert headers[b"retry-after"] == b"1"
    readiness.waiting_for = "applying migrations"
    assert (await asked(readiness))[1]["missing"] == ["applying migrations"]


async def test_a_ready_process_says_so() -> None:
    readiness = Readiness(well)
    readiness.waiting_for = None
    status, body, headers = await asked(readiness)
    assert (status, body) == (200, {"status": "ready", "missing": []})
    assert headers[b"cache-control"] == b"no-store"


async def test_a_process_whose_database_went_away_is_not_ready() -> None:
    readiness = Readiness(away)
    readiness.waiting_for = None
    status, body, _ = await asked(readiness)
    assert (status, body["missing"]) == (503, ["database: The database does not answer."])
