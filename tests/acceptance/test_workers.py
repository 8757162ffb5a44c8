"""Several servers and several workers on one PostgreSQL and one ClickHouse."""

import json
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from uuid import uuid4

import httpx
import psycopg
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from hedgerow.storage.ingestion.inbox import STORE_BUCKETS
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    LiveWorker,
    run_concurrently,
    run_hedgerow,
    run_in_process,
    wait_for,
)
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, Receiver

PEOPLE = 20
ROUNDS = 30
# Generous, for a busy machine.
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    settings: Mapping[str, str]
    servers: tuple[LiveServer, LiveServer]
    workers: tuple[LiveWorker, LiveWorker]
    clickhouse: ClickHouseTestServer

    def stored(self) -> list[Any]:
        """Return the UUIDs of all stored events; empty before the tables exist."""
        database = self.settings["clickhouse_url"].rpartition("/")[2]
        sql = f"SELECT uuid FROM {database}.events FORMAT JSONCompactEachRow"
        try:
            return [json.loads(line)[0] for line in self.clickhouse.run(sql).splitlines()]
        except HTTPError:
            return []


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("workers")
    settings = {
        "database_url": postgres.create_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "allow_private_destinations": "true",
    }
    with ExitStack() as stack:
        # Workers may start first: they wait until a server has created the tables.
        workers = [
            LiveWorker(folder / name, "--metrics-port", "0", **settings)
            for name in ("three", "four")
        ]
        for worker in workers:
            stack.callback(worker.stop)
        one, two = (LiveServer(folder / name, "--no-worker", **settings) for name in ("one", "two"))
        yield Installation(
            settings=settings,
            servers=(stack.enter_context(one), stack.enter_context(two)),
            workers=(workers[0].wait_ready(), workers[1].wait_ready()),
            clickhouse=clickhouse,
        )


def _send(client: httpx.Client, *events: Mapping[str, Any]) -> None:
    answer = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": events})
    assert (answer.status_code, answer.json()) == (200, {"status": 1})


def _set(person: str, round: int) -> dict[str, Any]:
    return {
        "uuid": str(uuid4()),
        "event": "moved",
        "distinct_id": person,
        "properties": {"$set": {"round": round}, "$set_once": {"first": round}},
    }


def _sum(installation: Installation, name: str) -> float:
    """Sum a metric over all workers."""
    pages = [worker.metrics for worker in installation.workers]
    return sum(float(page.split(f"\n{name} ")[1].split("\n")[0]) for page in pages)


def _last_rounds(client: httpx.Client, prefix: str) -> dict[str, tuple[int, int]]:
    found = client.get("/api/projects/1/persons/", params={"search": prefix, "limit": 1000}).json()
    return {
        person["distinct_ids"][0]: (person["properties"]["first"], person["properties"]["round"])
        for person in found["results"]
    }


def test_state_of_the_installation_counts_its_processes(installation: Installation) -> None:
    def read() -> dict[str, Any]:
        with installation.servers[1].client() as client:
            results = client.get("/api/instance_status/").json()["results"]
        return {each["key"]: each["value"] for each in results["overview"]}

    wait_for(lambda: read()["processes"] >= 2, TIMEOUT_S)
    found = read()
    assert found["database"].startswith("PostgreSQL ")
    assert found["database_bytes"] > 100_000
    assert found["event_store"] == "ClickHouse"


def test_every_event_is_stored_once_and_in_order_per_person(
    installation: Installation,
) -> None:
    def send(number: int) -> list[str]:
        """Send the rounds of one group of persons, alternating between the servers."""
        with installation.servers[0].client() as one, installation.servers[1].client() as two:
            sent = []
            for round in range(ROUNDS):
                events = [_set(f"mover-{number}-{person}", round) for person in range(PEOPLE)]
                _send((one, two)[(round + number) % 2], *events)
                sent += [event["uuid"] for event in events]
            return sent

    groups = run_concurrently([partial(send, number) for number in range(2)])
    sent = [uuid for group in groups for uuid in group]
    wait_for(lambda: len(installation.stored()) >= len(sent), at_most_s=TIMEOUT_S)
    assert sorted(installation.stored()) == sorted(sent)
    for name in ("hedgerow_events_processed_total", "hedgerow_events_stored_total"):
        wait_for(lambda: _sum(installation, name) >= len(sent), at_most_s=TIMEOUT_S)  # noqa: B023
    with installation.servers[0].client() as client:
        rounds = _last_rounds(client, "mover-")
    assert set(rounds.values()) == {(0, ROUNDS - 1)}
    assert len(rounds) == 2 * PEOPLE


def test_all_workers_transform_and_count(installation: Installation) -> None:
    """From the first event after the response, on any server."""
    one, two = (server.client() for server in installation.servers)
    base = "/api/environments/1/pipeline_transformation_configs/"
    with one, two:
        paths = []
        for plugin, config in (
            (61, {"events": ["noise"]}),
            (64, {"names": ["secret"], "salt": "pepper"}),
        ):
            path = f"{base}{one.post(base, json={'plugin': plugin}).json()['id']}/"
            assert one.put(f"{path}config/", json=config).status_code == 200
            assert one.patch(path, json={"enabled": True}).status_code == 200
            paths.append(path)
        batches = [
            [
                {"event": name, "distinct_id": f"counted {n} {place}", "properties": {"secret": n}}
                for place in range(20)
                for name in ("noise", "kept")
            ]
            for n in range(10)
        ]
        run_concurrently(
            [partial(_send, (one, two)[n % 2], *batch) for n, batch in enumerate(batches)]
        )
        dropped, hashed = (partial(two.get, f"{path}metrics/") for path in paths)
        wait_for(lambda: dropped().json()["dropped"] == 200, at_most_s=TIMEOUT_S)
        wait_for(lambda: hashed().json()["changed"] == 200, at_most_s=TIMEOUT_S)
        assert (dropped().json()["failed"], hashed().json()["failed"]) == (0, 0)
        listed = one.get("/api/projects/1/events/", params={"event": "kept", "limit": 1000})
        secrets = {each["properties"]["secret"] for each in listed.json()["results"]}
        assert len(secrets) == 10
        assert {len(secret) for secret in secrets} == {64}
        for path in paths:
            one.delete(path)


def test_reads_wait_until_a_worker_stored_accepted_events(
    installation: Installation,
) -> None:
    """The server itself processes nothing."""
    with installation.servers[0].client() as client:
        for number in range(5):
            _send(client, _set("reader", number))
            found = client.get("/api/projects/1/persons/", params={"distinct_id": "reader"}).json()
            assert found["results"][0]["properties"]["round"] == number


def _count_leases(installation: Installation) -> list[int]:
    """Return how many buckets each worker holds."""
    sql = (
        "SELECT count(*) FROM inbox_leases WHERE expires_at > clock_timestamp()"
        " GROUP BY holder ORDER BY 1"
    )
    with psycopg.connect(installation.settings["database_url"]) as connection:
        return [count for (count,) in connection.execute(sql)]


def test_workers_share_leases_and_release_them(installation: Installation) -> None:
    leaver, _ = installation.workers
    with installation.servers[0].client() as client:

        def is_shared() -> bool:
            _send(client, *(_set(f"stayer-{number}", 0) for number in range(100)))
            return _count_leases(installation) == [STORE_BUCKETS / 2, STORE_BUCKETS / 2]

        wait_for(is_shared, at_most_s=TIMEOUT_S)
        assert leaver.stop(signal.SIGTERM) == 0
        assert len(_count_leases(installation)) <= 1
        assert "worker stopped" in leaver.errors
        assert '"level": "error"' not in leaver.errors
        before = len(installation.stored())
        _send(client, *(_set(f"late-{number}", 0) for number in range(50)))
        wait_for(lambda: len(installation.stored()) >= before + 50, at_most_s=TIMEOUT_S)
        stored = installation.stored()
        assert len(stored) == len(set(stored))


@pytest.mark.parametrize("command", [("worker",), ("serve", "--no-worker")], ids=" ".join)
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "HEDGEROW_DATABASE_URL"),
        ({"database_url": "postgresql://127.0.0.1/none"}, "HEDGEROW_CLICKHOUSE_URL"),
    ],
    ids=["sqlite", "events in the data directory"],
)
def test_single_process_installation_rejects_split_roles(
    tmp_path: Path, settings: dict[str, str], missing: str, command: tuple[str, ...]
) -> None:
    done = run_in_process(*command, data=tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()
    assert (done.returncode, done.stdout) == (1, "")
    assert missing in done.stderr
    assert "`hedgerow serve` processes" in done.stderr


def test_second_event_folder_logs_a_warning(tmp_path: Path, postgres: PostgresTestServer) -> None:
    alone = LiveServer(tmp_path / "one", database_url=postgres.create_migrated_database())
    with alone, LiveServer(tmp_path / "two") as embedded:
        pass
    assert "set HEDGEROW_CLICKHOUSE_URL for all of them" in alone.errors
    assert "HEDGEROW_CLICKHOUSE_URL" not in embedded.errors


def test_unusable_metrics_address_is_one_error_line(
    tmp_path: Path, installation: Installation
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_hedgerow(
            "worker", "--metrics-port", port, data=tmp_path, **installation.settings
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"hedgerow: Cannot serve metrics on 127.0.0.1:{port}: Address already in use.\n"
    )


def test_queries_see_events_and_persons_of_all_processes(installation: Installation) -> None:
    one, two = installation.servers
    text = "select person.properties.city as city, count() from events where event = 'queried'"
    query = {"kind": "HogQLQuery", "query": f"{text} group by city"}
    with one.client() as here, two.client() as there:
        for number, city in enumerate(["Bern", "Rome", "Oslo"], 1):
            properties = {"$set": {"city": city}}
            _send(here, {"event": "queried", "distinct_id": "querier", "properties": properties})
            found = here.post("/api/projects/1/query/", json={"query": query}).json()
            assert found["results"] == [[city, number]]

        def is_seen() -> bool:
            answer = there.post("/api/projects/1/query/", json={"query": query}).json()
            return bool(answer["results"] == [["Oslo", 3]])

        wait_for(is_seen, at_most_s=TIMEOUT_S)


def test_jobs_run_in_any_worker(installation: Installation) -> None:
    rows = "".join(f"job {number % 3},w{number % 9},{number}\n" for number in range(3000))
    table = ("event,distinct_id,n\n" + rows).encode()
    base = "/api/environments/1/"
    with Receiver() as source, Receiver() as receiver, installation.servers[1].client() as client:
        source.decide = lambda _: PlannedResponse(body=table)
        bodies = {
            "pipeline_import_apps_configs/": (
                "import",
                41,
                {"source": source.url, "format": "csv"},
            ),
            "pipeline_destination_configs/": (
                "replay",
                1,
                {"url": receiver.url, "events": ["job 1"], "batch_size": 100, "batch_seconds": 0},
            ),
        }
        for path, (type, plugin, config) in bodies.items():
            record = (
                f"{base}{path}{client.post(base + path, json={'plugin': plugin}).json()['id']}/"
            )
            assert client.put(f"{record}config/", json=config).status_code == 200
            client.patch(record, json={"enabled": True})
            started = client.post(f"{record}job/", json={"job": {"type": type}})
            job = f"{record}jobs/{started.headers['x-job-id']}/"
            wait_for(partial(is_finished, client, job), TIMEOUT_S)
            done = client.get(job).json()
            assert (done["status"], done["error"]) == ("done", "")
        assert done["details"]["queued"] == 1000
        wait_for(lambda: not client.get(f"{record}deliveries/").json()["count"], TIMEOUT_S)
        numbers = sorted(each["event"]["properties"]["n"] for each in receiver.bodies)
        assert numbers == list(range(1, 3000, 3))


def is_finished(client: httpx.Client, job: str) -> bool:
    return client.get(job).json()["ended_at"] is not None
