"""kill -9 while events are appended loses nothing that was acknowledged, and doubles nothing."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hedgerow.errors import Unready
from hedgerow.storage.connect import EventPlace, open_events

ROOT = Path(__file__).parents[2]
ROUNDS = 3


def appending(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fault.appending", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_while_appending(folder: Path, kill_after_s: float) -> list[str]:
    """The uuids that were acknowledged; the clock starts with the first of them."""
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
    events = open_events(EventPlace(url="", folder=folder, timeout_s=5))
    rows = await events.query("SELECT uuid FROM events", {}, max_rows=1_000_000, timeout_s=30)
    await events.close()
    stored = [str(row["uuid"]) for row in rows]
    assert len(stored) == len(set(stored))
    assert len(acknowledged) >= ROUNDS
    assert set(acknowledged) - set(stored) == set()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    with appending(folder) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            with pytest.raises(Unready, match=f"in use by process {process.pid}"):
                open_events(EventPlace(url="", folder=folder, timeout_s=5))
        finally:
            process.kill()
