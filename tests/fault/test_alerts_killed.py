"""A process is killed while it checks an alert or draws a subscription: the next one does that once
its claim has ended, and its message arrives once."""

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from tests.support.live import Installation, LiveServer, wait_for
from tests.support.receiver import Receiver

API = "/api/projects/1"
RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK = 1
QUERY = {
    "kind": "InsightVizNode",
    "source": {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "visit"}]},
}
TIMEOUT_S = 120


def create_alert(client: httpx.Client, insight: int, destination: int) -> None:
    body = {
        "name": "Few visits",
        "insight": insight,
        "condition": {"type": "absolute_value"},
        "threshold": {"configuration": {"type": "absolute", "bounds": {"lower": 1}}},
        "destinations": [destination],
    }
    created = client.post(f"{API}/alerts/", json=body)
    assert created.status_code == 201, created.text


def create_subscription(client: httpx.Client, insight: int, destination: int) -> None:
    body = {
        "insight": insight,
        "title": "Daily visits",
        "target_type": "webhook",
        "target_value": str(destination),
        "frequency": "daily",
        "start_date": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
    }
    created = client.post(f"{API}/subscriptions/", json=body)
    assert created.status_code == 201, created.text


@pytest.mark.parametrize(
    ("table", "create", "event"),
    [
        ("alerts", create_alert, "$insight_alert_firing"),
        ("subscriptions", create_subscription, "$insight_subscription"),
    ],
)
def test_the_claim_of_a_killed_process_ends_and_its_message_arrives_once(
    installation: Installation,
    table: str,
    create: Callable[[httpx.Client, int, int], None],
    event: str,
) -> None:
    def start() -> LiveServer:
        return installation.server(allow_private_destinations="true")

    with Receiver() as receiver:
        with start() as server, server.client() as client:
            insight = _create_insight(client)
            # The engine starts with the first query.
            assert client.get(f"{API}/events/").status_code == 200
            hook = _create_destination(client, receiver.url)
            engine = server.find_engine()
            assert engine is not None
            # No query is answered any more, so that the process is killed in the middle of it.
            os.kill(engine, signal.SIGSTOP)
            create(client, insight, hook)
            wait_for(lambda: _is_claimed(installation, table), at_most_s=TIMEOUT_S)
            server.process.kill()
            os.kill(engine, signal.SIGKILL)
        with start() as server, server.client() as client:
            assert _is_claimed(installation, table)
            # As if the claim of the killed process had ended.
            _run(installation, f"UPDATE {table} SET claimed_until = '2020-01-01 00:00:00'")
            receiver.wait_for(1, TIMEOUT_S)
            # Whatever were sent twice would come before this.
            create(client, insight, hook)
            receiver.wait_for(2, TIMEOUT_S)
            wait_for(lambda: not _is_claimed(installation, table), at_most_s=TIMEOUT_S)
            assert receiver.names == [event, event]
    if table == "alerts":
        checks = "SELECT count(*) FROM alert_checks GROUP BY alert_id"
        assert _run(installation, checks) == [(1,), (1,)]


def _create_insight(client: httpx.Client) -> int:
    created = client.post(f"{API}/insights/", json={"name": "Visits", "query": QUERY})
    assert created.status_code == 201, created.text
    id: int = created.json()["id"]
    return id


def _create_destination(client: httpx.Client, url: str) -> int:
    created = client.post(RECORDS, json={"plugin": WEBHOOK, "name": "Messages"})
    assert created.status_code == 201, created.text
    id: int = created.json()["id"]
    assert client.put(f"{RECORDS}{id}/config/", json={"url": url}).status_code == 200
    assert client.patch(f"{RECORDS}{id}/", json={"enabled": True}).status_code == 200
    return id


def _is_claimed(installation: Installation, table: str) -> bool:
    sql = f"SELECT count(*) FROM {table} WHERE claimed_until IS NOT NULL"
    return _run(installation, sql) != [(0,)]


def _run(installation: Installation, sql: str) -> list[Any]:
    url = installation.settings.get("database_url", "")
    path = Path() if url else installation.data / "hedgerow.db"
    location = DatabaseLocation(url=url, path=path, timeout_s=60)
    with create_sync_engine(location).begin() as connection:
        result = connection.execute(text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []
