"""Pipeline records: a page of 100 out of 10,000 against a bare Starlette route with the same bytes.

    python -m benchmarks.records

Also how many records a second can be made and changed, durably, by 32 clients.
"""

import http.client
import json
import os
import sys
import tempfile
from pathlib import Path

from sqlalchemy import insert
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.http import ROUNDS, Round, heading, measure, serve, shown, started
from benchmarks.load import cores
from hedgerow.lib.clock import utc_now
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.tables import pipeline_records

RECORDS = 10_000
KEY = "phx_benchmark-key-of-records"
BASE = "/api/environments/1/pipeline_destination_configs/"


def serve_bare(body_file: str) -> None:
    body = Path(body_file).read_bytes()

    async def same_bytes(_: Request) -> Response:
        return Response(body, media_type="application/json")

    serve(Starlette(routes=[Route("/", same_bytes)]))


def request(method: str, path: str, port: int, body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def fill(data: str) -> None:
    now = utc_now()
    rows = [
        {
            "project_id": 1,
            "family": "destination",
            "component_id": 1 + number % 6,
            "component_version": "1.0.0",
            "enabled": number % 2 == 0,
            "order": number + 1,
            "name": f"Destination {number}",
            "description": "",
            "deleted": False,
            "config": {"url": f"https://example.com/{number}"} if number % 6 == 0 else {},
            "web_token": f"token-{number}",
            "created_at": now,
            "updated_at": now,
        }
        for number in range(RECORDS)
    ]
    place = DatabaseLocation(url="", path=Path(data) / "hedgerow.db", timeout_s=5)
    with create_sync_engine(place).begin() as connection:
        connection.execute(insert(pipeline_records), rows)


def page_bytes(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", BASE, headers={"Authorization": f"Bearer {KEY}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200 or len(json.loads(body)["results"]) != 100:
        raise RuntimeError(f"unexpected page: {answer.status}")
    return body


def main() -> None:
    server_core, load_core = cores()
    os.environ["HEDGEROW_BOOTSTRAP_PERSONAL_KEY"] = KEY
    hedgerow = str(Path(sys.executable).parent / "hedgerow")
    os.sched_setaffinity(0, load_core)
    with (
        tempfile.TemporaryDirectory(dir=".") as data,
        started([hedgerow, "serve", "--port", "0", "--data", data], server_core) as ours,
    ):
        fill(data)
        port = ours.port
        body = page_bytes(port)
        body_file = Path(data) / "page.json"
        body_file.write_bytes(body)
        bare = [sys.executable, "-m", "benchmarks.records", "bare", str(body_file)]
        with started(bare, server_core) as bare_server:
            reference: list[Round] = []
            listed: list[Round] = []
            for _ in range(ROUNDS):
                reference.append(measure(bare_server, request("GET", "/", bare_server.port)))
                listed.append(measure(ours, request("GET", BASE, port)))
        heading(f"A page of {len(body):,} bytes")
        bare_rate = shown("bare Starlette, same bytes", reference)
        our_rate = shown(f"100 records of {RECORDS:,}", listed)
        print(f"  list / bare: {our_rate / bare_rate:.0%}")
        shown("create", [measure(ours, request("POST", BASE, port, {"plugin": 1}))])
        change = request("PATCH", f"{BASE}1/", port, {"description": "changed"})
        shown("patch", [measure(ours, change)])


if __name__ == "__main__":
    serve_bare(sys.argv[2]) if sys.argv[1:2] == ["bare"] else main()
