"""The file of the inbox. Its methods block, and one thread at a time calls them.

It has the requests that wait, and the dead letters: those that the origin has refused for good, or
has failed at for too long.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hedgerow.http.sdk.edge_receipt import Receipt
from hedgerow.projects.model import ProjectId

FOLDER = "edge-inbox"
FILE_NAME = "inbox.sqlite"
VERSION = 1
MAX_REASON_CHARS = 500
# The log of changes keeps this size, so that requests can be removed while the disk is full.
KEPT_LOG_BYTES = 4 << 20
# Requests are written in between.
PAGES_PER_SHRINK = 2000

_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN;
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project INTEGER NOT NULL, received_us INTEGER NOT NULL,
    size INTEGER NOT NULL, request BLOB NOT NULL, body BLOB NOT NULL
);
CREATE INDEX waiting_by_project ON waiting (project, id);
CREATE TABLE dead (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project INTEGER NOT NULL, received_us INTEGER NOT NULL,
    size INTEGER NOT NULL, request BLOB NOT NULL, body BLOB NOT NULL,
    refused_at_s REAL NOT NULL, reason TEXT NOT NULL
);
PRAGMA user_version = {VERSION};
COMMIT;
"""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -2000",
    f"PRAGMA journal_size_limit = {KEPT_LOG_BYTES}",
)


class InboxFileError(Exception):
    """The file cannot be read or written: the disk is full, or the file is damaged."""


class WaitingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client, as it is sent on. `keys` are the hashes of the persons and groups that
    it changes; empty if they are not known."""

    project_id: ProjectId
    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    receipt: Receipt
    keys: Sequence[int] = ()
    # Stored beside the rest.
    body: bytes = b""
    id: int = 0

    @property
    def size(self) -> int:
        """About the bytes on disk."""
        headers = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.body) + len(self.path) + headers + 10 * len(self.keys) + 100


class DeadRequest(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    project_id: ProjectId
    received_at_s: float
    refused_at_s: float
    path: str
    size: int
    reason: str


class Lane(msgspec.Struct, kw_only=True):
    """The requests of one project that wait. `oldest_us` is the receipt of the first one."""

    number: int = 0
    size: int = 0
    oldest_us: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WaitingRequest).decode


class InboxFile:
    def __init__(self, data_dir: Path) -> None:
        """Raises InboxFileError. A damaged file is moved away, and a new one begun."""
        self.moved_to: Path | None = None
        self.path = data_dir / FOLDER / FILE_NAME
        with _translate():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self._database = _open(self.path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self.moved_to = self.path.with_suffix(f".damaged-{int(time.time())}")
                self.path.rename(self.moved_to)
                for suffix in ("-wal", "-shm"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
                self._database = _open(self.path)

    def add(self, requests: Sequence[WaitingRequest]) -> None:
        """Store requests in their order. They are on the disk when this returns."""
        with _translate(), self._database:
            self._database.executemany(
                "INSERT INTO waiting (project, received_us, size, request, body)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    (
                        each.project_id,
                        each.receipt.received_us,
                        each.size,
                        _encode(msgspec.structs.replace(each, body=b"")),
                        each.body,
                    )
                    for each in requests
                ),
            )

    def fetch(
        self, project_id: ProjectId, *, at_most: int, max_bytes: int
    ) -> Sequence[WaitingRequest]:
        """Return the first requests of a project, and at least one."""
        found: list[WaitingRequest] = []
        size = 0
        with _translate():
            rows = self._database.execute(
                "SELECT id, request, body FROM waiting WHERE project = ? ORDER BY id LIMIT ?",
                (project_id, at_most),
            )
            for id, request, body in rows:
                size += len(body)
                if found and size > max_bytes:
                    break
                found.append(msgspec.structs.replace(_decode(request), id=id, body=body))
            rows.close()
        return found

    def finish(self, sent: Iterable[int], refused: Iterable[tuple[int, str]]) -> None:
        """Remove what the origin has, and keep what it refused, with the reason."""
        now_s = time.time()
        with _translate(), self._database:
            for id, reason in refused:
                self._database.execute(
                    "INSERT INTO dead (project, received_us, size, request, body, refused_at_s,"
                    " reason) SELECT project, received_us, size, request, body, ?, ? FROM waiting"
                    " WHERE id = ?",
                    (now_s, reason[:MAX_REASON_CHARS], id),
                )
                self._database.execute("DELETE FROM waiting WHERE id = ?", (id,))
            self._database.executemany("DELETE FROM waiting WHERE id = ?", ((id,) for id in sent))

    def shrink(self) -> bool:
        """Give some free pages back to the file system. Return whether there are more."""
        with _translate():
            # `execute` would free one page only.
            self._database.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_SHRINK})")
            [(free,)] = self._database.execute("PRAGMA freelist_count").fetchall()
            if not free:
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return bool(free)

    def count(self) -> tuple[dict[ProjectId, Lane], Lane]:
        """Count the requests that wait, by project, and the dead letters."""
        with _translate():
            rows = self._database.execute(
                "SELECT project, COUNT(*), SUM(size), MIN(received_us) FROM waiting"
                " GROUP BY project"
            ).fetchall()
            [dead] = self._database.execute(
                "SELECT COUNT(*), COALESCE(SUM(size), 0), COALESCE(MIN(received_us), 0) FROM dead"
            ).fetchall()
        lanes = {
            ProjectId(id): Lane(number=number, size=size, oldest_us=oldest)
            for id, number, size, oldest in rows
        }
        return lanes, Lane(number=dead[0], size=dead[1], oldest_us=dead[2])

    def find_version(self) -> int:
        """Return a number that changes when another process changes the file."""
        with _translate():
            version: int = self._database.execute("PRAGMA data_version").fetchone()[0]
            return version

    def list_dead(self) -> Iterator[DeadRequest]:
        with _translate():
            rows = self._database.execute(
                "SELECT id, project, received_us, refused_at_s, request, size, reason FROM dead"
                " ORDER BY id"
            )
            for id, project, received_us, refused_at_s, request, size, reason in rows:
                yield DeadRequest(
                    id=id,
                    project_id=ProjectId(project),
                    received_at_s=received_us / 1e6,
                    refused_at_s=refused_at_s,
                    path=_decode(request).path.partition("?")[0],
                    size=size,
                    reason=reason,
                )

    def retry_dead(self) -> int:
        """Let all dead letters wait again, after what waits already. Return their number."""
        with _translate(), self._database:
            self._database.execute(
                "INSERT INTO waiting (project, received_us, size, request, body)"
                " SELECT project, received_us, size, request, body FROM dead ORDER BY id"
            )
            return self._database.execute("DELETE FROM dead").rowcount

    def discard_dead(self, until: int) -> int:
        """Remove the dead letters up to this id. Return their number."""
        with _translate(), self._database:
            return self._database.execute("DELETE FROM dead WHERE id <= ?", (until,)).rowcount

    def close(self) -> None:
        with _translate():
            self._database.close()


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    database = sqlite3.connect(path, timeout=5, check_same_thread=False)
    try:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise InboxFileError(f"{path} is of a newer version of Hedgerow.")
        if version == 0:
            database.executescript(_SCHEMA)
        for pragma in _PRAGMAS:
            database.execute(pragma).fetchall()
        # Notice damage at the start, not with the first request.
        database.execute("SELECT COUNT(*), MAX(id) FROM waiting").fetchall()
    except (sqlite3.Error, InboxFileError):
        database.close()
        raise
    return database


@contextmanager
def _translate() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise InboxFileError(str(error)) from error
