"""kill -9 during appends loses and duplicates no acknowledged event."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hedgerow.errors import OperatorError
from hedgerow.storage.connect import EventStoreLocation, open_event_store

ROOT = Path(__file__).parents[2]
ROUNDS = 3


def appending(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fault.append_process", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_while_appending(folder: Path, kill_after_s: float) -> list[str]:
    """Return the acknowledged UUIDs; the time counts from the first of them."""
    with appending(folder) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        killer = threading.Timer(kill_after_s, process.kill)
        killer.start()
        lines += process.stdout.readlines()
        killer.join()
    # The last line may be cut off by the kill.
    return [uuid for line in lines if line.endswith("\n") for uuid in line.split()]


async def test_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    acknowledged: list[str] = []
    for _ in range(ROUNDS):
        acknowledged += killed_while_appending(folder, random.uniform(0.1, 1))
    events = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    rows = await events.query("SELECT uuid FROM events", {}, max_rows=1_000_000, timeout_s=30)
    await events.close()
    stored = [str(row["uuid"]) for row in rows]
    assert len(stored) == len(set(stored))
    assert len(acknowledged) >= ROUNDS
    assert set(acknowledged) - set(stored) == set()


def test_second_process_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    with appending(folder) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            with pytest.raises(OperatorError, match=f"in use by process {process.pid}"):
                open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
        finally:
            process.kill()
