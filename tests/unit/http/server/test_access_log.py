import asyncio
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow.http.server.access_log import FLUSH_EVERY_S, FLUSH_SIZE, AccessLog
from hedgerow.http.server.trace import Trace
from tests.unit.http.asgi import http_scope

SECRET = "phx_0123456789abcdefABCDEF"
ROUTE = "/api/projects/{project_id}/"


def make_trace() -> Trace:
    moments = iter([5.0, 5.0012345, 5.0212345])
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hedgerow.http.server.trace.time", clock)
        trace = Trace(
            http_scope(
                path=f"/api/projects/{SECRET}/",
                query=f"personal_api_key={SECRET}".encode(),
                headers={"X-Request-Id": "abc-1", "Authorization": f"Bearer {SECRET}"},
            )
        )
        trace.mark("access")
        trace.mark("answer")
    return trace


def logged(trace: Trace, *, for_people: bool) -> str:
    stream = io.StringIO()
    log = AccessLog(stream, for_people=for_people)
    log.add(trace, "GET", ROUTE, 200, 0.0215)
    log.flush()
    return stream.getvalue()


async def test_json_line_has_id_route_status_and_phases() -> None:
    trace = make_trace()
    trace.key_id, trace.project_id = "key-1", 7
    line: dict[str, Any] = json.loads(logged(trace, for_people=False))
    written_at = datetime.fromisoformat(line.pop("timestamp"))
    assert abs((datetime.now(UTC) - written_at).total_seconds()) < 60
    assert line == {
        "event": "request",
        "level": "info",
        "request_id": "abc-1",
        "method": "GET",
        "route": ROUTE,
        "status": 200,
        "ms": 21.5,
        "phases_ms": {"access": 1.234, "answer": 20.0},
        "key_id": "key-1",
        "project_id": 7,
    }


async def test_line_without_a_key_has_no_key_id() -> None:
    line = json.loads(logged(make_trace(), for_people=False))
    assert "key_id" not in line
    assert "project_id" not in line


async def test_text_line_is_readable() -> None:
    line = logged(make_trace(), for_people=True)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d 200 GET    /api/projects/\{project_id\}/  21\.5 ms"
        r"  access=1\.2 answer=20\.0  abc-1\n",
        line,
    )


@pytest.mark.parametrize("for_people", [True, False])
async def test_no_line_contains_path_query_or_headers(for_people: bool) -> None:
    line = logged(make_trace(), for_people=for_people)
    assert ROUTE in line
    assert SECRET not in line
    assert "personal_api_key" not in line


async def test_lines_are_written_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_later", lambda after, run: due.append((after, run))
    )
    stream = io.StringIO()
    log = AccessLog(stream, for_people=False)
    log.add(make_trace(), "GET", ROUTE, 200, 0.001)
    ((after_s, flush),) = due
    for _ in range(2):
        log.add(make_trace(), "GET", ROUTE, 200, 0.001)
    assert len(due) == 1
    assert stream.getvalue() == ""
    assert after_s == FLUSH_EVERY_S
    flush()
    assert stream.getvalue().count("\n") == 3


async def test_full_batch_is_written_at_once() -> None:
    stream = io.StringIO()
    log = AccessLog(stream, for_people=False)
    for _ in range(FLUSH_SIZE - 1):
        log.add(make_trace(), "GET", ROUTE, 200, 0.001)
    assert stream.getvalue() == ""
    log.add(make_trace(), "GET", ROUTE, 200, 0.001)
    assert stream.getvalue().count("\n") == FLUSH_SIZE


async def test_flushing_nothing_writes_nothing() -> None:
    stream = io.StringIO()
    AccessLog(stream, for_people=False).flush()
    assert stream.getvalue() == ""
