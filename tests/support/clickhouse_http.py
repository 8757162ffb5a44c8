"""A ClickHouse server for tests: chDB in a process of its own, behind ClickHouse's HTTP interface.

    python -m tests.support.clickhouse_http FOLDER PORT

The real client library talks to the real engine; only what lies between the two is ours.
"""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from hedgerow.storage.events.embedded.chdb_server import Engine, import_chdb, serve_connection
from tests.support.live import find_free_port

ROOT = Path(__file__).parents[2]


class ClickHouseTestServer:
    """The server process. Each test creates its own database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._databases = 0
        self._port = find_free_port()
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.support.clickhouse_http",
            str(self._folder),
            self._port,
        ]
        self._process = subprocess.Popen(command, cwd=ROOT)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.run("SELECT 1")
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Keep connections open without an answer."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.run(f"CREATE DATABASE {name}")
        return f"http://127.0.0.1:{self._port}/{name}"

    def run(self, sql: str) -> bytes:
        with urlopen(f"http://127.0.0.1:{self._port}/", data=sql.encode(), timeout=60) as answer:
            return bytes(answer.read())


def serve(folder: str, port: int) -> None:
    """Answer each connection in its own thread, as a server does, so that a query can be killed
    while it runs."""
    # The engine closes with its last connection, so the process keeps one open.
    connect = partial(import_chdb().connect, folder)
    keeper = connect()
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener, closing(keeper):
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(
                target=serve_connection, args=(Engine(connect), connection), daemon=True
            ).start()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
