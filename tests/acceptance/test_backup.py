"""A backup of a running service restores completely in another directory."""

import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer, run_in_process, wait_for
from tests.support.postgres import PostgresTestServer


def _send(client: httpx.Client, *distinct_ids: str) -> None:
    batch = [{"event": "seen", "distinct_id": id} for id in distinct_ids]
    assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch}).status_code == 200


def _events(client: httpx.Client) -> Any:
    body = {"event": "seen", "dry_run": True}
    return client.post("/api/projects/1/events/delete/", json=body).json()["events"]


def _persons(client: httpx.Client) -> Any:
    return client.get("/api/projects/1/persons/").json()["count"]


def _replicated_ids(client: httpx.Client) -> list[str]:
    text = "SELECT distinct_id FROM person_distinct_ids ORDER BY distinct_id"
    body = {"query": {"kind": "HogQLQuery", "query": text}}
    return [row[0] for row in client.post("/api/projects/1/query/", json=body).json()["results"]]


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> list[dict[str, str]]:
    """Return the settings of an installation and of an empty one on the same engine."""
    if request.param == "sqlite":
        return [{}, {}]
    postgres = request.getfixturevalue("postgres")
    return [{"database_url": postgres.create_database()} for _ in range(2)]


@pytest.mark.parametrize(
    ("databases", "is_running"),
    # Without a service the events are copied in the same way on both engines.
    [("sqlite", True), ("sqlite", False), ("postgresql", True)],
    indirect=["databases"],
)
def test_a_backup_becomes_an_installation_with_the_same_people_events_and_secrets(
    tmp_path: Path, is_running: bool, databases: list[dict[str, str]]
) -> None:
    data, folder, fresh = tmp_path / "data", tmp_path / "it's a backup", tmp_path / "fresh"
    old, new = databases
    with LiveServer(data, **old) as server, server.client() as client:
        _send(client, "ann", "bob", "ann")
        wait_for(lambda: bool(_events(client) == 3), at_most_s=120)
        _send(client, "cid")
        if is_running:
            done = run_in_process("backup", str(folder), data=data, **old)
            _send(client, "late")
    if not is_running:
        done = run_in_process("backup", str(folder), data=data, **old)
    assert (done.returncode, "The backup is in" in done.stdout) == (0, True), done.stderr
    assert ("The service is running" in done.stderr) is is_running
    assert ("HEDGEROW_DATABASE_URL=" in done.stdout) is bool(old)
    assert json.loads((folder / "backup.json").read_text())["events"] is True
    state = "postgresql/projects" if old else "hedgerow.db"
    for name in ("", state, "encryption.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) & 0o077 == 0
    assert (folder / "encryption.key").read_bytes() == (data / "encryption.key").read_bytes()

    restored = run_in_process("restore", str(folder), data=fresh, **new)
    assert restored.returncode == 0, restored.stderr
    assert run_in_process("doctor", data=fresh, **new).returncode == 0
    with LiveServer(fresh, **new) as server, server.client() as client:
        wait_for(lambda: bool(_events(client) == 4), at_most_s=120)
        assert _persons(client) == 3
        _send(client, "dee")
        wait_for(lambda: bool(_events(client) == 5), at_most_s=120)
        # The replicas go on where the copy ended.
        assert _replicated_ids(client) == ["ann", "bob", "cid", "dee"]


def test_a_backup_needs_an_empty_folder_and_a_restore_an_empty_place(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    folder.mkdir()
    (folder / "mine").touch()
    assert run_in_process("init", data=data).returncode == 0
    taken = run_in_process("backup", str(folder), data=data)
    assert (taken.returncode, "is not empty" in taken.stderr) == (1, True)
    incomplete = run_in_process("restore", str(folder), data=tmp_path / "new")
    assert (incomplete.returncode, "not a complete backup" in incomplete.stderr) == (1, True)
    (folder / "backup.json").write_text("{}")
    used = run_in_process("restore", str(folder), data=data)
    assert (used.returncode, "already" in used.stderr) == (1, True)
    assert sorted(path.name for path in folder.iterdir()) == ["backup.json", "mine"]


def test_a_restore_needs_the_engine_of_the_backup_and_an_empty_database(
    tmp_path: Path, postgres: PostgresTestServer
) -> None:
    used = {"database_url": postgres.create_database()}
    for name, settings in {"lite": {}, "server": used}.items():
        assert run_in_process("init", data=tmp_path / name, **settings).returncode == 0
        target = str(tmp_path / f"{name}-backup")
        assert run_in_process("backup", target, data=tmp_path / name, **settings).returncode == 0
    problems: dict[tuple[str, str], tuple[dict[str, str], str]] = {
        ("lite", "fresh"): ({"database_url": postgres.create_database()}, "on SQLite"),
        ("server", "fresh"): ({}, "set HEDGEROW_DATABASE_URL to an empty"),
        ("server", "other"): (used, "already holds an installation"),
        ("server", "server"): ({"database_url": postgres.create_database()}, "already holds"),
    }
    for (backup, data), (settings, problem) in problems.items():
        done = run_in_process(
            "restore", str(tmp_path / f"{backup}-backup"), data=tmp_path / data, **settings
        )
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "fresh").exists()
    manifest = tmp_path / "server-backup" / "backup.json"
    empty = {"database_url": postgres.create_database()}
    # As a version without checksums wrote it.
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "checksum": None, "files": None}))
    for before, after, problem in (
        ('"migration": "0', '"migration": "9', "newer version"),
        ('"tables"', '"other"', "is damaged"),
        ("{", "", "is damaged"),
    ):
        manifest.write_text(manifest.read_text().replace(before, after, 1))
        done = run_in_process("restore", str(manifest.parent), data=tmp_path / "fresh", **empty)
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_clickhouse_is_backed_up_with_its_own_tools(tmp_path: Path, command: str) -> None:
    clickhouse = {"clickhouse_url": "http://127.0.0.1/x"}
    done = run_in_process(command, str(tmp_path / "backup"), data=tmp_path, **clickhouse)
    assert (done.returncode, "BACKUP" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []
