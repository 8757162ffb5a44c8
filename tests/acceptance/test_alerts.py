"""Alerts and subscriptions end to end: events, a saved insight, a real receiver of messages."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.tables import saved_insights
from tests.support.live import PROJECT_KEY, LiveServer, find_free_port
from tests.support.receiver import Receiver, wait_until

PNG = b"\x89PNG\r\n\x1a\n"
API = "/api/projects/1"
RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK, SLACK = 1, 2
NOW = datetime.now(UTC)
QUERY = {
    "kind": "InsightVizNode",
    "source": {
        "kind": "TrendsQuery",
        "interval": "day",
        "series": [{"kind": "EventsNode", "event": "visit"}],
        "breakdownFilter": {"breakdown": "country", "breakdown_type": "event"},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    port = find_free_port()
    data = tmp_path_factory.mktemp("alerts")
    settings = {
        "allow_private_destinations": "true",
        "public_url": f"http://127.0.0.1:{port}",
    }
    with LiveServer(data, port=port, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def insight(server: LiveServer, client: httpx.Client) -> int:
    """A saved insight with 3 visits from Germany and one from France, yesterday."""
    yesterday = (NOW - timedelta(days=1)).isoformat()
    batch = [
        {
            "event": "visit",
            "distinct_id": f"user {number}",
            "timestamp": yesterday,
            "uuid": str(uuid4()),
            "properties": {"country": country},
        }
        for number, country in enumerate(["Germany <&>", "Germany <&>", "Germany <&>", "France"])
    ]
    sent = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert sent.status_code == 200, sent.text
    place = DatabaseLocation(url="", path=server.data / "hedgerow.db", timeout_s=10)
    row = {
        "project_id": 1,
        "short_id": "visits01",
        "name": "Visits by country",
        "derived_name": "",
        "description": "",
        "query": QUERY,
        "favorited": False,
        "saved": True,
        "tags": [],
        "deleted": False,
        "created_by": "",
        "created_at": NOW,
        "last_modified_by": "",
        "last_modified_at": NOW,
        "updated_at": NOW,
    }
    with create_sync_engine(place).begin() as connection:
        created = connection.execute(insert(saved_insights), row).inserted_primary_key
    assert created is not None
    return int(created[0])


def create_destination(client: httpx.Client, plugin: int, config: dict[str, Any]) -> int:
    created = client.post(RECORDS, json={"plugin": plugin, "name": "Messages"})
    assert created.status_code == 201, created.text
    id: int = created.json()["id"]
    changed = client.put(f"{RECORDS}{id}/config/", json=config)
    assert changed.status_code == 200, changed.text
    assert client.patch(f"{RECORDS}{id}/", json={"enabled": True}).status_code == 200
    return id


def create_alert(client: httpx.Client, insight: int, **fields: Any) -> dict[str, Any]:
    body = {
        "name": "Many visits",
        "insight": insight,
        "condition": {"type": "absolute_value"},
        "threshold": {"configuration": {"type": "absolute", "bounds": {"upper": 2}}},
        **fields,
    }
    created = client.post(f"{API}/alerts/", json=body)
    assert created.status_code == 201, created.text
    alert: dict[str, Any] = created.json()
    return alert


def test_a_webhook_is_told_that_an_alert_fires_and_is_resolved(
    client: httpx.Client, receiver: Receiver, insight: int
) -> None:
    hook = create_destination(client, WEBHOOK, {"url": receiver.url})
    alert = create_alert(client, insight, destinations=[hook])
    wait_until(lambda: bool(receiver.received))
    event = receiver.received[0].json["event"]
    assert event["event"] == "$insight_alert_firing"
    assert (
        event["properties"]
        | {
            "alert_id": alert["id"],
            "insight_id": "visits01",
            "state": "Firing",
            "calculated_value": 3,
            "breaches": "The value of Germany <&> in the last day is 3, above the upper bound 2",
        }
        == event["properties"]
    )
    raised = {"configuration": {"type": "absolute", "bounds": {"upper": 3}}}
    path = f"{API}/alerts/{alert['id']}/"
    assert client.patch(path, json={"name": "Renamed"}).json()["state"] == "Firing"
    assert client.patch(path, json={"threshold": raised}).json()["state"] == "Not firing"
    wait_until(lambda: len(client.get(path).json()["checks"]) == 2)
    found = client.get(path).json()
    assert [check["state"] for check in found["checks"]] == ["Not firing", "Firing"]
    assert [check["destinations"] for check in found["checks"]] == [[], [hook]]
    assert len(receiver.received) == 1


def test_slack_gets_the_text_of_an_alert(
    client: httpx.Client, receiver: Receiver, insight: int
) -> None:
    slack = create_destination(client, SLACK, {"webhook_url": receiver.url})
    create_alert(client, insight, name="<!channel>", destinations=[slack])
    wait_until(lambda: bool(receiver.received))
    assert receiver.received[0].json == {
        "text": "Alert “&lt;!channel&gt;” on “Visits by country” is firing: The value of Germany "
        "&lt;&amp;&gt; in the last day is 3, above the upper bound 2."
    }


def subscribe(client: httpx.Client, insight: int, type: str, destination: int) -> str:
    """Create a subscription that is due in a moment, and return its path."""
    body = {
        "insight": insight,
        "title": "Daily visits",
        "target_type": type,
        "target_value": str(destination),
        "frequency": "daily",
        "start_date": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
    }
    created = client.post(f"{API}/subscriptions/", json=body)
    assert created.status_code == 201, created.text
    return f"{API}/subscriptions/{created.json()['id']}/"


def test_a_webhook_gets_the_picture_of_a_subscription(
    client: httpx.Client, receiver: Receiver, insight: int
) -> None:
    hook = create_destination(client, WEBHOOK, {"url": receiver.url})
    path = subscribe(client, insight, "webhook", hook)
    wait_until(lambda: bool(receiver.received))
    event = receiver.received[0].json["event"]
    assert event["event"] == "$insight_subscription"
    assert event["properties"]["message"] == (
        "Daily visits: the insight “Visits by country”, sent every day."
    )
    [chart] = event["properties"]["charts"]
    picture = base64.b64decode(chart["image"])
    assert picture.startswith(PNG)
    linked = httpx.get(chart["image_url"], verify=False)
    assert (linked.status_code, linked.content) == (200, picture)
    assert linked.headers["content-type"] == "image/png"
    assert (
        httpx.get(chart["image_url"].replace("/exporter/", "/exporter/x"), verify=False).status_code
        == 404
    )
    found = client.get(path).json()
    start = datetime.fromisoformat(found["start_date"])
    assert datetime.fromisoformat(found["next_delivery_date"]) == start + timedelta(days=1)
    assert found["last_delivery_date"] is not None
    assert found["last_error"] is None


def test_slack_shows_the_picture_by_its_link(
    client: httpx.Client, receiver: Receiver, insight: int
) -> None:
    slack = create_destination(client, SLACK, {"webhook_url": receiver.url})
    subscribe(client, insight, "slack", slack)
    wait_until(lambda: bool(receiver.received))
    section, image = receiver.received[0].json["blocks"]
    assert section["text"]["text"].startswith("Daily visits: the insight")
    assert image["title"] == {"type": "plain_text", "text": "Visits by country"}
    assert httpx.get(image["image_url"], verify=False).content.startswith(PNG)


def test_the_chart_of_an_insight_as_a_picture(client: httpx.Client, insight: int) -> None:
    png = client.get(f"{API}/insights/{insight}/chart.png")
    assert (png.status_code, png.headers["content-type"]) == (200, "image/png")
    assert png.content.startswith(PNG)
    svg = client.get(f"{API}/insights/{insight}/chart.svg")
    assert svg.headers["content-type"].startswith("image/svg+xml")
    assert "Germany &lt;&amp;&gt;" in svg.text
    for unknown in ("0", "999999", "x", str(2**70)):
        assert client.get(f"{API}/insights/{unknown}/chart.png").status_code == 404
