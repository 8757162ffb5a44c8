"""`hedgerow doctor` finds problems, and shows them in its output and exit status."""

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.live import run_in_process

Outcomes = Mapping[str, subprocess.CompletedProcess[str]]

AWAY = {"database_url": "postgresql://someone:hunter2@127.0.0.1:1/nothing"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the parent of one data directory per state."""
    folders = tmp_path_factory.mktemp("doctor")
    made = run_in_process("init", data=folders / "healthy")
    assert made.returncode == 0
    shutil.copytree(folders / "healthy", folders / "open")
    (folders / "open").chmod(0o755)
    (folders / "unmigrated").mkdir()
    with closing(sqlite3.connect(folders / "unmigrated" / "hedgerow.db")) as connection:
        connection.execute("VACUUM")
    (folders / "damaged").mkdir()
    (folders / "damaged" / "hedgerow.db").write_bytes(b"not a database, " * 512)
    shutil.copytree(folders / "healthy", folders / "away")
    return folders


@pytest.fixture(scope="module")
def outcomes(folders: Path) -> Outcomes:
    names = ("healthy", "open", "unmigrated", "damaged", "away", "missing")
    return {
        name: run_in_process("doctor", data=folders / name, **(AWAY if name == "away" else {}))
        for name in names
    }


def test_a_healthy_installation_exits_with_0(outcomes: Outcomes) -> None:
    done = outcomes["healthy"]
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split()[0] for line in done.stdout.splitlines()} <= {"ok", "warning"}
    for about in ("versions", "data directory", "permissions", "engine", "migrations", "clock"):
        assert f" {about}: " in done.stdout


def test_a_missing_directory_exits_with_1_and_is_not_created(
    outcomes: Outcomes, folders: Path
) -> None:
    done = outcomes["missing"]
    assert done.returncode == 1
    assert f"problem data directory: {folders / 'missing'} is missing" in done.stdout
    assert "init" in done.stdout
    assert not (folders / "missing").exists()


def test_a_directory_that_others_can_read_is_a_warning(outcomes: Outcomes, folders: Path) -> None:
    done = outcomes["open"]
    assert done.returncode == 0
    assert "warning permissions: other users of this machine can read" in done.stdout
    assert f"chmod 700 {folders / 'open'}" in done.stdout


def test_pending_migrations_exit_with_1(outcomes: Outcomes) -> None:
    done = outcomes["unmigrated"]
    assert done.returncode == 1
    assert re.search(r"problem migrations: [1-9]\d* pending", done.stdout)
    assert "migrate" in done.stdout


def test_a_damaged_database_exits_with_1(outcomes: Outcomes) -> None:
    done = outcomes["damaged"]
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem database: file is not a database" in done.stdout


def test_an_unreachable_postgresql_exits_with_1(outcomes: Outcomes) -> None:
    done = outcomes["away"]
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem database: " in done.stdout
    assert "hunter2" not in done.stdout


def test_json_has_one_object_per_check(folders: Path) -> None:
    done = run_in_process("doctor", "--json", data=folders / "missing")
    checks = {each["check"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert checks["data directory"]["verdict"] == "problem"
    assert set(checks["clock"]) == {"verdict", "check", "detail"}
