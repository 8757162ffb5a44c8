"""Deleted rows leave the file of SQLite, also what SQLite leaves of rows that it has moved."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from hedgerow.errors import Unavailable
from hedgerow.storage.engine import free_pages
from hedgerow.storage.engine.free_pages import remove_deleted_rows
from hedgerow.storage.engine.sqlite import create_sqlite_engine
from tests.support.file_contents import read_files

ROWS = 6000
DELETED = 3000
TIMEOUT_S = 5.0


def _write_and_delete(path: Path) -> list[str]:
    """Write rows in random order, which fills and splits pages, delete some, and return those."""
    chance = random.Random(1)
    names = [f"{chance.random()}-{number:05d}" for number in range(ROWS)]
    gone = chance.sample(names, DELETED)
    with closing(create_sqlite_engine(path, TIMEOUT_S).raw_connection()) as connection:
        driver = connection.driver_connection
        assert driver is not None
        driver.execute("CREATE TABLE ids (id INTEGER PRIMARY KEY, name TEXT UNIQUE, note TEXT)")
        driver.execute("BEGIN")
        for name in names:
            driver.execute("INSERT INTO ids (name, note) VALUES (?, '')", (name,))
            # Rows that grow are moved to other pages.
            note = "x" * chance.randint(1, 400)
            driver.execute("UPDATE ids SET note = ? WHERE name = ?", (note, chance.choice(names)))
        driver.executemany("DELETE FROM ids WHERE name = ?", [(name,) for name in gone])
        driver.execute("COMMIT")
    return gone


def test_no_copy_of_a_deleted_row_is_left_in_a_page(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    gone = _write_and_delete(path)
    before = read_files(tmp_path)
    # Otherwise the test shows nothing.
    assert any(name in before for name in gone)
    remove_deleted_rows(path, TIMEOUT_S)
    after = read_files(tmp_path)
    assert [name for name in gone if name in after] == []
    with closing(create_sqlite_engine(path, TIMEOUT_S).raw_connection()) as connection:
        driver = connection.driver_connection
        assert driver is not None
        (count,) = driver.execute("SELECT count(*) FROM ids").fetchone()
    assert count == ROWS - DELETED


def test_free_pages_of_a_large_file_are_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_pages, "MAX_VACUUM_BYTES", 0)
    path = tmp_path / "state.db"
    _write_and_delete(path)
    with closing(create_sqlite_engine(path, TIMEOUT_S).raw_connection()) as connection:
        driver = connection.driver_connection
        assert driver is not None
        driver.execute("INSERT INTO ids (name, note) VALUES ('long', ?)", ("secret" * 9000,))
        driver.execute("DELETE FROM ids WHERE name = 'long'")
    assert "secretsecret" in read_files(tmp_path)
    remove_deleted_rows(path, TIMEOUT_S)
    assert "secretsecret" not in read_files(tmp_path)


def test_a_read_that_keeps_the_log_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is not complete while the write-ahead log has its data."""
    monkeypatch.setattr(free_pages, "CHECKPOINT_ATTEMPTS", 1)
    path = tmp_path / "state.db"
    _write_and_delete(path)
    with closing(create_sqlite_engine(path, TIMEOUT_S).raw_connection()) as connection:
        driver = connection.driver_connection
        assert driver is not None
        driver.execute("BEGIN")
        driver.execute("SELECT count(*) FROM ids").fetchone()
        with pytest.raises(Unavailable):
            remove_deleted_rows(path, 0.1)
        driver.execute("COMMIT")
    remove_deleted_rows(path, TIMEOUT_S)
