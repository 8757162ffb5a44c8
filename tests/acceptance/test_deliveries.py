"""Destinations deliver: a live service, a real receiver, and what goes wrong between them."""

import base64
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.live import PROJECT_KEY, LiveServer
from tests.receiver import DROPS, HANGS, Answer, Received, Receiver, wait_until

RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK = 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("deliveries")
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened
        for record in opened.get(RECORDS).json()["results"]:
            opened.delete(f"{RECORDS}{record['id']}/")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def destination(client: httpx.Client, url: str, **settings: Any) -> str:
    """The path of a new enabled webhook."""
    made = client.post(RECORDS, json={"plugin": WEBHOOK})
    assert made.status_code == 201, made.text
    path = f"{RECORDS}{made.json()['id']}/"
    settled = client.put(f"{path}config/", json={"url": url, **settings})
    assert settled.status_code == 200, settled.text
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path


def capture(client: httpx.Client, *names: str, by: str = "ann", **properties: Any) -> list[str]:
    """Uuids of events with these names."""
    uuids = [str(uuid4()) for _ in names]
    batch = [
        {"event": name, "distinct_id": by, "uuid": uuid, "properties": properties}
        for name, uuid in zip(names, uuids, strict=True)
    ]
    answer = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert answer.status_code == 200, answer.text
    return uuids


def shown(client: httpx.Client, path: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(path).json()
    return found


def test_exactly_the_matching_events_are_delivered(
    client: httpx.Client, receiver: Receiver
) -> None:
    destination(
        client,
        receiver.url,
        events=["bought", "done"],
        properties=[{"key": "price", "operator": "gt", "value": 10}],
    )
    capture(client, "bought", "seen", price=20)
    capture(client, "bought", price=5)
    capture(client, "done", price=11)
    receiver.wait_for(2)
    assert sorted(receiver.names) == ["bought", "done"]
    body = receiver.received[0].json
    assert body["event"]["properties"]["price"] in (20, 11)
    assert body["project"] == {"id": 1}
    assert receiver.received[0].headers["webhook-id"] == body["event"]["uuid"]


def test_an_event_from_before_is_not_delivered(client: httpx.Client, receiver: Receiver) -> None:
    capture(client, "before")
    path = destination(client, receiver.url)
    capture(client, "meanwhile")
    client.patch(path, json={"enabled": False})
    capture(client, "after")
    client.patch(path, json={"enabled": True})
    capture(client, "again")
    receiver.wait_for(2)
    assert sorted(receiver.names) == ["again", "meanwhile"]


def test_a_failure_is_made_good(client: httpx.Client, receiver: Receiver) -> None:
    tries: list[str] = []

    def fail_once(received: Received) -> Answer:
        tries.append(received.headers["webhook-id"])
        return Answer(status=500 if len(tries) == 1 else 200)

    receiver.decide = fail_once
    uuids = capture_to(client, receiver, "bought")
    receiver.wait_for(2)
    assert tries == uuids * 2


def capture_to(client: httpx.Client, receiver: Receiver, *names: str, **settings: Any) -> list[str]:
    destination(client, receiver.url, **settings)
    return capture(client, *names)


@pytest.mark.parametrize("kind", [HANGS, DROPS], ids=["hangs", "drops"])
def test_no_answer_is_tried_again(client: httpx.Client, receiver: Receiver, kind: int) -> None:
    first = []

    def once(received: Received) -> Answer:
        first.append(received)
        return Answer(status=kind if len(first) == 1 else 200)

    receiver.decide = once
    uuids = capture_to(client, receiver, "bought")
    receiver.wait_for(2, timeout_s=60)
    assert receiver.uuids == uuids * 2


def test_a_redirect_is_not_followed(client: httpx.Client, receiver: Receiver) -> None:
    with Receiver() as inner:
        receiver.decide = lambda _: Answer(status=307, headers={"location": inner.url})
        path = destination(client, receiver.url)
        capture(client, "bought")
        wait_until(lambda: "redirects" in shown(client, path)["error"])
        assert inner.received == []


def test_a_body_is_made_by_a_template_and_signed(client: httpx.Client, receiver: Receiver) -> None:
    key = b"a secret of some length"
    destination(
        client,
        receiver.url,
        method="PUT",
        headers={"Authorization": "Bearer t"},
        secret="whsec_" + base64.b64encode(key).decode(),
        body={"said": "{{ event.event | upcase }}!", "price": "{{ event.properties.price }}"},
    )
    capture(client, "bought", price=[1, 2.5])
    receiver.wait_for(1)
    (received,) = receiver.received
    assert received.method == "PUT"
    assert received.json == {"said": "BOUGHT!", "price": [1, 2.5]}
    assert received.headers["authorization"] == "Bearer t"
    id, moment = received.headers["webhook-id"], received.headers["webhook-timestamp"]
    signed = f"{id}.{moment}.".encode() + received.body
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert received.headers["webhook-signature"] == f"v1,{signature}"


def test_events_go_in_batches(client: httpx.Client, receiver: Receiver) -> None:
    destination(client, receiver.url, batch_size=5, batch_seconds=1)
    uuids = capture(client, *("seen" for _ in range(7)))
    wait_until(lambda: len(receiver.uuids) >= 7)
    assert sorted(receiver.uuids) == sorted(uuids)
    assert [len(each.json) for each in receiver.received] == [5, 2]


def test_a_bad_destination_is_paused_says_so_and_comes_back(
    client: httpx.Client, receiver: Receiver
) -> None:
    is_well = False

    def decide(_: Received) -> Answer:
        return Answer(status=200 if is_well else 500)

    receiver.decide = decide
    path = destination(client, receiver.url)
    with Receiver() as good:
        destination(client, good.url)
        uuids = capture(client, *("seen" for _ in range(40)))
        wait_until(lambda: "Paused" in shown(client, path)["error"])
        wait_until(lambda: len(good.uuids) == 40)
        assert len(receiver.received) < 40
    is_well = True
    wait_until(lambda: set(receiver.uuids) >= set(uuids), timeout_s=60)
    wait_until(lambda: shown(client, path)["error"] == "")
    told = client.get(f"{path}activity/?format=json").json()["results"]
    assert {"paused", "resumed"} <= {each["activity"] for each in told}


def test_order_is_kept_for_who_asks(client: httpx.Client, receiver: Receiver) -> None:
    failed: set[str] = set()

    def fail_each_first(received: Received) -> Answer:
        name = received.json["event"]["event"]
        if name.endswith("1") and name not in failed:
            failed.add(name)
            return Answer(status=503)
        return Answer()

    receiver.decide = fail_each_first
    destination(client, receiver.url, keep_order=True)
    for by in ("ann", "bob"):
        capture(client, *(f"{by}-{number}" for number in range(5)), by=by)
    wait_until(lambda: len(receiver.names) == 12)
    for by in ("ann", "bob"):
        assert [name for name in receiver.names if name.startswith(by)] == [
            f"{by}-{number}" for number in (0, 1, 1, 2, 3, 4)
        ]


def test_a_private_address_is_refused_unless_allowed(tmp_path: Path, receiver: Receiver) -> None:
    with LiveServer(tmp_path) as running, running.client() as client:
        path = destination(client, receiver.url)
        uuids = capture(client, "seen")
        wait_until(lambda: "private network" in shown(client, path)["error"])
    assert receiver.received == []
    with LiveServer(tmp_path, allow_private_destinations="true"):
        receiver.wait_for(1)
    assert receiver.uuids == uuids


def test_a_setting_that_cannot_be_used_is_refused(client: httpx.Client) -> None:
    made = client.post(RECORDS, json={"plugin": WEBHOOK}).json()
    for settings, attr in (
        ({"url": "ftp://example.com"}, "config__url"),
        ({"url": "http://x", "body": "{{ event."}, "config__body"),
        ({"url": "http://x", "events": "bought"}, "config__events"),
        ({"url": "http://x", "properties": [{"operator": "exact"}]}, "config__properties.0"),
        ({"url": "http://x", "batch_size": 100_000}, "config__batch_size"),
        ({"url": "http://x", "sampling": 0}, "config__sampling"),
    ):
        answer = client.put(f"{RECORDS}{made['id']}/config/", json=settings)
        assert (answer.status_code, answer.json()["attr"]) == (400, attr), json.dumps(settings)
