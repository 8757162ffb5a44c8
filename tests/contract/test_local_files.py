"""Files of destinations on a real disk: whole or not there, and never outside their folder."""

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

from hedgerow.events.archive import COLUMNS, line_of
from hedgerow.pipelines.sending import CannotSend, FilePlace
from hedgerow.storage.journals import Journal, finish_left_behind
from hedgerow.storage.local_files import LocalFiles
from tests.sent_events import sent_event

PLACE = FilePlace(folder="project-1/web", format="jsonl", max_bytes=10_000, max_age_s=3600)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "exports"


@pytest.fixture
async def files(root: Path) -> AsyncIterator[LocalFiles]:
    opened = local_files(root)
    yield opened
    await opened.close()


def local_files(root: Path, min_free_bytes: int = 0) -> LocalFiles:
    def note(name: str, error: OSError) -> None:
        raise AssertionError(f"{name}: {error}")

    return LocalFiles(root, min_free_bytes=min_free_bytes, note=note)


def seen(root: Path) -> list[Path]:
    """What a reader sees."""
    return sorted(path for path in root.rglob("*.*") if not path.name.startswith("."))


def hidden(root: Path) -> list[Path]:
    return [path for path in root.rglob(".*") if path.is_file()]


def uuids(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        found: list[str] = pq.read_table(path).column("uuid").to_pylist()
        return found
    return [json.loads(line)["uuid"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_a_file_is_seen_once_it_is_full(files: LocalFiles, root: Path, format: str) -> None:
    events = [sent_event(price=1, odd="☃") for _ in range(40)]
    place = replace(PLACE, format=format)
    for event in events[:5]:
        await files.append(place, line_of(event))
    await files.tidy()
    assert seen(root) == []
    for event in events[5:]:
        await files.append(place, line_of(event))
    await files.tidy()
    first = seen(root)
    assert len(first) == 1
    assert uuids(first[0]) == [event.uuid for event in events[: len(uuids(first[0]))]]
    await files.close()
    found = [uuid for path in seen(root) for uuid in uuids(path)]
    assert sorted(found) == sorted(event.uuid for event in events)
    assert hidden(root) == []


async def test_a_parquet_file_holds_what_the_line_held(files: LocalFiles, root: Path) -> None:
    event = sent_event(price=2.5, nested={"a": [1, "☃"]})
    await files.append(replace(PLACE, format="parquet", max_age_s=0), line_of(event))
    (path,) = seen(root)
    (row,) = pq.read_table(path).to_pylist()
    assert tuple(row) == COLUMNS
    assert json.loads(row["properties"]) == {"price": 2.5, "nested": {"a": [1, "☃"]}}
    assert (row["timestamp"], row["event"]) == (event.timestamp, "bought")


async def test_an_old_file_is_completed(files: LocalFiles, root: Path) -> None:
    await files.append(replace(PLACE, max_age_s=1e-9), line_of(sent_event()))
    await files.tidy()
    assert len(seen(root)) == 1


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_a_killed_process_leaves_whole_files(root: Path, format: str) -> None:
    lines = b"".join(line_of(sent_event()) for _ in range(3))
    child = (
        "import os, sys; from pathlib import Path;"
        "from hedgerow.storage.journals import Journal;"
        f"journal = Journal.begun(Path({str(root)!r}), 'project-1/web', {format!r});"
        f"journal.append({lines!r});"
        'os.pwrite(journal._file, b\'{"uuid": "torn\', journal.size);'
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", child], check=False).returncode == -9
    assert seen(root) == []
    files = local_files(root)
    await files.tidy()
    (path,) = seen(root)
    assert len(uuids(path)) == 3
    assert hidden(root) == []


def test_what_another_process_still_writes_is_left_alone(root: Path) -> None:
    journal = Journal.begun(root, "project-1/web", "jsonl")
    journal.append(line_of(sent_event()))
    assert finish_left_behind(root) == 0
    assert seen(root) == []
    journal.abandon()
    assert finish_left_behind(root) == 1
    assert len(seen(root)) == 1


@pytest.mark.parametrize("at", ["project-1", "project-1/web"])
async def test_a_link_leads_nowhere(files: LocalFiles, root: Path, tmp_path: Path, at: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / at).parent.mkdir(parents=True)
    (root / at).symlink_to(outside)
    with pytest.raises(CannotSend, match="no folder of its own"):
        await files.append(PLACE, line_of(sent_event()))
    assert list(outside.rglob("*")) == []


async def test_a_full_disk_is_told_and_nothing_is_half_written(root: Path) -> None:
    files = local_files(root, min_free_bytes=2**62)
    with pytest.raises(CannotSend, match="nearly full"):
        await files.append(PLACE, line_of(sent_event()))
    await files.close()
    assert seen(root) == []


def test_a_write_that_fails_leaves_what_was_there(root: Path) -> None:
    journal = Journal.begun(root, "project-1/web", "jsonl")
    journal.append(line_of(sent_event()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.size + 10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(line_of(sent_event()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    journal.append(line_of(sent_event("after")))
    journal.finish()
    (path,) = seen(root)
    assert len(uuids(path)) == 2


async def test_many_at_once_lose_nothing(files: LocalFiles, root: Path) -> None:
    events = [sent_event() for _ in range(60)]
    await asyncio.gather(*(files.append(PLACE, line_of(event)) for event in events))
    await files.close()
    found = [uuid for path in seen(root) for uuid in uuids(path)]
    assert sorted(found) == sorted(event.uuid for event in events)


async def test_a_folder_that_cannot_be_written_to_is_told(files: LocalFiles, root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("a file")
    with pytest.raises(CannotSend):
        await files.append(PLACE, line_of(sent_event()))
    os.unlink(root)
    await files.append(PLACE, line_of(sent_event()))
