"""The internal connection, on which the owner of the data serves the other processes of a machine.

They pass on requests of clients, and read the definitions with which they answer the others. Only
processes that can open the socket get here, so nothing is authenticated.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable
from time import monotonic

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.sdk.stream import EVENT_STREAM, KEEP_ALIVE, encode_etag_event
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.headers import etag_matches
from hedgerow.http.server.internal_peer import restore_peer
from hedgerow.http.server.response import ApiStreamingResponse
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId

# Changes of flags arrive at once. Keys and SDK configurations are compared this often.
POLL_INTERVAL_S = 0.25
HEARTBEAT_S = 15.0


class InternalApp:
    def __init__(
        self,
        gateway: Gateway,
        documents: EdgeDocuments,
        directory: Directory,
        flag_cache: FlagCache,
    ) -> None:
        self._gateway = gateway
        self._documents = documents
        self._directory = directory
        self._flag_cache = flag_cache
        self._stopping = gateway.stopping

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        of_client = restore_peer(scope)
        if of_client is not None:
            return self._gateway(of_client, receive, send)
        return self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, name, *rest = scope["path"].split("/")
        if self._gateway.readiness.waiting_for is not None:
            response = Response(status_code=503)
        elif name == "stream":
            response = ApiStreamingResponse(self._stream(), media_type=EVENT_STREAM)
        elif name == "projects" and rest:
            response = await self._show_document(ProjectId(int(rest[0])))
        else:
            body, etag = self._list_projects()
            status = 304 if etag_matches(scope, etag) else 200
            response = Response(b"" if status == 304 else body, status, {"ETag": etag})
        await response(scope, receive, send)

    async def _show_document(self, id: ProjectId) -> Response:
        project = self._directory.get_project(id)
        if project is None:
            return Response(status_code=404)
        document = await self._documents.get(project)
        return Response(document.body, headers={"ETag": document.etag})

    def _list_projects(self) -> tuple[bytes, str]:
        body = msgspec.json.encode(self._documents.list_projects())
        return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    async def _stream(self) -> AsyncIterator[bytes]:
        last, silent_since = "", monotonic()
        while not self._stopping.is_set():
            _, etag = self._list_projects()
            if etag != last:
                last, silent_since = etag, monotonic()
                yield encode_etag_event(etag)
            elif monotonic() - silent_since > HEARTBEAT_S:
                silent_since = monotonic()
                yield KEEP_ALIVE
            await self._wait()

    async def _wait(self) -> None:
        waiting = [
            asyncio.ensure_future(self._flag_cache.wait_for_any_change()),
            asyncio.ensure_future(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(
                waiting, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()
