"""How many events per second the inbox accepts: in PostgreSQL, and in NATS JetStream.

    python -m benchmarks.inbox [--seconds 3] [--rounds 3] [--nats-server PROGRAM]

Requests of one event, and of 100, are added by more and more callers at once, until the rate does
not grow: that is the limit. One process adds them; nothing is processed. PostgreSQL writes each
commit to the disk (fsync). The server of Debian, 2.9, cannot do that: it acknowledges when the
operating system has the message. A newer program can, with `sync_interval: always`, which is
measured as well if `--nats-server` names one. Kinds alternate within a round, and the median of the
rounds counts. On a machine with few cores the process that adds is the limit, so the table also
shows the CPU time of the server, PostgreSQL or NATS, per 1000 events: what more processes share.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import psycopg
import uvloop
from tests.support.factories import captured_event
from tests.support.nats import NatsTestServer
from tests.support.postgres import PostgresTestServer

from hedgerow.app.ingestion import BUCKETS
from hedgerow.ingestion.model import PackedRow
from hedgerow.lib.clock import utc_now
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import DatabaseLocation, open_database
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.inbox_packing import pack_captured
from hedgerow.storage.ingestion.stream_inbox import open_inbox
from hedgerow.storage.migrations.apply import prepare_database

# The numbers of callers, by the size of the requests.
CALLERS = {1: (1, 16, 64, 256, 1024), 100: (1, 8, 32)}
PEOPLE = 5_000
STREAM_BYTES = 3 << 30
PROJECT = ProjectId(1)
PROPERTIES = {
    "$browser": "Firefox",
    "$os": "Linux",
    "$current_url": "https://example.com/pricing?plan=team",
    "$lib": "web",
}


class Kind:
    """An inbox to measure, and its median rates by size of the requests and number of callers."""

    def __init__(self, name: str, nats: NatsTestServer | None) -> None:
        self.name = name
        self.nats = nats
        self.rates: dict[tuple[int, int], list[float]] = {}
        # The CPU time of the server for 1000 events, in milliseconds.
        self.server_ms: dict[tuple[int, int], list[float]] = {}

    def best(self, batch: int) -> tuple[float, int]:
        medians = [
            (statistics.median(rates), callers)
            for (size, callers), rates in self.rates.items()
            if size == batch
        ]
        return max(medians)


def create_database(postgres: PostgresTestServer) -> DatabaseLocation:
    place = DatabaseLocation(url=postgres.create_database(), path=Path(), timeout_s=30)
    prepare_database(place, InitialKeys(project_key="phc_a", personal_key="phx_a"), utc_now)
    return place


@asynccontextmanager
async def opened(kind: Kind, place: DatabaseLocation) -> AsyncIterator[SqlInboxStore]:
    database = open_database(place)
    inbox = SqlInboxStore(database, BUCKETS)
    if kind.nats is not None:
        url = f"{kind.nats.url}/{time.monotonic_ns()}"
        inbox = open_inbox(database, BUCKETS, url, STREAM_BYTES)
    try:
        yield inbox
    finally:
        await inbox.close()
        await database.close()


def build_requests(batch: int) -> Sequence[Sequence[PackedRow]]:
    """Return encoded requests: encoding costs the same for both."""
    events = [
        captured_event("seen", f"person {number % PEOPLE}", PROPERTIES)
        for number in range(max(PEOPLE, 20 * batch))
    ]
    return [
        list(pack_captured(events[start : start + batch], BUCKETS))
        for start in range(0, len(events), batch)
    ]


async def measure(inbox: SqlInboxStore, batch: int, callers: int, seconds: float) -> float:
    """Return the events per second that callers add, each one request after the other."""
    requests = itertools.cycle(build_requests(batch))
    added = 0
    end = time.monotonic() + seconds

    async def call() -> None:
        nonlocal added
        while time.monotonic() < end:
            await inbox.add_packed(PROJECT, next(requests), (), utc_now())
            added += batch

    await inbox.add_packed(PROJECT, next(requests), (), utc_now())
    began = time.monotonic()
    await asyncio.gather(*(call() for _ in range(callers)))
    return added / (time.monotonic() - began)


async def run(
    kinds: Sequence[Kind], postgres: PostgresTestServer, arguments: argparse.Namespace
) -> None:
    places = {kind.name: create_database(postgres) for kind in kinds}
    for _ in range(arguments.rounds):
        steps = [(batch, callers) for batch, numbers in CALLERS.items() for callers in numbers]
        for (batch, callers), kind in itertools.product(steps, kinds):
            async with opened(kind, places[kind.name]) as inbox:
                before, began = read_cpu_ms(kind, postgres), time.monotonic()
                rate = await measure(inbox, batch, callers, arguments.seconds)
                added = rate * (time.monotonic() - began) / 1000
                used_ms = (read_cpu_ms(kind, postgres) - before) / added
            kind.rates.setdefault((batch, callers), []).append(rate)
            kind.server_ms.setdefault((batch, callers), []).append(used_ms)
            print(f"{kind.name}, {callers} x {batch}: {rate:,.0f}", file=sys.stderr, flush=True)


def read_cpu_ms(kind: Kind, postgres: PostgresTestServer) -> float:
    """Return the CPU time of the server: of NATS, or of PostgreSQL with its children."""
    nats = kind.nats.process.pid if kind.nats is not None and kind.nats.process else 0
    parent = nats or postgres.pid
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            number, _, rest = stat.read_text().partition(" ")
            fields = rest.rpartition(")")[2].split()
            if int(number) == parent or int(fields[1]) == parent:
                # Of the parent, with those of children that have ended.
                ticks += sum(map(int, fields[11 : 15 if int(number) == parent else 13]))
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


def make_durable(postgres: PostgresTestServer) -> None:
    """Let the server write to the disk, which it need not do for tests."""
    with psycopg.connect(postgres.create_database(), autocommit=True) as connection:
        for name in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {name} = on".encode())
        connection.execute("SELECT pg_reload_conf()")


def report(kinds: Sequence[Kind]) -> None:
    for batch, numbers in CALLERS.items():
        print(f"\nRequests of {batch}: events per second, CPU time of the server per 1000")
        print(f"{'callers':>8} " + " ".join(f"{kind.name:>24}" for kind in kinds))
        for callers in numbers:
            shown = [
                f"{statistics.median(kind.rates[batch, callers]):>12,.0f}"
                f" {statistics.median(kind.server_ms[batch, callers]):>8.1f} ms"
                for kind in kinds
            ]
            print(f"{callers:>8} " + " ".join(shown))
        limit, at = kinds[0].best(batch)
        print(f"The limit of {kinds[0].name} is {limit:,.0f} with {at} callers.")
        for kind in kinds[1:]:
            best, at = kind.best(batch)
            print(f"{kind.name}: {best:,.0f} with {at} callers, {best / limit:.1f} times as many.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.inbox")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nats-server", default="", help="a program that knows sync_interval")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = PostgresTestServer()
        stack.callback(postgres.close)
        make_durable(postgres)
        nats = stack.enter_context(NatsTestServer(folder / "nats"))
        kinds = [Kind("PostgreSQL", None), Kind("NATS", nats)]
        if arguments.nats_server:
            synced = NatsTestServer(
                folder / "synced", "sync_interval: always", program=arguments.nats_server
            )
            kinds.append(Kind("NATS, each synced", stack.enter_context(synced)))
        uvloop.run(run(kinds, postgres, arguments))
        report(kinds)


if __name__ == "__main__":
    main()
