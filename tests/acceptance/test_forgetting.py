"""Who is to be forgotten is forgotten with their events."""

from typing import Any

import httpx
import pytest

from tests.live import PROJECT_KEY, LiveServer, seconds_until


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
