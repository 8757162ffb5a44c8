"""The report of a failed test shows what the services logged during it."""

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
