"""Clients that record what a destination does, as requests and responses, for previews."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from hedgerow.events.model import Event
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.destinations.attempt import OutboundClients
from hedgerow.plugin.delivery import (
    FileTarget,
    FileWriter,
    InsertResult,
    TableTarget,
    TableWriter,
    refuse_address,
)
from hedgerow.plugin.http import HttpClient, Request, Response, StreamedResponse

# The status of file and table writes.
NO_STATUS = 0
NOT_WRITTEN = "(not written)"

RecordedRequests = list[tuple[Request, Response | None]]


def record_requests(clients: OutboundClients | None, recorded: RecordedRequests) -> OutboundClients:
    """Return clients that record their use. Without `clients` nothing is sent or written."""
    return OutboundClients(
        http=_RecordingHttp(clients, recorded),
        files=_RecordingFiles(clients, recorded),
        tables=_RecordingTables(clients, recorded),
        run_in_thread=clients.run_in_thread if clients else run_in_thread,
        check_address=clients.check_address if clients else refuse_address,
    )


class _RecordingHttp(HttpClient):
    def __init__(self, clients: OutboundClients | None, recorded: RecordedRequests) -> None:
        self._clients = clients
        self._recorded = recorded

    async def send(self, request: Request) -> Response:
        response: Response | None = None
        try:
            if self._clients is None:
                return Response(status=200, headers={}, body=b"")
            response = await self._clients.http.send(request)
            return response
        finally:
            self._recorded.append((request, response))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        """Send and return the whole response as one chunk."""
        response = await self.send(request)
        yield StreamedResponse(
            status=response.status, headers=response.headers, chunks=_one_chunk(response.body)
        )


class _RecordingFiles(FileWriter):
    def __init__(self, clients: OutboundClients | None, recorded: RecordedRequests) -> None:
        self._clients = clients
        self._recorded = recorded

    async def append(self, target: FileTarget, lines: bytes) -> str:
        name, response = f"{target.folder}/{NOT_WRITTEN}", None
        try:
            if self._clients is not None:
                # Complete the file now, so that the user of a test can see it.
                name = await self._clients.files.append(replace(target, max_age_s=0), lines)
                response = _build_response(f"Written to {name}")
            return name
        finally:
            self._recorded.append((_build_request("APPEND", name, lines), response))


class _RecordingTables(TableWriter):
    def __init__(self, clients: OutboundClients | None, recorded: RecordedRequests) -> None:
        self._clients = clients
        self._recorded = recorded

    async def insert(self, target: TableTarget, events: Sequence[Event]) -> InsertResult:
        inserted = InsertResult(
            statement=f"INSERT INTO {target.schema}.{target.table} …", inserted_rows=0, rejected={}
        )
        response = None
        try:
            if self._clients is not None:
                inserted = await self._clients.tables.insert(target, events)
                response = _build_response(f"INSERT 0 {inserted.inserted_rows}")
            return inserted
        finally:
            self._recorded.append(
                (
                    _build_request("SQL", target.address.redacted_url, inserted.statement.encode()),
                    response,
                )
            )


def _build_request(method: str, url: str, body: bytes) -> Request:
    return Request(method=method, url=url, headers={}, body=body)


def _build_response(text: str) -> Response:
    return Response(status=NO_STATUS, headers={}, body=text.encode())


async def _one_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body
