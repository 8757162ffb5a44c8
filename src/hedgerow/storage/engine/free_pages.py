"""Removes deleted data from an SQLite file.

SQLite keeps the pages of deleted rows for later use, with their old content. `secure_delete = FAST`
already overwrites rows in pages that stay in use, but not the copies that SQLite leaves in the gap
of a page when it moves rows to another one: only a new file has none.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.sqlite import create_sqlite_engine

# Other writers wait while the file is written anew. In a larger one, only the free pages are
# overwritten.
MAX_VACUUM_BYTES = 32 << 20
# Other writers wait for one of these at most.
PAGES_PER_TRANSACTION = 1_024
CHECKPOINT_ATTEMPTS = 20
CHECKPOINT_INTERVAL_S = 0.1
# Of each page that a long value fills.
_PAGE_HEADER_BYTES = 4
# A value that fits into one page.
_SHORT_BYTES = 2_000


def remove_deleted_rows(path: Path, timeout_s: float) -> None:
    """Write a small file anew, fill the free pages of a large one with zeros, then empty the
    write-ahead log. Raises Unavailable if a reader prevents that."""
    engine = create_sqlite_engine(path, timeout_s)
    with closing(engine.raw_connection()) as connection:
        driver = connection.driver_connection
        assert driver is not None
        # Overwrites also the pages that the filler itself uses in part.
        driver.execute("PRAGMA secure_delete = ON")
        # Left over from a process that was killed.
        driver.execute("DROP TABLE IF EXISTS free_page_filler")
        size = _read_pragma(driver, "page_count") * _read_pragma(driver, "page_size")
        if size <= MAX_VACUUM_BYTES:
            driver.execute("PRAGMA temp_store = MEMORY")
            driver.execute("VACUUM")
        else:
            _fill_free_pages(driver)
        _empty_log(driver)


def _fill_free_pages(driver: sqlite3.Connection) -> None:
    driver.execute("CREATE TABLE free_page_filler (zeros BLOB)")
    page_bytes = _read_pragma(driver, "page_size") - _PAGE_HEADER_BYTES
    free = _read_pragma(driver, "freelist_count")
    # Twice as often as needed: requests free and use pages meanwhile.
    for _ in range(2 * (free // PAGES_PER_TRANSACTION) + 10):
        pages = min(_read_pragma(driver, "freelist_count"), PAGES_PER_TRANSACTION)
        if not pages:
            break
        zeros = (pages - 1) * page_bytes or _SHORT_BYTES
        driver.execute("INSERT INTO free_page_filler VALUES (zeroblob(?))", (zeros,))
    driver.execute("DROP TABLE free_page_filler")


def _empty_log(driver: sqlite3.Connection) -> None:
    """A reader can prevent it, but only for the time of its request."""
    for _ in range(CHECKPOINT_ATTEMPTS):
        (is_blocked, *_) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not is_blocked:
            return
        time.sleep(CHECKPOINT_INTERVAL_S)
    raise Unavailable("A long read keeps deleted data in the write-ahead log of the database.")


def _read_pragma(driver: sqlite3.Connection, name: str) -> int:
    return int(driver.execute(f"PRAGMA {name}").fetchone()[0])
