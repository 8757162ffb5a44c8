"""A rush of events of many persons: how many are accepted and processed a second, and until when.

    python -m benchmarks.rush [part ...] [--seconds 10] [--postgres]

Parts are single, with a request for each event, and batches, with 100 events in each request; both
by default. Each event is of another one of 20,000 persons, which the rush creates. The service has
all cores, the load takes its part of them. `during` is what was processed (with its person, on the
way to the event store) while the load ran, `after` what was processed each second after it ended,
`stored` all events by the time from the first request until the last event can be queried. Each
should be at least 4,000. `cores` is what the service, its event engine and the load took during
the rush.
"""

import argparse
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from tests.support.postgres import PostgresTestServer

from benchmarks.capture import BATCH, HEDGEROW, event
from benchmarks.decide import PROJECT_KEY, run_load
from benchmarks.http import Running, started
from benchmarks.records import request

PARTS = {"single": 1, "batches": BATCH}
PERSONS = 20_000
CONNECTIONS = {"single": 64, "batches": 8}
AT_MOST_S = 120.0

Query = Callable[[str], list[tuple[Any, ...]]]


def build_requests(port: int, size: int) -> list[bytes]:
    events = [event(number) | {"distinct_id": f"visitor {number}"} for number in range(PERSONS)]
    if size == 1:
        return [request("POST", "/e/", port, {"api_key": PROJECT_KEY, **each}) for each in events]
    return [
        request("POST", "/batch/", port, {"api_key": PROJECT_KEY, "batch": events[at : at + size]})
        for at in range(0, PERSONS, size)
    ]


@contextmanager
def open_database(data: str, postgres_url: str) -> Iterator[Query]:
    if postgres_url:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            yield lambda statement: connection.execute(statement.encode()).fetchall()
    else:
        with closing(sqlite3.connect(f"{data}/hedgerow.db", timeout=30)) as embedded:
            yield lambda statement: embedded.execute(statement).fetchall()


def count_waiting(query: Query) -> tuple[int, int]:
    """How many events wait for their person, and how many for the event store."""
    unprocessed, unstored = (
        query(f"SELECT coalesce(sum(number), 0) FROM {table}")[0][0]
        for table in ("inbox", "ready_events")
    )
    return int(unprocessed), int(unstored)


def wait_for(is_over: Callable[[], bool]) -> float:
    began = time.perf_counter()
    while not is_over():
        if time.perf_counter() - began > AT_MOST_S:
            raise TimeoutError("events still wait")
        time.sleep(0.02)
    return time.perf_counter() - began


def measure(part: str, server: Running, query: Query, seconds: float) -> None:
    requests = build_requests(server.port, PARTS[part])
    run_load(server.port, requests[:2], connections=2, seconds=0.1)
    wait_for(lambda: not any(count_waiting(query)))
    spent, engine, own = server.cpu_seconds(), server.engine_cpu_seconds(), time.process_time()
    seen = run_load(server.port, requests, connections=CONNECTIONS[part], seconds=seconds)
    spent = server.cpu_seconds() - spent
    engine, own = server.engine_cpu_seconds() - engine, time.process_time() - own
    accepted = len(seen.latencies) * PARTS[part]
    unprocessed, _ = count_waiting(query)
    processing_s = wait_for(lambda: not count_waiting(query)[0])
    rest_s = processing_s + wait_for(lambda: not any(count_waiting(query)))
    after = f"{unprocessed / processing_s:,.0f}" if unprocessed > PERSONS / 20 else "all"
    cores = ", ".join(f"{each / seen.seconds:.2f}" for each in (spent, engine, own))
    print(
        f"{part:<8} {accepted / seen.seconds:>10,.0f}"
        f" {(accepted - unprocessed) / seen.seconds:>8,.0f} {after:>8}"
        f" {accepted / (seen.seconds + rest_s):>8,.0f} {seen.failures:>8}  {cores}",
        flush=True,
    )


def run(parts: Sequence[str], seconds: float, postgres: PostgresTestServer | None) -> None:
    print("part     accepted/s   during    after   stored failures  cores: service, engine, load")
    for part in parts:
        url = postgres.create_database() if postgres is not None else ""
        os.environ["HEDGEROW_DATABASE_URL"] = url
        with tempfile.TemporaryDirectory(dir=".") as data:
            command = [HEDGEROW, "serve", "--port", "0", "--data", data]
            with (
                started(command, os.sched_getaffinity(0)) as server,
                open_database(data, url) as query,
            ):
                measure(part, server, query, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    os.environ["HEDGEROW_INBOX_MAX_EVENTS"] = "100000000"
    for limit in ("PROJECT_CALLS", "PROJECT_EVENTS", "ADDRESS_CALLS"):
        os.environ[f"HEDGEROW_{limit}_PER_S"] = "0"
    os.environ["HEDGEROW_LOG_LEVEL"] = "warning"
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    postgres = PostgresTestServer() if options.postgres else None
    try:
        run(options.parts or list(PARTS), options.seconds, postgres)
    finally:
        if postgres is not None:
            postgres.close()


if __name__ == "__main__":
    main()
