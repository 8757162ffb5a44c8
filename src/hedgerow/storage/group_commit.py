"""One writer thread for SQLite: changes that arrive while a commit is under way share the next one.

A commit costs one fsync however many changes it holds. Each change runs in a savepoint, so one that
fails takes nothing else with it, and nobody is answered before the commit is on disk.
"""

import asyncio
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from queue import SimpleQueue
from typing import Any, cast

from sqlalchemy import Connection

from hedgerow.errors import Unavailable
from hedgerow.storage import bulk
from hedgerow.storage.database import Append, Rows

# More than this many changes waiting means that the disk cannot keep up: say so, do not pile up.
MAX_WAITING = 20_000
MAX_GROUP = 2_000
CLOSE_WAIT_S = 0.5


@dataclass(slots=True, eq=False)
class Job:
    """One change that waits: a function of the connection, or rows to append."""

    future: asyncio.Future[Any]
    change: Callable[[Connection], Any] | None
    append: Append | None
    rows: Rows
    result: Any = None
    error: BaseException | None = None


class GroupWriter:
    """Owns the only writing connection and the thread that uses it.

    `connect` opens a connection that leaves transactions to us (autocommit); `translate` turns a
    driver's error into one of ours.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        translate: Callable[[BaseException], BaseException],
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._connection: Connection | None = None
        self._closing = False
        self.commits = 0
        self.changes = 0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="hedgerow-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    def submit(
        self,
        change: Callable[[Connection], Any] | None = None,
        append: Append | None = None,
        rows: Rows = (),
    ) -> asyncio.Future[Any]:
        if self._closing:
            raise Unavailable("The service is shutting down.")
        if self._waiting.qsize() >= MAX_WAITING:
            raise Unavailable("Too many changes are waiting to be stored. Try again shortly.")
        future = self._loop.create_future()
        self._waiting.put(Job(future, change, append, rows))
        return future

    async def close(self) -> None:
        """Finish what is waiting, then let the thread go. One that is stuck behind a lock or a
        disk is left behind after a moment: nobody was told that its changes are stored."""
        self._closing = True
        self._waiting.put(None)
        deadline = time.monotonic() + CLOSE_WAIT_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            group, is_last = self._gather(job)
            self._commit(group)
            self._loop.call_soon_threadsafe(_answer, group)
            if is_last:
                break
        self._discard()

    def _gather(self, first: Job) -> tuple[list[Job], bool]:
        """The first job and all that wait behind it; and whether it is time to stop."""
        group = [first]
        for _ in range(min(self._waiting.qsize(), MAX_GROUP)):
            job = self._waiting.get()
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _commit(self, group: list[Job]) -> None:
        """All of the group in one transaction. What fails for all fails all; a change that spoils
        the transaction for the others (a full disk does) sends each on its own way."""
        try:
            driver = self._driver()
            driver.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001 - carried to the callers who wait for it
            self._fail(group, error)
            return
        try:
            self._run_group(group, driver)
        except Exception as error:  # noqa: BLE001 - carried to the callers who wait for it
            if len(group) == 1:
                self._fail(group, error)
                return
            self._discard()
            for job in group:
                job.result = job.error = None
                self._commit([job])
            return
        try:
            driver.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - carried to the callers who wait for it
            self._fail(group, error)
            return
        self.commits += 1
        self.changes += len(group)

    def _run_group(self, group: list[Job], driver: sqlite3.Connection) -> None:
        assert self._connection is not None
        appends: dict[Append, list[Job]] = defaultdict(list)
        for job in group:
            if job.append is not None:
                appends[job.append].append(job)
                continue
            assert job.change is not None
            driver.execute("SAVEPOINT change")
            try:
                job.result = job.change(self._connection)
            except Exception as error:  # noqa: BLE001 - this caller's, and only this caller's
                driver.execute("ROLLBACK TO change")
                job.error = self._translate(error)
            driver.execute("RELEASE change")
        for append, jobs in appends.items():
            if _insert_rows(driver, append, [row for job in jobs for row in job.rows]) is None:
                continue
            for job in jobs:  # one of them has a bad row, and only that one fails
                failure = _insert_rows(driver, append, job.rows)
                job.error = failure and self._translate(failure)

    def _driver(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return cast(sqlite3.Connection, self._connection.connection.dbapi_connection)

    def _fail(self, group: list[Job], error: BaseException) -> None:
        self._discard()
        for job in group:
            job.error = self._translate(error)

    def _discard(self) -> None:
        """Let the connection go, and with it whatever was not committed."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _insert_rows(driver: sqlite3.Connection, append: Append, rows: Rows) -> Exception | None:
    """Insert all of the rows, or none and say why."""
    driver.execute("SAVEPOINT append")
    failure: Exception | None = None
    try:
        for part in bulk.parts(rows):
            driver.execute(_insert_sql(append, len(part)), list(chain.from_iterable(part)))
    except sqlite3.OperationalError:
        raise  # not the rows' fault: the disk's, or a lock's
    except Exception as error:  # noqa: BLE001 - the rows': a constraint, a number too large, no text
        driver.execute("ROLLBACK TO append")
        failure = error
    driver.execute("RELEASE append")
    return failure


@cache
def _insert_sql(append: Append, number: int) -> str:
    into = f"INSERT INTO {append.table.name} ({', '.join(append.columns)})"
    return f"{into} {bulk.values(len(append.columns), number)}"


def _answer(group: list[Job]) -> None:
    for job in group:
        if job.future.done():  # the caller went away; the change stands all the same
            continue
        if job.error is None:
            job.future.set_result(job.result)
        elif isinstance(job.error, StopIteration):  # a future refuses this one as it is
            job.future.set_exception(RuntimeError("the change raised StopIteration"))
        else:
            job.future.set_exception(job.error)
