"""A database that Hedgerow cannot or may not use: one line, status 1, and not a byte changed."""

import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.live import run_hedgerow, side_by_side
from tests.postgres import OwnPostgres

NEWER = "UPDATE alembic_version SET version_num = '9999'"

Outcomes = Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A database file for each way to be unusable, in a data folder of its own."""
    folder = tmp_path_factory.mktemp("foreign")
    assert run_hedgerow("init", data=folder / "good").returncode == 0
    good = folder / "good" / "hedgerow.db"
    with closing(sqlite3.connect(good)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    contents = {
        "garbage": b"\xde\xad\xbe\xef" * 4096,
        "cut short": good.read_bytes()[:6000],
        "scribbled over": good.read_bytes()[:4096] + b"\xff" * (good.stat().st_size - 4096),
    }
    found = {}
    for name, content in contents.items():
        (folder / name).mkdir(mode=0o700)
        found[name] = folder / name / "hedgerow.db"
        found[name].write_bytes(content)
    shutil.copytree(folder / "good", folder / "newer")
    found["newer"] = folder / "newer" / "hedgerow.db"
    with closing(sqlite3.connect(found["newer"])) as connection:
        connection.execute(NEWER)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return found


@pytest.fixture(scope="module")
def before(files: Mapping[str, Path]) -> Mapping[str, bytes]:
    return {name: path.read_bytes() for name, path in files.items()}


@pytest.fixture(scope="module")
def outcomes(files: Mapping[str, Path], before: Mapping[str, bytes]) -> Outcomes:
    calls = [
        partial(run_hedgerow, "serve", "--port", "0", data=path.parent) for path in files.values()
    ]
    return dict(zip(files, side_by_side(calls), strict=True))


@pytest.mark.parametrize("name", ["garbage", "cut short", "scribbled over", "newer"])
def test_an_unusable_file_is_one_line_that_names_it_and_stays_as_it_was(
    files: Mapping[str, Path], before: Mapping[str, bytes], outcomes: Outcomes, name: str
) -> None:
    done = outcomes[name]
    assert done.returncode == 1
    assert "is ready at" not in done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-1500:]
    assert done.stderr.startswith("hedgerow: ")
    assert files[name].read_bytes() == before[name]


@pytest.mark.parametrize("name", ["garbage", "cut short", "scribbled over"])
def test_the_line_about_a_damaged_file_says_which_file(
    files: Mapping[str, Path], outcomes: Outcomes, name: str
) -> None:
    assert str(files[name]) in outcomes[name].stderr


def test_the_line_about_a_newer_database_says_what_to_do(outcomes: Outcomes) -> None:
    assert "at step 9999" in outcomes["newer"].stderr
    assert "newer version" in outcomes["newer"].stderr


def test_a_newer_postgresql_database_is_refused_and_stays_as_it_was(
    tmp_path: Path, postgres: OwnPostgres
) -> None:
    url = postgres.new_database()
    assert run_hedgerow("init", data=tmp_path, database_url=url).returncode == 0
    with psycopg.connect(url) as connection:
        connection.execute(NEWER)
    done = run_hedgerow("serve", "--port", "0", data=tmp_path, database_url=url)
    assert (done.returncode, done.stdout) == (1, "")
    # The first line is about events, which this installation keeps in its own folder.
    assert done.stderr.count("\n") == 2
    assert "at step 9999" in done.stderr
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            ("9999",)
        ]
