"""Reading events over HTTP, against the same SQL typed by hand into the same engine.

    python -m benchmarks.events [EVENTS ...] [--data FOLDER] [--copies N]
        [--part all|generate|columns|http|pages]

For each number of events (a million and ten million by default) a world is generated, and questions
about properties are compared with SQL by hand and with the text (`event_columns`). Then the service
runs in this process, and a client in another thread asks it over a socket. The reference is chDB
itself, after the service, with SQL that a person would write. Overhead is what our answer takes
more than that: parameters, waiting for what was accepted before, HogQL, persons, JSON and HTTP.
On a busy machine, compare the CPU time, of all processes; that of HTTP includes the client. Events
are also walked by `next` for a while, and the newest million is exported as CSV, except by `pages`.

With `--data`, worlds are kept there and used again; then `--part` can run one part at a time. With
`--copies`, only one event in N is generated, which takes as much less time, and each is there N
times.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import chdb
import structlog
import uvloop

from benchmarks.event_columns import EngineProcess, compare_columns
from benchmarks.event_world import DAYS, PERSONAL_KEY, generate, person_uuid
from hedgerow.app.serve import ServiceCallbacks, run_service
from hedgerow.http.server.server import build_server, listen
from hedgerow.settings import Settings

ROUNDS = 11
# A question that the engine itself takes this long over needs no more rounds than three.
LONG_MS = 1_500
EXPORTED = 1_000_000
WALKED = 100_000
PAGE = 1_000
COLUMNS = "uuid, event, distinct_id, properties, elements_chain, timestamp"
NEWEST = "ORDER BY timestamp DESC, uuid DESC LIMIT 101"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    path: str
    sql: str


def scenarios(cohort: int) -> list[Scenario]:
    now = datetime.now(UTC)
    start, end = now - timedelta(days=31), now - timedelta(days=30)
    until, day = now + timedelta(seconds=5), now.replace(hour=0, minute=0, second=0, microsecond=0)
    own = f"FROM events WHERE project_id = 1 AND timestamp < {_at(until)}"
    pros = """distinct_id IN (SELECT distinct_id FROM person_distinct_ids FINAL WHERE project_id = 1
        AND person_id IN (SELECT id FROM persons FINAL WHERE project_id = 1
        AND lowerUTF8(JSONExtract(properties, 'plan', 'Nullable(String)')) = 'pro'))"""
    return [
        Scenario(name="first page", path="", sql=f"SELECT {COLUMNS} {own} {NEWEST}"),
        Scenario(
            name="property filter",
            path=f"?properties={_json([{'key': 'rare', 'value': 'yes'}])}",
            sql=f"SELECT {COLUMNS} {own} AND properties_other.rare.:String = '=yes' {NEWEST}",
        ),
        Scenario(
            name="distinct id filter",
            path="?distinct_id=user-77",
            sql=f"SELECT {COLUMNS} {own} AND distinct_id = 'user-77' {NEWEST}",
        ),
        Scenario(
            name="person filter",
            path=f"?person_id={person_uuid(123)}",
            sql=f"SELECT {COLUMNS} {own} AND distinct_id = 'user-123' {NEWEST}",
        ),
        Scenario(
            name="cohort filter",
            path=f"?properties={_json([{'key': 'id', 'type': 'cohort', 'value': cohort}])}",
            sql=f"SELECT {COLUMNS} {own} AND {pros} {NEWEST}",
        ),
        Scenario(
            name="one-day window",
            path=f"?after={quote(start.isoformat())}&before={quote(end.isoformat())}",
            sql=f"SELECT {COLUMNS} FROM events WHERE project_id = 1 AND timestamp > {_at(start)} "
            f"AND timestamp < {_at(end)} {NEWEST}",
        ),
        Scenario(
            name="values",
            path="values/?key=$browser",
            sql="SELECT DISTINCT properties_common.`$browser` AS v "
            f"FROM events WHERE project_id = 1 AND timestamp >= {_at(day - timedelta(days=7))} "
            f"AND timestamp < {_at(day + timedelta(days=1))} AND isNotNull(v) LIMIT 10",
        ),
    ]


def _at(moment: datetime) -> str:
    return f"toDateTime64('{moment:%Y-%m-%d %H:%M:%S.%f}', 6, 'UTC')"


def _json(value: Any) -> str:
    return quote(json.dumps(value))


class Client:
    """On one connection, as a client that knows what it does."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def send(self, path: str, method: str = "GET", body: Any = None) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {PERSONAL_KEY}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, path, body=sent, headers=headers)
        answer = self._connection.getresponse()
        assert answer.status in (200, 201), answer.read()
        return answer

    def get(self, path: str) -> bytes:
        return self.send(path).read()


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds: the median of the time that passed, and the least CPU time."""

    median_ms: float
    cpu_ms: float


def measure_call(work: Callable[[], object], read_cpu_s: Callable[[], float]) -> Took:
    cpu_s = read_cpu_s()
    took_ms = timed(work)
    return Took(took_ms, (read_cpu_s() - cpu_s) * 1000)


def create_cohort(client: Client) -> int:
    definition = {"type": "AND", "values": [{"key": "plan", "type": "person", "value": "pro"}]}
    cohort = {"name": "Pros", "filters": {"properties": definition}}
    return int(json.loads(client.send("/api/projects/1/cohorts/", "POST", cohort).read())["id"])


def time_rounds(
    cohort: int, ask: Callable[[Scenario], object], read_cpu_s: Callable[[], float]
) -> dict[str, Took]:
    times = defaultdict[str, list[Took]](list)
    for number in range(ROUNDS + 1):
        # With a new moment in each: the engine remembers what it found for the very same question.
        for scenario in scenarios(cohort):
            found = times[scenario.name]
            if len(found) < 3 or found[0].median_ms <= LONG_MS:
                took = measure_call(partial(ask, scenario), read_cpu_s)
                found += [took] if number else []
    return {
        name: Took(
            statistics.median(each.median_ms for each in found), min(each.cpu_ms for each in found)
        )
        for name, found in times.items()
    }


def time_service(client: Client, engine: EngineProcess, cohort: int) -> dict[str, Took]:
    return time_rounds(
        cohort,
        lambda each: client.get(f"/api/projects/1/events/{each.path}"),
        lambda: time.process_time() + engine.read_processor_s(),
    )


def time_engine(data: Path, cohort: int) -> dict[str, Took]:
    """Ask the engine itself, which one process at a time can open."""
    raw = chdb.connect(str((data / "events" / "chdb").resolve()))
    raw.query("USE hedgerow")
    try:
        ask = partial(_ask_engine, raw)
        return time_rounds(cohort, ask, time.process_time)
    finally:
        raw.close()


def _ask_engine(raw: Any, scenario: Scenario) -> None:
    raw.query(scenario.sql, "JSONCompact")


def print_overhead(theirs: dict[str, Took], ours: dict[str, Took]) -> None:
    print(f"  {'':<18} {'median ms':>9} {'':>9} {'':>9} {'CPU ms, least':>14}")
    columns = ("raw SQL", "HTTP", "overhead", "raw SQL", "HTTP")
    print(f"  {'':<18} {' '.join(f'{each:>9}' for each in columns)}")
    for name, sql in theirs.items():
        http = ours[name]
        print(
            f"  {name:<18} {sql.median_ms:>9.1f} {http.median_ms:>9.1f}"
            f" {http.median_ms - sql.median_ms:>9.1f} {sql.cpu_ms:>9.1f} {http.cpu_ms:>9.1f}"
        )


def walk(client: Client) -> None:
    path = f"/api/projects/1/events/?limit={PAGE}"
    times, seen = [], 0
    while path and seen < WALKED:
        started = time.perf_counter()
        page = json.loads(client.get(path))
        times.append((time.perf_counter() - started) * 1000)
        seen += len(page["results"])
        path = (page["next"] or "").partition("://")[2].partition("/")[2]
        path = f"/{path}" if path else ""
    tenth = max(1, len(times) // 10)
    first, last = (statistics.median(part) for part in (times[:tenth], times[-tenth:]))
    print(f"  walked {seen:,} by next: a page in {first:.0f} ms, the last ones in {last:.0f} ms")


def export(client: Client, rows: int) -> None:
    hours = round(DAYS * 24 * min(1, EXPORTED / rows))
    before = resident_mb("VmRSS")
    started, size, highest = time.perf_counter(), 0, before
    answer = client.send(f"/api/projects/1/events.csv?before=-0h&after=-{hours}h")
    first_s = time.perf_counter() - started
    while chunk := answer.read(1 << 20):
        size += len(chunk)
        highest = max(highest, resident_mb("VmRSS"))
    seconds = time.perf_counter() - started
    print(
        f"  CSV of {min(rows, EXPORTED):,}: {size / 1e6:,.0f} MB in {seconds:.0f} s,"
        f" first byte after {first_s:.0f} s, memory {before:.0f} MB before,"
        f" {highest:.0f} MB at most"
    )


def resident_mb(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[int]:
    ready = asyncio.Event()

    def failed(error: Exception) -> None:
        raise error

    settings = Settings(data_dir=data, port=0, log_level="error", read_after_write_timeout_s=30)
    listening = listen("127.0.0.1", 0)
    callbacks = ServiceCallbacks(ready=lambda _: ready.set(), failed=failed)
    async with run_service(settings, callbacks, worker=True) as http:
        web = build_server(http.gateway, header_timeout_s=60, drain_s=0, grace_s=1)
        task = asyncio.create_task(web.serve(sockets=[listening]))
        await ready.wait()
        yield listening.getsockname()[1]
        web.should_exit = True
        await task


async def measure(data: Path, rows: int, copies: int, part: str) -> dict[str, Took]:
    # Written when a world is complete.
    complete = data / "complete"
    if not complete.exists():
        await generate(data, rows, copies)
        complete.touch()
    if part in ("all", "columns"):
        await compare_columns(data, rows)
    if part in ("generate", "columns"):
        return {}
    return await compare_http(data, rows, is_whole=part != "pages")


async def compare_http(data: Path, rows: int, *, is_whole: bool) -> dict[str, Took]:
    started = time.perf_counter()
    async with running(data) as port:
        ready_s = time.perf_counter() - started
        # The engine opens with the first question, and copies of persons are made.
        client = Client(port)
        filter = _json([{"key": "plan", "type": "person", "value": "x"}])
        await asyncio.to_thread(client.get, f"/api/projects/1/events/?properties={filter}")
        answered_s = time.perf_counter() - started
        print(
            f"{rows:,} events: ready {ready_s:.1f} s after the start,"
            f" first answer after {answered_s:.1f} s"
        )
        cohort = await asyncio.to_thread(create_cohort, client)
        engine = EngineProcess(data / "events")
        ours = await asyncio.to_thread(time_service, client, engine, cohort)
        if is_whole:
            await asyncio.to_thread(walk, client)
            await asyncio.to_thread(export, client, rows)
    print_overhead(time_engine(data, cohort), ours)
    return ours


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    parser = argparse.ArgumentParser(prog="benchmarks.events")
    parser.add_argument("events", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parts = ("all", "generate", "columns", "http", "pages")
    parser.add_argument("--part", choices=parts, default="all")
    options = parser.parse_args()
    found: dict[int, dict[str, Took]] = {}
    for rows in options.events:
        with tempfile.TemporaryDirectory(dir=".") as temporary:
            folder = (options.data or Path(temporary)).resolve() / str(rows)
            folder.mkdir(parents=True, exist_ok=True)
            found[rows] = uvloop.run(measure(folder, rows, options.copies, options.part))
    fewest, most = min(found), max(found)
    if fewest < most and found[most]:
        print(f"growth from {fewest:,} to {most:,} events")
        for name, few in found[fewest].items():
            print(f"  {name:<18} {found[most][name].median_ms / few.median_ms:>9.1f} times")


if __name__ == "__main__":
    main()
