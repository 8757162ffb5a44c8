"""Ways out that note what is done on them, in the form of requests and answers, to be shown."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from hedgerow.events.model import Event
from hedgerow.pipelines.sending import (
    FilePlace,
    Inserted,
    Request,
    Response,
    Stream,
    TablePlace,
    WaysOut,
    at_once,
)

# What has no status of its own.
NO_STATUS = 0
PREVIEWED = "(not written)"

Notes = list[tuple[Request, Response | None]]


def noting(ways_out: WaysOut | None, notes: Notes) -> WaysOut:
    """The same ways, with notes; without any to use, only notes are made."""
    return WaysOut(
        http=_Http(ways_out, notes),
        files=_Files(ways_out, notes),
        tables=_Tables(ways_out, notes),
        aside=ways_out.aside if ways_out else at_once,
    )


class _Http:
    def __init__(self, ways_out: WaysOut | None, notes: Notes) -> None:
        self._ways_out = ways_out
        self._notes = notes

    async def send(self, request: Request) -> Response:
        response: Response | None = None
        try:
            if self._ways_out is None:
                return Response(status=200, headers={}, body=b"")
            response = await self._ways_out.http.send(request)
            return response
        finally:
            self._notes.append((request, response))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """As if it were sent, for destinations have no use for long answers."""
        response = await self.send(request)
        yield Stream(
            status=response.status, headers=response.headers, parts=_one_part(response.body)
        )


class _Files:
    def __init__(self, ways_out: WaysOut | None, notes: Notes) -> None:
        self._ways_out = ways_out
        self._notes = notes

    async def append(self, place: FilePlace, lines: bytes) -> str:
        name, response = f"{place.folder}/{PREVIEWED}", None
        try:
            if self._ways_out is not None:
                # Whoever tries it out wants to see a file at once.
                name = await self._ways_out.files.append(replace(place, max_age_s=0), lines)
                response = _said(f"Written to {name}")
            return name
        finally:
            self._notes.append((_asked("APPEND", name, lines), response))


class _Tables:
    def __init__(self, ways_out: WaysOut | None, notes: Notes) -> None:
        self._ways_out = ways_out
        self._notes = notes

    async def insert(self, place: TablePlace, events: Sequence[Event]) -> Inserted:
        inserted = Inserted(
            statement=f"INSERT INTO {place.schema}.{place.table} …", new=0, refused={}
        )
        response = None
        try:
            if self._ways_out is not None:
                inserted = await self._ways_out.tables.insert(place, events)
                response = _said(f"INSERT 0 {inserted.new}")
            return inserted
        finally:
            shown = place.address.shown
            self._notes.append((_asked("SQL", shown, inserted.statement.encode()), response))


def _asked(method: str, url: str, body: bytes) -> Request:
    return Request(method=method, url=url, headers={}, body=body)


def _said(text: str) -> Response:
    return Response(status=NO_STATUS, headers={}, body=text.encode())


async def _one_part(body: bytes) -> AsyncIterator[bytes]:
    yield body
