"""S3-compatible storage: events as objects in a bucket."""

import gzip
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256

from hedgerow.errors import Invalid
from hedgerow.events.archive import COLUMNS, MOMENTS, line_of, rows_of
from hedgerow.events.model import Event
from hedgerow.lib.parquet import parquet_bytes
from hedgerow.pipelines.component import Component, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import (
    DELIVERY,
    FILTERS,
    REPLAY,
    S3_ACCESS,
    TEST_CONNECTION,
    batching,
    check_between,
    file_format,
    file_settings_from,
)
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.s3 import Bucket, S3Access, check_access, check_bucket
from hedgerow.pipelines.sending import CannotSend, Failed, Outcome, Sent, Surroundings

MEGABYTE = 1024 * 1024
KEY_MAX = 900
TYPES = {
    "jsonl": {"content-type": "application/x-ndjson"},
    "jsonl.gz": {"content-type": "application/gzip"},
    "parquet": {"content-type": "application/vnd.apache.parquet"},
}

adopt = file_settings_from("hedgerow/s3-storage", "hedgerow/local-files")


def check(settings: Settings) -> None:
    check_bucket(settings["bucket"], "config__bucket")
    prefix = settings["prefix"]
    if prefix.startswith("/") or len(prefix.encode()) > KEY_MAX or not prefix.isprintable():
        raise Invalid("A prefix such as archive/web/ is required.", attr="config__prefix")
    check_access(settings)
    check_between(settings, "max_megabytes", 1, 100)


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    bucket = Bucket(
        S3Access.of(settings), settings["bucket"], around.http, clock=lambda: around.now
    )
    outcomes: list[Outcome] = []
    lines = [line_of(event) for event in events]
    for start, end in _parts(lines, settings["max_megabytes"] * MEGABYTE):
        try:
            await bucket.put(
                key_of(events[start:end], settings),
                await around.aside(partial(body_of, lines[start:end], settings["format"])),
                TYPES[settings["format"]],
            )
            outcome: Outcome = Sent()
        except CannotSend as reason:
            # Whatever storage has against it, it is not the events: they wait until it is well.
            outcome = Failed(reason=str(reason))
        outcomes += [outcome] * (end - start)
    return outcomes


def key_of(events: Sequence[Event], settings: Settings) -> str:
    """The same for the same events, so that a repeat replaces the object that it repeats and no
    other."""
    day = events[0].timestamp.strftime("%Y/%m/%d")
    name = sha256(" ".join(event.uuid for event in events).encode()).hexdigest()[:32]
    return f"{settings['prefix']}{day}/{name}.{settings['format']}"


def body_of(lines: Sequence[bytes], format: str) -> bytes:
    """The same bytes for the same lines."""
    match format:
        case "parquet":
            return parquet_bytes(COLUMNS, MOMENTS, rows_of(lines))
        case "jsonl.gz":
            return gzip.compress(b"".join(lines), compresslevel=6, mtime=0)
        case _:
            return b"".join(lines)


def _parts(lines: Sequence[bytes], most: int) -> Iterator[tuple[int, int]]:
    """From where to where lines go into one object."""
    start = size = 0
    for number, line in enumerate(lines):
        if size and size + len(line) > most:
            yield start, number
            start, size = number, 0
        size += len(line)
    yield start, len(lines)


COMPONENT = Component(
    key="hedgerow/s3-storage",
    family=Family.DESTINATION,
    name="S3-compatible storage",
    description="Writes events as objects to S3, MinIO, R2 or any storage that speaks S3.",
    version="1.0.0",
    settings=(
        SettingField(key="bucket", name="Bucket", required=True),
        SettingField(key="prefix", name="Prefix", default="hedgerow/"),
        *S3_ACCESS,
        file_format("jsonl", "jsonl.gz", "parquet"),
        SettingField(
            key="max_megabytes",
            name="Object size in MB",
            type=SettingType.INTEGER,
            default=50,
            hint="Largest object, before it is compressed.",
        ),
        *FILTERS,
        *DELIVERY,
        *batching(size=1000, seconds=300),
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    adopt=adopt,
    check=check,
    deliver=deliver,
)
