"""Who is to be forgotten goes with their events; events are deleted by choice and by age."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import PROJECT_KEY, LiveServer, error_of, run_hedgerow, seconds_until


def _send(client: httpx.Client, *distinct_ids: str, event: str = "seen") -> None:
    batch = [{"event": event, "distinct_id": id} for id in distinct_ids]
    assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch}).status_code == 200


def _person(client: httpx.Client, distinct_id: str) -> list[Any]:
    path = "/api/projects/1/persons/"
    found: list[Any] = client.get(path, params={"distinct_id": distinct_id}).json()["results"]
    return found


def _told(client: httpx.Client, scope: str) -> Any:
    path = "/api/projects/1/activity_log/"
    return client.get(path, params={"scope": scope, "limit": 1}).json()["results"][0]


@pytest.mark.parametrize(("query", "deleted"), [("?delete_events=true", 3), ("", None)])
def test_a_person_goes_with_their_events_if_that_is_wished(
    live: LiveServer, query: str, deleted: int | None
) -> None:
    who = f"forgotten-{deleted}"
    with live.client() as client:
        _send(client, who, "somebody-else", who)
        seconds_until(lambda: bool(_person(client, who)), at_most_s=30)
        (person,) = _person(client, who)
        _send(client, who)
        gone = client.delete(f"/api/projects/1/persons/{person['id']}/{query}")
        assert (gone.status_code, gone.content) == (204, b"")
        told = _told(client, "Person")
    assert (told["activity"], told["item_id"]) == ("deleted", person["id"])
    assert told["detail"]["events_deleted"] == deleted


def _delete(client: httpx.Client, **wish: Any) -> Any:
    answer = client.post("/api/projects/1/events/delete/", json=wish)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_events_are_counted_then_deleted_by_what_was_chosen_and_told(live: LiveServer) -> None:
    with live.client() as client:
        _send(client, "chooser", "chooser", "other", event="chosen for deletion")
        _send(client, "chooser", event="kept from deletion")
        wish = {"event": "chosen for deletion", "person": "chooser"}
        assert _delete(client, **wish, dry_run=True) == {"events": 2, "deleted": False}
        assert _delete(client, **wish) == {"events": 2, "deleted": True}
        told = _told(client, "Event")
        assert (told["activity"], told["detail"]["events_deleted"]) == ("deleted", 2)
        assert (told["detail"]["event"], told["detail"]["distinct_ids"]) == (
            "chosen for deletion",
            1,
        )
        assert _delete(client, **wish) == {"events": 0, "deleted": True}
        assert _told(client, "Event")["id"] == told["id"]
        assert (
            _delete(client, event="chosen for deletion", before="2000-01-01", dry_run=True)[
                "events"
            ]
            == 0
        )
        assert _delete(client, event="chosen for deletion")["events"] == 1
        assert _delete(client, event="kept from deletion", dry_run=True)["events"] == 1


@pytest.mark.parametrize(
    ("wish", "attr"),
    [
        ({}, None),
        ({"uuids": ["x"]}, "uuids"),
        ({"before": "soon"}, "before"),
        ({"person": "nobody-at-all"}, "person"),
        ({"event": "a\0"}, "event"),
    ],
)
def test_a_choice_that_cannot_be_read_deletes_nothing(
    live: LiveServer, wish: dict[str, Any], attr: str | None
) -> None:
    with live.client() as client:
        answer = client.post("/api/projects/1/events/delete/", json=wish)
    assert (answer.status_code, error_of(answer)["attr"]) == (400, attr)


def test_the_terminal_names_the_way_through_the_service_while_that_runs_and_deletes_after(
    tmp_path: Path,
) -> None:
    with LiveServer(tmp_path) as server:
        with server.client() as client:
            _send(client, "ann", "ann", "bob")
            wish = {"event": "seen", "dry_run": True}
            seconds_until(lambda: _delete(client, **wish)["events"] == 3, at_most_s=30)
        refused = run_hedgerow("events", "delete", "--person", "ann", data=tmp_path)
    assert refused.returncode == 1
    assert "in use by process" in refused.stderr
    assert '/events/delete/ -d \'{"person": "ann"}\'' in refused.stderr
    unasked = run_hedgerow("events", "delete", "--person", "ann", data=tmp_path)
    assert (unasked.returncode, unasked.stdout) == (
        1,
        "2 event(s) of project 1, 'Default project'.\n",
    )
    assert "Say --yes" in unasked.stderr
    done = run_hedgerow("events", "delete", "--person", "ann", "--yes", data=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "Deleted 2 event(s).")
    left = run_hedgerow("events", "delete", "--before", "2100-01-01", "--yes", data=tmp_path)
    assert left.stdout.splitlines()[1] == "Deleted 1 event(s)."
    with LiveServer(tmp_path) as server, server.client() as client:
        told = _told(client, "Event")
    assert told["user"]["first_name"] == "hedgerow command line"


def test_a_project_forgets_what_is_older_than_it_keeps(tmp_path: Path) -> None:
    old = {"event": "old", "distinct_id": "a", "timestamp": "2020-01-01T00:00:00Z"}
    with LiveServer(tmp_path) as server, server.client() as client:
        sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [old]})
        assert sent.status_code == 200
        _send(client, "a", event="new")
        left = {"before": "2100-01-01", "dry_run": True}
        seconds_until(lambda: _delete(client, **left)["events"] == 2, at_most_s=30)
        kept = client.patch("/api/projects/1/", json={"retention_days": 30}).json()
        assert kept["retention_days"] == 30
    with LiveServer(tmp_path) as server, server.client() as client:
        seconds_until(lambda: _delete(client, **left)["events"] == 1, at_most_s=30)
        told = _told(client, "Event")
    assert (told["user"]["first_name"], told["detail"]["events_deleted"]) == ("System", 1)
