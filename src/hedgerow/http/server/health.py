"""Liveness and readiness probes. Neither needs a key nor returns secrets."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.types import Receive, Scope

from hedgerow.errors import AppError
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.openapi.sdk_types import HealthStatus
from hedgerow.http.server.response import NO_STORE, Reply, build_json_reply
from hedgerow.http.server.trace import Trace

LIVENESS_PATH = "/_liveness"
READINESS_PATH = "/_readiness"
STOPPING = "shutting down"
ALIVE = build_json_reply(200, {"status": "ok"}, NO_STORE)


class Readiness:
    """The probes, and the state they report. Until the process is ready, every other path returns
    503. While `draining` is set, the process is not ready for new clients, but serves requests."""

    tag = "Probes"

    def __init__(
        self,
        check: Callable[[], Awaitable[None]],
        describe: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """`describe` returns further fields of the readiness."""
        self._check = check
        self._describe = describe
        self.waiting_for: str | None = "starting"
        self.draining = asyncio.Event()
        # Handlers by path that answer while the process waits.
        self.fallback: Mapping[str, Callable[[Scope, Receive, Trace], Awaitable[Reply]]] = {}

    @fast_endpoint(
        "GET",
        LIVENESS_PATH,
        is_public=True,
        is_probe=True,
        allows_credentials=False,
        name="liveness",
        response=HealthStatus,
    )
    async def show_liveness(self, _: Scope, __: Receive, ___: Trace) -> Reply:
        """Check that the process runs."""
        return ALIVE

    @fast_endpoint("GET", READINESS_PATH, is_probe=True, name="readiness", response=HealthStatus)
    async def show_readiness(self, _: Scope, __: Receive, ___: Trace) -> Reply:
        """Check that the process can serve requests; the response lists missing dependencies."""
        return await self._answer_readiness()

    async def answer(self, path: str) -> Reply | None:
        """Answer a probe on another port than that of the service. Return None for other paths."""
        if path.rstrip("/") == LIVENESS_PATH:
            return ALIVE
        return await self._answer_readiness() if path.rstrip("/") == READINESS_PATH else None

    async def _answer_readiness(self) -> Reply:
        missing = STOPPING if self.draining.is_set() else self.waiting_for
        if missing is None:
            try:
                await self._check()
            except AppError as error:
                missing = f"database: {error.detail}"
        if missing is None:
            return build_json_reply(
                200, {"status": "ready", "missing": [], **self._describe()}, NO_STORE
            )
        return build_json_reply(
            503, {"status": "not ready", "missing": [missing]}, NO_STORE, (b"retry-after", b"1")
        )
