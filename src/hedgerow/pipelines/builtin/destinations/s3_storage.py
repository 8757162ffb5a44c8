"""S3-compatible storage: writes events as objects to a bucket."""

import gzip
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256

from hedgerow.errors import Invalid
from hedgerow.events.archive import COLUMNS, TIME_COLUMNS, decode_rows, encode_line
from hedgerow.events.model import Event
from hedgerow.lib.parquet import encode_parquet
from hedgerow.pipelines.builtin.destinations.local_files import file_settings_migration
from hedgerow.pipelines.destinations.s3 import (
    S3_ACCESS_SETTINGS,
    Bucket,
    S3Access,
    check_access,
    check_bucket,
)
from hedgerow.plugin.component import Component, Family, SettingField, Settings, SettingType
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from hedgerow.plugin.presets import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    RETRY_DEAD_LETTERS_JOB,
    TEST_CONNECTION_JOB,
    batch_settings,
    check_range,
    file_format_setting,
)

MEGABYTE = 1024 * 1024
KEY_MAX = 900
TYPES = {
    "jsonl": {"content-type": "application/x-ndjson"},
    "jsonl.gz": {"content-type": "application/gzip"},
    "parquet": {"content-type": "application/vnd.apache.parquet"},
}

migrate_settings = file_settings_migration("hedgerow/s3-storage", "hedgerow/local-files")


def check(settings: Settings) -> None:
    check_bucket(settings["bucket"], "config__bucket")
    prefix = settings["prefix"]
    if prefix.startswith("/") or len(prefix.encode()) > KEY_MAX or not prefix.isprintable():
        raise Invalid("A prefix such as archive/web/ is required.", attr="config__prefix")
    check_access(settings)
    check_range(settings, "max_megabytes", 1, 100)


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    bucket = Bucket(
        S3Access.from_settings(settings),
        settings["bucket"],
        ctx.http,
        clock=lambda: ctx.now,
        run_in_thread=ctx.run_in_thread,
    )
    outcomes: list[Outcome] = []
    lines = [encode_line(event) for event in events]
    for start, end in _split_lines(lines, settings["max_megabytes"] * MEGABYTE):
        try:
            await bucket.put(
                build_key(events[start:end], settings),
                await ctx.run_in_thread(
                    partial(encode_lines, lines[start:end], settings["format"])
                ),
                TYPES[settings["format"]],
            )
            outcome: Outcome = Delivered()
        except TransportError as error:
            # An error of the storage is never the fault of the events, so they wait.
            outcome = Failed(reason=str(error))
        outcomes += [outcome] * (end - start)
    return outcomes


def build_key(events: Sequence[Event], settings: Settings) -> str:
    """Return a key that is always the same for the same events: a retry replaces its own object."""
    day = events[0].timestamp.strftime("%Y/%m/%d")
    name = sha256(" ".join(event.uuid for event in events).encode()).hexdigest()[:32]
    return f"{settings['prefix']}{day}/{name}.{settings['format']}"


def encode_lines(lines: Sequence[bytes], format: str) -> bytes:
    """Encode lines. The result is always the same for the same lines."""
    match format:
        case "parquet":
            return encode_parquet(COLUMNS, TIME_COLUMNS, decode_rows(lines))
        case "jsonl.gz":
            return gzip.compress(b"".join(lines), compresslevel=6, mtime=0)
        case _:
            return b"".join(lines)


def _split_lines(lines: Sequence[bytes], limit: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the lines of each object."""
    start = size = 0
    for number, line in enumerate(lines):
        if size and size + len(line) > limit:
            yield start, number
            start, size = number, 0
        size += len(line)
    yield start, len(lines)


COMPONENT = Component(
    key="hedgerow/s3-storage",
    family=Family.DESTINATION,
    name="S3-compatible storage",
    description="Writes events as objects to S3, MinIO, R2 or any S3-compatible storage.",
    version="1.0.0",
    settings=(
        SettingField(key="bucket", name="Bucket", required=True, is_address=False),
        SettingField(key="prefix", name="Prefix", default="hedgerow/", is_address=False),
        *S3_ACCESS_SETTINGS,
        file_format_setting("jsonl", "jsonl.gz", "parquet"),
        SettingField(
            key="max_megabytes",
            name="Object size in MB",
            type=SettingType.INTEGER,
            default=50,
            hint="Maximum size of an object before compression.",
        ),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=1000, seconds=300),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB, TEST_CONNECTION_JOB),
    migrate_settings=migrate_settings,
    check=check,
    deliver=deliver,
)
