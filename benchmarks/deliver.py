"""Deliveries: webhooks compared with a bare httpx loop, a dead destination next to live
ones, and a replay.

    python -m benchmarks.deliver [part ...] [--events 5000] [--waiting 1000000] [--stored 1000000]

Parts are single, batched, dead and replay; the default is all of them. `--events` is the number of
events in a round (ten times as many in batches), `--waiting` the backlog of the dead destination,
`--stored` the number of replayed events.

Receiver and sender have a core each, and rounds alternate. The receiver counts events between the
first and the last one. The httpx loop sends prepared bodies with the concurrency of one
destination; Hedgerow reads events from a queue on disk, renders, signs, sends and records them.
Queues are filled directly in the database, because capturing that many events would take long.
"""

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import uvloop
from starlette.types import Receive, Scope, Send

from benchmarks.capture import PAGE, batches, resident_mib
from benchmarks.decide import PROJECT_KEY, run_load
from benchmarks.event_world import PERSONAL_KEY, generate
from benchmarks.http import Running, serve, started
from benchmarks.load import cores
from benchmarks.records import BASE, KEY
from hedgerow.events.model import Event, PersonMode
from hedgerow.ingestion.store import FAN_OUT_EVENTS
from hedgerow.lib import jsonio
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.deliveries.deliverer import CONCURRENCY
from hedgerow.plugin.payload import build_payload
from hedgerow.projects.model import ProjectId

ROUNDS = 3
BATCH = 100
PEOPLE = 5_000
WEBHOOK = 1
DEAD = "http://127.0.0.1:9/hook"
SECRET = "a secret of a benchmark"
LOAD_SECONDS = 5.0
HEDGEROW = str(Path(sys.executable).parent / "hedgerow")


def build_event(number: int) -> Event:
    now = utc_now()
    return Event(
        project_id=ProjectId(1),
        uuid=f"0199aaaa-0000-7000-8000-{number:012}",
        event="$pageview",
        distinct_id=f"person {number % PEOPLE}",
        properties=jsonio.encode({**PAGE, "number": number}).decode(),
        elements_chain="",
        timestamp=now,
        created_at=now,
        person_id="0199bbbb-0000-7000-8000-000000000000",
        person_created_at=now,
        person_properties='{"plan": "team", "visits": 12}',
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


# The receiver


class Counted:
    """Counts received events, and the time of the first and the last one."""

    def __init__(self) -> None:
        self.events = 0
        self.first = self.last = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = b"ok"
        if scope["method"] == "GET":
            answer = jsonio.encode([self.events, self.last - self.first])
            if scope["query_string"] == b"reset":
                self.events = 0
        else:
            self.last = time.perf_counter()
            if not self.events:
                self.first = self.last
            self.events += body.count(b'"elements_chain"')
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvents:
    events: int
    seconds: float
    spent_s: float

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def per_core_second(self) -> float:
        return self.events / self.spent_s


def hook(receiver: Running) -> str:
    return f"http://127.0.0.1:{receiver.port}/hook"


def count_received(receiver: Running, *, reset: bool = True) -> tuple[int, float]:
    """Return the number of events since the last reset, and the time between first and last."""
    events, seconds = httpx.get(hook(receiver) + ("?reset" if reset else "")).json()
    return events, seconds


@contextmanager
def run_receiver(core: set[int]) -> Iterator[Running]:
    with started([sys.executable, "-m", "benchmarks.deliver", "receiver"], core) as running:
        yield running


# The bare loop


def bare_loop(url: str, requests: str, size: str) -> None:
    """Each sender sends its next request after the response to the previous one."""
    ready = [
        jsonio.encode(some if int(size) > 1 else some[0])
        for start in range(100)
        for some in [[build_payload(build_event(start + number)) for number in range(int(size))]]
    ]
    left = iter(range(int(requests)))

    async def send(client: httpx.AsyncClient) -> None:
        for number in left:
            answer = await client.post(
                url, content=ready[number % 100], headers={"content-type": "application/json"}
            )
            answer.raise_for_status()

    async def send_all() -> None:
        async with httpx.AsyncClient() as client:
            await asyncio.gather(*(send(client) for _ in range(CONCURRENCY)))

    uvloop.run(send_all())


def measure_bare_loop(receiver: Running, core: set[int], number: int, size: int) -> ReceivedEvents:
    command = [sys.executable, "-m", "benchmarks.deliver", "loop", hook(receiver)]
    pin: Callable[[], None] = lambda: os.sched_setaffinity(0, core)  # noqa: E731
    before = os.times()
    subprocess.run([*command, str(number // size), str(size)], check=True, preexec_fn=pin)
    after = os.times()
    events, seconds = count_received(receiver)
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return ReceivedEvents(events=events, seconds=seconds, spent_s=spent)


# Hedgerow


@contextmanager
def run_hedgerow(core: set[int], data: str) -> Iterator[Running]:
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    os.environ["HEDGEROW_BOOTSTRAP_PERSONAL_KEY"] = KEY
    os.environ["HEDGEROW_ALLOW_PRIVATE_DESTINATIONS"] = "true"
    os.environ["HEDGEROW_INBOX_MAX_EVENTS"] = "100000000"
    for limit in ("PROJECT_CALLS", "PROJECT_EVENTS", "ADDRESS_CALLS"):
        os.environ[f"HEDGEROW_{limit}_PER_S"] = "0"
    os.environ["HEDGEROW_LOG_LEVEL"] = "warning"
    with started([HEDGEROW, "serve", "--port", "0", "--data", data], core) as server:
        yield server


@contextmanager
def open_client(server: Running, key: str = KEY) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}{BASE}", headers=headers) as client:
        yield client


def create_destination(server: Running, url: str, key: str = KEY, **settings: Any) -> int:
    """Create and enable a destination, and return its id."""
    with open_client(server, key) as client:
        id = client.post("", json={"plugin": WEBHOOK}).raise_for_status().json()["id"]
        config = {"url": url, "secret": SECRET, **settings}
        client.put(f"{id}/config/", json=config).raise_for_status()
        client.patch(f"{id}/", json={"enabled": True}).raise_for_status()
    return int(id)


def fill(data: str, record_id: int, number: int) -> None:
    """Add events that wait for a destination, as `add_deliveries` does."""
    pack = msgspec.msgpack.Encoder().encode
    now_ms = int(time.time() * 1000)
    with closing(sqlite3.connect(f"{data}/hedgerow.db")) as connection:
        for first in range(1, number + 1, FAN_OUT_EVENTS):
            ids = range(first, min(first + FAN_OUT_EVENTS, number + 1))
            connection.executemany(
                "INSERT INTO delivery_events (id, segment, project_id, uuid, distinct_id, event)"
                " VALUES (?, ?, 1, ?, ?, ?)",
                (
                    (id, first, each.uuid, each.distinct_id, pack(each))
                    for id, each in zip(ids, map(build_event, ids), strict=True)
                ),
            )
            connection.execute(
                "INSERT INTO delivery_batches (record_id, segment, event_ids, number, created_ms)"
                " VALUES (?, ?, ?, ?, ?)",
                (record_id, first, jsonio.encode(list(ids)).decode(), len(ids), now_ms),
            )
        connection.commit()


def has_deliveries(data: str, record_id: int) -> bool:
    query = "SELECT 1 FROM delivery_batches WHERE record_id = ? LIMIT 1"
    with closing(sqlite3.connect(f"{data}/hedgerow.db", timeout=30)) as connection:
        return connection.execute(query, (record_id,)).fetchone() is not None


def measure_hedgerow(receiver: Running, core: set[int], number: int, size: int) -> ReceivedEvents:
    with tempfile.TemporaryDirectory(dir=".") as data:
        with run_hedgerow(core, data) as server:
            record_id = create_destination(server, hook(receiver), batch_size=size)
        fill(data, record_id, number)
        with run_hedgerow(core, data) as server:
            while not count_received(receiver)[0]:
                time.sleep(0.01)
            spent = server.cpu_seconds()
            while has_deliveries(data, record_id):
                time.sleep(0.1)
            spent = server.cpu_seconds() - spent
            events, seconds = count_received(receiver)
        return ReceivedEvents(events=events, seconds=seconds, spent_s=spent)


def compare_rates(name: str, number: int, size: int, least: int) -> None:
    ours_core, receiver_core = cores()
    bare, ours = [], []
    with run_receiver(receiver_core) as receiver:
        for _ in range(ROUNDS):
            bare.append(measure_bare_loop(receiver, ours_core, number, size))
            ours.append(measure_hedgerow(receiver, ours_core, number, size))
    print(f"{name}, {number:,} events, median of {ROUNDS} alternating rounds")
    print(f"  {'':<28} {'per s':>10} {'per core-s':>12}")
    medians = []
    for sender, some in (("bare httpx loop", bare), ("delivered", ours)):
        medians.append(statistics.median(each.per_second for each in some))
        per_core = statistics.median(each.per_core_second for each in some)
        print(f"  {sender:<28} {medians[-1]:>10,.0f} {per_core:>12,.0f}")
    print(f"  at least {least:,} events/s; delivered / bare: {medians[1] / medians[0]:.0%} (50 %)")


# A dead destination


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeasurement:
    captured: float
    delivered: float
    p99_ms: float
    resident_mib: int


def measure_under_backlog(waiting: int) -> LoadMeasurement:
    """Measure capture and delivery to a live destination while a dead one has a backlog."""
    ours_core, receiver_core = os.sched_getaffinity(0), os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(dir=".") as data, run_receiver(receiver_core) as receiver:
        with run_hedgerow(ours_core, data) as server:
            create_destination(server, hook(receiver), batch_size=BATCH)
            dead = create_destination(server, DEAD, events=["something else"])
        fill(data, dead, waiting)
        with run_hedgerow(ours_core, data) as server:
            seen = run_load(server.port, batches(server.port, count=2), connections=2, seconds=0.1)
            sent = len(seen.latencies) * BATCH
            wait_for(receiver, sent)
            seen = run_load(server.port, batches(server.port), connections=2, seconds=LOAD_SECONDS)
            sent = len(seen.latencies) * BATCH
            seconds = wait_for(receiver, sent)
            resident = resident_mib(server.pid)
        return LoadMeasurement(
            captured=sent / seen.seconds,
            delivered=sent / seconds,
            p99_ms=seen.measured().p99_ms,
            resident_mib=resident,
        )


def wait_for(receiver: Running, number: int) -> float:
    """Wait for a number of events and return the time between first and last."""
    began = time.perf_counter()
    while (came := count_received(receiver, reset=False)[0]) < number:
        time.sleep(0.05)
        if time.perf_counter() - began > 600:
            raise TimeoutError(f"{came} of {number} events came")
    return count_received(receiver)[1]


def dead(waiting: int) -> None:
    alone, full = [], []
    for _ in range(ROUNDS):
        alone.append(measure_under_backlog(0))
        full.append(measure_under_backlog(waiting))
    print(f"A dead destination next to a live one, median of {ROUNDS} alternating rounds")
    print(f"  {'':<28} {'captured/s':>11} {'p99 ms':>8} {'delivered/s':>12} {'MiB':>6}")
    for name, some in (("nothing waits", alone), (f"{waiting:,} wait", full)):
        print(
            f"  {name:<28} {statistics.median(each.captured for each in some):>11,.0f}"
            f" {statistics.median(each.p99_ms for each in some):>8.1f}"
            f" {statistics.median(each.delivered for each in some):>12,.0f}"
            f" {statistics.median(each.resident_mib for each in some):>6.0f}"
        )
    for what in ("captured", "delivered"):
        before, after = (
            statistics.median(getattr(each, what) for each in some) for some in (alone, full)
        )
        print(f"  {what}: {after / before:.0%} (at least 90 %)")


# A replay


def replay(number: int) -> None:
    """Replay in batches to a receiver on the same cores. Events are generated in the database."""
    with tempfile.TemporaryDirectory(dir=".") as data, run_receiver(os.sched_getaffinity(0)) as to:
        generating = [sys.executable, "-m", "benchmarks.deliver", "generate", data, str(number)]
        subprocess.run(generating, check=True)
        with run_hedgerow(os.sched_getaffinity(0), data) as server:
            id = create_destination(server, hook(to), key=PERSONAL_KEY, batch_size=BATCH)
            before = resident_mib(server.pid)
            job = {"job": {"type": "replay", "payload": {"date_from": "-100d"}}}
            with open_client(server, PERSONAL_KEY) as client:
                client.post(f"{id}/job/?format=json", json=job).raise_for_status()
            resident, came = [before], 0
            while came < number:
                time.sleep(1)
                came, seconds = count_received(to, reset=False)
                resident.append(resident_mib(server.pid))
    half = len(resident) // 2
    print(f"A replay of {number:,} events, in batches of {BATCH}")
    print(
        f"  {came / seconds:,.0f} events/s; resident {before} MiB before,"
        f" {max(resident[:half])} at most in the first half, {max(resident[half:])} in the second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.deliver")
    parts = ("single", "batched", "dead", "replay")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--stored", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(f"system load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    run: dict[str, Callable[[], None]] = {
        "single": lambda: compare_rates("A webhook, single", arguments.events, 1, 1_500),
        "batched": lambda: compare_rates("In batches of 100", arguments.events * 10, BATCH, 15_000),
        "dead": lambda: dead(arguments.waiting),
        "replay": lambda: replay(arguments.stored),
    }
    for part in arguments.parts or parts:
        run[part]()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receiver"]:
            serve(Counted())
        case ["generate", folder, number]:
            asyncio.run(generate(Path(folder), int(number)))
        case ["loop", url, requests, size]:
            bare_loop(url, requests, size)
        case _:
            main()
