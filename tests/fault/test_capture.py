"""Whatever happens to the service, an event that got a 200 is stored once, and its person is as if
nothing had happened.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fault.capture_batches import (
    COUNTED_FLAG,
    assert_stored_once,
    build_batches,
    build_event,
    build_flag_call,
    get_properties,
    get_uuids,
    send_batch,
)
from tests.fault.decide_requests import build_filters, create_flag
from tests.fault.stored_state import fetch_rows
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import (
    Installation,
    LiveServer,
    read_error,
    run_concurrently,
    run_in_process,
    wait_for,
)
from tests.support.stored_events import wait_until_stored

# As many kills as fit into the time, or as many as HEDGEROW_TEST_KILLS requests.
LEAST_KILLS = 4
KILLS_S = 8
ASKED_KILLS = int(os.environ.get("HEDGEROW_TEST_KILLS", "0"))
WRITERS = 4


@pytest.fixture
def embedded(tmp_path: Path) -> Installation:
    return Installation(data=tmp_path / "data", settings={})


@pytest.mark.timeout(60 * max(15, ASKED_KILLS))
def test_nothing_acknowledged_is_lost_or_stored_twice(
    embedded: Installation, tell: Callable[[str], None]
) -> None:
    with embedded.server().wait_ready() as server, server.client() as client:
        create_flag(client, COUNTED_FLAG, build_filters())
    moments = random.Random()
    acknowledged: dict[str, int] = {}
    ids: set[str] = set()
    kills, began = 0, time.monotonic()
    while kills < max(LEAST_KILLS, ASKED_KILLS) or (
        not ASKED_KILLS and time.monotonic() - began < KILLS_S
    ):
        server = embedded.server().wait_ready()
        try:
            # Every fourth kill hits the processing of leftovers, without new requests.
            if kills % 4 == 3:
                time.sleep(moments.uniform(0, 0.3))
            else:
                _storm(server, f"round {kills}", acknowledged, ids, moments.uniform(0.05, 0.8))
        finally:
            server.kill()
        kills += 1
    with embedded.server().wait_ready() as server:
        wait_until_stored(server.data)
    assert "background task failed" not in server.errors
    stored = assert_stored_once(embedded, ids)
    _assert_as_if_run_once(embedded, stored, acknowledged)
    tell(f"capture: {kills} kills, {len(ids)} acknowledged events, {len(stored)} stored")


def _storm(
    server: LiveServer,
    name: str,
    acknowledged: dict[str, int],
    ids: set[str],
    kill_after_s: float,
) -> None:
    killer = threading.Timer(kill_after_s, server.process.kill)
    started = threading.Event()

    def write(writer: int) -> None:
        distinct_id = f"{name}, writer {writer}"
        with server.client(key=None) as client:
            for number, batch in enumerate(build_batches(distinct_id)):
                try:
                    answer = send_batch(client, batch)
                except httpx.TransportError:
                    return
                assert answer.status_code == 200, answer.text
                acknowledged[distinct_id] = number
                ids.update(get_uuids(batch))
                if not started.is_set():
                    started.set()
                    killer.start()

    try:
        run_concurrently([partial(write, writer) for writer in range(WRITERS)])
    finally:
        killer.cancel()
    server.process.wait()


def _assert_as_if_run_once(
    installation: Installation, stored: list[dict[str, Any]], acknowledged: dict[str, int]
) -> None:
    seen = [row for row in stored if row["event"] == "seen"]
    last: Counter[str] = Counter()
    for row in seen:
        number, person = get_properties(row)["number"], get_properties(row, "person_properties")
        assert (person["n"], person["first"]) == (number, 0)
        last[row["distinct_id"]] = max(last[row["distinct_id"]], number)
    assert last.keys() >= acknowledged.keys()
    for distinct_id, number in acknowledged.items():
        # The last request may have been stored without a response.
        assert number <= last[distinct_id] <= number + 1
    people = fetch_rows(
        installation,
        "SELECT d.distinct_id, p.properties, p.id FROM persons p"
        " JOIN person_distinct_ids d ON d.person_id = p.id",
    )
    for distinct_id, found, _ in people:
        who, _, before = distinct_id.partition(" before ")
        assert get_properties({"properties": found})["n"] == last[who]
        assert not before or int(before) <= last[who]
    assert len({id for _, _, id in people}) == len(last)
    [(calls,)] = fetch_rows(installation, "SELECT sum(calls) FROM flag_calls")
    assert calls == sum(row["event"] == "$feature_flag_called" for row in stored)
    assert fetch_rows(installation, "PRAGMA quick_check") == [("ok",)]


def test_same_batch_from_ten_clients_is_stored_once(embedded: Installation) -> None:
    batches = [[build_event("seen", f"person {n % 7}", n=n) for n in range(200)] for _ in range(5)]

    def deliver(server: LiveServer, start: int) -> None:
        with server.client(key=None) as client:
            for number in range(len(batches)):
                answer = send_batch(client, batches[(start + number) % len(batches)])
                assert (answer.status_code, answer.json()) == (200, {"status": 1})

    for _ in range(2):
        with embedded.server().wait_ready() as server:
            run_concurrently([partial(deliver, server, client) for client in range(10)])
            wait_until_stored(server.data)
    everything = {uuid for batch in batches for uuid in get_uuids(batch)}
    assert len(assert_stored_once(embedded, everything)) == len(everything)


@pytest.fixture
def mortal(tmp_path: Path) -> Any:
    """An event store that can be stopped, unlike the shared one."""
    server = ClickHouseTestServer(tmp_path / "clickhouse")
    yield server
    server.kill()


def test_unavailable_event_store_does_not_block_capture(
    mortal: ClickHouseTestServer, embedded: Installation
) -> None:
    """Events are accepted up to the limit and stored later. Beyond it, requests are rejected, and
    no acknowledged event is lost."""
    url = mortal.create_database()
    ids: set[str] = set()

    def send(count: int) -> httpx.Response:
        batch = [build_event("$set", f"person {n}", **{"$set": {"n": n}}) for n in range(count)]
        answer = send_batch(client, batch)
        if answer.status_code == 200:
            ids.update(get_uuids(batch))
        return answer

    settings = {"clickhouse_url": url, "inbox_max_events": "500", "database_timeout_s": "2"}
    with embedded.server(**settings) as server, server.client(key=None) as client:
        assert send(10).status_code == 200
        wait_until_stored(server.data)
        mortal.kill()
        for _ in range(10):
            assert send(50).status_code == 200
        refused = send(1)
        assert refused.status_code == 503
        assert read_error(refused)["detail"].startswith("Too many events wait to be processed.")
        assert int(refused.headers["retry-after"]) >= 1
        body = {"api_key": "phc_known-project-key-for-tests", "distinct_id": "person 3"}
        assert client.post("/decide?v=3", json=body).status_code == 200
        assert client.get("/_liveness").status_code == 200
        mortal.start()
        wait_until_stored(server.data)
        assert send(10).status_code == 200
        wait_until_stored(server.data)
    found = mortal.run(f"SELECT uuid FROM {url.rpartition('/')[2]}.events FORMAT TSV").decode()
    assert sorted(found.split()) == sorted(ids)
    assert "background task failed" not in server.errors


def test_one_project_cannot_fill_the_inbox_for_others(installation: Installation) -> None:
    settings = {"clickhouse_url": "http://127.0.0.1:1/unreachable", "inbox_max_events": "200"}
    with installation.server(**settings) as server, server.client() as client:
        other = client.post("/api/projects/", json={"name": "Other"}).json()["api_token"]
        wait_for(lambda: send_batch(client, [build_event()] * 10).status_code == 503, at_most_s=60)
        refused = send_batch(client, [build_event()])
        assert read_error(refused)["detail"].startswith("Too many events of this project wait")
        assert int(refused.headers["retry-after"]) >= 1
        event = {"api_key": other, **build_event()}
        assert client.post("/capture/", json=event).status_code == 200
        assert 'refused_total{limit="inbox",project="1"}' in client.get("/metrics").text
        assert "inbox" in server.errors
    checked = run_in_process("doctor", data=installation.data, **installation.settings, **settings)
    assert "warning inbox: " in checked.stdout
    assert "most of them of project 1" in checked.stdout


def test_nearly_full_disk_rejects_events(embedded: Installation) -> None:
    with (
        embedded.server(min_free_disk_mb="1000000000").wait_ready() as server,
        server.client(key=None) as client,
    ):
        for _ in range(3):
            refused = send_batch(client, [build_event()])
            assert refused.status_code == 503
            assert read_error(refused)["detail"] == "The disk is nearly full. Try again later."
            assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/_readiness").status_code == 200
    assert fetch_rows(embedded, "SELECT count(*) FROM inbox") == [(0,)]
    with embedded.server().wait_ready() as server, server.client(key=None) as client:
        assert send_batch(client, [build_event()]).status_code == 200


def test_stopping_server_finishes_or_resumes_its_work(
    embedded: Installation,
) -> None:
    batches = [
        [build_event("seen", f"person {n}"), build_flag_call(f"person {n}")] for n in range(60)
    ]
    with embedded.server().wait_ready() as server, server.client(key=None) as client:
        for batch in batches[:59]:
            assert send_batch(client, batch).status_code == 200
        assert server.stop() == 0
    with embedded.server().wait_ready() as server, server.client(key=None) as client:
        assert send_batch(client, batches[59]).status_code == 200
        wait_for(lambda: server.get_status("/_readiness") == 200, at_most_s=60)
        wait_until_stored(server.data)
    assert_stored_once(embedded, {uuid for batch in batches for uuid in get_uuids(batch)})
