"""Group commit against raw sqlite3, and what a warm key check costs.

    python -m benchmarks.state

The reference is one thread with the bare sqlite3 module and the same durability, that already
holds the rows of N writers in its hands: it inserts N rows one by one and commits, over and over.
Ours has N concurrent writers that each wait for their own row to be on disk.
"""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from sqlalchemy import Column, Integer, MetaData, Table, Text

from hedgerow.lib.clock import utc_now
from hedgerow.projects.bootstrap import generate_initial_keys
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import DatabaseLocation, open_database
from hedgerow.storage.engine.database import Database, PreparedInsert
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.projects.directory import SqlDirectoryStore

PAYLOAD = '{"event": "page viewed", "properties": {"path": "/pricing"}}'
INSERT = "INSERT INTO notes (payload) VALUES (?)"
CREATE = "CREATE TABLE notes (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)"
ROUNDS = 5
COMMITS = {1: 1000, 10: 600, 100: 200}

notes = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("payload", Text))
APPEND = PreparedInsert(table=notes, columns=("payload",))


def raw_rows_per_s(folder: Path, writers: int) -> float:
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("DROP TABLE IF EXISTS notes")
    connection.execute(CREATE)
    started = time.perf_counter()
    for _ in range(COMMITS[writers]):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(writers):
            connection.execute(INSERT, (PAYLOAD,))
        connection.execute("COMMIT")
    spent = time.perf_counter() - started
    connection.close()
    return writers * COMMITS[writers] / spent


async def our_rows_per_s(database: Database, writers: int) -> float:
    async def writer() -> None:
        for _ in range(COMMITS[writers]):
            await database.append(APPEND, [(PAYLOAD,)])

    started = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return writers * COMMITS[writers] / (time.perf_counter() - started)


async def group_commit(folder: Path, place: DatabaseLocation) -> None:
    database = open_database(place)
    await database.write(lambda connection: connection.exec_driver_sql(CREATE))
    print(f"group commit, rows/s, median of {ROUNDS} interleaved rounds")
    print(f"  {'writers':>8} {'raw sqlite3':>12} {'hedgerow':>12} {'ratio':>7}")
    for writers in COMMITS:
        raw, ours = [], []
        for _ in range(ROUNDS):
            raw.append(raw_rows_per_s(folder, writers))
            ours.append(await our_rows_per_s(database, writers))
        reference, measured = statistics.median(raw), statistics.median(ours)
        print(f"  {writers:>8} {reference:>12,.0f} {measured:>12,.0f} {measured / reference:>6.0%}")
    await database.close()


def microseconds(call: Callable[[], object], times: int = 50_000) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times * 1e6


async def key_check(place: DatabaseLocation, value: str) -> None:
    database = open_database(place)
    directory = Directory(SqlDirectoryStore(database), utc_now, time.monotonic)
    await directory.refresh()

    def check() -> None:
        key = directory.find_key(value)
        project = directory.get_project(ProjectId(1))
        if key is None or project is None:
            raise AssertionError("the key must be known")
        caller = directory.identify_key(key)
        if not caller.may_see(project.id) or caller.find_lack("plugin:read", project.id):
            raise AssertionError("the key must be good")

    print(f"warm key check (hash, look up, project, scope): {microseconds(check):.1f} us")
    await database.close()


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        place = DatabaseLocation(url="", path=folder / "hedgerow.db", timeout_s=5)
        keys = generate_initial_keys("", "")
        prepare_database(place, keys, utc_now)
        uvloop.run(group_commit(folder, place))
        uvloop.run(key_check(place, keys.personal_key))


if __name__ == "__main__":
    main()
