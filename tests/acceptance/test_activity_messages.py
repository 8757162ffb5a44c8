"""Changes in the activity log arrive at destinations: signed, filtered, retried, no secrets."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import LiveServer
from tests.support.receiver import PlannedResponse, Receiver, wait_until

API = "/api/projects/1"
RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK, SLACK = 1, 2
FLAGS_ONLY = [{"key": "scope", "operator": "exact", "value": ["FeatureFlag"]}]
SIGNING_SECRET = "whsec_" + base64.b64encode(b"a signing secret").decode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    data: Path = tmp_path_factory.mktemp("activity")
    with (
        LiveServer(data, allow_private_destinations="true") as running,
        running.client() as opened,
    ):
        yield opened


def create_destination(client: httpx.Client, plugin: int, **config: Any) -> int:
    created = client.post(RECORDS, json={"plugin": plugin, "name": "Changes"})
    assert created.status_code == 201, created.text
    id: int = created.json()["id"]
    changed = client.put(f"{RECORDS}{id}/config/", json={"event_source": "activity_log", **config})
    assert changed.status_code == 200, changed.text
    assert client.patch(f"{RECORDS}{id}/", json={"enabled": True}).status_code == 200
    return id


def create_flag(client: httpx.Client, key: str, **fields: Any) -> str:
    created = client.post(
        f"{API}/feature_flags/", json={"key": key, "filters": {"groups": [{}]}, **fields}
    )
    assert created.status_code == 201, created.text
    return f"{API}/feature_flags/{created.json()['id']}/"


def properties_of(receiver: Receiver) -> list[dict[str, Any]]:
    return [each.json["event"]["properties"] for each in receiver.received]


def is_signed(headers: Any, body: bytes) -> bool:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(b"a signing secret", signed, hashlib.sha256).digest()
    return bool(headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode())


def test_changes_of_flags_arrive_signed_and_once(client: httpx.Client) -> None:
    with Receiver() as receiver:
        create_destination(
            client,
            WEBHOOK,
            url=receiver.url,
            secret=SIGNING_SECRET,
            properties=FLAGS_ONLY,
        )
        flag = create_flag(client, "checkout")
        assert client.patch(flag, json={"active": False}).status_code == 200
        assert client.patch(flag, json={"active": "no such value"}).status_code == 400
        assert client.post(f"{API}/annotations/", json={"content": "Another kind"}).is_success
        assert client.patch(flag, json={"name": "The new checkout"}).status_code == 200
        wait_until(lambda: len(receiver.received) >= 3)
        assert all(is_signed(each.headers, each.body) for each in receiver.received)
        messages = sorted(properties_of(receiver), key=lambda each: int(each["id"]))
        assert [(each["activity"], each["scope"]) for each in messages] == [
            ("created", "FeatureFlag"),
            ("updated", "FeatureFlag"),
            ("updated", "FeatureFlag"),
        ]
        assert messages[1]["detail"]["changes"] == [
            {
                "type": "FeatureFlag",
                "action": "changed",
                "field": "active",
                "before": True,
                "after": False,
            }
        ]
        log = client.get(f"{API}/activity_log/?scope=FeatureFlag").json()["results"]
        assert {each["id"] for each in messages} == {each["id"] for each in log}


def test_slack_shows_a_line_or_the_template(client: httpx.Client) -> None:
    with Receiver() as plain, Receiver() as templated:
        create_destination(client, SLACK, webhook_url=plain.url, properties=FLAGS_ONLY)
        create_destination(
            client,
            SLACK,
            webhook_url=templated.url,
            properties=FLAGS_ONLY,
            message="{{ event.properties.scope }} {{ event.properties.item_name }}!",
        )
        create_flag(client, "slack-flag")
        wait_until(lambda: bool(plain.received and templated.received))
        assert plain.received[0].json["text"].endswith(" created FeatureFlag slack-flag")
        assert templated.received[0].json["text"] == "FeatureFlag slack-flag!"


def test_failed_messages_are_retried_and_refused_ones_are_dead_letters(
    client: httpx.Client,
) -> None:
    statuses = iter([503, 200])
    with (
        Receiver(lambda _: PlannedResponse(status=next(statuses, 200))) as flaky,
        Receiver(lambda _: PlannedResponse(status=422)) as refusing,
    ):
        create_destination(client, WEBHOOK, url=flaky.url, properties=FLAGS_ONLY)
        refused = create_destination(client, WEBHOOK, url=refusing.url, properties=FLAGS_ONLY)
        create_flag(client, "retried")
        wait_until(lambda: len(flaky.received) >= 2)
        assert flaky.received[0].json == flaky.received[1].json

        def read_dead() -> list[dict[str, Any]]:
            answer = client.get(f"{RECORDS}{refused}/deliveries/?status=dead").json()
            dead: list[dict[str, Any]] = answer["results"]
            return dead

        wait_until(lambda: bool(read_dead()))
        [dead] = read_dead()
        assert dead["event"] == "$activity_log_entry_created"
        assert dead["payload"]["event"]["properties"]["item_name"] == "retried"


def test_messages_contain_no_secrets(client: httpx.Client) -> None:
    with Receiver() as receiver:
        create_destination(client, WEBHOOK, url=receiver.url)
        create_flag(
            client,
            "secret-config",
            is_remote_configuration=True,
            has_encrypted_payloads=True,
            filters={"groups": [{"rollout_percentage": 100}], "payloads": {"true": '"hush-hush"'}},
        )
        other = client.post(RECORDS, json={"plugin": WEBHOOK, "name": "With secret"}).json()["id"]
        config = {"url": "https://example.com/", "secret": "a-very-secret-text"}
        assert client.put(f"{RECORDS}{other}/config/", json=config).status_code == 200
        wait_until(
            lambda: (
                {"FeatureFlag", "PluginConfig"}
                <= {each["scope"] for each in properties_of(receiver)}
                and "With secret" in [each["item_name"] for each in properties_of(receiver)]
                and any(each["activity"] == "config_updated" for each in properties_of(receiver))
            )
        )
        sent = b"".join(each.body for each in receiver.received)
        for secret in (b"hush-hush", b"a-very-secret-text", b"$sealed"):
            assert secret not in sent
