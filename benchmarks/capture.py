"""Capture: single events against a bare JSON echo, batches, and the way to the event store.

    python -m benchmarks.capture [part ...] [--rounds 5] [--seconds 60] [--events 200000]
        [--inbox 100000]

Parts are single, batches, queryable, backlog, restart; all of them by default. `--rounds` is how
often single events are measured: each round starts three servers, which takes half a minute on two
busy cores. `--seconds` is how long the backlog is watched at a steady rate, `--events` how many the
memory and the disk are measured over, `--inbox` how many wait when a server starts. Durable
settings throughout.

The echo reads the same bodies as JSON and sends them back, as in benchmarks/decide.py. For single
events servers and load have a core each; elsewhere the server has all cores, for it works behind
the answers too, and the load takes its part of them.
"""

import argparse
import asyncio
import http.client
import itertools
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import flag_world
from benchmarks.decide import DECIDE, PROJECT_KEY, LoadResult, measured, run_load
from benchmarks.http import Round, Running, shown, started
from benchmarks.load import cores
from benchmarks.records import request
from hedgerow.ingestion.model import CapturedEvent
from hedgerow.lib.clock import utc_now

CONNECTIONS = 64
PEOPLE = 5_000
BATCH = 100
BATCH_SECONDS = 5.0
RATE = 3_000
STEADY_CONNECTIONS = 32
HEDGEROW = str(Path(sys.executable).parent / "hedgerow")
PAGE: dict[str, Any] = {
    "$browser": "Firefox",
    "$browser_version": 140,
    "$os": "Linux",
    "$device_type": "Desktop",
    "$current_url": "https://example.com/pricing?plan=team",
    "$pathname": "/pricing",
    "$referrer": "$direct",
    "$screen_height": 1080,
    "$screen_width": 1920,
    "$lib": "web",
    "$session_id": "0199aaaa-0000-7000-8000-000000000000",
}


def event(number: int) -> dict[str, Any]:
    """What a page view looks like; each tenth tells something new of its person."""
    properties = {**PAGE, "number": number}
    if number % 10 == 0:
        properties["$set"] = {"visits": number}
    return {"event": "$pageview", "distinct_id": f"person {number % PEOPLE}", **_now(properties)}


def _now(properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": properties, "timestamp": "2026-01-02T03:04:05.678Z"}


def singles(port: int, count: int = 1000) -> list[bytes]:
    return [
        request("POST", "/e/", port, {"api_key": PROJECT_KEY, **event(number)})
        for number in range(count)
    ]


def batches(port: int, size: int = BATCH, count: int = 200) -> list[bytes]:
    return [
        request("POST", "/batch/", port, {"api_key": PROJECT_KEY, "batch": part})
        for start in range(count)
        for part in [[event(start * size + number) for number in range(size)]]
    ]


@contextmanager
def hedgerow(core: set[int], data: str, *, worker: bool = True) -> Iterator[Running]:
    """A server whose event store is open; without a worker it only accepts."""
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    os.environ["HEDGEROW_INBOX_MAX_EVENTS"] = "100000000"
    for limit in ("PROJECT_CALLS", "PROJECT_EVENTS", "ADDRESS_CALLS"):
        os.environ[f"HEDGEROW_{limit}_PER_S"] = "0"
    os.environ["HEDGEROW_LOG_LEVEL"] = "warning"
    serving = [HEDGEROW, "serve", "--port", "0", "--data", data]
    accepting = [sys.executable, "-m", "benchmarks.accepting", data]
    with started(serving if worker else accepting, core) as server:
        run_load(server.port, singles(server.port, 2), connections=2, seconds=0.1)
        if worker:
            wait_until_stored(data)
        yield server


def waiting(data: str) -> tuple[int, int]:
    """How many events wait for their person, and how many for the event store."""
    with closing(sqlite3.connect(f"{data}/hedgerow.db", timeout=30)) as connection:
        found = [
            connection.execute(f"SELECT sum(number) FROM {table}").fetchone()[0]
            for table in ("inbox", "ready_events")
        ]
    return found[0] or 0, found[1] or 0


def wait_until_stored(data: str, at_most_s: float = 600) -> float:
    began = time.perf_counter()
    while any(waiting(data)):
        if time.perf_counter() - began > at_most_s:
            raise TimeoutError(f"{waiting(data)} events still wait")
        time.sleep(0.02)
    return time.perf_counter() - began


def resident_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def disk_bytes(folder: Path) -> int:
    """The engine creates and removes files at the same time; os.walk skips missing folders."""
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(parent, name).stat().st_size
    return size


# Single events against the echo


def single(rounds: int) -> None:
    server_core, load_core = cores()
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, load_core)
    echo: list[Round] = []
    accepting: list[Round] = []
    ours: list[Round] = []
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(dir=".") as data,
            tempfile.TemporaryDirectory(dir=".") as other,
            started([sys.executable, "-m", "benchmarks.decide", "echo"], server_core) as bare,
            hedgerow(server_core, data) as server,
            hedgerow(server_core, other, worker=False) as accepts,
        ):
            echo.append(measured(bare, singles(bare.port), CONNECTIONS))
            accepting.append(measured(accepts, singles(accepts.port), CONNECTIONS))
            ours.append(measured(server, singles(server.port), CONNECTIONS))
    os.sched_setaffinity(0, everywhere)
    print(f"POST /e/, one event, {CONNECTIONS} connections, median of {rounds} alternating rounds")
    print("  (processed: with persons and the event store in the same time, as far as they came)")
    print(f"  {'':<28} {'per core-s':>12} {'per s':>10} {'p50 ms':>8} {'p99 ms':>8}")
    bare_rate = shown("JSON echo, bare ASGI", echo)
    accept_rate = shown("/e/, accepted", accepting)
    our_rate = shown("/e/, accepted and processed", ours)
    print(
        f"  accepted / echo: {accept_rate / bare_rate:.0%} (at least 25 %),"
        f" with processing {our_rate / bare_rate:.0%}"
    )


# Batches, accepted and queryable


def batched() -> None:
    """How fast batches are accepted, alone and while those before are processed, and how fast all
    of it can be queried in the end."""
    print(f"POST /batch/, {BATCH} events each, 8 connections, {BATCH_SECONDS:.0f} s")
    for worker in (False, True):
        with (
            tempfile.TemporaryDirectory(dir=".") as data,
            hedgerow(os.sched_getaffinity(0), data, worker=worker) as server,
        ):
            spent = server.cpu_seconds()
            requests = batches(server.port)
            seen = run_load(server.port, requests, connections=8, seconds=BATCH_SECONDS)
            spent = server.cpu_seconds() - spent
            accepted = len(seen.latencies) * BATCH
            unprocessed, unstored = waiting(data)
            rest_s = wait_until_stored(data) if worker else 0.0
        summary = seen.measured()
        print(
            f"  {'with' if worker else 'without'} a worker: accepted"
            f" {accepted / seen.seconds:,.0f} events/s (at least 25,000),"
            f" {accepted / spent:,.0f} a core-second, p50 {summary.p50_ms:.1f} ms,"
            f" p99 {summary.p99_ms:.1f} ms, {seen.failures} failures"
        )
    print(
        f"  then {unprocessed:,} events were unprocessed, {unstored:,} unstored;"
        f" all were queryable {rest_s:.1f} s later:"
        f" {accepted / (seen.seconds + rest_s):,.0f} events/s in all"
    )


def queryable(count: int) -> None:
    """From an inbox that is never empty: what the way to the event store can carry, and what that
    costs in memory and on disk."""
    with (
        tempfile.TemporaryDirectory(dir=".") as data,
        hedgerow(os.sched_getaffinity(0), data) as server,
    ):
        requests = itertools.cycle(batches(server.port))
        before = disk_bytes(Path(data))
        resident = [resident_mib(server.pid)]
        sent, began = 0, time.perf_counter()
        spent, engine = server.cpu_seconds(), server.engine_cpu_seconds()
        while sent < count:
            some = [next(requests) for _ in range(8)]
            sent += post_once(server.port, some) * BATCH
            while sum(waiting(data)) > 20_000:
                time.sleep(0.05)
            resident.append(resident_mib(server.pid))
        wait_until_stored(data)
        took = time.perf_counter() - began
        spent = server.cpu_seconds() - spent
        engine = server.engine_cpu_seconds() - engine
        resident.append(resident_mib(server.pid))
        events = disk_bytes(Path(data) / "events")
        state = disk_bytes(Path(data)) - events - before
    half = len(resident) // 2
    print(f"Accepted to queryable, {sent:,} events, the inbox never empty")
    print(
        f"  {sent / took:,.0f} events/s (at least 5,000), {spent / took:.2f} cores,"
        f" {spent / sent * 1e6:.0f} us of processor time an event,"
        f" and {engine / sent * 1e6:.0f} us in the event engine"
    )
    print(
        f"  resident {resident[0]} MiB before, {max(resident[:half])} at most in the first half,"
        f" {max(resident[half:])} in the second, {resident[-1]} after"
    )
    print(
        f"  on disk {events / sent:.0f} bytes an event in the event store, and"
        f" {state / 1e6:.1f} MB of state"
    )


def post_once(port: int, requests: Sequence[bytes]) -> int:
    """Each of them once, over a connection of its own."""

    async def post(content: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"unexpected answer: {head!r}")
        writer.close()

    async def post_all() -> None:
        await asyncio.gather(*map(post, requests))

    asyncio.run(post_all())
    return len(requests)


# A steady rate


def backlog(seconds: float) -> None:
    """Batches of 30 at 3,000 events a second. The lag is how long ago what is stored now was
    accepted: rows are stored in their order, so it follows from what waits."""
    size = 30
    with (
        tempfile.TemporaryDirectory(dir=".") as data,
        hedgerow(os.sched_getaffinity(0), data) as server,
    ):
        lags, waits, seen = asyncio.run(_steady(server.port, data, size, seconds))
        rest_s = wait_until_stored(data)
    percentiles = statistics.quantiles(lags, n=100)
    tenth = max(1, len(waits) // 10)
    print(f"{RATE:,} events/s for {seconds:.0f} s, in batches of {size}")
    print(
        f"  accepted {len(seen.latencies) * size / seen.seconds:,.0f} events/s,"
        f" p99 of an answer {seen.measured().p99_ms:.1f} ms, {seen.failures} failures"
    )
    print(
        f"  lag p50 {percentiles[49]:.2f} s, p99 {percentiles[98]:.2f} s (at most 1),"
        f" at most {max(lags):.2f} s"
    )
    print(
        f"  waiting: {statistics.mean(waits[:tenth]):,.0f} events in the first tenth of the time,"
        f" {statistics.mean(waits[-tenth:]):,.0f} in the last; empty {rest_s:.1f} s after the end"
    )


async def _steady(
    port: int, data: str, size: int, seconds: float
) -> tuple[list[float], list[int], LoadResult]:
    """Each request has its moment; if no connection is free then, that counts as waiting."""
    seen = LoadResult()
    requests = batches(port, size)
    lags: list[float] = []
    waits: list[int] = []
    began = time.perf_counter()
    accepted: list[tuple[int, float]] = [(0, began)]
    due = iter([(began + n * size / RATE, n) for n in range(int(seconds * RATE / size))])

    async def post() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for moment, number in due:
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            writer.write(requests[number % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
            if head.startswith(b"HTTP/1.1 200"):
                seen.latencies.append(time.perf_counter() - moment)
                accepted.append((accepted[-1][0] + size, time.perf_counter()))
            else:
                seen.failures += 1
        writer.close()

    async def look() -> None:
        oldest = 0
        while True:
            await asyncio.sleep(0.1)
            left = await asyncio.to_thread(lambda: sum(waiting(data)))
            stored = accepted[-1][0] - left
            while oldest + 1 < len(accepted) and accepted[oldest][0] <= stored:
                oldest += 1
            is_behind = accepted[oldest][0] > stored
            lags.append(time.perf_counter() - accepted[oldest][1] if is_behind else 0.0)
            waits.append(left)

    looking = asyncio.create_task(look())
    await asyncio.gather(*(post() for _ in range(STEADY_CONNECTIONS)))
    seen.seconds = time.perf_counter() - began
    looking.cancel()
    return lags, waits, seen


# Starting over a full inbox


def restart(count: int) -> None:
    """Rows of one event each, as single events make them, copied out of one that was accepted."""
    with tempfile.TemporaryDirectory(dir=".") as data:
        with hedgerow(os.sched_getaffinity(0), data):
            flag_world.fill(data, flag_count=flag_world.FLAGS, person_count=0)
        _fill_inbox(data, count)
        began = time.perf_counter()
        command = [HEDGEROW, "serve", "--port", "0", "--data", data]
        with started(command, os.sched_getaffinity(0)) as server:
            ready_s = time.perf_counter() - began
            began = time.perf_counter()
            has_errors = evaluate_flags(server.port)
            decided_s = time.perf_counter() - began
            post_once(server.port, batches(server.port, count=1))
            answered_s = time.perf_counter() - began
            wait_until_stored(data)
            took = time.perf_counter() - began
            resident = resident_mib(server.pid)
    print(f"A start with {count:,} events in the inbox, a row each")
    print(
        f"  ready after {ready_s:.2f} s, {decided_s:.2f} s later flags are evaluated for a person"
        f" without waiting events ({'with' if has_errors else 'without'} errors)"
    )
    print(
        f"  the first batch is answered {answered_s:.2f} s after the start,"
        f" all is stored {took:.1f} s later ({count / took:,.0f} events/s), resident {resident} MiB"
    )


def evaluate_flags(port: int) -> bool:
    """Evaluate flags that need stored data. Return whether the answer reports errors."""
    body = json.dumps({"api_key": PROJECT_KEY, "distinct_id": "without events"})
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("POST", DECIDE, body, {"Content-Type": "application/json"})
        return bool(json.loads(connection.getresponse().read())["errorsWhileComputingFlags"])


def _fill_inbox(data: str, count: int) -> None:
    """Written past the service, by which a million would take long."""
    now = utc_now()
    rows = (
        (
            msgspec.msgpack.encode(
                [
                    CapturedEvent(
                        uuid=f"0199aaaa-0000-7000-8000-{number:012}",
                        event="$pageview",
                        distinct_id=f"person {number % PEOPLE}",
                        properties=event(number)["properties"],
                        timestamp=now,
                        accepted_at=now,
                    )
                ]
            ),
        )
        for number in range(count)
    )
    with closing(sqlite3.connect(f"{data}/hedgerow.db")) as connection:
        connection.executemany(
            "INSERT INTO inbox (bucket, project_id, events, number, accepted_ms)"
            " VALUES (0, 1, ?, 1, 0)",
            rows,
        )
        connection.commit()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.capture")
    parts = ("single", "batches", "queryable", "backlog", "restart")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--inbox", type=int, default=100_000)
    options = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    run: dict[str, Callable[[], None]] = {
        "single": lambda: single(options.rounds),
        "batches": batched,
        "queryable": lambda: queryable(options.events),
        "backlog": lambda: backlog(options.seconds),
        "restart": lambda: restart(options.inbox),
    }
    for part in options.parts or parts:
        run[part]()


if __name__ == "__main__":
    main()
