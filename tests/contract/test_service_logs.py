"""The report of a failed test shows what the services logged during it."""

import json

import httpx
import pytest

from tests.support import service_logs
from tests.support.live import LiveServer, wait_for


def report(request: pytest.FixtureRequest, fault: Exception | None) -> list[tuple[str, str]]:
    """Return the sections of the report of a test that raised this."""

    def run() -> None:
        if fault:
            raise fault

    call = pytest.CallInfo.from_call(run, "call")
    made: pytest.TestReport = request.node.ihook.pytest_runtest_makereport(
        item=request.node, call=call
    )
    return made.sections


def test_failure_shows_log_of_shared_service(
    live: LiveServer, request: pytest.FixtureRequest
) -> None:
    answer = httpx.get(f"{live.address}/api/no_such_path", timeout=60, verify=False)
    logged = f'"request_id":"{answer.headers["x-request-id"]}"'
    wait_for(lambda: logged in live.errors, at_most_s=60)
    found = dict(report(request, AssertionError("failed")))
    assert logged in found[f"Log of hedgerow serve ({live.data}) during this test"]
    assert report(request, None) == []
    service_logs.begin_test()
    assert report(request, AssertionError("failed")) == []


def test_a_hold_of_the_event_loop_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = service_logs.open_log("a service")
    hold = {"event": "the event loop was held", "handler": "a.b", "cpu_ms": 60, "stack": ["c"]}
    log.lines = [json.dumps(hold) + "\n", "another line\n"]
    assert service_logs.list_holds() == ["a.b held the event loop for 60 ms: ['c']"]
    monkeypatch.setattr(service_logs, "ALLOWED_HOLDS", {"a.b": "It is known."})
    assert service_logs.list_holds() == []
    log.lines.clear()
    log.is_open = False
