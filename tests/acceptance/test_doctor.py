"""`hedgerow doctor` finds problems, and shows them in its output and exit status."""

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, insert

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.tables import (
    deliveries,
    delivery_batches,
    destination_states,
    pipeline_jobs,
    pipeline_records,
)
from hedgerow.storage.tables.ingestion import inbox
from tests.support.live import PROJECT_KEY, Installation, LiveServer, run_in_process

if TYPE_CHECKING:
    from tests.support.clickhouse_http import ClickHouseTestServer

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
    shutil.copytree(folders / "healthy", folders / "incomplete")
    with closing(sqlite3.connect(folders / "incomplete" / "hedgerow.db")) as connection:
        connection.execute("DROP INDEX inbox_by_bucket")
    return folders


@pytest.fixture(scope="module")
def outcomes(folders: Path) -> Outcomes:
    names = ("healthy", "open", "unmigrated", "damaged", "away", "missing", "incomplete")
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


def test_a_missing_index_exits_with_1(outcomes: Outcomes) -> None:
    done = outcomes["incomplete"]
    assert done.returncode == 1
    assert "problem schema: the database lacks index inbox_by_bucket on inbox" in done.stdout


def test_an_unreachable_postgresql_exits_with_1(outcomes: Outcomes) -> None:
    done = outcomes["away"]
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem database: " in done.stdout
    assert "hunter2" not in done.stdout


@pytest.fixture(params=["sqlite", "postgresql"])
def busy(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """Return an installation without a running service, with work in every state."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_database()
    busy = Installation(data=tmp_path / "data", settings=settings)
    assert busy.run_in_process("init").returncode == 0
    location = DatabaseLocation(
        url=settings.get("database_url", ""), path=busy.data / "hedgerow.db", timeout_s=5
    )
    with create_sync_engine(location).begin() as connection:
        add_work(connection)
    return busy


def add_work(connection: Connection) -> None:
    now = datetime.now(UTC)
    hour_ago_ms = int((now - timedelta(hours=5)).timestamp() * 1000)
    for id, name, family, enabled in (
        (1, "Orders to CRM", "destination", True),
        (2, "Late", "destination", True),
        (3, "Off", "destination", False),
        (4, "Rejecting", "destination", True),
        (5, "Masking", "transformation", True),
        (6, "Deleted", "destination", True),
    ):
        values = {"id": id, "project_id": 1, "family": family, "component_id": 1, "config": {}}
        values |= {"component_version": "1", "enabled": enabled, "order": id, "name": name}
        values |= {"description": "", "web_token": "", "created_at": now, "updated_at": now}
        connection.execute(insert(pipeline_records), values | {"deleted": id == 6})
    for id, error, failures in ((1, "HTTP 500", 9), (5, "no such field", 0), (6, "HTTP 500", 9)):
        state = {"record_id": id, "error": error, "failures": failures, "paused_until_ms": 0}
        connection.execute(insert(destination_states), state)
    for id, number in ((1, 1000), (1, 200), (2, 1), (3, 1)):
        batch = {"record_id": id, "segment": 1, "event_ids": "[]", "number": number}
        connection.execute(insert(delivery_batches), batch | {"created_ms": hour_ago_ms})
    for id, status in ((1, "retrying"), (4, "dead")):
        row = {"project_id": 1, "record_id": id, "uuid": "u", "distinct_id": "ann"}
        row |= {"event_id": 1, "status": status, "attempts": 0, "due_ms": 0, "error": ""}
        connection.execute(insert(deliveries), row | {"created_ms": hour_ago_ms})
    waiting = {"bucket": 0, "project_id": 1, "events": b"", "number": 3}
    connection.execute(insert(inbox), waiting | {"accepted_ms": hour_ago_ms})
    job = {"id": "j", "project_id": 1, "record_id": 1, "type": "replay", "payload": {}, "error": ""}
    job |= {"status": "running", "requested_by": "me", "created_at": now, "updated_at": now}
    connection.execute(insert(pipeline_jobs), job | {"holder": "gone", "expires_at": now})


def test_waiting_work_is_named_with_what_to_do(busy: Installation) -> None:
    done = busy.run_in_process("doctor", "--json")
    assert done.returncode == 1
    found = {
        (each["verdict"], each["check"]): each["detail"]
        for each in json.loads(done.stdout)
        if each["check"].startswith(("inbox", "jobs", "destination", "transformation"))
    }
    assert set(found) == {
        ("problem", "inbox"),
        ("problem", "jobs"),
        ("problem", "destination 1"),
        ("warning", "destination 2"),
        ("warning", "destination 3"),
        ("warning", "destination 4"),
        ("warning", "transformation 5"),
    }
    paused = found["problem", "destination 1"]
    assert "'Orders to CRM' of project 1 is paused. 1,201 event(s) wait, the oldest" in paused
    assert "HTTP 500" in paused
    assert "the oldest for 5 hours. No process works on them" in found["problem", "inbox"]
    assert "serve" in found["problem", "inbox"]
    assert "No process works on them" in found["problem", "jobs"]
    assert "is behind" in found["warning", "destination 2"]
    assert "is disabled. 1 event(s) wait" in found["warning", "destination 3"]
    assert "1 dead letter(s)" in found["warning", "destination 4"]
    assert "no such field" in found["warning", "transformation 5"]


def test_a_running_service_works_on_jobs_and_events(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        event = {"event": "seen", "distinct_id": "ann"}
        client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [event]})
        done = run_in_process("doctor", data=tmp_path)
    assert (done.returncode, " inbox: " in done.stdout) == (0, True), done.stdout


def test_json_has_one_object_per_check(folders: Path) -> None:
    done = run_in_process("doctor", "--json", data=folders / "missing")
    checks = {each["check"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert checks["data directory"]["verdict"] == "problem"
    assert set(checks["clock"]) == {"verdict", "check", "detail", "page"}


def test_a_clickhouse_server_is_checked_on_request(
    folders: Path, clickhouse: "ClickHouseTestServer"
) -> None:
    url = clickhouse.create_database()
    done = run_in_process(
        "doctor", "--clickhouse", "--json", data=folders / "healthy", clickhouse_url=url
    )
    found = {each["check"]: each for each in json.loads(done.stdout)}
    checks = ("version", "settings", "cluster", "round trip")
    assert [found[f"ClickHouse {name}"]["verdict"] for name in checks] == ["ok"] * 4, done.stdout
    assert "stored once and read" in found["ClickHouse round trip"]["detail"]
    database = url.rpartition("/")[2]
    left = clickhouse.run(f"SELECT count() FROM system.tables WHERE database = '{database}'")
    assert left.strip() == b"0"


def test_a_missing_clickhouse_server_is_a_problem(folders: Path) -> None:
    asked = ("doctor", "--clickhouse")
    unset = run_in_process(*asked, data=folders / "healthy")
    assert (unset.returncode, "CLICKHOUSE_URL is not set" in unset.stdout) == (1, True)
    away = run_in_process(*asked, data=folders / "healthy", clickhouse_url="http://127.0.0.1:9/x")
    assert away.returncode == 1
    assert re.search("problem *ClickHouse: ", away.stdout), away.stdout
