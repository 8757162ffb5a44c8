"""The worker processes of imports: their limits, and turns of projects. They are real ones."""

import asyncio
import gzip
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from hedgerow.ingestion.model import PackedBatch
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.imports import workers as import_workers
from hedgerow.pipelines.imports.reading import EventArguments, SourcePage
from hedgerow.pipelines.imports.rows import JSONL, PARQUET
from hedgerow.pipelines.imports.workers import ImportWorkers, SourceReader
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import JobError, SourceRow
from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion.inbox_packing import unpack_captured

MIB = 1 << 20


async def resolve(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.fixture
async def workers() -> AsyncIterator[ImportWorkers]:
    opened = ImportWorkers(resolve)
    yield opened
    opened.close()


def build_reader(workers: ImportWorkers, project_id: int = 1, **mapping: Any) -> SourceReader:
    def build_arguments() -> EventArguments:
        return EventArguments(now=utc_now(), randomness=os.urandom(10), bucket_count=1)

    return SourceReader(workers, ProjectId(project_id), mapping, build_arguments)


def write_lines(path: Path, number: int) -> BinaryIO:
    lines = b"".join(b'{"event": "e", "distinct_id": "%d"}\n' % n for n in range(number))
    path.write_bytes(gzip.compress(lines))
    return path.open("rb")


def list_ids(pages: Sequence[SourcePage]) -> list[str]:
    packed = [msgspec.msgpack.decode(each.rows.events, type=PackedBatch) for each in pages]
    rows = [row for batch in packed for row in batch.rows]
    return [event.distinct_id for row in rows for event in unpack_captured(row.events)]


async def read(reader: SourceReader, file: BinaryIO, format: str = JSONL) -> list[SourcePage]:
    async with aclosing(reader.read_file(file, "f", format, None)) as pages:
        return [page async for page in pages if page.rows.accepted]


def write_parquet_bomb(path: Path) -> BinaryIO:
    """Lists of texts: unlike columns of texts, they are decoded as a whole."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    content = BytesIO()
    lists = arrow.array([["x" * MIB] * 10] * 200)
    parquet.write_table(arrow.table({"event": lists}), content, compression="zstd")
    path.write_bytes(content.getvalue())
    return path.open("rb")


async def test_pages_are_encoded_for_the_inbox(workers: ImportWorkers, tmp_path: Path) -> None:
    with write_lines(tmp_path / "f", 2500) as file:
        pages = await read(build_reader(workers), file)
    assert [page.rows.accepted for page in pages] == [1000, 1000, 500]
    assert list_ids(pages) == [str(n) for n in range(2500)]


async def test_rows_of_packages_are_mapped(workers: ImportWorkers) -> None:
    reader = build_reader(workers, event="=bought", distinct_id="who")
    rows = [
        SourceRow(identity="1", location="row 1", values={"who": "ann"}),
        SourceRow(identity="2", location="row 2", values={"who": "", "timestamp": "never"}),
    ]
    prepared = await reader.prepare_rows(rows)
    assert (prepared.accepted, prepared.bad) == (1, 1)
    assert [each.location for each in prepared.samples] == ["row 2"]


async def test_a_source_that_needs_too_much_memory_fails_alone(
    workers: ImportWorkers, tmp_path: Path
) -> None:
    good, bad = build_reader(workers, 1), build_reader(workers, 2)
    with write_lines(tmp_path / "f", 2500) as lines, write_parquet_bomb(tmp_path / "b") as bomb:
        assert (tmp_path / "b").stat().st_size < MIB
        found, failure = await asyncio.gather(
            read(good, lines), read(bad, bomb, PARQUET), return_exceptions=True
        )
        assert isinstance(failure, JobError)
        assert "more than 256 MiB of memory" in str(failure)
        assert not isinstance(found, BaseException)
        assert len(list_ids(found)) == 2500
        # The process that ended is replaced.
        assert len(list_ids(await read(bad, lines))) == 2500


async def test_a_source_whose_process_ends_fails_alone(
    workers: ImportWorkers, tmp_path: Path
) -> None:
    with write_lines(tmp_path / "f", 2500) as file:
        async with aclosing(build_reader(workers).read_file(file, "f", JSONL, None)) as pages:
            await anext(pages)
            for process in find_hosts():
                os.kill(process, signal.SIGKILL)
            # Temporary if the process has ended before it was asked for the next page.
            with pytest.raises((JobError, TransportError), match=r"ended|interrupted"):
                await anext(pages)
        assert len(list_ids(await read(build_reader(workers), file))) == 2500


def find_hosts() -> list[int]:
    """Return the processes of import hosts that this process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"import_host" in command and int(parent) == os.getpid():
            found.append(int(path.name))
    return found


async def test_projects_take_turns_for_the_processes(
    workers: ImportWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects read page after page, and the third one gets its turn before they end."""
    monkeypatch.setattr(import_workers, "SLICE_S", 0.0)
    order: list[int] = []
    # Nothing else ends the first two.
    is_over = asyncio.Event()

    async def read_until_over(project_id: int) -> None:
        with write_lines(tmp_path / str(project_id), 5000) as file:
            while not is_over.is_set():
                assert len(list_ids(await read(build_reader(workers, project_id), file))) == 5000
                order.append(project_id)

    others = [asyncio.create_task(read_until_over(project_id)) for project_id in (1, 2)]
    with write_lines(tmp_path / "third", 1500) as file:
        third = await read(build_reader(workers, 3), file)
    is_over.set()
    await asyncio.gather(*others)
    assert len(list_ids(third)) == 1500


async def test_a_project_has_one_process_and_leaves_the_other(
    workers: ImportWorkers, tmp_path: Path
) -> None:
    with write_lines(tmp_path / "f", 2500) as file:
        first = build_reader(workers, 1).read_file(file, "f", JSONL, None)
        await anext(first)
        second = asyncio.create_task(read(build_reader(workers, 1), file))
        assert len(list_ids(await read(build_reader(workers, 2), file))) == 2500
        assert not second.done()
        await first.aclose()
        assert len(list_ids(await second)) == 2500


async def test_a_cancelled_read_frees_its_process(workers: ImportWorkers, tmp_path: Path) -> None:
    with write_lines(tmp_path / "f", 1500) as file, write_parquet_bomb(tmp_path / "b") as bomb:
        for _ in range(3):
            task = asyncio.create_task(read(build_reader(workers), bomb, PARQUET))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(list_ids(await read(build_reader(workers), file))) == 1500
