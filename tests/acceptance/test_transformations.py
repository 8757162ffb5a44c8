"""Transformations end to end: events are captured by a live service and transformed."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.test_components_command import install
from tests.acceptance.test_deliveries import capture
from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.receiver import Receiver, wait_until
from tests.support.records import create_enabled_record, delete_records_after

RECORDS = "/api/environments/1/pipeline_transformation_configs/"
DROP, RENAME, REMOVE, HASH, MASK_IP, USER_AGENT, BOTS = range(61, 68)
RAISED = (
    "KeyError",
    "KeyboardInterrupt",
    "RecursionError",
    "MemoryError",
    "StopIteration",
    "GeneratorExit",
    "SystemExit",
)
PACKAGE = """
from hedgerow.plugin import Component, Family

class Odd(KeyError):
    def __str__(self):
        raise self

class Interrupt(KeyboardInterrupt):
    pass

RAISED = {"KeyError": Odd("x"), "KeyboardInterrupt": Interrupt()} | {
    kind.__name__: kind("why")
    for kind in (RecursionError, MemoryError, StopIteration, GeneratorExit, SystemExit)
}

def transform(settings):
    def shout(event):
        if name := event.properties.get("raise"):
            raise RAISED[name]
        if "explode" in event.properties:
            event.properties["half"] = "done"
            raise SystemExit(1)
        return event.with_properties({**event.properties, "shout": event.event.upper()})
    return shout

COMPONENT = Component(
    key="acme/shout",
    family=Family.TRANSFORMATION,
    name="Shout",
    description="Adds the name in upper case.",
    version="0.1",
    transform=transform,
)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    packages = tmp_path_factory.mktemp("packages")
    install(packages, "acme_shout", PACKAGE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(packages))
        server = LiveServer(
            tmp_path_factory.mktemp("transformations"),
            allow_private_destinations="true",
        )
    with server:
        yield server


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with delete_records_after(server, RECORDS) as opened:
        yield opened


def transformation(client: httpx.Client, plugin: int, **settings: Any) -> str:
    return create_enabled_record(client, RECORDS, plugin, **settings)


def stored(client: httpx.Client, uuid: str) -> dict[str, Any] | None:
    """An event's properties; None if it is not there."""
    response = client.get(f"/api/projects/1/events/{uuid}/")
    if response.status_code == 404:
        return None
    found: dict[str, Any] = response.json()["properties"]
    return found


def metrics(client: httpx.Client, path: str) -> tuple[int, int, int]:
    totals = client.get(f"{path}metrics/").json()
    assert len(totals["hours"]) <= 2
    for name in ("changed", "dropped", "failed"):
        assert totals[name] == sum(hour[name] for hour in totals["hours"])
    return totals["changed"], totals["dropped"], totals["failed"]


def test_events_and_persons_are_stored_as_transformed(client: httpx.Client) -> None:
    """In their order, from the first event after the answer on, destinations too."""
    with Receiver() as receiver:
        base = RECORDS.replace("transformation", "destination")
        hook = f"{base}{client.post(base, json={'plugin': 1}).json()['id']}/"
        client.put(f"{hook}config/", json={"url": receiver.url})
        client.patch(hook, json={"enabled": True})
        drop = transformation(client, DROP, events=["noise"])
        rename = transformation(client, RENAME, names={"mail": "email", "$set.mail": "$set.email"})
        hashed = transformation(client, HASH, names=["email", "$set.email"], salt="pepper")
        ip = transformation(client, MASK_IP)
        properties = {"mail": "ann@example.com", "$set": {"mail": "a"}, "$ip": "192.0.2.77"}
        seen, noise = capture(client, "seen", "noise", by="transformed", **properties)
        after = stored(client, seen)
        assert after is not None
        assert after["email"].startswith("cea0615277db")
        assert "mail" not in after
        assert after["$ip"] == "192.0.2.0"
        assert stored(client, noise) is None
        person = client.get("/api/projects/1/persons/?distinct_id=transformed").json()
        held = person["results"][0]["properties"]
        assert held["email"] == after["$set"]["email"]
        assert len(held["email"]) == 64
        assert "mail" not in held
        receiver.wait_for(1)
        assert receiver.names == ["seen"]
        assert "ann@example.com" not in receiver.received[0].body.decode()
        client.delete(hook)
    assert metrics(client, drop) == (0, 1, 0)
    assert [metrics(client, each) for each in (rename, hashed, ip)] == [(1, 0, 0)] * 3
    assert client.get("/api/projects/1/ingestion_warnings/").json()["results"] == []


def test_the_client_address_is_masked_or_removed(client: httpx.Client) -> None:
    """Also where only the connection tells it."""
    path = transformation(client, MASK_IP)
    (uuid,) = capture(client, "seen")
    assert (stored(client, uuid) or {})["$ip"] == "127.0.0.0"
    client.put(f"{path}config/", json={"mode": "remove"})
    (uuid,) = capture(client, "seen", a=1)
    assert stored(client, uuid) == {"a": 1}


def test_a_new_order_applies_to_the_next_event(client: httpx.Client) -> None:
    first = transformation(client, RENAME, names={"a": "b"})
    second = transformation(client, REMOVE, names=["b"])
    (uuid,) = capture(client, "seen", a=1)
    assert {"a", "b"}.isdisjoint(stored(client, uuid) or {"a": 0})
    ids = [client.get(each).json()["id"] for each in (second, first)]
    orders = {"orders": {str(id): place for place, id in enumerate(ids, 1)}}
    assert client.patch(f"{RECORDS}rearrange/", json=orders).status_code == 200
    (uuid,) = capture(client, "seen", a=1)
    assert (stored(client, uuid) or {})["b"] == 1
    activity = client.get(f"{first}activity/?format=json").json()["results"]
    assert activity[0]["activity"] == "order_changed"


def test_a_repeated_event_is_counted_once_unless_it_was_dropped(client: httpx.Client) -> None:
    path = transformation(client, DROP, events=["noise"])
    change = transformation(client, REMOVE, names=["a"])
    batch = [
        {"event": name, "distinct_id": "ann", "uuid": f"0199{n:04}-0000-7000-8000-000000000000"}
        for n, name in enumerate(("noise", "seen"))
    ]
    body = {
        "api_key": PROJECT_KEY,
        "batch": [{**each, "properties": {"a": 1}} for each in batch * 3],
    }
    for _ in range(2):
        assert client.post("/batch/", json=body).status_code == 200
        assert stored(client, batch[1]["uuid"]) is not None
    assert metrics(client, change) == (1, 0, 0)
    assert metrics(client, path) == (0, 2, 0), "dropped events are not deduplicated"


def test_a_component_of_a_package_transforms_and_may_fail(client: httpx.Client) -> None:
    listed = client.get("/api/organizations/@current/pipeline_transformations/").json()
    [plugin] = [each["id"] for each in listed["results"] if each["name"] == "Shout"]
    path = transformation(client, plugin)
    (uuid,) = capture(client, "seen")
    assert (stored(client, uuid) or {})["shout"] == "SEEN"
    (uuid,) = capture(client, "seen", explode=True)
    kept = stored(client, uuid)
    assert kept is not None
    assert kept.keys().isdisjoint({"shout", "half"})
    assert metrics(client, path) == (1, 0, 1)
    error = "The component failed: SystemExit"
    wait_until(lambda: client.get(path).json()["error"] == error)
    [line] = client.get(f"{path}logs/?level=error").json()["results"]
    assert (line["message"], line["uuid"]) == (f"The event was left unchanged: {error}", uuid)
    tried = client.post(f"{path}test/", json={"properties": {"explode": 1}}).json()
    assert (tried["error"], tried["after"]) == (error, tried["before"])
    capture(client, "seen")
    wait_until(lambda: client.get(path).json()["error"] == "")


def test_no_exception_of_a_package_stops_the_service(client: httpx.Client) -> None:
    listed = client.get("/api/organizations/@current/pipeline_transformations/").json()
    [plugin] = [each["id"] for each in listed["results"] if each["name"] == "Shout"]
    path = transformation(client, plugin)
    sent = [capture(client, "seen", **{"raise": name})[0] for name in RAISED]
    for uuid, name in zip(sent, RAISED, strict=True):
        kept = stored(client, uuid)
        assert kept is not None
        assert (kept["raise"], kept.get("shout")) == (name, None)
    (uuid,) = capture(client, "seen")
    assert (stored(client, uuid) or {})["shout"] == "SEEN"
    assert metrics(client, path) == (1, 0, len(RAISED))
    tried = client.post(f"{path}test/", json={"properties": {"raise": "KeyboardInterrupt"}}).json()
    assert tried["error"] == "The component failed: Interrupt"


def test_a_record_without_settings_leaves_events_unchanged_and_shows_an_error(
    client: httpx.Client,
) -> None:
    made = client.post(RECORDS, json={"plugin": HASH, "enabled": True}).json()
    (uuid,) = capture(client, "seen", email="ann@example.com")
    assert (stored(client, uuid) or {})["email"] == "ann@example.com"
    path = f"{RECORDS}{made['id']}/"
    wait_until(lambda: client.get(path).json()["error"] == "names: This field is required.")
    assert metrics(client, path) == (0, 0, 1)


def test_bots_are_marked_and_user_agents_parsed(client: httpx.Client) -> None:
    transformation(client, BOTS)
    transformation(client, USER_AGENT)
    browser = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    (person,) = capture(client, "seen", **{"$raw_user_agent": browser})
    (bot,) = capture(client, "seen", **{"$raw_user_agent": "Googlebot/2.1"})
    found = stored(client, person)
    assert found is not None
    assert (found["$browser"], found["$os"], found["$device_type"]) == (
        "Firefox",
        "Linux",
        "Desktop",
    )
    assert stored(client, bot) is None
