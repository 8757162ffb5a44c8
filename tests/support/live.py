"""Real `hedgerow` processes, with keys that the tests know."""

import http.client
import json
import logging
import os
import pty
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self, TypeVar
from unittest.mock import patch

import httpx
import structlog

from hedgerow.app.state import ensure_data_dir
from hedgerow.cli import main
from hedgerow.storage.connect import DatabaseLocation
from hedgerow.storage.migrations.apply import migrate
from tests.support.forks.server import FORK_SERVER
from tests.support.service_logs import open_log

T = TypeVar("T")

PROJECT_KEY = "phc_known-project-key-for-tests"
PERSONAL_KEY = "phx_known-personal-key-for-tests"
HEDGEROW = str(Path(sys.executable).parent / "hedgerow")
# Variables that change the format of the output.
OUTPUT_VARIABLES = ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TTY_COMPATIBLE")
# It would make every process compile all modules again.
BYTECODE_VARIABLE = "PYTHONDONTWRITEBYTECODE"
# Below the ports that operating systems assign.
PORT_RANGE = range(15_000, 30_000)
# Long enough for reads to see accepted events on a slow machine.
READ_TIMEOUT_S = "60"
# For a first start that generates its keys.
RANDOM_KEYS = {"bootstrap_project_key": "", "bootstrap_personal_key": ""}


def build_environment(**settings: str) -> dict[str, str]:
    """This process's environment without its own HEDGEROW_* settings, and with these.

    A service picks a free port, because `make run` may use the default one.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HEDGEROW_") and name not in (*OUTPUT_VARIABLES, BYTECODE_VARIABLE)
    }
    return own | {
        "HEDGEROW_PORT": "0",
        # No login of this user.
        "XDG_CONFIG_HOME": "/nonexistent",
        # A busy machine may take longer than the default.
        "HEDGEROW_DATABASE_TIMEOUT_S": "60",
        # No balancer watches these services.
        "HEDGEROW_SHUTDOWN_DRAIN_S": "0",
        "HEDGEROW_BOOTSTRAP_PROJECT_KEY": PROJECT_KEY,
        "HEDGEROW_BOOTSTRAP_PERSONAL_KEY": PERSONAL_KEY,
        **{f"HEDGEROW_{name.upper()}": value for name, value in settings.items()},
    }


# Alembic works in one thread at a time.
_migration_lock = threading.Lock()


@cache
def _read_migrated_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hedgerow.db"
        migrate(DatabaseLocation(url="", path=path, timeout_s=20))
        return path.read_bytes()


def copy_migrated_database(data: Path) -> None:
    """Write what `hedgerow migrate` leaves in an empty folder: migrating takes half of a start."""
    ensure_data_dir(data)
    path = data / "hedgerow.db"
    with _migration_lock:
        content = _read_migrated_database()
    path.touch(mode=0o600)
    path.write_bytes(content)


def _starts_on_sqlite(data: Path, settings: Mapping[str, str]) -> bool:
    """Whether a process starts on a new SQLite database. One that generates its keys is tested for
    its first start, and migrates the database itself."""
    is_first_start = settings.get("bootstrap_project_key") == ""
    is_new = data.is_absolute() and not (data / "hedgerow.db").exists()
    return is_new and not is_first_start and "database_url" not in settings


class LiveProcess:
    """A command that runs until it is stopped. It starts on construction; `wait_ready` returns
    once it has printed that it is ready."""

    READY: ClassVar[str]

    def __init__(
        self, data: Path, verb: str, *arguments: str, cwd: str | None = None, **settings: str
    ) -> None:
        self.data = data
        if _starts_on_sqlite(data, settings):
            copy_migrated_database(data)
        self._output: list[str] = []
        self._log = open_log(f"hedgerow {verb} ({data})")
        self.process = FORK_SERVER.start(
            [HEDGEROW, verb, "--data", str(data), *arguments], build_environment(**settings), cwd
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            _collect(self.process.stdout, self._output),
            _collect(self.process.stderr, self._log.lines),
        ]

    @property
    def output(self) -> str:
        return "".join(self._output)

    @property
    def errors(self) -> str:
        return "".join(self._log.lines)

    def wait_ready(self, timeout_s: float = 110) -> Self:
        deadline = time.monotonic() + timeout_s
        while not re.search(self.READY, self.output):
            if self.process.poll() is not None:
                self.stop()
                raise AssertionError(f"hedgerow ended: {self.errors}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"hedgerow did not get ready: {self.errors}")
            time.sleep(0.02)
        return self

    def stop(self, number: signal.Signals = signal.SIGINT, timeout_s: float = 60) -> int:
        """Ask the process to end and return its exit status. One that will not end is killed."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        finally:
            self.process.kill()
            self.process.wait()
            for reader in self._readers:
                reader.join(timeout_s)
            self._log.is_open = False
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def find_engine(self) -> int | None:
        """Return the process id of the embedded event engine, None if it does not run."""
        return find_engine(self.process.pid)

    def __enter__(self) -> Self:
        return self.wait_ready()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class LiveServer(LiveProcess):
    """`hedgerow serve`. With a fixed `port`, a test can connect before the service is ready."""

    READY = r"is ready at \S+\n"

    def __init__(
        self,
        data: Path,
        *arguments: str,
        port: str = "0",
        cwd: str | None = None,
        **settings: str,
    ) -> None:
        self._port = port
        settings = {"read_after_write_timeout_s": READ_TIMEOUT_S, **settings}
        super().__init__(data, "serve", "--port", port, *arguments, cwd=cwd, **settings)

    @property
    def request_lines(self) -> list[dict[str, Any]]:
        """The JSON access log so far. The event store writes other lines to the same stream."""
        lines = [json.loads(line) for line in self.errors.split("\n") if line.startswith("{")]
        return [line for line in lines if line["event"] == "request"]

    @property
    def address(self) -> str:
        if self._port != "0":
            return f"http://127.0.0.1:{self._port}"
        found = re.search(r"is ready at (\S+)", self.output)
        assert found is not None, self.errors
        return found[1]

    def client(self, key: str | None = PERSONAL_KEY) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=120, verify=False)

    def get_status(self, path: str) -> int | None:
        """Return the status of a GET without a key, or None if nothing listens."""
        try:
            return httpx.get(self.address + path, timeout=60, verify=False).status_code
        except httpx.TransportError:
            return None

    def connect(self) -> socket.socket:
        """Open a TCP connection, for bytes that no HTTP client would send."""
        url = httpx.URL(self.address)
        return socket.create_connection((url.host, url.port or 80), timeout=60)


class LiveWorker(LiveProcess):
    READY = r"processes events for \S+\n"

    def __init__(self, data: Path, *arguments: str, **settings: str) -> None:
        super().__init__(data, "worker", *arguments, **settings)

    @property
    def metrics_address(self) -> str:
        found = re.search(r"Metrics: +(\S+)/metrics\n", self.output)
        assert found is not None, self.output
        return found[1]

    @property
    def metrics(self) -> str:
        return httpx.get(f"{self.metrics_address}/metrics", timeout=60, verify=False).text


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Data and settings that the commands and servers of one test share."""

    data: Path
    settings: Mapping[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_hedgerow(*arguments, data=self.data, **self.settings)

    def run_in_process(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_in_process(*arguments, data=self.data, **self.settings)

    def run_with_input(
        self, *arguments: str, stdin: str, on_terminal: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command whose standard input is this text, from a pipe or typed on a terminal."""
        run = partial(
            subprocess.run,
            [HEDGEROW, *arguments, "--data", str(self.data)],
            env=build_environment(**self.settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if not on_terminal:
            return run(input=stdin)
        ours, theirs = pty.openpty()
        os.write(ours, stdin.encode())
        try:
            return run(stdin=theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    def run_json(self, *arguments: str) -> Any:
        """Run a command with --json and return its parsed output."""
        done = self.run_in_process(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def server(self, *arguments: str, **settings: str) -> LiveServer:
        return LiveServer(self.data, *arguments, **{**self.settings, **settings})


def find_engine(parent: int) -> int | None:
    """Return the process id of the event engine that a process has started."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, its_parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            is_engine = b"chdb_server" in (process / "cmdline").read_bytes()
            if is_engine and int(its_parent) == parent and state != "Z":
                return int(process.name)
    return None


def _collect(stream: IO[str], lines: list[str]) -> threading.Thread:
    def run() -> None:
        for line in stream:
            lines.append(line)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def run_hedgerow(
    *arguments: str, data: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run one command in a process of its own."""
    process = FORK_SERVER.start(
        [HEDGEROW, *arguments, *_data_arguments(data)], build_environment(**settings), None
    )
    output: list[str] = []
    errors: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        readers = [_collect(process.stdout, output), _collect(process.stderr, errors)]
        try:
            status = process.wait(120)
        finally:
            process.kill()
            process.wait()
            for reader in readers:
                reader.join()
    return subprocess.CompletedProcess(arguments, status, "".join(output), "".join(errors))


def run_in_process(
    *arguments: str, data: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run one command in this process, which is much faster. One at a time: it replaces the
    environment and the standard streams."""
    output, errors = StringIO(), StringIO()
    with (
        patch.dict(os.environ, build_environment(**settings), clear=True),
        patch.object(sys, "argv", ["hedgerow", *arguments, *_data_arguments(data)]),
        redirect_stdout(output),
        redirect_stderr(errors),
        _restore_logging(),
    ):
        status: Any = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())


def _data_arguments(data: Path | None) -> list[str]:
    return ["--data", str(data)] if data is not None else []


@contextmanager
def _restore_logging() -> Iterator[None]:
    """Restore the logging configuration that a command changes."""
    root, kept = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**kept)


def run_concurrently(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run all calls at the same time, each in a thread, and return their results in order."""
    with ThreadPoolExecutor(max_workers=len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def wait_for(condition: Callable[[], bool], at_most_s: float) -> float:
    """Wait for a condition and return how many seconds that took.

    Most conditions are a request to a service, and too many of them would slow down what the test
    waits for: they become rarer, by a twentieth of the time so far.
    """
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < at_most_s, f"not within {at_most_s} s"
        time.sleep(min(max(0.02, waited / 20), 0.1))
    return time.monotonic() - started


def find_free_port() -> str:
    """Return a port that nothing listens on, outside the range from which the system assigns ports:
    no other process gets it before our server listens, or while our server is stopped."""
    while True:
        port = secrets.choice(PORT_RANGE)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)


def read_response(connection: socket.socket) -> httpx.Response:
    """Read the next response from a TCP connection."""
    with closing(http.client.HTTPResponse(connection)) as raw:
        raw.begin()
        return httpx.Response(raw.status, headers=list(raw.headers.items()), content=raw.read())


def read_error(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of a response, after checking its format."""
    error: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert list(error) == ["type", "code", "detail", "attr"], error
    return error
