"""The files of a source: below the project's folder, at a URL, or in a bucket.

Remote files are downloaded to a temporary file first, because events are accepted more slowly than
a server keeps its connection open.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from hedgerow.errors import Invalid
from hedgerow.pipelines.destinations.s3 import Bucket, S3Access, check_access, check_bucket
from hedgerow.pipelines.imports.free_space import check_free_space
from hedgerow.pipelines.imports.reading import ListedObject
from hedgerow.plugin.http import HttpClient, Request, StreamedResponse, TransportError
from hedgerow.plugin.imports import FileVersion, ImportContext, JobError

WEB_SCHEMES = ("http://", "https://")
S3_SCHEME = "s3://"
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
MAX_BYTES = 20 * 1024**3
MAX_OBJECTS = 1_000_000
# Pages of a listing, which may be empty.
MAX_LISTING_PAGES = 10_000
WRITE_BYTES = 1024 * 1024
# For each chunk of a response.
CHUNK_TIMEOUT_S = 30.0

TOO_LARGE = JobError(f"The file is larger than {MAX_BYTES:,} bytes. Split it.")

OpenFile = Callable[[], AbstractAsyncContextManager[BinaryIO]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a source. Without a version, a change of it cannot be detected."""

    name: str
    version: str
    open: OpenFile

    @property
    def file_version(self) -> FileVersion:
        return FileVersion(name=self.name, version=self.version)


def check_source(settings: Mapping[str, Any]) -> None:
    """Raise Invalid unless the settings name a usable source."""
    source = settings["source"]
    if source.startswith(S3_SCHEME):
        bucket, _ = _split_s3_url(source)
        check_bucket(bucket, "config__source")
        check_access(settings)
    elif source.startswith(WEB_SCHEMES):
        try:
            is_good = bool(urlsplit(source).hostname)
        except ValueError:
            is_good = False
        if not is_good:
            raise Invalid("A URL such as https://… is required.", attr="config__source")
    elif "://" in source:
        raise Invalid("A path, https://… or s3://… is required.", attr="config__source")


async def list_source_files(
    settings: Mapping[str, Any], ctx: ImportContext
) -> AsyncIterator[SourceFile]:
    source = settings["source"]
    if source.startswith(WEB_SCHEMES):
        yield await _fetch_web_file(source, ctx)
    elif source.startswith(S3_SCHEME):
        async for file in _list_bucket_files(settings, ctx):
            yield file
    else:
        for listed in await ctx.files.list_files(ctx.project_id, source):
            open_file = _open_local(ctx, listed.name)
            yield SourceFile(name=listed.name, version=listed.version, open=open_file)


def _open_local(ctx: ImportContext, name: str) -> OpenFile:
    @asynccontextmanager
    async def open_file() -> AsyncIterator[BinaryIO]:
        file = await ctx.files.open_file(ctx.project_id, name)
        try:
            yield file
        finally:
            file.close()

    return open_file


async def _fetch_web_file(url: str, ctx: ImportContext) -> SourceFile:
    """Use the ETag or Last-Modified header as the version, if the server sends one."""
    async with _follow_redirects(ctx.http, "HEAD", url) as head:
        headers = head.headers if head.status == 200 else {}
    version = headers.get("etag") or headers.get("last-modified") or ""

    @asynccontextmanager
    async def open_file() -> AsyncIterator[BinaryIO]:
        async with _follow_redirects(ctx.http, "GET", url) as stream:
            if stream.status != 200:
                raise JobError(f"{_display_name(url)} responds with HTTP {stream.status}.")
            async with download(stream, ctx, MAX_BYTES, TOO_LARGE) as file:
                yield file

    return SourceFile(name=_display_name(url), version=version, open=open_file)


async def _list_bucket_files(
    settings: Mapping[str, Any], ctx: ImportContext
) -> AsyncIterator[SourceFile]:
    name, prefix = _split_s3_url(settings["source"])
    bucket = Bucket(S3Access.from_settings(settings), name, ctx.http, ctx.clock, ctx.run_in_thread)
    async for found in _list_objects(bucket, prefix, ctx):
        if not found.key.endswith("/"):
            open_file = _open_object(bucket, found.key, found.etag, ctx)
            yield SourceFile(name=f"{name}/{found.key}", version=found.etag, open=open_file)


async def _list_objects(
    bucket: Bucket, prefix: str, ctx: ImportContext
) -> AsyncIterator[ListedObject]:
    token, number = "", 0
    for _ in range(MAX_LISTING_PAGES):
        page = await ctx.reader.parse_listing(await bucket.fetch_listing(prefix, token=token))
        for each in page.objects:
            yield each
        number += len(page.objects)
        if not page.next_token:
            return
        if page.next_token == token:
            raise JobError("The storage lists the same page of objects again and again.")
        token = page.next_token
        if number > MAX_OBJECTS:
            break
    raise JobError(
        f"The storage lists more than {MAX_OBJECTS:,} objects or {MAX_LISTING_PAGES:,} pages. "
        "Import parts of it by longer prefixes."
    )


def _open_object(bucket: Bucket, key: str, etag: str, ctx: ImportContext) -> OpenFile:
    @asynccontextmanager
    async def open_file() -> AsyncIterator[BinaryIO]:
        async with (
            bucket.read(key, etag=etag) as stream,
            download(stream, ctx, MAX_BYTES, TOO_LARGE) as file,
        ):
            yield file

    return open_file


@asynccontextmanager
async def _follow_redirects(
    http: HttpClient, method: str, url: str
) -> AsyncIterator[StreamedResponse]:
    """Follow redirects and yield the final response. The client checks each address."""
    for _ in range(MAX_REDIRECTS + 1):
        request = Request(method=method, url=url, headers={}, body=b"", timeout_s=CHUNK_TIMEOUT_S)
        async with http.stream(request) as stream:
            if stream.status not in REDIRECT_STATUSES or "location" not in stream.headers:
                yield stream
                return
            url = urljoin(url, stream.headers["location"])
    raise TransportError(f"{_display_name(url)} redirects more than {MAX_REDIRECTS} times.")


@asynccontextmanager
async def download(
    stream: StreamedResponse, ctx: ImportContext, max_bytes: int, too_large: JobError
) -> AsyncIterator[BinaryIO]:
    """Save a response to a temporary file. Raises `too_large` if it exceeds the limit."""
    file = await ctx.files.create_temporary()
    try:
        size, waiting = 0, bytearray()
        async for part in stream.chunks:
            size += len(part)
            waiting += part
            if size > max_bytes:
                raise too_large
            if len(waiting) >= WRITE_BYTES:
                check_free_space(ctx.files)
                await ctx.run_in_thread(partial(file.write, bytes(waiting)))
                waiting.clear()
        file.write(waiting)
        file.flush()
        yield file
    finally:
        file.close()


def _display_name(url: str) -> str:
    """Return host and path, without parts that may be secret or change: user and query."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


def _split_s3_url(source: str) -> tuple[str, str]:
    bucket, _, prefix = source.removeprefix(S3_SCHEME).partition("/")
    return bucket, prefix
