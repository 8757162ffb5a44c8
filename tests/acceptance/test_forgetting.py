"""Who is to be forgotten goes with their events; events are deleted by choice and by age."""

import json
import subprocess
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.file_contents import find_any_text, read_files
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    LiveWorker,
    read_error,
    run_concurrently,
    run_in_process,
    wait_for,
)
from tests.support.postgres import PostgresTestServer


def _send(client: httpx.Client, *distinct_ids: str, event: str = "seen") -> None:
    batch = [{"event": event, "distinct_id": id} for id in distinct_ids]
    assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch}).status_code == 200


def _person(client: httpx.Client, distinct_id: str) -> list[Any]:
    path = "/api/projects/1/persons/"
    found: list[Any] = client.get(path, params={"distinct_id": distinct_id}).json()["results"]
    return found


def _activities(client: httpx.Client, scope: str) -> list[Any]:
    path = "/api/projects/1/activity_log/"
    found: list[Any] = client.get(path, params={"scope": scope, "limit": 1}).json()["results"]
    return found


def _last_activity(client: httpx.Client, scope: str) -> Any:
    return _activities(client, scope)[0]


@pytest.mark.parametrize(("query", "deleted"), [("?delete_events=true", 3), ("", None)])
def test_person_is_deleted_with_events_on_request(
    live: LiveServer, query: str, deleted: int | None
) -> None:
    who = f"forgotten-{deleted}"
    with live.client() as client:
        _send(client, who, "somebody-else", who)
        wait_for(lambda: bool(_person(client, who)), at_most_s=120)
        (person,) = _person(client, who)
        _send(client, who)
        gone = client.delete(f"/api/projects/1/persons/{person['id']}/{query}")
        assert (gone.status_code, gone.content) == (204, b"")
        activity = _last_activity(client, "Person")
    assert (activity["activity"], activity["item_id"]) == ("deleted", person["id"])
    assert activity["detail"]["events_deleted"] == deleted


def test_data_of_a_deleted_person_is_gone_from_the_files(tmp_path: Path) -> None:
    """Random text, which no compression hides. Longer than a page, so that pages become free."""
    secrets = [token_hex(4000) for _ in range(3)]
    forgotten = f"forgotten-{token_hex(40)}"
    with LiveServer(tmp_path, purge_interval_s="1") as server, server.client() as client:
        for secret in secrets:
            properties = {"note": secret, "$set": {"note": secret}}
            event = {"event": "seen", "distinct_id": forgotten, "properties": properties}
            event["timestamp"] = "invalid"  # a warning names the distinct id
            sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [event]})
            assert sent.status_code == 200
        _send(client, "remembered", event="kept")
        count = {"query": {"kind": "HogQLQuery", "query": "select count() from events"}}
        query = "/api/projects/1/query/"
        assert client.post(query, json=count).json()["results"] == [[4]]
        assert find_any_text(secrets, read_files(tmp_path))
        (person,) = _person(client, forgotten)
        path = f"/api/projects/1/persons/{person['id']}/?delete_events=true"
        assert client.delete(path).status_code == 204

        def list_deletions(status: str) -> list[Any]:
            path = "/api/projects/1/persons/deletion_status/"
            parameters = {"status": status, "person_uuid": person["id"]}
            found: list[Any] = client.get(path, params=parameters).json()["results"]
            return found

        wait_for(lambda: bool(list_deletions("completed")), at_most_s=300)
        files = read_files(tmp_path)
        assert not find_any_text(secrets, files)
        assert forgotten not in files
        (deletion,) = list_deletions("completed")
        assert deletion["delete_verified_at"] >= deletion["created_at"]
        assert list_deletions("pending") == []
        assert client.post(query, json=count).json()["results"] == [[1]]


def test_deletion_is_refused_while_events_of_the_person_wait(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """They would be stored after it, and bring the person back."""
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "read_after_write_timeout_s": "0.1",
    }
    with (
        LiveServer(tmp_path / "one", "--no-worker", **settings) as server,
        server.client() as client,
    ):
        with LiveWorker(tmp_path / "worker", **settings):
            _send(client, "waited")
            wait_for(lambda: bool(_person(client, "waited")), at_most_s=120)
        _send(client, "waited")
        (person,) = _person(client, "waited")
        path = f"/api/projects/1/persons/{person['id']}/"
        uuids = {"uuids": [str(uuid4())]}
        # Each waits for the events for a while.
        refusals = run_concurrently(
            [
                lambda: client.delete(f"{path}?delete_events=true"),
                lambda: client.delete(path),
                lambda: client.post("/api/projects/1/events/delete/", json=uuids),
            ]
        )
        for refused in refusals:
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert "not stored yet" in read_error(refused)["detail"]
        assert client.get("/api/projects/1/persons/deletion_status/").json()["results"] == []
        assert _person(client, "waited") == [person]
        with LiveWorker(tmp_path / "worker", **settings):
            wait_for(
                lambda: client.delete(f"{path}?delete_events=true").status_code == 204,
                at_most_s=120,
            )
        assert _person(client, "waited") == []
        activity = _last_activity(client, "Person")
        assert activity["detail"]["events_deleted"] == 2


def _delete(client: httpx.Client, **request: Any) -> Any:
    answer = client.post("/api/projects/1/events/delete/", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_events_are_counted_then_deleted_and_recorded(live: LiveServer) -> None:
    with live.client() as client:
        _send(client, "chooser", "chooser", "other", event="chosen for deletion")
        _send(client, "chooser", event="kept from deletion")
        request = {"event": "chosen for deletion", "person": "chooser"}
        assert _delete(client, **request, dry_run=True) == {"events": 2, "deleted": False}
        assert _delete(client, **request) == {"events": 2, "deleted": True}
        activity = _last_activity(client, "Event")
        assert (activity["activity"], activity["detail"]["events_deleted"]) == ("deleted", 2)
        assert (activity["detail"]["event"], activity["detail"]["distinct_ids"]) == (
            "chosen for deletion",
            1,
        )
        assert _delete(client, **request) == {"events": 0, "deleted": True}
        assert _last_activity(client, "Event")["id"] == activity["id"]
        assert (
            _delete(client, event="chosen for deletion", before="2000-01-01", dry_run=True)[
                "events"
            ]
            == 0
        )
        assert _delete(client, event="chosen for deletion")["events"] == 1
        assert _delete(client, event="kept from deletion", dry_run=True)["events"] == 1


@pytest.mark.parametrize(
    ("selection", "attr"),
    [
        ({}, None),
        ({"uuids": ["x"]}, "uuids"),
        ({"before": "soon"}, "before"),
        ({"person": "nobody-at-all"}, "person"),
        ({"event": "a\0"}, "event"),
    ],
)
def test_invalid_selection_deletes_nothing(
    live: LiveServer, selection: dict[str, Any], attr: str | None
) -> None:
    with live.client() as client:
        answer = client.post("/api/projects/1/events/delete/", json=selection)
    assert (answer.status_code, read_error(answer)["attr"]) == (400, attr)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_delete_command_works_while_the_service_runs_and_while_it_is_stopped(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    settings = {}
    if engine == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_migrated_database()

    def delete(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_in_process("events", "delete", *arguments, data=tmp_path, **settings)

    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        _send(client, "ann", "ann", "bob", "cid")
        wait_for(lambda: _delete(client, event="seen", dry_run=True)["events"] == 4, at_most_s=120)
        unconfirmed = delete("--person", "ann")
        assert (unconfirmed.returncode, unconfirmed.stdout) == (
            1,
            "2 event(s) of project 1, 'Default project', match.\n",
        )
        assert "The service is running" in unconfirmed.stderr
        assert "--yes" in unconfirmed.stderr
        done = delete("--person", "ann", "--yes")
        assert (done.returncode, done.stdout.splitlines()[1]) == (0, "Deleted 2 event(s).")
        assert _delete(client, event="seen", dry_run=True)["events"] == 2
        assert _last_activity(client, "Event")["user"]["first_name"] == "hedgerow command line"
        unknown = delete("--person", "nobody", "--yes")
        assert (unknown.returncode, "Person not found." in unknown.stderr) == (1, True)
        invalid = delete("--uuid", "x", "--yes")
        assert (invalid.returncode, "is not a uuid" in invalid.stderr) == (1, True)
        as_json = delete("--person", "bob", "--yes", "--json")
        assert json.loads(as_json.stdout) == {"project": 1, "deleted": 1}
    left = delete("--before", "2100-01-01", "--yes")
    assert (left.stdout.splitlines()[1], left.stderr) == ("Deleted 1 event(s).", "")
    assert [path.name for path in (tmp_path / "events").glob("re*.json")] == []


def test_retention_deletes_old_events(tmp_path: Path) -> None:
    old = {"event": "old", "distinct_id": "a", "timestamp": "2020-01-01T00:00:00Z"}
    with LiveServer(tmp_path) as server, server.client() as client:
        sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [old]})
        assert sent.status_code == 200
        _send(client, "a", event="new")
        left = {"before": "2100-01-01", "dry_run": True}
        wait_for(lambda: _delete(client, **left)["events"] == 2, at_most_s=120)
        kept = client.patch("/api/projects/1/", json={"retention_days": 30}).json()
        assert kept["retention_days"] == 30
    with LiveServer(tmp_path) as server, server.client() as client:
        wait_for(lambda: _delete(client, **left)["events"] == 1, at_most_s=120)
        wait_for(lambda: bool(_activities(client, "Event")), at_most_s=120)
        activity = _last_activity(client, "Event")
    assert (activity["user"]["first_name"], activity["detail"]["events_deleted"]) == ("System", 1)
