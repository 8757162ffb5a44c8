"""Server-sent events of a live server: changes arrive, and a stop ends them cleanly."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.support.live import LiveServer, read_error

FLAGS = "/api/projects/1/feature_flags/"


def read_etags(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))["etag"]


def test_stream_reports_changes_until_the_service_stops(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as admin:
        secret = admin.patch("/api/projects/1/rotate_secret_token/").json()["secret_api_token"]
        headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
        with (
            httpx.Client(
                base_url=server.address, headers=headers, timeout=60, verify=False
            ) as client,
            client.stream("GET", f"{FLAGS}stream") as stream,
        ):
            assert stream.status_code == 200
            assert stream.headers["content-type"].startswith("text/event-stream")
            etags = read_etags(stream.iter_lines())
            first = next(etags)
            created = admin.post(FLAGS, json={"key": "new", "filters": {"groups": [{}]}})
            assert created.status_code == 201
            second = next(etags)
            definitions = httpx.get(
                f"{server.address}/flags/definitions", headers=headers, timeout=60, verify=False
            )
            assert first != second == definitions.headers["etag"]
            assert client.post(f"{FLAGS}stream/").status_code == 405
            for _ in range(3):  # on one keep-alive connection
                head = admin.head(f"{FLAGS}stream")
                assert (head.status_code, head.content) == (200, b"")
                assert head.headers["content-type"].startswith("text/event-stream")
            with server.client(key="phs_no-such-key") as outsider:
                assert (
                    read_error(outsider.get(f"{FLAGS}stream/"))["code"] == "authentication_failed"
                )
            assert server.stop() == 0
            assert list(etags) == []
