"""A name server that never answers delays only the destinations whose names it has."""

import os
from functools import partial
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx

from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.preloads import compile_preload
from tests.support.receiver import Receiver

RECORDS = "/api/projects/1/pipeline_destination_configs/"
SLOW_DNS = Path(__file__).parents[1] / "support" / "slow_dns.c"
HANGING = 8
EVENTS = 8


def _add_destination(client: httpx.Client, url: str) -> None:
    path = f"{RECORDS}{client.post(RECORDS, json={'plugin': 1}).json()['id']}/"
    assert client.put(f"{path}config/", json={"url": url}).status_code == 200
    assert client.patch(path, json={"enabled": True}).status_code == 200


def _capture(client: httpx.Client, name: str) -> None:
    batch = [{"event": name, "distinct_id": f"user {each}"} for each in range(EVENTS)]
    response = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert response.status_code == 200


def _has_received(receiver: Receiver, name: str) -> bool:
    events = [request.json["event"] for request in list(receiver.received)]
    return len({event["uuid"] for event in events if event["event"] == name}) == EVENTS


def test_hanging_lookups_delay_no_other_destination(tmp_path: Path) -> None:
    library = compile_preload(SLOW_DNS, tmp_path)
    with (
        Receiver() as receiver,
        patch.dict(os.environ, {"LD_PRELOAD": str(library)}),
        LiveServer(tmp_path / "data", allow_private_destinations="true") as server,
        server.client() as client,
    ):
        for number in range(HANGING):
            _add_destination(client, f"http://{number}.hangs.test/")
        _add_destination(client, f"http://one.works.test:{urlsplit(receiver.url).port}/")
        for name in ("first", "second"):
            _capture(client, name)
            wait_for(partial(_has_received, receiver, name), at_most_s=90)
