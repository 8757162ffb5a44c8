"""A process apart: it answers, and if it does not there is another one."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedgerow.lib.apart import Apart, Lost
from tests.receiver import wait_until

HOST = "tests.contract.apart_host"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder whose modules nobody wants."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "subprocess.py").write_text("raise SystemExit(1)")


@contextmanager
def opened(answer_s: float) -> Iterator[Apart]:
    apart = Apart(HOST, start_s=60, answer_s=answer_s)
    try:
        yield apart
    finally:
        apart.close()


def test_what_is_asked_is_answered_whatever_its_size_and_a_crash_is_told() -> None:
    with opened(60) as apart:
        for question in (b"abc", b"x" * 3_000_000 + b"y"):
            assert apart.ask(question) == question[::-1]
        with pytest.raises(Lost) as lost:
            apart.ask(b"end")
        assert not lost.value.late
        assert apart.ask(b"abc", lambda process: str(process).encode()) == b"cba"
        assert apart.starts == 2


def test_a_signal_to_all_processes_of_a_service_does_not_end_it() -> None:
    with opened(60) as apart:
        os.kill(int(apart.ask(b"who")), signal.SIGTERM)
        assert apart.ask(b"abc") == b"cba"
        assert apart.starts == 1


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_it_starts_ends_by_signals_and_with_it() -> None:
    with opened(60) as apart:
        assert int(apart.ask(b"terminate a child")) == -signal.SIGTERM
        child = int(apart.ask(b"leave a child"))
        assert is_running(child)
    wait_until(lambda: not is_running(child))


def test_it_ends_with_its_input_whatever_threads_it_has() -> None:
    question = bytes(4) + b"leave a thread"
    asked = len(question).to_bytes(4, "big") + question
    ended = subprocess.run([sys.executable, "-P", "-m", HOST, "60"], input=asked, timeout=60)
    assert ended.returncode == 0


def test_many_open_files_are_in_nobodys_way() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with opened(60) as apart:
            assert apart.ask(b"abc") == b"cba"
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_hangs_is_ended_and_whoever_comes_next_gets_another() -> None:
    with opened(1) as apart:
        with pytest.raises(Lost) as lost:
            apart.ask(b"hang")
        assert lost.value.late


def test_it_may_take_longer_to_prepare_itself(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with opened(0.5) as apart, pytest.raises(Lost):
        apart.ask(b"hang", lambda _: b"prepare " + bytes(done))
    assert done.exists()


def test_who_asks_while_it_is_closed_is_told() -> None:
    told: list[bool] = []
    with opened(120) as apart:
        asked = threading.Event()

        def prepare(_: int) -> bytes:
            asked.set()
            return b""

        def ask() -> None:
            with pytest.raises(Lost) as lost:
                apart.ask(b"hang", prepare)
            told.append(lost.value.late)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
    thread.join(60)
    assert told == [False]
    with pytest.raises(Lost):
        apart.ask(b"abc")
