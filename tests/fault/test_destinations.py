"""Crashes lose neither file lines nor table rows."""

import json
import random
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pyarrow.parquet as parquet  # type: ignore[import-untyped]

from tests.acceptance.test_deliveries import RECORDS, capture
from tests.acceptance.test_destinations import FILES, TABLE, destination
from tests.support.live import LiveServer, wait_for
from tests.support.postgres import PostgresTestServer
from tests.support.stored_events import wait_until_stored

ROUNDS = 3
EVENTS_PER_ROUND = 300
TIMEOUT_S = 60


def test_kill_9_loses_neither_rows_nor_file_lines(
    tmp_path: Path, postgres: PostgresTestServer
) -> None:
    sent: set[str] = set()
    database = postgres.create_database()
    exports = tmp_path / "exports" / "project-1"
    with postgres.forward_port() as port:
        url = f"postgresql://postgres@127.0.0.1:{port}{urlsplit(database).path}"
        for number in range(ROUNDS):
            server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
            with server.client() as client:
                if number == 0:
                    destination(client, TABLE, url=url, batch_seconds=0)
                    for format in ("jsonl", "parquet"):
                        destination(client, FILES, folder=format, format=format, batch_seconds=0)
                for _ in range(EVENTS_PER_ROUND // 50):
                    sent |= set(capture(client, *("seen" for _ in range(50))))
                time.sleep(random.uniform(0.1, 0.8))
            server.kill()
        with (
            LiveServer(tmp_path, allow_private_destinations="true") as server,
            server.client() as client,
        ):
            wait_until_stored(server.data)
            for record in client.get(RECORDS).json()["results"]:
                wait_for(partial(_has_sent_all, client, record["id"]), at_most_s=TIMEOUT_S)
    # Open files are finished when the service stops.
    assert [*exports.rglob(".*")] == []
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT uuid::text FROM hedgerow_events").fetchall()
    assert sorted(row[0] for row in rows) == sorted(sent)
    texts = [file.read_text() for file in exports.glob("jsonl/events-*")]
    assert {json.loads(line)["uuid"] for text in texts for line in text.splitlines()} == sent
    tables = [parquet.read_table(file) for file in exports.glob("parquet/events-*")]
    assert {uuid for table in tables for uuid in table.column("uuid").to_pylist()} == sent


def _has_sent_all(client: httpx.Client, id: int) -> bool:
    return bool(client.get(f"{RECORDS}{id}/deliveries/").json()["count"] == 0)
