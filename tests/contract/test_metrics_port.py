"""The port of the metrics also answers the probes, from a thread that asks the event loop."""

import asyncio

import httpx
import pytest

from hedgerow.errors import Unavailable
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics


async def test_a_process_whose_event_loop_is_blocked_is_not_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hedgerow.http.server.metrics.PROBE_TIMEOUT_S", 0.1)

    async def check() -> None:
        raise Unavailable("It is away.")

    readiness = Readiness(check)
    with Metrics(list).serve("127.0.0.1", 0, readiness.answer) as url:
        liveness, ready = (url.replace("metrics", path) for path in ("_liveness", "_readiness/"))
        # This call blocks the event loop.
        assert httpx.get(liveness, timeout=120).status_code == 503
        monkeypatch.setattr("hedgerow.http.server.metrics.PROBE_TIMEOUT_S", 120)
        found = await asyncio.to_thread(httpx.get, liveness, timeout=120)
        assert (found.status_code, found.json()) == (200, {"status": "ok"})
        readiness.waiting_for = None
        found = await asyncio.to_thread(httpx.get, ready, timeout=120)
        assert (found.status_code, found.json()["missing"]) == (503, ["database: It is away."])
