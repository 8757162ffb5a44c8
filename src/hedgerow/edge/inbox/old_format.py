"""The inbox of earlier versions, one SQLite file. It is read once."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.edge.inbox.requests import DeadRequest, WaitingRequest, encode_request

FILE_NAME = "inbox.sqlite"

_decode = msgspec.msgpack.Decoder(WaitingRequest).decode


class OldInbox:
    """Methods raise OSError. If the file is damaged, they end, and `problem` says so."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self.problem = ""

    def exists(self) -> bool:
        return self._path.exists()

    def list_waiting(self) -> Iterator[tuple[WaitingRequest, bytes]]:
        for request, body in self._select("SELECT request, body FROM waiting ORDER BY id"):
            yield _decode(request), body

    def list_dead(self) -> Iterator[DeadRequest]:
        rows = self._select("SELECT request, body, refused_at_s, reason FROM dead ORDER BY id")
        for request, body, refused_at_s, reason in rows:
            content = encode_request(_decode(request), body)
            yield DeadRequest(refused_at_s=refused_at_s, reason=reason, content=content)

    def remove(self) -> None:
        for suffix in ("-wal", "-shm", ""):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def move_away(self) -> Path:
        """Keep a damaged file, and return its new path."""
        moved = self._path.with_suffix(f".damaged-{int(time.time())}")
        for suffix in ("-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").rename(f"{moved}{suffix}")
        return moved

    def _select(self, sql: str) -> Iterator[Any]:
        try:
            with closing(sqlite3.connect(self._path, timeout=5)) as database:
                [(version,)] = database.execute("PRAGMA user_version").fetchall()
                if version:
                    yield from database.execute(sql)
        except sqlite3.OperationalError as error:
            raise OSError(str(error)) from error
        except sqlite3.DatabaseError as error:
            self.problem = str(error)
