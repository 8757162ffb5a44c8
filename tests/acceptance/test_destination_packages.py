"""Destinations in packages of their own, delivering for real: ClickHouse's engine, brokers with
Kafka's protocol (those of librdkafka), and servers that answer as BigQuery and Snowflake document.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.packages import install_packages
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver

PACKAGES = Path(__file__).parents[2] / "packages"
RECORDS = "/api/environments/1/pipeline_destination_configs/"
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("packages")
    data = tmp_path_factory.mktemp("destinations")
    # The metadata service of clouds stays forbidden.
    allowed = {"allowed_private_networks": "127.0.0.1/32"}
    with (
        install_packages(folder, *sorted(PACKAGES.iterdir())),
        LiveServer(data, **allowed) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


def create_destination(client: httpx.Client, name: str, **settings: Any) -> str:
    """Create an enabled destination for events of its name, and return its path."""
    listed = client.get("/api/organizations/@current/pipeline_destinations/").json()["results"]
    (component,) = [each for each in listed if each["name"] == name]
    path = f"{RECORDS}{client.post(RECORDS, json={'plugin': component['id']}).json()['id']}/"
    given = {"batch_seconds": 1, "events": [name], **settings}
    configured = client.put(f"{path}config/", json=given)
    assert configured.status_code == 200, configured.text
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path


def capture(client: httpx.Client, event: str, distinct_id: str, **properties: Any) -> None:
    body = {"api_key": PROJECT_KEY, "event": event, "distinct_id": distinct_id}
    sent = client.post("/capture/", json=body | {"properties": properties})
    assert sent.status_code == 200


def test_clickhouse(client: httpx.Client, clickhouse: ClickHouseTestServer, tmp_path: Path) -> None:
    url, _, database = clickhouse.create_database().rpartition("/")
    name = "ClickHouse table"
    path = create_destination(client, name, url=url, database=database, table="seen")

    def read_rows() -> list[dict[str, Any]]:
        if clickhouse.run(f"EXISTS {database}.seen").strip() != b"1":
            return []
        sql = f"SELECT * FROM {database}.seen FINAL ORDER BY distinct_id FORMAT JSONEachRow"
        return [json.loads(line) for line in clickhouse.run(sql).splitlines()]

    capture(client, name, "ann", price=3, text="ünï\n`\\'")
    capture(client, name, "bob")
    wait_for(lambda: len(read_rows()) == 2, at_most_s=TIMEOUT_S)
    ann, bob = read_rows()
    properties = json.loads(ann["properties"])
    assert (properties["price"], properties["text"]) == (3, "ünï\n`\\'")
    assert (ann["event"], ann["distinct_id"], bob["distinct_id"]) == (name, "ann", "bob")
    # A job that sends all again stores nothing twice.
    jobs = client.post(f"{path}job/", json={"job": {"type": "replay", "payload": {}}})
    assert jobs.status_code in (200, 201), jobs.text
    capture(client, name, "cleo")
    wait_for(lambda: len(read_rows()) == 3, at_most_s=TIMEOUT_S)
    refused = client.put(f"{path}config/", json={"url": url, "table": "a`b"})
    assert (refused.status_code, refused.json()["attr"]) == (400, "config__table")


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Brokers of librdkafka, which speak Kafka's protocol. The address of the first one."""
    own = Producer({"bootstrap.servers": "own", "test.mock.num.brokers": 3, "log_level": 0})
    found = own.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in found)
    own.flush(1)


def test_kafka(client: httpx.Client, brokers: str) -> None:
    name = "Kafka topic"
    settings = {"topic": "events", "encryption": "none"}
    create_destination(client, name, bootstrap_servers=brokers, **settings)
    for who in ("ann", "bob", "ann"):
        capture(client, name, who, text="ünï")
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["events"])
    messages: list[Any] = []

    def read_message() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            messages.append(message)
        return len(messages) == 3

    wait_for(read_message, at_most_s=TIMEOUT_S)
    consumer.close()
    assert sorted(each.key() for each in messages) == [b"ann", b"ann", b"bob"]
    body = json.loads(messages[0].value())
    assert (body["event"]["event"], body["event"]["properties"]["text"]) == (name, "ünï")
    assert dict(messages[0].headers())["uuid"] == body["event"]["uuid"].encode()


def test_kafka_keeps_out_of_the_private_network(client: httpx.Client) -> None:
    """The address is checked where the connection is made: brokers can name further ones."""
    name = "Kafka topic"
    settings = {"topic": "elsewhere", "encryption": "none", "batch_size": 1}
    path = create_destination(client, name, bootstrap_servers="169.254.169.254:9092", **settings)
    tried = client.post(f"{path}test/", json={})
    assert "169.254.169.254 is an address of a private network" in tried.text
    preview = client.post(f"{path}preview/", json={})
    assert preview.status_code == 200, preview.text
    assert "not contacted" in preview.text
    client.patch(path, json={"enabled": False})


@pytest.fixture(scope="module")
def private_key() -> str:
    key = generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def test_bigquery(client: httpx.Client, private_key: str) -> None:
    tables: list[Any] = []
    rows: list[Any] = []

    def answer(request: ReceivedRequest) -> PlannedResponse:
        if request.path.endswith("/token"):
            found: Any = {"access_token": "ya29.token", "expires_in": 3600}
        elif request.path.endswith("/tables"):
            tables.append(request.json)
            found = {}
        elif not tables:
            return PlannedResponse(status=404, body=b"{}")
        else:
            rows.extend(request.json["rows"])
            found = {}
        return PlannedResponse(body=json.dumps(found).encode())

    with Receiver(answer) as google:
        account = {
            "client_email": "writer@example.iam.gserviceaccount.com",
            "private_key": private_key,
            "project_id": "shop",
            "token_uri": f"{google.url}/token",
        }
        name = "BigQuery table"
        given = {"service_account": json.dumps(account), "dataset": "web", "api": google.url}
        path = create_destination(client, name, **given)
        capture(client, name, "ann", price=3)
        wait_for(lambda: len(rows) == 1, at_most_s=TIMEOUT_S)
        token, *_, insert = google.received
    assert private_key.splitlines()[1] not in client.get(path).text
    assert b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer" in token.body
    assert insert.path.endswith(
        "/bigquery/v2/projects/shop/datasets/web/tables/hedgerow_events/insertAll"
    )
    assert insert.headers["authorization"] == "Bearer ya29.token"
    columns = {each["name"] for each in tables[0]["schema"]["fields"]}
    assert rows[0]["json"].keys() == columns
    assert rows[0]["insertId"] == rows[0]["json"]["uuid"]
    assert json.loads(rows[0]["json"]["properties"])["price"] == 3


def test_snowflake(client: httpx.Client, private_key: str) -> None:
    statements: list[Any] = []

    def answer(request: ReceivedRequest) -> PlannedResponse:
        statements.append(request.json)
        if len(statements) == 1:
            missing = {"code": "002003", "message": "Object does not exist."}
            return PlannedResponse(status=422, body=json.dumps(missing).encode())
        return PlannedResponse(body=b"{}")

    with Receiver(answer) as snowflake:
        name = "Snowflake table"
        names = {"warehouse": "SMALL", "database": "WEB"}
        login = {"account": "myorg-shop", "user": "writer", "private_key": private_key}
        create_destination(client, name, url=snowflake.url, **names, **login)
        capture(client, name, "ann", price=3)
        wait_for(lambda: len(statements) == 3, at_most_s=TIMEOUT_S)
        headers = snowflake.received[0].headers
    claims = jwt.decode(
        headers["authorization"].removeprefix("Bearer "), options={"verify_signature": False}
    )
    assert claims["sub"] == "MYORG-SHOP.WRITER"
    assert claims["iss"].startswith("MYORG-SHOP.WRITER.SHA256:")
    merge, create, again = (each["statement"] for each in statements)
    assert merge == again
    assert create.startswith("CREATE TABLE IF NOT EXISTS WEB.PUBLIC.HEDGEROW_EVENTS (")
    (row,) = json.loads(statements[2]["bindings"]["1"]["value"])
    assert (row["event"], json.loads(row["properties"])["price"]) == (name, 3)
