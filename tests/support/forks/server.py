"""Forks `hedgerow` processes from one that has loaded all modules: tests start hundreds, and most
of a start is loading.

A fork server imports the modules of `hedgerow serve` and forks for each request. A fork runs
`hedgerow` from its first line, with its own arguments, environment, directory and streams.
"""

import atexit
import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PRELOADED_MODULES = (
    "hedgerow.cli.root",
    "hedgerow.cli.installation.edge",
    "hedgerow.cli.installation.serve",
    "hedgerow.outbound.http_client",
    # By services with destinations.
    "hedgerow.plugin.liquid_texts",
    # With psycopg, by services on PostgreSQL.
    "hedgerow.storage.engine.change_listener",
    "hedgerow.storage.engine.postgres",
    "hedgerow.storage.events.embedded.chdb",
    "hedgerow.storage.events.events",
    # With NumPy, on the first event.
    "hedgerow.storage.events.uuid_bloom_filter",
    # A new installation creates a key, and some of them migrate their database.
    "cryptography.fernet",
    "alembic.command",
)
# Other commands start normally, which proves that they import what they need.
FORKED_COMMANDS = ("serve", "worker", "edge")
# These are read after the modules are loaded: settings, and in PYTEST_CURRENT_TEST the test.
LATER_PREFIXES = ("HEDGEROW_", "OTEL_", "PYTEST_")
_LENGTH_BYTES = 4


class ForkedProcess:
    """The part of subprocess.Popen's interface that tests use."""

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
            status = self._reports.readline()
        self.returncode = int(status) if status else -signal.SIGKILL
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
            with contextlib.suppress(
                ProcessLookupError
            ):  # it has ended, and the report is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that forks. It starts with the first request and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._environment: dict[str, str] = {}
        self._path = ""

    def listen(self, environment: Mapping[str, str]) -> str:
        """Return the path of a Unix socket for `client.py`."""
        with self._lock:
            if self._socket is None:
                self._start_server(environment)
        return self._path

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> "ForkedProcess | subprocess.Popen[str]":
        """Start a process: a fork, unless the environment may change how modules are loaded."""
        with self._lock:
            if self._socket is None:
                self._start_server(environment)
            if (
                arguments[1] in FORKED_COMMANDS
                and _select_loading_variables(environment) == self._environment
            ):
                return self._fork(arguments, environment, folder or os.getcwd())
        return subprocess.Popen(
            arguments,
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _start_server(self, environment: Mapping[str, str]) -> None:
        self._environment = _select_loading_variables(environment)
        # The path of a socket must be short.
        folder = Path(tempfile.mkdtemp(prefix="hr-forks-"))
        self._path = str(folder / "socket")
        ours, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._path)
            listener.listen()
            descriptors = [theirs.fileno(), listener.fileno()]
            process = subprocess.Popen(
                # -P: do not search for modules in the directory of this file.
                [sys.executable, "-P", __file__, *map(str, descriptors)],
                env=self._environment,
                pass_fds=descriptors,
                stdout=subprocess.DEVNULL,
            )
        self._socket = ours
        atexit.register(_stop_server, process, ours, folder)

    def _fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> ForkedProcess:
        assert self._socket is not None
        request = json.dumps([list(arguments), dict(environment), folder]).encode()
        ends = [os.pipe() for _ in range(3)]
        theirs = [write for _, write in ends]
        length = len(request).to_bytes(_LENGTH_BYTES)
        socket.send_fds(self._socket, [length], theirs)
        self._socket.sendall(request)
        for write in theirs:
            os.close(write)
        stdout, stderr, reports = (os.fdopen(read) for read, _ in ends)
        return ForkedProcess(int(reports.readline()), reports, stdout, stderr)


def _select_loading_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Select the variables that may change how modules load."""
    return {
        name: value for name, value in environment.items() if not name.startswith(LATER_PREFIXES)
    }


def _stop_server(
    process: "subprocess.Popen[bytes]", connection: socket.socket, folder: Path
) -> None:
    connection.close()
    process.wait()
    shutil.rmtree(folder)


FORK_SERVER = ForkServer()


class ForkLoop:
    """Forks for each request and reports how each fork ended. `connection` is that of the process
    whose end ends the loop; `listener` accepts a connection for each `client.py`."""

    def __init__(self, connection: socket.socket, listener: socket.socket) -> None:
        self._connection = connection
        self._listener = listener
        self._reports: dict[int, int] = {}
        self._forks: dict[socket.socket, int] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> list[Any] | None:
        """Return in each fork, with its arguments, environment and directory. Return None when the
        connection has closed."""
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
        awake, wake = socket.socketpair()
        wake.setblocking(False)
        awake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with self._selector, awake, wake:
            for each in (self._connection, self._listener, awake):
                self._selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is awake:
                        awake.recv(4096)
                        _report_exits(self._reports)
                    elif key.fileobj is self._listener:
                        accepted, _ = self._listener.accept()
                        self._selector.register(accepted, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        length, streams, _, _ = socket.recv_fds(key.fileobj, _LENGTH_BYTES, 4)
                        if not length and key.fileobj is self._connection:
                            return None
                        if not length:
                            self._end(key.fileobj)
                            continue
                        request = _receive_exactly(key.fileobj, int.from_bytes(length))
                        if self._fork(key.fileobj, streams):
                            signal.set_wakeup_fd(-1)
                            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                            signal.signal(signal.SIGINT, interrupted)
                            arguments: list[Any] = json.loads(request)
                            return arguments

    def _fork(self, connection: socket.socket, streams: list[int]) -> bool:
        """Return whether this is the fork."""
        stdout, stderr, report, *stdin = streams
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate([*stdin, stdout, stderr], start=1 - len(stdin)):
                os.dup2(stream, number)
            for descriptor in (*streams, *self._reports.values()):
                os.close(descriptor)
            for each in {self._connection, self._listener, connection, *self._forks}:
                each.close()
            return True
        for descriptor in (stdout, stderr, *stdin):
            os.close(descriptor)
        os.write(report, b"%d\n" % pid)
        self._reports[pid] = report
        if connection is not self._connection:
            self._forks[connection] = pid
        return False

    def _end(self, connection: socket.socket) -> None:
        """Kill the fork of a client that was killed itself."""
        if (pid := self._forks.pop(connection, 0)) in self._reports:
            os.kill(pid, signal.SIGKILL)
        self._selector.unregister(connection)
        connection.close()


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    """Receive in parts: a signal interrupts even a wait for all bytes."""
    received = b""
    while len(received) < length:
        if not (part := connection.recv(length - len(received))):
            raise EOFError
        received += part
    return received


def _report_exits(reports: dict[int, int]) -> None:
    """Report the exit status of each fork that has ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # the client may have ended
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(report)


def _exit_without_teardown(ended: SystemExit) -> None:
    """End as Python does, but leave its objects to the system: deleting one after the other takes
    as long as a start."""
    if ended.code is not None and not isinstance(ended.code, int):
        raise ended
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended.code or 0)


def _run() -> None:
    gc.disable()
    for module in PRELOADED_MODULES:
        import_module(module)
    main = import_module("hedgerow.cli").main
    # A fork neither copies nor scans what it has from here.
    gc.freeze()
    gc.enable()
    connection, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    request = ForkLoop(connection, listener).run()
    if request is not None:
        sys.argv[:], environment, folder = request
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        try:
            main()
        except SystemExit as ended:
            _exit_without_teardown(ended)
        _exit_without_teardown(SystemExit(0))


if __name__ == "__main__":
    _run()
