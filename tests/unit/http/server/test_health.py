import json
from typing import Any

from hedgerow.errors import Unavailable
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.trace import Trace
from tests.unit.http.asgi import http_scope, make_receive


async def available() -> None:
    pass


async def unavailable() -> None:
    raise Unavailable("The database does not answer.")


async def check_readiness(readiness: Readiness) -> tuple[int, Any, dict[bytes, bytes]]:
    scope = http_scope(path="/_readiness")
    response = await readiness.show_readiness(scope, make_receive(), Trace(scope))
    return response.status, json.loads(response.body), dict(response.headers)


async def test_liveness_is_ok() -> None:
    scope = http_scope(path="/_liveness")
    response = await Readiness(available).show_liveness(scope, make_receive(), Trace(scope))
    assert (response.status, response.body) == (200, b'{"status":"ok"}')


async def test_starting_process_reports_the_missing_dependency() -> None:
    readiness = Readiness(unavailable)
    status, body, headers = await check_readiness(readiness)
    assert (status, body) == (503, {"status": "not ready", "missing": ["starting"]})
    assert headers[b"retry-after"] == b"1"
    readiness.waiting_for = "applying migrations"
    assert (await check_readiness(readiness))[1]["missing"] == ["applying migrations"]


async def test_ready_process_is_200() -> None:
    readiness = Readiness(available)
    readiness.waiting_for = None
    status, body, headers = await check_readiness(readiness)
    assert (status, body) == (200, {"status": "ready", "missing": []})
    assert headers[b"cache-control"] == b"no-store"


async def test_unavailable_database_is_503() -> None:
    readiness = Readiness(unavailable)
    readiness.waiting_for = None
    status, body, _ = await check_readiness(readiness)
    assert (status, body["missing"]) == (503, ["database: The database does not answer."])
