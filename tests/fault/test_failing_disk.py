"""A service whose writes fail, for each kind of file: what it has acknowledged is stored once after
it was killed and started again. Backups are complete, or refused.
"""

import errno
import json
import os
import resource
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import httpx
import pytest

from tests.fault.small_disk import fill_up, mount_disk
from tests.support.failing_writes import ALWAYS, SHORT, WRONG, FailingWrites
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    find_engine,
    run_hedgerow,
    run_in_process,
    wait_for,
)
from tests.support.stored_events import read_stored_events, wait_until_stored

BATCH = 20
MAX_FILE_BYTES = 2048


class Capture:
    """Captures events, and remembers those that were acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []

    def send(self, client: httpx.Client) -> bool:
        uuids = [str(uuid4()) for _ in range(BATCH)]
        batch = [{"event": "seen", "distinct_id": uuid[:2], "uuid": uuid} for uuid in uuids]
        try:
            response = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch})
        except httpx.TransportError:
            return False
        assert response.status_code in (200, 503), response.text
        if response.status_code == 200:
            self.acknowledged += uuids
        return response.status_code == 200

    def check(self, data: Path) -> None:
        wait_until_stored(data)
        stored = Counter(row["uuid"] for row in read_stored_events(data, "SELECT uuid FROM events"))
        assert not set(self.acknowledged) - stored.keys(), "lost"
        assert set(stored.values()) == {1}, "doubled"


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[FailingWrites]:
    writes = FailingWrites(tmp_path)
    with patch.dict(os.environ, writes.environment):
        yield writes


CASES = [
    pytest.param("*/events/chdb/*", "write", errno.ENOSPC, id="engine-full"),
    pytest.param("*/events/chdb/*", "write fsync rename", errno.EIO, id="engine-broken"),
    pytest.param("*/events/chdb/*", "write", WRONG, id="engine-wrong"),
    pytest.param("*/data/*", "write pwrite", SHORT, id="short"),
    pytest.param("*/hedgerow.db-wal", "pwrite", errno.ENOSPC, id="wal-full"),
    pytest.param("*/hedgerow.db-wal", "fsync", errno.EIO, id="wal-broken"),
    pytest.param("*/hedgerow.db", "pwrite fsync ftruncate", errno.EIO, id="database-broken"),
    pytest.param("*/data/*", "write pwrite fsync ftruncate rename", errno.EIO, id="all"),
]


@pytest.mark.parametrize(("pattern", "calls", "error"), CASES)
def test_nothing_acknowledged_is_lost_or_doubled(
    tmp_path: Path, failing: FailingWrites, pattern: str, calls: str, error: int
) -> None:
    data, capture = tmp_path / "data", Capture()
    with LiveServer(data) as server, server.client() as client:
        wait_for(lambda: capture.send(client), at_most_s=60)
        wait_until_stored(data)
        for skipped in (0, 7, 40):
            failing.start(pattern, calls, error=error, skipped=skipped, failing=25)
            wait_for(lambda: (capture.send(client), failing.failed > 0)[1], at_most_s=60)
            capture.send(client)
        failing.stop()
        wait_for(lambda: capture.send(client), at_most_s=60)
        server.process.kill()
        server.process.wait(30)
    with LiveServer(data):
        wait_until_stored(data)
    capture.check(data)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    capture = Capture()
    with mount_disk(tmp_path / "disk", "80m") as disk:
        data, filler = disk / "data", disk / "filler"
        with LiveServer(data, min_free_disk_mb="0") as server, server.client() as client:
            wait_for(lambda: capture.send(client), at_most_s=60)
            for _ in range(4):
                fill_up(filler)
                for _ in range(10):
                    capture.send(client)
                filler.unlink()
                for _ in range(5):
                    capture.send(client)
            server.process.kill()
            server.process.wait(30)
        with LiveServer(data):
            wait_until_stored(data)
        capture.check(data)
        assert len(capture.acknowledged) > 5 * BATCH


@pytest.mark.parametrize("is_engine_limited", [True, False])
def test_a_limit_of_file_sizes_loses_nothing(tmp_path: Path, is_engine_limited: bool) -> None:
    data, capture = tmp_path / "data", Capture()
    with LiveServer(data) as server, server.client() as client:
        wait_for(lambda: capture.send(client), at_most_s=60)
        wait_until_stored(data)
        limited = find_engine(server.process.pid) if is_engine_limited else server.process.pid
        assert limited is not None
        limits = (MAX_FILE_BYTES, resource.RLIM_INFINITY)
        resource.prlimit(limited, resource.RLIMIT_FSIZE, limits)
        for _ in range(10):
            capture.send(client)
        server.process.kill()
        server.process.wait(30)
    with LiveServer(data):
        wait_until_stored(data)
    capture.check(data)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("installation") / "data"
    with LiveServer(data) as server, server.client() as client:
        capture = Capture()
        wait_for(lambda: capture.send(client), at_most_s=60)
        wait_until_stored(data)
    return data


@pytest.mark.parametrize("calls", ["write pwrite", "fsync", "rename ftruncate"])
@pytest.mark.parametrize("failures", [1, ALWAYS])
def test_a_backup_that_cannot_be_written_is_refused(
    tmp_path: Path, installation: Path, failing: FailingWrites, calls: str, failures: int
) -> None:
    target = tmp_path / "backup"
    for skipped in (0, 3, 20, 60):
        failing.start(f"{target}/*", calls, skipped=skipped, failing=failures)
        done = run_hedgerow("backup", str(target), data=installation)
        failing.stop()
        if not failing.failed:
            assert done.returncode == 0, done.stderr
            shutil.rmtree(target)
            break
        assert done.returncode == 1, done.stdout
        assert done.stderr.count("\n") == 1
        assert "The backup is not complete" in done.stderr
        assert str(target / "unfinished-backup") in done.stderr
        assert not (target / "backup.json").exists()
        refused = run_in_process("restore", str(target), data=tmp_path / "new")
        assert (refused.returncode, "not a complete backup" in refused.stderr) == (1, True)
    done = run_hedgerow("backup", str(target), data=installation)
    assert done.returncode == 0, done.stderr
    done = run_hedgerow("restore", str(target), data=tmp_path / "restored")
    assert done.returncode == 0, done.stderr
    sql = "SELECT uuid FROM events ORDER BY uuid"
    restored = read_stored_events(tmp_path / "restored", sql)
    assert restored == read_stored_events(installation, sql)


def test_a_backup_by_the_service_that_cannot_be_written_is_refused(
    tmp_path: Path, failing: FailingWrites
) -> None:
    data, target = tmp_path / "data", tmp_path / "backup"
    with LiveServer(data) as server, server.client() as client:
        wait_for(lambda: Capture().send(client), at_most_s=60)
        wait_until_stored(data)
        failing.start(f"{target}/*/events/*", "write", failing=1)
        done = run_hedgerow("backup", str(target), data=data)
        assert (done.returncode, failing.failed) == (1, 1)
        assert "No space left on device" in done.stderr
        done = run_hedgerow("backup", str(target), data=data)
        assert done.returncode == 0, done.stderr
    assert json.loads((target / "backup.json").read_text())["events"]


def test_a_full_target_of_a_backup_is_named(tmp_path: Path, installation: Path) -> None:
    with mount_disk(tmp_path / "disk", "1m") as disk:
        fill_up(disk / "filler")
        done = run_in_process("backup", str(disk / "backup"), data=installation)
        assert (done.returncode, " full" in done.stderr) == (1, True), done.stderr
        assert not (disk / "backup" / "backup.json").exists()


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_that_cannot_be_written_continues_later(
    tmp_path: Path, installation: Path, failing: FailingWrites, format: str
) -> None:
    target = tmp_path / "export"
    command = ["events", "export", str(target), "--format", format]
    for calls, skipped in (("write", 0), ("write", 1), ("fsync", 2), ("rename", 1)):
        failing.start(f"{target}/*", calls, skipped=skipped, failing=1)
        done = run_hedgerow(*command, data=installation)
        failing.stop()
        if not failing.failed:
            break
        assert done.returncode == 1, done.stdout
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
    done = run_hedgerow(*command, "--json", data=installation)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["events"] == BATCH
    (file,) = target.glob("events-*")
    if format == "jsonl":
        lines = file.read_text().splitlines()
        assert len({json.loads(line)["uuid"] for line in lines}) == BATCH
