"""One writer thread for SQLite, with group commit.

Changes that arrive during a commit share the next one: a commit costs one fsync however many
changes it holds. Each change runs in its own savepoint, so a failing change does not affect the
others. Callers get their result only after the commit is on disk.
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
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import PreparedInsert, Rows

# Beyond this many queued changes the disk cannot keep up: reject new ones instead of queueing them.
MAX_QUEUED_WRITES = 20_000
MAX_BATCH_SIZE = 2_000
CLOSE_TIMEOUT_S = 0.5


@dataclass(slots=True, eq=False)
class WriteRequest:
    """A queued change: a function of the connection, or rows to append."""

    future: asyncio.Future[Any]
    change: Callable[[Connection], Any] | None
    append: PreparedInsert | None
    rows: Rows
    result: Any = None
    error: BaseException | None = None


class BatchWriter:
    """Owns the only writing connection and the thread that uses it.

    `connect` opens an autocommit connection; `translate` converts driver errors; `check_file`
    raises if the connection no longer writes to the file of the database.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        translate: Callable[[BaseException], BaseException],
        check_file: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._check_file = check_file
        self._queue: SimpleQueue[WriteRequest | None] = SimpleQueue()
        self._connection: Connection | None = None
        self._closing = False
        self.commits = 0
        self.changes = 0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="hedgerow-writer", daemon=True)
        self._thread.start()

    @property
    def queue_size(self) -> int:
        return self._queue.qsize()

    def submit(
        self,
        change: Callable[[Connection], Any] | None = None,
        append: PreparedInsert | None = None,
        rows: Rows = (),
    ) -> asyncio.Future[Any]:
        if self._closing:
            raise Unavailable("The service is shutting down.")
        if self._queue.qsize() >= MAX_QUEUED_WRITES:
            raise Unavailable("Too many changes are waiting to be stored. Try again shortly.")
        future = self._loop.create_future()
        self._queue.put(WriteRequest(future, change, append, rows))
        return future

    async def close(self) -> None:
        """Finish queued changes, then stop the thread.

        A thread that is blocked by a lock or a disk is abandoned after a timeout. That is safe:
        its callers were not informed that their changes are stored.
        """
        self._closing = True
        self._queue.put(None)
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            batch, is_last = self._collect_batch(job)
            self._commit(batch)
            self._loop.call_soon_threadsafe(_resolve_futures, batch)
            if is_last:
                break
        self._discard_connection()

    def _collect_batch(self, first: WriteRequest) -> tuple[list[WriteRequest], bool]:
        """Collect the first request and all queued behind it; also return whether to stop."""
        batch = [first]
        for _ in range(min(self._queue.qsize(), MAX_BATCH_SIZE)):
            job = self._queue.get()
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _commit(self, batch: list[WriteRequest]) -> None:
        """Commit the batch in one transaction.

        If one change breaks the shared transaction (a full disk does), retry each change in its own
        transaction.
        """
        try:
            driver = self._get_driver()
            driver.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001 - passed on to the waiting callers
            self._fail(batch, error)
            return
        try:
            self._run_batch(batch, driver)
        except Exception as error:  # noqa: BLE001 - passed on to the waiting callers
            if len(batch) == 1:
                self._fail(batch, error)
                return
            self._discard_connection()
            for job in batch:
                job.result = job.error = None
                self._commit([job])
            return
        try:
            driver.execute("COMMIT")
            self._check_file()
        except Exception as error:  # noqa: BLE001 - passed on to the waiting callers
            self._fail(batch, error)
            return
        self.commits += 1
        self.changes += len(batch)

    def _run_batch(self, batch: list[WriteRequest], driver: sqlite3.Connection) -> None:
        assert self._connection is not None
        appends: dict[PreparedInsert, list[WriteRequest]] = defaultdict(list)
        for job in batch:
            if job.append is not None:
                appends[job.append].append(job)
                continue
            assert job.change is not None
            driver.execute("SAVEPOINT change")
            try:
                job.result = job.change(self._connection)
            except Exception as error:  # noqa: BLE001 - passed on to this caller only
                driver.execute("ROLLBACK TO change")
                job.error = self._translate(error)
            driver.execute("RELEASE change")
        for append, jobs in appends.items():
            if _insert_rows(driver, append, [row for job in jobs for row in job.rows]) is None:
                continue
            for job in jobs:  # find the request with the bad row; only that one fails
                failure = _insert_rows(driver, append, job.rows)
                job.error = failure and self._translate(failure)

    def _get_driver(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return cast(sqlite3.Connection, self._connection.connection.dbapi_connection)

    def _fail(self, batch: list[WriteRequest], error: BaseException) -> None:
        self._discard_connection()
        for job in batch:
            job.error = self._translate(error)

    def _discard_connection(self) -> None:
        """Close the connection, which rolls back uncommitted changes."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _insert_rows(
    driver: sqlite3.Connection, append: PreparedInsert, rows: Rows
) -> Exception | None:
    """Insert all rows, or none; return the error in that case."""
    driver.execute("SAVEPOINT append")
    failure: Exception | None = None
    try:
        for part in bulk.split_rows(rows):
            driver.execute(_build_insert(append, len(part)), list(chain.from_iterable(part)))
    except sqlite3.OperationalError:
        raise  # caused by the disk or a lock, not by the rows
    except Exception as error:  # noqa: BLE001 - caused by the rows, such as a constraint violation
        driver.execute("ROLLBACK TO append")
        failure = error
    driver.execute("RELEASE append")
    return failure


@cache
def _build_insert(append: PreparedInsert, number: int) -> str:
    into = f"INSERT INTO {append.table.name} ({', '.join(append.columns)})"
    return f"{into} {bulk.build_values_clause(len(append.columns), number)}"


def _resolve_futures(batch: list[WriteRequest]) -> None:
    for job in batch:
        if job.future.done():  # the caller was cancelled; the change is stored nevertheless
            continue
        if job.error is None:
            job.future.set_result(job.result)
        elif isinstance(job.error, StopIteration):  # a future does not accept StopIteration
            job.future.set_exception(RuntimeError("the change raised StopIteration"))
        else:
            job.future.set_exception(job.error)
