"""Captured events in the event store: once each, with their timestamp and person."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.ingestion.persons.loaded_state import person_uuid
from hedgerow.projects.model import ProjectId
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.postgres import PostgresTestServer
from tests.support.stored_events import read_stored_events, wait_until_stored

UUID = "0199aaaa-0000-7000-8000-0000000000"
Row = dict[str, Any]


def event(name: str, distinct_id: str = "ann", **fields: Any) -> dict[str, Any]:
    return {"event": name, "distinct_id": distinct_id, **fields}


def send(client: httpx.Client, *events: dict[str, Any], path: str = "/batch/", **body: Any) -> None:
    response = client.post(path, json={"api_key": PROJECT_KEY, "batch": events, **body})
    assert (response.status_code, response.json()) == (200, {"status": 1})


def send_timestamps(client: httpx.Client) -> None:
    written = "2026-01-02T03:04:05.678901Z"
    send(client, event("as written", timestamp=written))
    forms = {
        "with a zone": "2026-01-02T05:04:05.678901+02:00",
        "with half a zone": "2026-01-02T06:04:05.678901+03",
        "with a space": "2026-01-02 03:04:05.678901",
        "with slashes": "2026/01/02 03:04:05.678901",
        "milliseconds": "1767323045678",
        "seconds": "1767323045",
        "a day": "2026-01-02",
        "mail": "Fri, 02 Jan 2026 03:04:05 GMT",
    }
    send(client, *(event(name, timestamp=text) for name, text in forms.items()))
    # The client's clock is a day behind, and so are its timestamps.
    behind = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    send(client, event("corrected", timestamp=behind), sent_at=behind)
    ignored = {"$ignore_sent_at": True}
    send(client, event("uncorrected", timestamp=behind, properties=ignored), sent_at=behind)
    before = int((time.time() - 86400) * 1000)
    send(client, event("corrected by query", timestamp=behind), path=f"/e/?_={before}")
    send(client, event("offset", offset=3_600_000), event("both", offset=5, timestamp=written))
    send(client, event("unreadable", timestamp="soon"), event("none"))
    ahead = (datetime.now(UTC) + timedelta(hours=24)).isoformat()
    send(client, event("ahead", timestamp=ahead), event("old", timestamp="0001-01-01T00:00:00Z"))


def send_duplicates(client: httpx.Client) -> None:
    for turn in range(3):
        send(client, event("first", uuid=UUID + "01", properties={"turn": turn}))
    send(client, event("first", uuid=UUID.upper() + "01"), event("second", uuid=UUID + "02"))
    send(client, event("twice", uuid=UUID + "03"), event("twice", uuid=UUID + "03"))


def send_person_events(client: httpx.Client) -> None:
    send(client, event("anonymous", "anon", properties={"$set": {"a": 1}}))
    send(client, event("$identify", "bob", properties={"$anon_distinct_id": "anon"}))
    send(client, event("identified", "bob", properties={"$set": {"b": 2}}))
    send(client, event("profileless", "cid", properties={"$process_person_profile": False}))
    send(client, event("upgraded", "bob", properties={"$process_person_profile": False}))


def send_unusual_events(client: httpx.Client) -> None:
    send(client, event("historical"), historical_migration=True)
    send(client, event("not historical", historical_migration=True))
    odd = {"😀": "ü \u2028 ' \" \\ %", "deep": {"a": [1, None, {"b": 1.5}]}, "big": 2**70}
    send(client, event("odd 😀\n\t'\"", "bob 😀 ' \\", properties=odd))
    called = {"$feature_flag": "f", "$feature_flag_response": "v", "$feature/f": "v"}
    send(client, event("$feature_flag_called", properties=called))
    link = {"tag_name": "a", "$el_text": "Go", "attr__href": "/x", "attr__class": "b a"}
    elements = [{**link, "nth_child": 1, "nth_of_type": 2}, {"tag_name": "body"}]
    send(client, event("$autocapture", properties={"$elements": elements}))
    identity = {"$session_id": "s1", "$window_id": "w1", "$groups": {"company": "acme"}}
    send(client, event("of a session", properties=identity))
    send(client, event("of a list", properties={"token": PROJECT_KEY, "a": 1}))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    data = tmp_path_factory.mktemp("stored")
    with LiveServer(data) as server, server.client(key=None) as client:
        senders: tuple[Callable[[httpx.Client], None], ...] = (
            send_timestamps,
            send_duplicates,
            send_person_events,
            send_unusual_events,
        )
        for sender in senders:
            sender(client)
        wait_until_stored(data)
    return read_stored_events(data)


@pytest.fixture(scope="module")
def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row["event"]: row for row in rows}


def parse_time(row: Row, column: str = "timestamp") -> datetime:
    return datetime.fromisoformat(row[column])


WRITTEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("as written", WRITTEN),
        ("with a zone", WRITTEN),
        ("with half a zone", WRITTEN),
        ("with a space", WRITTEN),
        ("with slashes", WRITTEN),
        ("milliseconds", WRITTEN.replace(microsecond=678000)),
        ("seconds", WRITTEN.replace(microsecond=0)),
        ("a day", datetime(2026, 1, 2, tzinfo=UTC)),
        ("mail", WRITTEN.replace(microsecond=0)),
        ("both", WRITTEN),
        ("old", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_timestamp_of_the_client_is_stored(
    by_name: dict[str, Row], name: str, expected: datetime
) -> None:
    assert parse_time(by_name[name]) == expected


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("corrected", timedelta()),
        ("corrected by query", timedelta()),
        ("uncorrected", timedelta(days=1)),
        ("offset", timedelta(hours=1)),
        ("unreadable", timedelta()),
        ("none", timedelta()),
        ("ahead", timedelta()),
    ],
)
def test_event_without_timestamp_gets_the_arrival_time(
    by_name: dict[str, Row], name: str, before: timedelta
) -> None:
    row = by_name[name]
    assert abs(parse_time(row, "created_at") - before - parse_time(row)) < timedelta(minutes=10)


def test_duplicate_uuid_keeps_the_first_event(rows: list[Row]) -> None:
    for number, name in ((1, "first"), (2, "second"), (3, "twice")):
        [row] = [row for row in rows if row["uuid"] == f"{UUID}{number:02}"]
        assert row["event"] == name
    [first] = [row for row in rows if row["event"] == "first"]
    assert json.loads(first["properties"])["turn"] == 0
    assert len({row["uuid"] for row in rows}) == len(rows)


def test_duplicate_uuid_of_many_persons_is_stored_once(
    tmp_path: Path, postgres: PostgresTestServer
) -> None:
    """The events are in all buckets, which a worker processes at the same time."""
    settings = {"database_url": postgres.create_database()}
    with LiveServer(tmp_path, **settings) as server, server.client(key=None) as client:
        same = [event("same", f"person {number}", uuid=UUID + "04") for number in range(64)]
        send(client, *same)
        send(client, event("last", "person 0"))
        with server.client() as reader:
            wait_for(lambda: len(_list_events(reader, "last")) == 1, at_most_s=120)
            assert len(_list_events(reader, "same")) == 1


def _list_events(client: httpx.Client, name: str) -> list[Row]:
    found: list[Row] = client.get("/api/projects/1/events/", params={"event": name}).json()[
        "results"
    ]
    return found


def test_event_has_the_person_at_its_time(by_name: dict[str, Row]) -> None:
    anonymous, merged = by_name["anonymous"], by_name["identified"]
    assert anonymous["person_id"] == person_uuid(ProjectId(1), "anon")
    assert merged["person_id"] == by_name["$identify"]["person_id"]
    assert json.loads(anonymous["person_properties"])["a"] == 1
    assert json.loads(merged["person_properties"]) | {"a": 1, "b": 2} == json.loads(
        merged["person_properties"]
    )
    assert by_name["profileless"]["person_mode"] == "propertyless"
    assert json.loads(by_name["profileless"]["person_properties"]) == {}
    assert by_name["profileless"]["person_id"] == person_uuid(ProjectId(1), "cid")
    assert by_name["upgraded"]["person_mode"] == "force_upgrade"
    assert by_name["upgraded"]["person_id"] == merged["person_id"]


def test_only_a_batch_can_be_historical(by_name: dict[str, Row]) -> None:
    assert by_name["historical"]["historical_migration"] is True
    assert by_name["not historical"]["historical_migration"] is False


def test_names_ids_and_properties_are_stored_unchanged(by_name: dict[str, Row]) -> None:
    row = by_name["odd 😀\n\t'\""]
    assert row["distinct_id"] == "bob 😀 ' \\"
    properties = json.loads(row["properties"])
    assert properties["😀"] == "ü \u2028 ' \" \\ %"
    assert properties["deep"] == {"a": [1, None, {"b": 1.5}]}
    assert properties["big"] == 2**70


def test_feature_flag_called_is_in_the_properties(by_name: dict[str, Row]) -> None:
    properties = json.loads(by_name["$feature_flag_called"]["properties"])
    assert properties["$feature/f"] == properties["$feature_flag_response"] == "v"


def test_elements_are_stored_as_a_chain(by_name: dict[str, Row]) -> None:
    row = by_name["$autocapture"]
    assert row["elements_chain"] == (
        'a.a.b:attr__class="b a"attr__href="/x"href="/x"nth-child="1"nth-of-type="2"text="Go"'
        ';body:nth-child="0"nth-of-type="0"'
    )
    assert "$elements" not in json.loads(row["properties"])


def test_groups_get_a_type_index(by_name: dict[str, Row]) -> None:
    properties = json.loads(by_name["of a session"]["properties"])
    assert properties["$group_0"] == "acme"
    assert properties["$session_id"] == "s1"
