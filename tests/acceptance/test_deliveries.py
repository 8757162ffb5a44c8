"""Deliveries end to end: a live service and a real receiver that fails in many ways."""

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.contract.test_openapi import valid, without_extras
from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver, wait_until

RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK = 1
WATCHERS_SECRET = "a secret of the watcher"


@pytest.fixture(scope="module")
def watcher() -> Iterator[Receiver]:
    """The receiver of notifications. It is unreachable at first."""
    with Receiver() as running:
        tries = iter([503])
        running.decide = lambda _: PlannedResponse(status=next(tries, 200))
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, watcher: Receiver) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("deliveries")
    with LiveServer(
        data,
        allow_private_destinations="true",
        notification_url=watcher.url,
        notification_secret=WATCHERS_SECRET,
    ) as running:
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
    configured = client.put(f"{path}config/", json={"url": url, **settings})
    assert configured.status_code == 200, configured.text
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


def test_an_event_accepted_while_disabled_is_not_delivered(
    client: httpx.Client, receiver: Receiver
) -> None:
    capture(client, "before")
    path = destination(client, receiver.url)
    capture(client, "meanwhile")
    client.patch(path, json={"enabled": False})
    capture(client, "after")
    client.patch(path, json={"enabled": True})
    capture(client, "again")
    receiver.wait_for(2)
    assert sorted(receiver.names) == ["again", "meanwhile"]


def test_a_failed_delivery_is_retried(client: httpx.Client, receiver: Receiver) -> None:
    tries: list[str] = []

    def fail_once(received: ReceivedRequest) -> PlannedResponse:
        tries.append(received.headers["webhook-id"])
        return PlannedResponse(status=500 if len(tries) == 1 else 200)

    receiver.decide = fail_once
    uuids = capture_to(client, receiver, "bought")
    receiver.wait_for(2)
    assert tries == uuids * 2


def capture_to(client: httpx.Client, receiver: Receiver, *names: str, **settings: Any) -> list[str]:
    destination(client, receiver.url, **settings)
    return capture(client, *names)


def test_retry_after_is_respected(client: httpx.Client, receiver: Receiver) -> None:
    came: list[float] = []

    def busy_once(_: ReceivedRequest) -> PlannedResponse:
        came.append(time.monotonic())
        return (
            PlannedResponse(status=429, headers={"Retry-After": "3"})
            if len(came) == 1
            else PlannedResponse()
        )

    receiver.decide = busy_once
    uuids = capture_to(client, receiver, "bought")
    receiver.wait_for(2)
    assert receiver.uuids == uuids * 2
    assert came[1] - came[0] >= 2.9


def test_a_redirect_is_not_followed(client: httpx.Client, receiver: Receiver) -> None:
    with Receiver() as inner:
        receiver.decide = lambda _: PlannedResponse(status=307, headers={"location": inner.url})
        path = destination(client, receiver.url)
        capture(client, "bought")
        wait_until(lambda: "redirects" in shown(client, path)["error"])
        assert inner.received == []


def test_a_body_is_rendered_by_a_template_and_signed(
    client: httpx.Client, receiver: Receiver
) -> None:
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
    assert_signed(received, key)


def test_events_are_sent_in_batches(client: httpx.Client, receiver: Receiver) -> None:
    destination(client, receiver.url, batch_size=5, batch_seconds=1)
    uuids = capture(client, *("seen" for _ in range(7)))
    wait_until(lambda: len(receiver.uuids) >= 7)
    assert sorted(receiver.uuids) == sorted(uuids)
    # Sent side by side, so either may arrive first.
    assert sorted(len(each.json) for each in receiver.received) == [2, 5]


def test_a_failing_destination_is_paused_and_resumed_with_notifications(
    client: httpx.Client, receiver: Receiver, watcher: Receiver
) -> None:
    is_well = False

    def decide(_: ReceivedRequest) -> PlannedResponse:
        return PlannedResponse(status=200 if is_well else 500)

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
    shown_entries = client.get(f"{path}activity/?format=json").json()["results"]
    assert {"paused", "resumed"} <= {each["activity"] for each in shown_entries}
    wait_until(lambda: len(watcher.received) >= 3)
    kinds = [each.json["type"] for each in watcher.received]
    assert sorted(kinds[1:]) == ["destination.paused", "destination.resumed"]
    paused = next(each for each in watcher.received if each.json["type"].endswith("paused"))
    assert paused.json["data"]["destination_id"] == int(path.rstrip("/").rpartition("/")[2])
    assert "HTTP 500" in paused.json["data"]["error"]
    assert_signed(paused, WATCHERS_SECRET.encode())


def assert_signed(received: ReceivedRequest, key: bytes) -> None:
    id, moment = received.headers["webhook-id"], received.headers["webhook-timestamp"]
    signed = f"{id}.{moment}.".encode() + received.body
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert received.headers["webhook-signature"] == f"v1,{signature}"


def test_keep_order_sends_events_of_a_distinct_id_in_order(
    client: httpx.Client, receiver: Receiver
) -> None:
    failed: set[str] = set()

    def fail_each_first(received: ReceivedRequest) -> PlannedResponse:
        name = received.json["event"]["event"]
        if name.endswith("1") and name not in failed:
            failed.add(name)
            return PlannedResponse(status=503)
        return PlannedResponse()

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
        ({"url": "http://x", "properties": [{"operator": "exact"}]}, "config__properties__0"),
        ({"url": "http://x", "batch_size": 100_000}, "config__batch_size"),
        ({"url": "http://x", "sampling": 0}, "config__sampling"),
    ):
        answer = client.put(f"{RECORDS}{made['id']}/config/", json=settings)
        assert (answer.status_code, answer.json()["attr"]) == (400, attr), json.dumps(settings)


def test_dead_letters_are_listed_and_retried(client: httpx.Client, receiver: Receiver) -> None:
    receiver.decide = lambda _: PlannedResponse(status=400, body=b"no such thing")
    path = destination(client, receiver.url)
    (uuid,) = capture(client, "bought", price=3)
    wait_until(lambda: client.get(f"{path}deliveries/?status=dead").json()["count"] == 1)
    (dead,) = client.get(f"{path}deliveries/").json()["results"]
    assert (dead["uuid"], dead["status"], dead["attempts"]) == (uuid, "dead", 1)
    assert dead["error"] == "HTTP 400: no such thing"
    assert dead["payload"]["event"]["properties"]["price"] == 3
    (line,) = client.get(f"{path}logs/?level=error&search=NO SUCH").json()["results"]
    assert (line["uuid"], line["level"]) == (uuid, "error")
    assert client.get(f"{path}logs/?level=info").json()["count"] == 0
    wait_until(lambda: shown(client, path)["delivery_rate_24h"] == "0.000")
    receiver.decide = lambda _: PlannedResponse()
    again = client.post(f"{path}deliveries/{dead['id']}/retry/")
    assert (again.status_code, again.json()["status"]) == (200, "retrying")
    receiver.wait_for(2)
    assert receiver.uuids == [uuid, uuid]
    wait_until(lambda: client.get(f"{path}deliveries/").json()["count"] == 0)
    metrics = client.get(f"{path}metrics/").json()
    assert (metrics["delivered"], metrics["dead"]) == (1, 1)
    assert sum(hour["delivered"] for hour in metrics["hours"]) == 1
    assert client.post(f"{path}deliveries/{dead['id']}/retry/").status_code == 404
    assert client.post(f"{path}deliveries/x/retry/").status_code == 404
    assert_documented(client, "{record_id}/deliveries/{delivery_id}/retry/", again)
    own = f'{{destination="{path.rstrip("/").rpartition("/")[2]}",project="1"}}'
    for counted in ("delivered", "failed"):
        line = f"hedgerow_deliveries_{counted}_total{own} 1.0"
        wait_until(lambda line=line: line in client.get("/metrics").text)  # type: ignore[misc]
    wait_until(lambda: client.get(RECORDS).json()["results"][-1]["delivery_rate_24h"] == "0.500")
    assert shown(client, path)["error"] == ""


def test_preview_and_test_show_no_secret(client: httpx.Client, receiver: Receiver) -> None:
    receiver.decide = lambda received: PlannedResponse(
        status=202, body=received.headers["authorization"].encode()
    )
    path = destination(
        client,
        receiver.url,
        headers={"Authorization": "Bearer hidden-token"},
        body={"said": "{{ event.event }} by {{ person.properties.name }}"},
    )
    sample = {"event": "bought", "person_properties": {"name": "Ann"}}
    preview = client.post(f"{path}preview/", json=sample).json()
    assert receiver.received == []
    assert (preview["delivered"], preview["error"]) == (False, "")
    (request,) = preview["requests"]
    assert (request["status"], request["response_body"]) == (None, None)
    assert json.loads(request["body"]) == {"said": "bought by Ann"}
    tested = client.post(f"{path}test/", json=sample)
    assert [each.json for each in receiver.received] == [{"said": "bought by Ann"}]
    assert receiver.received[0].headers["authorization"] == "Bearer hidden-token"
    assert tested.json()["delivered"] is True
    assert tested.json()["requests"][0]["status"] == 202
    assert "hidden-token" not in tested.text
    assert client.get(f"{path}metrics/").json()["hours"] == []
    receiver.decide = lambda _: PlannedResponse(status=500, body=b"oh")
    failed = client.post(f"{path}test/", json={}).json()
    assert (failed["delivered"], failed["error"]) == (False, "HTTP 500: oh")
    assert_documented(client, "{record_id}/test/", tested)
    assert_documented(client, "{record_id}/preview/", client.post(f"{path}preview/", json=sample))
    bad = client.post(f"{path}test/", json={"properties": 3})
    assert (bad.status_code, bad.json()["attr"]) == (400, "properties")


def assert_documented(client: httpx.Client, what: str, answer: httpx.Response) -> None:
    document = client.get("/api/schema/").json()
    described = document["paths"][RECORDS.replace("/1/", "/{project_id}/") + what]["post"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.status_code == 200
    assert valid(schema, answer.json(), without_extras(document))


def test_groups_are_sent_with_their_properties(client: httpx.Client, receiver: Receiver) -> None:
    destination(client, receiver.url, events=["bought"], body={"is": "{{ groups.company }}"})
    group: dict[str, Any] = {
        "$group_type": "company",
        "$group_key": "acme",
        "$group_set": {"plan": "team"},
    }
    capture(client, "$groupidentify", **group)
    of_group: dict[str, Any] = {"$groups": {"company": "acme"}}
    capture(client, "bought", **of_group)
    receiver.wait_for(1)
    shown_entries = {"index": 0, "key": "acme", "properties": {"plan": "team"}}
    assert [each.json for each in receiver.received] == [{"is": shown_entries}]


def test_the_backlog_is_in_the_metrics(client: httpx.Client, receiver: Receiver) -> None:
    receiver.decide = lambda _: PlannedResponse(status=404)
    path = destination(client, receiver.url)
    capture(client, "seen")
    own = f'{{destination="{path.rstrip("/").rpartition("/")[2]}",project="1"}}'
    wait_until(lambda: f"hedgerow_deliveries_dead{own} 1.0" in client.get("/metrics").text)
    assert f"hedgerow_deliveries_waiting{own} 0.0" in client.get("/metrics").text


def test_dead_letters_and_logs_are_paged(client: httpx.Client, receiver: Receiver) -> None:
    receiver.decide = lambda _: PlannedResponse(status=400)
    path = destination(client, receiver.url)
    uuids = capture(client, "one", "two", "three")
    wait_until(lambda: client.get(f"{path}deliveries/?status=dead").json()["count"] == 3)
    for what in ("deliveries/", "logs/"):
        first = client.get(f"{path}{what}?limit=2").json()["results"]
        rest = client.get(f"{path}{what}?limit=2&offset=2").json()["results"]
        assert (len(first), len(rest)) == (2, 1)
        assert {each["uuid"] for each in first + rest} == set(uuids)
    wait_until(lambda: client.get(f"{path}metrics/?hours=2").json()["dead"] == 3)


@pytest.mark.parametrize(
    "what", ["deliveries/?status=gone", "logs/?level=loud", "logs/?search=%00"]
)
def test_an_invalid_query_is_refused(client: httpx.Client, what: str) -> None:
    path = destination(client, "https://example.com/hook")
    assert client.get(path + what).status_code == 400


def test_other_families_have_the_same_paths(client: httpx.Client) -> None:
    base = "/api/projects/1/pipeline_frontend_apps_configs/"
    path = f"{base}{client.post(base, json={'plugin': 21}).json()['id']}/"
    for what in ("deliveries/", "logs/"):
        assert client.get(path + what).json()["results"] == []
    assert client.get(f"{path}metrics/").json()["hours"] == []
    for what in ("test/", "preview/"):
        assert client.post(path + what, json={}).status_code == 400


def test_no_more_destinations_than_the_limit_are_enabled(tmp_path: Path) -> None:
    with (
        LiveServer(tmp_path, max_enabled_destinations="1") as server,
        server.client() as client,
    ):
        first = client.post(RECORDS, json={"plugin": 1, "enabled": True})
        assert first.status_code == 201, first.text
        second = client.post(RECORDS, json={"plugin": 1, "enabled": True})
        assert (second.status_code, second.json()["attr"]) == (400, "enabled")
        assert "no more than 1 enabled destinations" in second.json()["detail"]
        other = client.post(RECORDS, json={"plugin": 1}).json()
        enabled = client.patch(f"{RECORDS}{other['id']}/", json={"enabled": True})
        assert (enabled.status_code, enabled.json()["attr"]) == (400, "enabled")
