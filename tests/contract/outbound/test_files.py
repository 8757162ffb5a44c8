"""Files of destinations on a real disk: complete or absent, and never outside their folder."""

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from hedgerow.events.archive import COLUMNS, encode_line
from hedgerow.outbound.append_files import AppendFile, recover_orphans
from hedgerow.outbound.files import LocalFileWriter
from hedgerow.plugin.delivery import FileTarget
from hedgerow.plugin.http import TransportError
from tests.support.sent_events import build_event

TARGET = FileTarget(folder="project-1/web", format="jsonl", max_bytes=10_000, max_age_s=3600)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "exports"


@pytest.fixture
async def files(root: Path) -> AsyncIterator[LocalFileWriter]:
    opened = build_writer(root)
    yield opened
    await opened.close()


def build_writer(root: Path, min_free_bytes: int = 0) -> LocalFileWriter:
    def note(name: str, error: OSError) -> None:
        raise AssertionError(f"{name}: {error}")

    return LocalFileWriter(root, min_free_bytes=min_free_bytes, note=note)


def list_visible(root: Path) -> list[Path]:
    """List the visible files."""
    return sorted(path for path in root.rglob("*.*") if not path.name.startswith("."))


def list_hidden(root: Path) -> list[Path]:
    return [path for path in root.rglob(".*") if path.is_file()]


def read_uuids(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        found: list[str] = pq.read_table(path).column("uuid").to_pylist()
        return found
    return [json.loads(line)["uuid"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_file_becomes_visible_when_it_is_full(
    files: LocalFileWriter, root: Path, format: str
) -> None:
    events = [build_event(price=1, odd="☃") for _ in range(40)]
    target = replace(TARGET, format=format)
    for event in events[:5]:
        await files.append(target, encode_line(event))
    await files.finish_due_files()
    assert list_visible(root) == []
    for event in events[5:]:
        await files.append(target, encode_line(event))
    await files.finish_due_files()
    first = list_visible(root)
    assert len(first) == 1
    assert read_uuids(first[0]) == [event.uuid for event in events[: len(read_uuids(first[0]))]]
    await files.close()
    found = [uuid for path in list_visible(root) for uuid in read_uuids(path)]
    assert sorted(found) == sorted(event.uuid for event in events)
    assert list_hidden(root) == []


async def test_parquet_file_contains_the_same_events(files: LocalFileWriter, root: Path) -> None:
    event = build_event(price=2.5, nested={"a": [1, "☃"]})
    await files.append(replace(TARGET, format="parquet", max_age_s=0), encode_line(event))
    (path,) = list_visible(root)
    (row,) = pq.read_table(path).to_pylist()
    assert tuple(row) == COLUMNS
    assert json.loads(row["properties"]) == {"price": 2.5, "nested": {"a": [1, "☃"]}}
    assert (row["timestamp"], row["event"]) == (event.timestamp, "bought")


async def test_old_file_is_finished(files: LocalFileWriter, root: Path) -> None:
    await files.append(replace(TARGET, max_age_s=1e-9), encode_line(build_event()))
    await files.finish_due_files()
    assert len(list_visible(root)) == 1


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_files_of_a_killed_process_are_recovered(root: Path, format: str) -> None:
    lines = b"".join(encode_line(build_event()) for _ in range(3))
    child = (
        "import os, sys; from pathlib import Path;"
        "from hedgerow.outbound.append_files import AppendFile;"
        f"file = AppendFile.create(Path({str(root)!r}), 'project-1/web', {format!r});"
        f"file.append({lines!r});"
        'os.pwrite(file._file, b\'{"uuid": "torn\', file.size);'
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", child], check=False).returncode == -9
    assert list_visible(root) == []
    files = build_writer(root)
    await files.finish_due_files()
    (path,) = list_visible(root)
    assert len(read_uuids(path)) == 3
    assert list_hidden(root) == []


def test_files_locked_by_another_process_are_not_recovered(root: Path) -> None:
    file = AppendFile.create(root, "project-1/web", "jsonl")
    file.append(encode_line(build_event()))
    assert recover_orphans(root) == 0
    assert list_visible(root) == []
    file.close()
    assert recover_orphans(root) == 1
    assert len(list_visible(root)) == 1


@pytest.mark.parametrize("at", ["project-1", "project-1/web"])
async def test_links_are_not_followed(
    files: LocalFileWriter, root: Path, tmp_path: Path, at: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / at).parent.mkdir(parents=True)
    (root / at).symlink_to(outside)
    with pytest.raises(TransportError, match="not a plain folder"):
        await files.append(TARGET, encode_line(build_event()))
    assert list(outside.rglob("*")) == []


async def test_full_disk_is_an_error_and_leaves_no_partial_line(root: Path) -> None:
    files = build_writer(root, min_free_bytes=2**62)
    with pytest.raises(TransportError, match="nearly full"):
        await files.append(TARGET, encode_line(build_event()))
    await files.close()
    assert list_visible(root) == []


def test_failed_write_keeps_earlier_lines(root: Path) -> None:
    file = AppendFile.create(root, "project-1/web", "jsonl")
    file.append(encode_line(build_event()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.size + 10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append(encode_line(build_event()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append(encode_line(build_event("after")))
    file.finish()
    (path,) = list_visible(root)
    assert len(read_uuids(path)) == 2


async def test_concurrent_appends_lose_nothing(files: LocalFileWriter, root: Path) -> None:
    events = [build_event() for _ in range(60)]
    await asyncio.gather(*(files.append(TARGET, encode_line(event)) for event in events))
    await files.close()
    found = [uuid for path in list_visible(root) for uuid in read_uuids(path)]
    assert sorted(found) == sorted(event.uuid for event in events)


async def test_unwritable_folder_is_an_error(files: LocalFileWriter, root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("a file")
    with pytest.raises(TransportError):
        await files.append(TARGET, encode_line(build_event()))
    os.unlink(root)
    await files.append(TARGET, encode_line(build_event()))
