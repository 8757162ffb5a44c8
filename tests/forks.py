"""Processes of `hedgerow` that need not load it again: loading is most of a start, and the tests
start hundreds.

One process by the side loads what `hedgerow serve` loads, and is forked for each that is wanted.
What a fork runs is `hedgerow` from its first line on, in a process with arguments, an environment,
a folder and streams of its own, and it ends as any other.
"""

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import IO, Any

LOADED = "hedgerow.cli.serve"
# Other verbs prove that they load what they need.
VERBS = ("serve", "worker")
# pytest says in it where it is.
PASSING = "PYTEST_"
_LENGTH_BYTES = 4


class Forked:
    """A process as subprocess.Popen has it, as far as tests ask."""

    def __init__(self, pid: int, reports: IO[str], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._reports = reports
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with self._reports:
            said = self._reports.readline()
        self.returncode = int(said) if said else -signal.SIGKILL
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and word is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The loaded process. It starts when the first fork is asked for, and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._door: socket.socket | None = None
        self._environment: dict[str, str] = {}

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> "Forked | subprocess.Popen[str]":
        """A process, forked unless something was set that may change how it is loaded."""
        with self._lock:
            if self._door is None:
                self._open(environment)
            if arguments[1] in VERBS and _lasting(environment) == self._environment:
                return self._fork(arguments, environment, folder or os.getcwd())
        return subprocess.Popen(
            arguments,
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _open(self, environment: Mapping[str, str]) -> None:
        self._environment = _lasting(environment)
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                # -P: no folder of tests is where it looks for modules.
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env=self._environment,
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
            )
        self._door = ours
        atexit.register(_end, process, ours)

    def _fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> Forked:
        assert self._door is not None
        wish = json.dumps([list(arguments), dict(environment), folder]).encode()
        ends = [os.pipe() for _ in range(3)]
        theirs = [write for _, write in ends]
        length = len(wish).to_bytes(_LENGTH_BYTES)
        socket.send_fds(self._door, [length], theirs)
        self._door.sendall(wish)
        for write in theirs:
            os.close(write)
        stdout, stderr, reports = (os.fdopen(read) for read, _ in ends)
        return Forked(int(reports.readline()), reports, stdout, stderr)


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    """What may change how modules are loaded. Our settings are read later."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("HEDGEROW_", PASSING))
    }


def _end(process: "subprocess.Popen[bytes]", door: socket.socket) -> None:
    door.close()
    process.wait()


FORKS = Forks()


def _become_what_is_wished(door: socket.socket) -> list[Any] | None:
    """Fork for each wish that comes, and tell how each fork ended. Returns in the forks, with the
    arguments, the environment and the folder; and with None when nobody can wish any more."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    awake, wake = socket.socketpair()
    wake.setblocking(False)
    awake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    reports: dict[int, int] = {}
    with selectors.DefaultSelector() as selector, awake, wake:
        selector.register(door, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is awake:
                    awake.recv(4096)
                    _report(reports)
                    continue
                length, streams, _, _ = socket.recv_fds(door, _LENGTH_BYTES, 3)
                if not length:
                    return None
                wish: list[Any] = json.loads(_whole(door, int.from_bytes(length)))
                stdout, stderr, report = streams
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    signal.signal(signal.SIGINT, interrupted)
                    os.dup2(stdout, 1)
                    os.dup2(stderr, 2)
                    for descriptor in (*streams, *reports.values()):
                        os.close(descriptor)
                    door.close()
                    return wish
                os.close(stdout)
                os.close(stderr)
                os.write(report, b"%d\n" % pid)
                reports[pid] = report


def _whole(door: socket.socket, length: int) -> bytes:
    """In as many parts as it takes: a signal in between ends even a wait for all of it."""
    received = b""
    while len(received) < length:
        if not (part := door.recv(length - len(received))):
            raise EOFError
        received += part
    return received


def _report(reports: dict[int, int]) -> None:
    """Tell whoever wished for them how those processes ended that have."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # whoever wished may have gone since
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(report)


def _run() -> None:
    gc.disable()
    import_module(LOADED)
    main = import_module("hedgerow.cli").main
    gc.enable()
    wish = _become_what_is_wished(socket.socket(fileno=int(sys.argv[1])))
    if wish is not None:
        sys.argv[:], environment, folder = wish
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        main()


if __name__ == "__main__":
    _run()
