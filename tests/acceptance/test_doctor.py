"""`hedgerow doctor` tells a healthy installation from a sick one, by word and by exit status."""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.live import run_here

Outcomes = Mapping[str, subprocess.CompletedProcess[str]]

AWAY = {"database_url": "postgresql://someone:hunter2@127.0.0.1:1/nothing"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for each state of health."""
    folders = tmp_path_factory.mktemp("doctor")
    made = run_here("init", data=folders / "healthy")
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
        name: run_here("doctor", data=folders / name, **(AWAY if name == "away" else {}))
        for name in names
    }


def test_a_healthy_installation_is_status_0(outcomes: Outcomes) -> None:
    done = outcomes["healthy"]
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split()[0] for line in done.stdout.splitlines()} <= {"ok", "warning"}
    for about in ("versions", "data folder", "permissions", "engine", "migrations", "clock"):
        assert f" {about}: " in done.stdout


def test_a_missing_folder_is_status_1_and_is_not_made(outcomes: Outcomes, folders: Path) -> None:
    done = outcomes["missing"]
    assert done.returncode == 1
    assert f"problem data folder: {folders / 'missing'} is missing" in done.stdout
    assert "init" in done.stdout
    assert not (folders / "missing").exists()


def test_a_folder_that_others_can_read_is_a_warning(outcomes: Outcomes, folders: Path) -> None:
    done = outcomes["open"]
    assert done.returncode == 0
    assert "warning permissions: other users of this machine can read" in done.stdout
    assert f"chmod 700 {folders / 'open'}" in done.stdout


def test_an_unmigrated_database_is_status_1(outcomes: Outcomes) -> None:
    done = outcomes["unmigrated"]
    assert done.returncode == 1
    assert re.search(r"problem migrations: [1-9]\d* missing", done.stdout)
    assert "migrate" in done.stdout


def test_a_damaged_database_is_status_1(outcomes: Outcomes) -> None:
    done = outcomes["damaged"]
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem database: file is not a database" in done.stdout


def test_a_postgresql_that_does_not_answer_is_status_1(outcomes: Outcomes) -> None:
    done = outcomes["away"]
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem database: " in done.stdout
    assert "hunter2" not in done.stdout
