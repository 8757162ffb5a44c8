"""The internal connection, on which the owner of the data serves the other processes of a machine.

They pass on requests of clients, and read the definitions with which they answer the others. Only
processes that can open the socket get here, so nothing is authenticated.
"""

from collections.abc import Awaitable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hedgerow.app.http.readers import ReaderProcess, Readers
from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.internal_peer import restore_peer
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId


class InternalApp:
    def __init__(
        self,
        gateway: Gateway,
        documents: EdgeDocuments,
        directory: Directory,
        readers: Readers,
    ) -> None:
        self._gateway = gateway
        self._documents = documents
        self._directory = directory
        self.readers = readers

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        of_client = restore_peer(scope)
        if of_client is not None:
            return self._gateway(of_client, receive, send)
        return self._serve(scope, receive, send)

    # `/readers/NUMBER/PID` waits for a change of the list of projects, `/projects/ID` is the
    # definitions of one.
    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, name, *rest = scope["path"].split("/")
        if self._gateway.readiness.waiting_for is not None:
            response = Response(status_code=503)
        elif name == "readers":
            reader = ReaderProcess(number=int(rest[0]), pid=int(rest[1]))
            response = await self._follow(reader, read_header(scope, b"if-none-match"))
        else:
            response = await self._show_document(ProjectId(int(rest[0])))
        await response(scope, receive, send)

    async def _show_document(self, id: ProjectId) -> Response:
        project = self._directory.get_project(id)
        if project is None:
            return Response(status_code=404)
        document = await self._documents.get(project)
        return Response(document.body, headers={"ETag": document.etag})

    async def _follow(self, reader: ReaderProcess, seen: str) -> Response:
        listing = await self.readers.follow(reader, seen)
        if listing is None:
            return Response(status_code=304, headers={"ETag": seen})
        return Response(listing.body, headers={"ETag": listing.etag})
