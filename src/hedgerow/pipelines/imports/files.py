"""The files that a source stands for: below the project's folder, at one address, or in a bucket.
What comes over the network is put into a file of this machine first, so that it can be read at the
pace at which events are taken.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.model import Around
from hedgerow.pipelines.model import FileMark, JobProblem
from hedgerow.pipelines.s3 import Bucket, S3Access, check_access, check_bucket
from hedgerow.pipelines.sending import CannotSend, Outbound, Request, Stream

WEB = ("http://", "https://")
S3 = "s3://"
REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
MAX_BYTES = 20 * 1024**3
WRITE_BYTES = 1024 * 1024
# For each part of an answer.
PART_S = 30.0

Opened = Callable[[], AbstractAsyncContextManager[BinaryIO]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """Without a version nobody can tell whether it has changed."""

    name: str
    version: str
    opened: Opened

    @property
    def mark(self) -> FileMark:
        return FileMark(name=self.name, version=self.version)


def check_source(settings: Mapping[str, Any]) -> None:
    """Raise Invalid for what is no source."""
    source = settings["source"]
    if source.startswith(S3):
        bucket, _ = _bucket_and_prefix(source)
        check_bucket(bucket, "config__source")
        check_access(settings)
    elif source.startswith(WEB):
        try:
            is_good = bool(urlsplit(source).hostname)
        except ValueError:
            is_good = False
        if not is_good:
            raise Invalid("An address such as https://… is required.", attr="config__source")
    elif "://" in source:
        raise Invalid("A path, https://… or s3://… is required.", attr="config__source")


async def source_files(settings: Mapping[str, Any], around: Around) -> AsyncIterator[SourceFile]:
    source = settings["source"]
    if source.startswith(WEB):
        yield await _web_file(source, around)
    elif source.startswith(S3):
        async for file in _bucket_files(settings, around):
            yield file
    else:
        for listed in await around.files.listed(around.project_id, source):
            opened = _local(around, listed.name)
            yield SourceFile(name=listed.name, version=listed.version, opened=opened)


def _local(around: Around, name: str) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[BinaryIO]:
        file = await around.files.opened(around.project_id, name)
        try:
            yield file
        finally:
            file.close()

    return opened


async def _web_file(url: str, around: Around) -> SourceFile:
    """Its version is what the server says of it, if it says anything."""
    async with _followed(around.http, "HEAD", url) as head:
        told = head.headers if head.status == 200 else {}
    version = told.get("etag") or told.get("last-modified") or ""

    @asynccontextmanager
    async def opened() -> AsyncIterator[BinaryIO]:
        async with _followed(around.http, "GET", url) as stream:
            if stream.status != 200:
                raise JobProblem(f"{_named(url)} answers {stream.status}.")
            async with _downloaded(stream, around) as file:
                yield file

    return SourceFile(name=_named(url), version=version, opened=opened)


async def _bucket_files(settings: Mapping[str, Any], around: Around) -> AsyncIterator[SourceFile]:
    name, prefix = _bucket_and_prefix(settings["source"])
    bucket = Bucket(S3Access.of(settings), name, around.http, around.clock)
    async for found in bucket.listed(prefix):
        if not found.key.endswith("/"):
            opened = _object(bucket, found.key, found.etag, around)
            yield SourceFile(name=f"{name}/{found.key}", version=found.etag, opened=opened)


def _object(bucket: Bucket, key: str, etag: str, around: Around) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[BinaryIO]:
        async with bucket.reading(key, etag=etag) as stream, _downloaded(stream, around) as file:
            yield file

    return opened


@asynccontextmanager
async def _followed(http: Outbound, method: str, url: str) -> AsyncIterator[Stream]:
    """The answer at the end of some redirects. Each address is checked as the first one was."""
    for _ in range(MAX_REDIRECTS + 1):
        request = Request(method=method, url=url, headers={}, body=b"", timeout_s=PART_S)
        async with http.stream(request) as stream:
            if stream.status not in REDIRECTS or "location" not in stream.headers:
                yield stream
                return
            url = urljoin(url, stream.headers["location"])
    raise CannotSend(f"{_named(url)} redirects more than {MAX_REDIRECTS} times.")


@asynccontextmanager
async def _downloaded(stream: Stream, around: Around) -> AsyncIterator[BinaryIO]:
    file = await around.files.scratch()
    try:
        size, waiting = 0, bytearray()
        async for part in stream.parts:
            size += len(part)
            waiting += part
            if size > MAX_BYTES or not around.files.has_room():
                raise JobProblem("The file is larger than there is room for on the disk.")
            if len(waiting) >= WRITE_BYTES:
                await around.aside(partial(file.write, bytes(waiting)))
                waiting.clear()
        file.write(waiting)
        file.seek(0)
        yield file
    finally:
        file.close()


def _named(url: str) -> str:
    """Without what may be secret, or changes: user, query."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


def _bucket_and_prefix(source: str) -> tuple[str, str]:
    bucket, _, prefix = source.removeprefix(S3).partition("/")
    return bucket, prefix
