"""A project whose receivers are slow, or whose names are, delays no other project."""

import os
import resource
import threading
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx

from hedgerow.outbound.http_client import FILE_SHARE
from hedgerow.outbound.ssrf_guard import MAX_LOOKUP_THREADS
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.preloads import compile_preload
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver

SLOW_DNS = Path(__file__).parents[1] / "support" / "slow_dns.c"
FILE_LIMIT = 512
MAX_REQUESTS = int(FILE_LIMIT * FILE_SHARE)
EVENTS = 20


def _add_destination(client: httpx.Client, project_id: int, url: str) -> None:
    records = f"/api/projects/{project_id}/pipeline_destination_configs/"
    path = f"{records}{client.post(records, json={'plugin': 1}).json()['id']}/"
    assert client.put(f"{path}config/", json={"url": url}).status_code == 200
    assert client.patch(path, json={"enabled": True}).status_code == 200


def _capture(client: httpx.Client, key: str, name: str, number: int = 1) -> None:
    batch = [{"event": name, "distinct_id": f"user {each}"} for each in range(number)]
    response = client.post("/batch/", json={"api_key": key, "batch": batch})
    assert response.status_code == 200


def _add_neighbor(client: httpx.Client, receiver: Receiver, host: str = "127.0.0.1") -> str:
    """Add a project that delivers to the receiver, and return its key."""
    project = client.post("/api/projects/", json={"name": "Neighbor"}).json()
    url = f"http://{host}:{urlsplit(receiver.url).port}/"
    _add_destination(client, project["id"], url)
    key: str = project["api_token"]
    _capture(client, key, "first")
    wait_for(lambda: receiver.names == ["first"], at_most_s=90)
    return key


def test_slow_receivers_of_a_project_delay_no_other_one(tmp_path: Path) -> None:
    can_answer = threading.Event()

    def answer_late(_: ReceivedRequest) -> PlannedResponse:
        can_answer.wait(60)
        return PlannedResponse()

    destinations = 8
    with (
        Receiver(answer_late) as slow,
        Receiver() as quick,
        LiveServer(tmp_path, allow_private_destinations="true") as server,
        server.client() as client,
    ):
        hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (FILE_LIMIT, hard))
        neighbor = _add_neighbor(client, quick)
        for _ in range(destinations):
            _add_destination(client, 1, slow.url)
        _capture(client, PROJECT_KEY, "slow", EVENTS)
        slow.wait_for(MAX_REQUESTS // 2)
        _capture(client, neighbor, "second")
        wait_for(lambda: quick.names == ["first", "second"], at_most_s=60)
        # The others of the slow project wait, although there are places.
        assert len(slow.received) < MAX_REQUESTS
        can_answer.set()
        slow.wait_for(destinations * EVENTS)
        assert len(slow.received) == destinations * EVENTS


def test_names_without_an_answer_delay_no_other_project(tmp_path: Path) -> None:
    library = compile_preload(SLOW_DNS, tmp_path)
    with (
        # Each request needs a lookup.
        Receiver(lambda _: PlannedResponse(headers={"Connection": "close"})) as receiver,
        patch.dict(os.environ, {"LD_PRELOAD": str(library)}),
        LiveServer(tmp_path / "data", allow_private_destinations="true") as server,
        server.client() as client,
    ):
        neighbor = _add_neighbor(client, receiver, "one.works.test")
        for number in range(MAX_LOOKUP_THREADS + 6):
            _add_destination(client, 1, f"http://{number}.hangs.test/")
        _capture(client, PROJECT_KEY, "slow")
        _wait_for_all_lookups(server)
        _capture(client, neighbor, "second")
        wait_for(lambda: receiver.names == ["first", "second"], at_most_s=60)


def _wait_for_all_lookups(server: LiveServer) -> None:
    """Wait until no further thread starts: those of the lookups hang."""
    counts: list[int] = []

    def has_settled() -> bool:
        counts.append(len(os.listdir(f"/proc/{server.process.pid}/task")))
        return counts[-1] > MAX_LOOKUP_THREADS // 2 and len(set(counts[-40:])) == 1

    wait_for(has_settled, at_most_s=60)
