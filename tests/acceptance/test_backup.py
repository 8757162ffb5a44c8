"""A backup of a running service restores completely in another directory."""

import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer, run_hedgerow, run_in_process, wait_for
from tests.support.stored_events import count_waiting_persons, read_stored_events


def _send(client: httpx.Client, *distinct_ids: str) -> None:
    batch = [{"event": "seen", "distinct_id": id} for id in distinct_ids]
    assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch}).status_code == 200


def _events(client: httpx.Client) -> Any:
    body = {"event": "seen", "dry_run": True}
    return client.post("/api/projects/1/events/delete/", json=body).json()["events"]


def _persons(client: httpx.Client) -> Any:
    return client.get("/api/projects/1/persons/").json()["count"]


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_a_backup_becomes_an_installation_with_the_same_people_events_and_secrets(
    tmp_path: Path, is_running: bool
) -> None:
    data, folder, fresh = tmp_path / "data", tmp_path / "it's a backup", tmp_path / "fresh"
    with LiveServer(data) as server, server.client() as client:
        _send(client, "ann", "bob", "ann")
        wait_for(lambda: bool(_events(client) == 3), at_most_s=30)
        _send(client, "cid")
        if is_running:
            done = run_hedgerow("backup", str(folder), data=data)
            _send(client, "late")
    if not is_running:
        done = run_hedgerow("backup", str(folder), data=data)
    assert (done.returncode, "The backup is in" in done.stdout) == (0, True), done.stderr
    assert ("The service is running" in done.stderr) is is_running
    assert json.loads((folder / "backup.json").read_text())["events"] is True
    for name in ("", "hedgerow.db", "encryption.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) & 0o077 == 0
    assert (folder / "encryption.key").read_bytes() == (data / "encryption.key").read_bytes()

    restored = run_hedgerow("restore", str(folder), data=fresh)
    assert restored.returncode == 0, restored.stderr
    with LiveServer(fresh) as server, server.client() as client:
        wait_for(lambda: bool(_events(client) == 4), at_most_s=30)
        assert _persons(client) == 3
        _send(client, "dee")
        wait_for(lambda: bool(_events(client) == 5), at_most_s=30)
        wait_for(lambda: not count_waiting_persons(fresh), at_most_s=30)
    query = "SELECT distinct_id FROM person_distinct_ids FINAL ORDER BY 1"
    copies = read_stored_events(fresh, query)
    assert [row["distinct_id"] for row in copies] == ["ann", "bob", "cid", "dee"]


def test_a_backup_needs_an_empty_folder_and_a_restore_an_empty_place(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    folder.mkdir()
    (folder / "mine").touch()
    assert run_in_process("init", data=data).returncode == 0
    taken = run_in_process("backup", str(folder), data=data)
    assert (taken.returncode, "is not empty" in taken.stderr) == (1, True)
    incomplete = run_in_process("restore", str(folder), data=tmp_path / "new")
    assert (incomplete.returncode, "not a complete backup" in incomplete.stderr) == (1, True)
    (folder / "backup.json").touch()
    used = run_in_process("restore", str(folder), data=data)
    assert (used.returncode, "already" in used.stderr) == (1, True)
    assert sorted(path.name for path in folder.iterdir()) == ["backup.json", "mine"]


@pytest.mark.parametrize("command", ["backup", "restore"])
@pytest.mark.parametrize("engine", ["database_url", "clickhouse_url"])
def test_servers_are_backed_up_with_their_own_tools(
    tmp_path: Path, command: str, engine: str
) -> None:
    url = {"database_url": "postgresql://127.0.0.1/x", "clickhouse_url": "http://127.0.0.1/x"}
    done = run_in_process(command, str(tmp_path / "backup"), data=tmp_path, **{engine: url[engine]})
    assert (done.returncode, "pg_dump" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []
