"""The way out, loaded when something is first sent: the HTTP client takes a tenth of the start,
most of it for certificates, and who sends nothing needs it never.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.sending import Request, Response, Stream
from hedgerow.storage.guard import Guard

if TYPE_CHECKING:
    from hedgerow.storage.outbound import HttpOutbound

LOADED = "hedgerow.storage.outbound"


class OutboundWhenNeeded:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._http: HttpOutbound | None = None

    async def send(self, request: Request) -> Response:
        return await (await self._loaded()).send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with (await self._loaded()).stream(request) as stream:
            yield stream

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _loaded(self) -> "HttpOutbound":
        if self._http is None:
            module = await in_daemon_thread(lambda: import_module(LOADED))
            # Somebody else may have waited for it as well.
            if self._http is None:
                self._http = module.HttpOutbound(self._guard)
        return self._http
