"""An unusable database is one error line and exit status 1, and stays unchanged."""

import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.support.live import run_concurrently, run_hedgerow, run_in_process
from tests.support.postgres import PostgresTestServer

NEWER = "UPDATE alembic_version SET version_num = '9999'"

Outcomes = Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Database files that are unusable in different ways, each in its own data directory."""
    folder = tmp_path_factory.mktemp("foreign")
    assert run_in_process("init", data=folder / "good").returncode == 0
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
    return dict(zip(files, run_concurrently(calls), strict=True))


@pytest.mark.parametrize("name", ["garbage", "cut short", "scribbled over", "newer"])
def test_unusable_file_is_one_error_line_and_unchanged(
    files: Mapping[str, Path], before: Mapping[str, bytes], outcomes: Outcomes, name: str
) -> None:
    done = outcomes[name]
    assert done.returncode == 1
    assert "is ready at" not in done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-1500:]
    assert done.stderr.startswith("hedgerow: ")
    assert files[name].read_bytes() == before[name]


@pytest.mark.parametrize("name", ["garbage", "cut short", "scribbled over"])
def test_error_names_the_damaged_file(
    files: Mapping[str, Path], outcomes: Outcomes, name: str
) -> None:
    assert str(files[name]) in outcomes[name].stderr


def test_error_about_a_newer_database_says_what_to_do(outcomes: Outcomes) -> None:
    assert "at migration 9999" in outcomes["newer"].stderr
    assert "newer version" in outcomes["newer"].stderr


def test_newer_postgresql_database_is_rejected_and_unchanged(
    tmp_path: Path, postgres: PostgresTestServer
) -> None:
    url = postgres.create_database()
    assert run_in_process("init", data=tmp_path, database_url=url).returncode == 0
    with psycopg.connect(url) as connection:
        connection.execute(NEWER)
    done = run_hedgerow("serve", "--port", "0", data=tmp_path, database_url=url)
    assert (done.returncode, done.stdout) == (1, "")
    # The first line is about events, which this installation stores in its data directory.
    assert done.stderr.count("\n") == 2
    assert "at migration 9999" in done.stderr
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            ("9999",)
        ]
