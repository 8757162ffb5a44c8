"""WorkerProcess: it responds, times out, crashes, and is started again."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedgerow.lib.workers.process import NICENESS, WorkerDied, WorkerProcess
from tests.support.receiver import wait_until

HOST = "tests.contract.worker_process_host"
FILE_HOST = "tests.contract.file_process_host"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def isolated_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in a folder with modules that must not be imported."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "subprocess.py").write_text("raise SystemExit(1)")


@contextmanager
def open_worker(response_timeout_s: float, host: str = HOST) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(host, start_timeout_s=60, response_timeout_s=response_timeout_s)
    try:
        yield worker
    finally:
        worker.close()


def test_requests_of_any_size_get_a_response_and_a_crash_raises() -> None:
    with open_worker(60) as worker:
        for request in (b"abc", b"x" * 3_000_000 + b"y"):
            assert worker.request(request) == request[::-1]
        with pytest.raises(WorkerDied) as died:
            worker.request(b"end")
        assert not died.value.timed_out
        assert worker.request(b"abc", lambda process: str(process).encode()) == b"cba"
        assert worker.starts == 2


def test_stop_signals_do_not_end_the_process() -> None:
    with open_worker(60) as worker:
        os.kill(int(worker.request(b"who")), signal.SIGTERM)
        assert worker.request(b"abc") == b"cba"
        assert worker.starts == 1


def test_process_gives_way_to_others_from_its_first_moment() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with open_worker(60) as worker:
        process = int(worker.request(b"who"))
        assert os.getpriority(os.PRIO_PROCESS, process) == min(own + NICENESS, 19)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_child_processes_end_with_the_worker() -> None:
    with open_worker(60) as worker:
        assert int(worker.request(b"terminate a child")) == -signal.SIGTERM
        child = int(worker.request(b"leave a child"))
        assert is_running(child)
    wait_until(lambda: not is_running(child))


def test_the_process_ends_with_its_input_despite_threads() -> None:
    request = bytes(4) + b"leave a thread"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        host = subprocess.Popen(
            [sys.executable, "-P", "-m", HOST, "60", "0"], stdin=theirs.fileno()
        )
        ours.sendall(len(request).to_bytes(4, "big") + request)
        ours.shutdown(socket.SHUT_WR)
        assert host.wait(60) == 0


def test_open_files_reach_the_process(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    with open_worker(60, FILE_HOST) as worker, file.open("rb") as opened:
        file.unlink()
        for _ in range(2):
            assert worker.request(b"read", files=[opened.fileno()]) == b"3000000"
        assert worker.request(b"nothing") == b"no file"
        # Its copies are closed: it has the same files as before.
        assert worker.request(b"count") == worker.request(b"count", files=[opened.fileno()])


def test_a_process_that_exceeds_its_cpu_time_timed_out() -> None:
    with open_worker(60, FILE_HOST) as worker, pytest.raises(WorkerDied) as died:
        worker.request(b"spin")
    assert died.value.timed_out


def test_many_open_files_do_not_break_polling() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with open_worker(60) as worker:
            assert worker.request(b"abc") == b"cba"
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_hanging_process_is_killed_and_replaced() -> None:
    with open_worker(1) as worker:
        with pytest.raises(WorkerDied) as died:
            worker.request(b"hang")
        assert died.value.timed_out


def test_a_process_that_needs_too_much_memory_ends_and_says_so() -> None:
    limited = WorkerProcess(
        HOST, start_timeout_s=60, response_timeout_s=60, max_memory_bytes=512 << 20
    )
    try:
        with pytest.raises(WorkerDied) as died:
            limited.request(b"grow")
        assert died.value.out_of_memory
        assert limited.request(b"abc") == b"cba"
    finally:
        limited.close()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_library_that_crashes_at_the_limit_of_memory_needed_too_much(number: int) -> None:
    """It happened to a payload that was being parsed: the client should not send it again."""
    with open_worker(60) as worker:
        with pytest.raises(WorkerDied) as died:
            worker.request(b"crash %d" % number)
        assert (died.value.out_of_memory, died.value.timed_out) == (True, False)


def test_preparation_has_its_own_timeout(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with open_worker(0.5) as worker, pytest.raises(WorkerDied):
        worker.request(b"hang", lambda _: b"prepare " + bytes(done))
    assert done.exists()


def test_closing_ends_a_request_in_progress() -> None:
    timeouts: list[bool] = []
    with open_worker(120) as worker:
        requested = threading.Event()

        def prepare(_: int) -> bytes:
            requested.set()
            return b""

        def send_request() -> None:
            with pytest.raises(WorkerDied) as died:
                worker.request(b"hang", prepare)
            timeouts.append(died.value.timed_out)

        thread = threading.Thread(target=send_request)
        thread.start()
        assert requested.wait(60)
    thread.join(60)
    assert timeouts == [False]
    with pytest.raises(WorkerDied):
        worker.request(b"abc")
