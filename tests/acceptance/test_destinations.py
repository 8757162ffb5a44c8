"""Each destination end to end: a live service and the real system that it writes to."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psycopg
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver, wait_until
from tests.support.records import create_enabled_record, delete_records_after
from tests.support.s3 import KEY_ID, SECRET, S3Server

RECORDS = "/api/environments/1/pipeline_destination_configs/"
SLACK, FILES, S3, TABLE, COPY = 2, 3, 4, 5, 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("destinations")
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with delete_records_after(server, RECORDS) as opened:
        yield opened


def destination(client: httpx.Client, plugin: int, **settings: Any) -> str:
    return create_enabled_record(client, RECORDS, plugin, **settings)


def capture(client: httpx.Client, number: int, **properties: Any) -> list[str]:
    uuids = [str(uuid4()) for _ in range(number)]
    batch = [
        {
            "event": "bought",
            "distinct_id": "ann",
            "uuid": uuid,
            "timestamp": f"2026-03-29T01:30:{place % 60:02}.123Z",
            "properties": properties,
        }
        for place, uuid in enumerate(uuids)
    ]
    answer = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert answer.status_code == 200, answer.text
    return uuids


def get_error(client: httpx.Client, path: str) -> str:
    return str(client.get(path).json()["error"])


def test_slack_gets_messages_and_retry_after_is_respected(client: httpx.Client) -> None:
    def busy_once(_: ReceivedRequest) -> PlannedResponse:
        if len(receiver.received) == 1:
            return PlannedResponse(status=429, headers={"Retry-After": "1"})
        return PlannedResponse(body=b"ok")

    with Receiver(busy_once) as receiver:
        path = destination(
            client,
            SLACK,
            webhook_url=receiver.url,
            message="*{{ event.event }}* for {{ event.properties.price }}",
        )
        shown = client.post(f"{path}preview/", json={"properties": {"price": 3}}).json()
        assert json.loads(shown["requests"][0]["body"]) == {"text": "*sample event* for 3"}
        assert receiver.url not in json.dumps(shown)
        capture(client, 1, price=2)
        receiver.wait_for(2)
        assert receiver.received[1].json == {"text": "*bought* for 2"}
        receiver.decide = lambda _: PlannedResponse(status=403, body=b"invalid_token")
        capture(client, 1)
        wait_until(lambda: "create a new incoming webhook" in get_error(client, path))
        assert client.get(f"{path}deliveries/?status=dead").json()["count"] == 1


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_files_are_complete_and_contain_every_event(
    client: httpx.Client, server: LiveServer, format: str
) -> None:
    path = destination(
        client, FILES, folder=f"archive/{format}", format=format, batch_seconds=0, batch_size=7
    )
    folder = server.data / "exports" / "project-1" / "archive" / format
    tested = client.post(f"{path}test/", json={}).json()
    assert tested["delivered"] is True
    (request,) = tested["requests"]
    assert (request["method"], request["status"]) == ("APPEND", None)
    (sample,) = folder.glob(f"events-*.{format}")
    assert request["url"] == f"project-1/archive/{format}/{sample.name}"
    uuids = capture(client, 30, price=2.5)
    wait_until(lambda: client.get(f"{path}metrics/").json()["delivered"] == 30)
    # It has its name once it is full or old.
    assert [*folder.glob("events-*")] == [sample]
    (growing,) = folder.glob(".events-*")
    lines = growing.read_text().splitlines()
    assert sorted(json.loads(line)["uuid"] for line in lines) == sorted(uuids)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as running:
        yield running


def test_s3_gets_objects(client: httpx.Client, s3: S3Server) -> None:
    access = {
        "endpoint": s3.endpoint,
        "access_key_id": KEY_ID,
        "secret_access_key": SECRET,
        "bucket": "events",
    }
    path = destination(client, S3, **access, format="jsonl.gz", batch_size=20, batch_seconds=1)
    uuids = capture(client, 10)
    # Without a bucket events wait, and are sent once the bucket exists.
    wait_until(lambda: "Make the bucket" in get_error(client, path))
    bucket = s3.create_bucket("events")

    def stored() -> list[str]:
        return [
            json.loads(line)["uuid"]
            for file in sorted(bucket.rglob("*.jsonl.gz"))
            for line in gzip.decompress(file.read_bytes()).splitlines()
        ]

    wait_until(lambda: sorted(stored()) == sorted(uuids))
    wait_until(lambda: get_error(client, path) == "")
    tested = client.post(f"{path}test/", json={"event": "tried"})
    (request,) = tested.json()["requests"]
    assert (request["method"], request["status"]) == ("PUT", 200)
    assert json.loads(request["body"])["event"] == "tried"
    assert request["url"].startswith(f"{s3.endpoint}/events/hedgerow/")
    for secret in (KEY_ID, SECRET):
        assert secret not in tested.text
    client.patch(f"{path}config/", json={"format": "parquet"})
    more = capture(client, 25)
    files: list[Path] = []

    def in_parquet() -> list[str]:
        files[:] = bucket.rglob("*.parquet")
        return [uuid for file in files for uuid in pq.read_table(file).column("uuid").to_pylist()]

    wait_until(lambda: sorted(in_parquet()) == sorted(more))
    assert len(files) == 2


def test_a_table_gets_rows(client: httpx.Client, postgres: PostgresTestServer) -> None:
    url = postgres.create_database()

    def rows(sql: str) -> list[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return [row[0] for row in cursor] if cursor.description else []

    with postgres.forward_port() as port:
        address = f"postgresql://postgres:hidden-word@127.0.0.1:{port}{urlsplit(url).path}"
        path = destination(client, TABLE, url=address, schema="later", batch_seconds=0)
        preview = client.post(f"{path}preview/", json={}).json()
        assert preview["requests"][0]["body"].startswith("INSERT INTO")
        uuids = capture(client, 12, price=2.5)
        wait_until(lambda: "Create the schema" in get_error(client, path))
        assert client.get(f"{path}deliveries/?status=dead").json()["count"] == 0
        rows("CREATE SCHEMA later")
        table = "later.hedgerow_events"
        wait_until(
            lambda: (
                bool(rows(f"SELECT to_regclass('{table}')")[0])
                and rows(f"SELECT count(*) FROM {table}") == [12]
            ),
            timeout_s=60,
        )
        assert sorted(rows(f"SELECT uuid::text FROM {table}")) == sorted(uuids)
        assert set(rows(f"SELECT properties->>'price' FROM {table}")) == {"2.5"}
        rows(f"ALTER TABLE {table} ADD CHECK (event <> 'bad')")
        tested = client.post(f"{path}test/", json={"event": "good"})
        (request,) = tested.json()["requests"]
        assert request["body"].startswith('INSERT INTO "later"."hedgerow_events" ("project_id"')
        assert request["response_body"] == "INSERT 0 1"
        assert "hidden-word" not in tested.text
        refused = client.post(f"{path}test/", json={"event": "bad"}).json()
        assert "check constraint" in refused["error"]


def test_another_instance_gets_the_same_events(client: httpx.Client, live: LiveServer) -> None:
    with live.client() as there:
        path = destination(
            client, COPY, host=live.address, project_key=PROJECT_KEY, batch_seconds=0
        )
        uuids = capture(client, 9, price=2.5, **{"$ip": "203.0.113.9"})

        def events(of: httpx.Client) -> dict[str, Any]:
            found = of.get("/api/projects/1/events/?event=bought&limit=1000").json()["results"]
            return {each["id"]: each for each in found if each["id"] in uuids}

        wait_until(lambda: set(events(there)) == set(uuids))
        here, copied = events(client), events(there)
        for uuid in uuids:
            for field in ("event", "distinct_id", "timestamp", "properties"):
                assert here[uuid][field] == copied[uuid][field]
        tested = client.post(f"{path}test/", json={}).json()
        assert json.loads(tested["requests"][0]["body"])["batch"][0]["event"] == "sample event"
        assert tested["requests"][0]["status"] == 200
        client.patch(f"{path}config/", json={"project_key": "phc_another-key-of-nobody"})
        refused = client.post(f"{path}test/", json={}).json()
        assert (refused["delivered"], refused["error"][-22:]) == (False, "Check the project key.")


def test_settings_are_checked_decrypted(client: httpx.Client) -> None:
    for plugin, settings, attr in (
        (SLACK, {"webhook_url": "nowhere"}, "config__webhook_url"),
        (FILES, {"folder": "../../etc"}, "config__folder"),
        (S3, {"bucket": "ok-bucket", "access_key_id": "only"}, "config__secret_access_key"),
        (TABLE, {"url": "postgresql:///db?host=/tmp"}, "config__url"),
        (COPY, {"host": "x", "project_key": "k"}, "config__host"),
    ):
        made = client.post(RECORDS, json={"plugin": plugin}).json()
        answer = client.put(f"{RECORDS}{made['id']}/config/", json=settings)
        assert (answer.status_code, answer.json()["attr"]) == (400, attr)
