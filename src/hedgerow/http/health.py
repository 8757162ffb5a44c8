"""Is the process alive, and is it ready for traffic. Both answer without a key and tell no
secret.
"""

from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope

from hedgerow.errors import AppError
from hedgerow.http.reply import Reply, json_reply
from hedgerow.http.trace import Trace

NO_STORE = (b"cache-control", b"no-store")

_ALIVE = json_reply(200, {"status": "ok"}, NO_STORE)


class Readiness:
    """What the process still waits for. Until it is ready, every other path answers 503."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self.waiting_for: str | None = "starting"

    async def page(self, _: Scope, __: Receive, ___: Trace) -> Reply:
        missing = self.waiting_for
        if missing is None:
            try:
                await self._check()
            except AppError as error:
                missing = f"database: {error.detail}"
        if missing is None:
            return json_reply(200, {"status": "ready", "missing": []}, NO_STORE)
        return json_reply(
            503, {"status": "not ready", "missing": [missing]}, NO_STORE, (b"retry-after", b"1")
        )


async def liveness(_: Scope, __: Receive, ___: Trace) -> Reply:
    return _ALIVE
