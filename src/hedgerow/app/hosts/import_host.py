"""The worker process of imports. pipelines/imports/workers.py starts it with `python -m`.

It parses what the source of an import sends, and ends at its limits of memory and CPU time.
"""

import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from hedgerow.app.hosts.payload_host import give_back_memory, pack_batch
from hedgerow.ingestion.import_events import parse_import
from hedgerow.lib import jsonio
from hedgerow.lib.workers.process import FileHandler, serve_file_requests
from hedgerow.outbound.source_rows import stream_rows
from hedgerow.pipelines.destinations.s3 import parse_listing
from hedgerow.pipelines.imports.file_rows import read_batches
from hedgerow.pipelines.imports.instance_events import parse_events_page
from hedgerow.pipelines.imports.mapping import compile_mapping
from hedgerow.pipelines.imports.query_rows import QueryPage, read_raw_pages, read_row_pages
from hedgerow.pipelines.imports.reading import (
    MAX_SAMPLES,
    EventArguments,
    EventsRequest,
    FileRequest,
    ListedObject,
    ListingRequest,
    NextRequest,
    PreparedRows,
    QueryRequest,
    ReadRequest,
    RowsRequest,
    SourcePage,
)
from hedgerow.pipelines.imports.workers import MAX_MEMORY_MIB, MAX_PAGE_CPU_S
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import BadRow, JobError, SourceRow

MEBIBYTE = 1 << 20
# A page holds 4 MiB of rows. A mapping can repeat a value in many properties.
MAX_EVENTS_BYTES = 16 * MEBIBYTE

Prepare = Callable[[Sequence[SourceRow], Sequence[BadRow]], PreparedRows]

_decode = msgspec.msgpack.Decoder(ReadRequest).decode
_encode = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.json.Decoder(list[tuple[str, str, dict[str, Any], bool]]).decode


class ImportHost:
    """One source at a time, page by page."""

    def __init__(self) -> None:
        self._session = 0
        self._pages: Iterator[SourcePage] = iter(())
        self._arguments: EventArguments

    def handle(self, body: bytes, files: Sequence[int]) -> bytes:
        signal.setitimer(signal.ITIMER_PROF, MAX_PAGE_CPU_S)
        page = self._respond(_decode(body), files)
        if page.is_last or page.error:
            self._pages = iter(())
            give_back_memory()
        response = _encode(page)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return response

    def _respond(self, request: ReadRequest, files: Sequence[int]) -> SourcePage:
        self._arguments = request.arguments
        try:
            if not isinstance(request.source, NextRequest):
                self._session, self._pages = request.session, iter(())
                self._pages = self._open(request, files)
            elif request.session != self._session:
                return SourcePage(error="The reading was interrupted.", is_temporary=True)
            return next(self._pages, SourcePage(is_last=True))
        except TransportError as error:
            return SourcePage(error=str(error), is_temporary=True)
        except JobError as error:
            return SourcePage(error=str(error))
        except RecursionError:
            return SourcePage(error=f"A row is nested deeper than {jsonio.MAX_DEPTH} levels.")

    def _open(self, request: ReadRequest, files: Sequence[int]) -> Iterator[SourcePage]:
        prepare = partial(self._prepare, request.mapping)
        match request.source:
            case FileRequest() as source:
                return _read_file(source, files, prepare)
            case QueryRequest(is_raw=True) as source:
                pages = read_raw_pages(stream_rows(source))
                return (SourcePage(raw=page) for page in pages)
            case QueryRequest() as source:
                row_pages = read_row_pages(stream_rows(source), source)
                return (_to_page(page, prepare) for page in row_pages)
            case EventsRequest() as source:
                return _parse_events(source, files, prepare)
            case ListingRequest() as source:
                return _parse_listing(source)
            case RowsRequest() as source:
                return _map_rows(source, prepare)
        raise AssertionError(request.source)

    def _prepare(
        self, mapping: Mapping[str, Any], rows: Sequence[SourceRow], bad: Sequence[BadRow]
    ) -> PreparedRows:
        """Map rows to events and encode them for the inbox."""
        arguments = self._arguments
        to_event = compile_mapping(mapping)
        events = [to_event(row) for row in rows]
        batch, rejected = parse_import(events, arguments.now, arguments.randomness)
        samples = [*bad[:MAX_SAMPLES]]
        for index, reason in rejected.items():
            if len(samples) == MAX_SAMPLES:
                break
            samples.append(BadRow(location=rows[index].location, reason=reason))
        packed = pack_batch(batch, arguments.bucket_count)
        size = sum(len(row.events) for row in packed.rows) + sum(map(len, packed.cookieless))
        if size > MAX_EVENTS_BYTES:
            raise JobError(
                f"The mapping makes more than {MAX_EVENTS_BYTES // MEBIBYTE} MiB of events of one "
                "page of rows. Use each column in fewer properties."
            )
        return PreparedRows(
            events=_encode(packed) if batch.events else b"",
            accepted=len(rows) - len(rejected),
            bad=len(bad) + len(rejected),
            samples=samples,
        )


def _read_file(source: FileRequest, files: Sequence[int], prepare: Prepare) -> Iterator[SourcePage]:
    with os.fdopen(files[0], "rb") as file:
        file.seek(0)
        position = source.position
        for batch in read_batches(file, source.format, source.name, position):
            position = batch.position
            yield SourcePage(
                rows=prepare(batch.rows, batch.bad),
                position=position,
                total=batch.total,
            )
    yield SourcePage(position=position, is_last=True)


def _to_page(page: QueryPage, prepare: Prepare) -> SourcePage:
    return SourcePage(
        rows=prepare(page.rows, page.bad), position={"at": page.at, "known": page.known}
    )


def _parse_events(
    source: EventsRequest, files: Sequence[int], prepare: Prepare
) -> Iterator[SourcePage]:
    with os.fdopen(files[0], "rb") as file:
        file.seek(0)
        page = parse_events_page(file.read(), source.host)
    yield SourcePage(rows=prepare(page.rows, page.bad), events=page.summary, is_last=True)


def _parse_listing(source: ListingRequest) -> Iterator[SourcePage]:
    objects, token = parse_listing(source.body)
    listed = [ListedObject(key=each.key, etag=each.etag) for each in objects]
    yield SourcePage(objects=listed, next_token=token, is_last=True)


def _map_rows(source: RowsRequest, prepare: Prepare) -> Iterator[SourcePage]:
    rows = [
        SourceRow(identity=identity, location=location, values=values, is_text=is_text)
        for identity, location, values, is_text in _decode_rows(source.rows)
    ]
    yield SourcePage(rows=prepare(rows, ()), is_last=True)


def build_handler() -> FileHandler:
    limit = MAX_MEMORY_MIB * MEBIBYTE
    # Unlike the address space, this counts what a process has written or may write, so that the
    # code of libraries and what they only reserve does not count.
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # The default allocator of pyarrow keeps what it has freed.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    return ImportHost().handle


if __name__ == "__main__":
    serve_file_requests(build_handler)
