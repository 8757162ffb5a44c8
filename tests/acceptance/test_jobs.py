"""Jobs end to end: replays to a real receiver, with pauses and killed processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver, wait_until

RECORDS = "/api/environments/1/pipeline_destination_configs/"
IMPORTS = "/api/environments/1/pipeline_import_apps_configs/"
WEBHOOK, FILES = 1, 41
MANY = 10_000
OVER = ("done", "failed", "cancelled")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("jobs")
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def capture(client: httpx.Client, name: str, number: int, **properties: Any) -> set[str]:
    """The uuids of so many events of a name."""
    uuids = [str(uuid4()) for _ in range(number)]
    for start in range(0, number, 2000):
        batch = [
            {"event": name, "distinct_id": f"u{n % 50}", "uuid": uuid, "properties": properties}
            for n, uuid in enumerate(uuids[start : start + 2000])
        ]
        answer = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
        assert answer.status_code == 200, answer.text
    return set(uuids)


def destination(client: httpx.Client, url: str, **settings: Any) -> str:
    """The path of a new enabled webhook."""
    path = f"{RECORDS}{client.post(RECORDS, json={'plugin': WEBHOOK}).json()['id']}/"
    configured = client.put(f"{path}config/", json={"url": url, **settings})
    assert configured.status_code == 200, configured.text
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path


def start_job(client: httpx.Client, path: str, type: str = "replay", **payload: Any) -> str:
    """The path of a new job."""
    answer = client.post(f"{path}job/", json={"job": {"type": type, "payload": payload}})
    assert answer.status_code == 200, answer.text
    return f"{path}jobs/{answer.headers['x-job-id']}/"


def wait_until_ended(client: httpx.Client, job: str) -> dict[str, Any]:
    wait_until(lambda: client.get(job).json()["status"] in OVER, 60)
    found: dict[str, Any] = client.get(job).json()
    return found


def test_imports_and_replays_survive_killed_processes_without_duplicates(tmp_path: Path) -> None:
    folder = tmp_path / "imports" / "1"
    folder.mkdir(parents=True)
    lines = [f"bought,u{number % 50},{number}\n" for number in range(MANY)]
    (folder / "rows.csv").write_text("event,distinct_id,n\n" + "".join(lines))
    with Receiver() as receiver:
        server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
        with server.client() as client:
            record = client.post(IMPORTS, json={"plugin": FILES}).json()["id"]
            client.put(f"{IMPORTS}{record}/config/", json={"source": "rows.csv"})
            job = start_job(client, f"{IMPORTS}{record}/", "import")
            wait_until(lambda: client.get(job).json()["done"] >= MANY // 4)
            server.kill()
        server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
        with server.client() as client:
            taken = wait_until_ended(client, job)
            assert (taken["status"], taken["done"]) == ("done", MANY)
            assert (taken["details"]["imported"], taken["details"]["bad"]) == (MANY, 0)
            path = destination(client, receiver.url, batch_size=100, batch_seconds=0)
            job = start_job(client, path)
            wait_until(lambda: len(receiver.received) > MANY // 400)
            server.kill()
        assert len(receiver.uuids) < MANY
        with (
            LiveServer(tmp_path, allow_private_destinations="true") as again,
            again.client() as client,
        ):
            done = wait_until_ended(client, job)
            assert (done["status"], done["done"], done["total"]) == ("done", MANY, MANY)
            # Each was queued once, whatever was being sent when the process ended.
            assert done["details"] == {"queued": MANY, "skipped": 0, "unwanted": 0}
            wait_until(lambda: client.get(f"{path}deliveries/").json()["count"] == 0)
            numbers = {each["event"]["properties"]["n"] for each in receiver.bodies}
            assert (len(set(receiver.uuids)), numbers) == (MANY, set(range(MANY)))
            got = len(receiver.received)
            repeated = wait_until_ended(client, start_job(client, path))
            assert repeated["details"] == {"queued": 0, "skipped": MANY, "unwanted": 0}
            assert client.get(f"{path}deliveries/").json()["count"] == 0
            assert len(receiver.received) == got
            activity = client.get(f"{path}activity/?format=json").json()["results"]
            assert [each["activity"] for each in activity[:2]] == ["job_done", "job_triggered"]


def test_a_replay_sends_the_requested_events(client: httpx.Client, receiver: Receiver) -> None:
    cheap, dear = capture(client, "seen", 3, price=1), capture(client, "seen", 2, price=20)
    capture(client, "other", 4, price=20)
    path = destination(
        client, receiver.url, properties=[{"key": "price", "operator": "gt", "value": 10}]
    )
    job = wait_until_ended(client, start_job(client, path, events=["seen"], date_from="-1h"))
    assert job["details"] == {"queued": 2, "skipped": 0, "unwanted": 3}
    receiver.wait_for(2)
    again = wait_until_ended(client, start_job(client, path, events=["seen"], again=True))
    assert again["details"]["queued"] == 2
    receiver.wait_for(4)
    assert sorted(receiver.uuids) == sorted([*dear, *dear])
    assert not cheap & set(receiver.uuids)
    later = wait_until_ended(client, start_job(client, path, date_from="-2d", date_to="-1d"))
    assert (later["status"], later["done"], later["total"]) == ("done", 0, 0)


def test_a_replay_waits_while_its_queue_is_full_and_can_be_paused(
    client: httpx.Client, receiver: Receiver
) -> None:
    name = "slowly"
    uuids = capture(client, name, MANY)
    is_well = False

    def decide(_: ReceivedRequest) -> PlannedResponse:
        return PlannedResponse(status=200 if is_well else 500)

    receiver.decide = decide
    path = destination(client, receiver.url, events=[name], batch_size=500, batch_seconds=0)
    job = start_job(client, path, events=[name])
    # Nothing is sent, so the replay stops at a full queue.
    wait_until(lambda: client.get(job).json()["done"] >= 5000)
    paused = client.post(f"{job}pause/").json()
    assert (paused["status"], paused["total"]) == ("paused", MANY)
    assert paused["done"] < MANY
    is_well = True
    client.patch(path, json={"description": "It is well again."})
    wait_until(lambda: client.get(f"{path}deliveries/").json()["count"] == 0, 60)
    assert client.get(job).json()["done"] == paused["done"]
    assert client.post(f"{job}resume/").json()["status"] == "waiting"
    assert wait_until_ended(client, job)["details"]["queued"] == MANY
    wait_until(lambda: client.get(f"{path}deliveries/").json()["count"] == 0, 60)
    assert set(receiver.uuids) == uuids
    assert client.post(f"{job}pause/").json()["status"] == "done"


def test_a_connection_is_checked(client: httpx.Client, receiver: Receiver) -> None:
    path = destination(client, receiver.url)
    good = wait_until_ended(client, start_job(client, path, "test_connection"))
    assert (good["status"], good["error"]) == ("done", "")
    receiver.decide = lambda _: PlannedResponse(status=403)
    bad = wait_until_ended(client, start_job(client, path, "test_connection"))
    assert (bad["status"], bad["error"]) == ("failed", "HTTP 403: ok")
    logs = client.get(f"{path}logs/?search=test_connection").json()["results"]
    assert [line["level"] for line in logs] == ["error", "info"]
