"""Flags: the engine against posthog-python's, /decide against a bare JSON echo, growth, changes.

    python -m benchmarks.decide

The world is benchmarks/flag_world.py: fifty flags, a thousand people who take turns. The echo runs
on the same server stack, reads the same bodies as JSON and sends them back as JSON; its answers are
shorter than ours. Servers and load have a core each, and rounds alternate: see benchmarks/http.py.
"""

import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop
from posthog.feature_flags import match_feature_flag_properties
from starlette.types import Receive, Scope, Send

from benchmarks import flag_world
from benchmarks.http import Round, Running, serve, shown, started
from benchmarks.load import Load, Measured, _Client, cores
from benchmarks.records import KEY, request
from hedgerow.flags.evaluation.decide import FlagDecision
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.http.sdk.decide_response import DecideFormat, render_decision
from hedgerow.http.sdk.sdk_config import NO_SITE_APPS
from hedgerow.lib.clock import utc_now

ROUNDS = 5
SECONDS = 1.5
CONNECTIONS = (16, 64)
PEOPLE = 1000
GROWTH = (10, 100, 1000, 2000)
SWAP_FLAGS = (50, 2000)
SWAP_CONNECTIONS = 16
CHANGES = 20
PAUSE_S = 0.1
PROJECT_KEY = "phc_benchmark-key-of-decide"
DECIDE = "/decide?v=3"

People = Sequence[tuple[str, dict[str, Any]]]
Ask = Callable[[str, dict[str, Any]], object]
Beside = Callable[[], Awaitable[None]]


# The engine


def people(count: int = PEOPLE) -> People:
    numbers = range(1, count + 1)
    return [(flag_world.distinct_id(number), flag_world.properties(number)) for number in numbers]


def ours(snapshot: FlagSnapshot) -> Callable[[str, dict[str, Any]], list[bool | str]]:
    now = utc_now()

    def ask(id: str, properties: dict[str, Any]) -> list[bool | str]:
        subject = EvaluationContext(distinct_id=id, now=now, person_properties=properties)
        return [outcome.value for outcome in snapshot.evaluate(snapshot.all_flags, subject)]

    return ask


def theirs(flags: list[dict[str, Any]]) -> Callable[[str, dict[str, Any]], list[bool | str | None]]:
    def ask(id: str, properties: dict[str, Any]) -> list[bool | str | None]:
        return [
            match_feature_flag_properties(flag, id, properties, bucketing_value=id)
            for flag in flags
        ]

    return ask


def only_evaluated(snapshot: FlagSnapshot) -> Ask:
    """What is timed: a subject and its outcomes, as a request makes them."""
    now, flags, evaluate = utc_now(), snapshot.all_flags, snapshot.evaluate
    return lambda id, properties: evaluate(
        flags, EvaluationContext(distinct_id=id, now=now, person_properties=properties)
    )


def us_per_user(ask: Ask, who: People, times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        for id, properties in who:
            ask(id, properties)
    return (time.perf_counter() - began) / (len(who) * times) * 1e6


def engine() -> None:
    who = people()
    snapshot = build_snapshot(flag_world.definitions())
    reference, measured = theirs(flag_world.bodies()), only_evaluated(snapshot)
    differing = sum(ours(snapshot)(*each) != reference(*each) for each in who)
    them, us = [], []
    for _ in range(ROUNDS):
        them.append(us_per_user(reference, who[:400]))
        us.append(us_per_user(measured, who, times=5))
    slow, fast = statistics.median(them), statistics.median(us)
    print(f"Engine, {flag_world.FLAGS} flags a user, median of {ROUNDS} alternating rounds")
    print(f"  {'':<28} {'users/s':>12} {'us a user':>10}")
    print(f"  {'posthog-python, local':<28} {1e6 / slow:>12,.0f} {slow:>10.1f}")
    print(f"  {'hedgerow':<28} {1e6 / fast:>12,.0f} {fast:>10.1f}")
    print(
        f"  hedgerow / posthog-python: {slow / fast:.1f}x; people whose answers differ: {differing}"
    )


def growth() -> None:
    who = people(100)
    print("Growth (one changed: a new snapshot after one of the flags was changed)")
    print(
        f"  {'flags':>6} {'us a user':>10} {'compile s':>10} {'one changed ms':>15}"
        f" {'definitions MB':>15} {'compiled MB':>12}  (per 1,000 flags)"
    )
    for count in GROWTH:
        definitions = flag_world.definitions(count)
        compiling, changing = [], []
        for _ in range(3):
            began = time.perf_counter()
            snapshot = build_snapshot(definitions)
            compiling.append(time.perf_counter() - began)
            first, *others = flag_world.flags(count)
            changed = replace(definitions, flags=[replace(first, version=2), *others])
            began = time.perf_counter()
            build_snapshot(changed, snapshot)
            changing.append(time.perf_counter() - began)
        times = max(1, 200 // count)
        spent = statistics.median(
            us_per_user(only_evaluated(snapshot), who, times) for _ in range(3)
        )
        described, compiled = (1000 / count * size / 1e6 for size in memory(count, who))
        print(
            f"  {count:>6,} {spent:>10,.1f} {statistics.median(compiling):>10.4f}"
            f" {statistics.median(changing) * 1000:>15.2f} {described:>15.2f} {compiled:>12.2f}"
        )


def memory(count: int, who: People) -> tuple[int, int]:
    """Bytes of the definitions, and of all that is made of them until people were answered."""
    tracemalloc.start()
    definitions = flag_world.definitions(count)
    described = tracemalloc.get_traced_memory()[0]
    snapshot = build_snapshot(definitions)
    for id, properties in who:
        subject = EvaluationContext(distinct_id=id, now=utc_now(), person_properties=properties)
        outcomes = snapshot.evaluate(snapshot.all_flags, subject)
        decision = FlagDecision(outcomes=outcomes, has_errors=False)
        render_decision(decision, DecideFormat.VALUES, NO_SITE_APPS.without_surveys)
    del decision, outcomes, subject
    compiled = tracemalloc.get_traced_memory()[0] - described
    tracemalloc.stop()
    return described, compiled


# The load: like benchmarks/load.py, but each request has another distinct id, failures are counted
# instead of ending the run, and requests start when all are connected: the server takes one new
# connection per turn of its loop, so the last of 64 would wait for thousands of answers to others.


@dataclass(slots=True)
class LoadResult:
    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0

    def measured(self) -> Measured:
        percentiles = statistics.quantiles(self.latencies, n=100)
        return Measured(
            answers=len(self.latencies),
            per_second=len(self.latencies) / self.seconds,
            p50_ms=percentiles[49] * 1000,
            p99_ms=percentiles[98] * 1000,
        )


class Asker(_Client):
    def __init__(self, load: Load, seen: LoadResult, requests: Iterator[bytes]) -> None:
        super().__init__(load, 0.0, seen.latencies)
        self._seen = seen
        self._requests = requests

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, deadline: float) -> None:
        self._deadline = deadline
        self._send()

    def stop(self) -> None:
        self._deadline = 0.0

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self._deadline:
            self._seen.failures += 1
        super().connection_lost(error)

    def _send(self) -> None:
        self._request = next(self._requests)
        super()._send()

    def _fail(self, error: Exception) -> None:
        self._transport.close()  # which counts as a failure, being too early


async def _run_load(load: Load, requests: Sequence[bytes], beside: Beside | None) -> LoadResult:
    """With something done beside, the load lasts until that is done."""
    seen, turns = LoadResult(), itertools.cycle(requests)
    loop = asyncio.get_running_loop()
    askers = []
    for _ in range(load.connections):
        _, asker = await loop.create_connection(
            lambda: Asker(load, seen, turns), load.host, load.port
        )
        askers.append(asker)
    await asyncio.sleep(0.05)
    began = time.perf_counter()
    for asker in askers:
        asker.begin(began + load.seconds)
    async with asyncio.timeout(load.seconds + 10):
        if beside is not None:
            await beside()
            for asker in askers:
                asker.stop()
        await asyncio.gather(*(asker.done for asker in askers))
    seen.seconds = time.perf_counter() - began
    return seen


def run_load(
    port: int,
    requests: Sequence[bytes],
    *,
    connections: int,
    seconds: float = SECONDS,
    beside: Beside | None = None,
) -> LoadResult:
    load = Load(host="127.0.0.1", port=port, request=b"", connections=connections, seconds=seconds)
    return uvloop.run(_run_load(load, requests, beside))


def measured(server: Running, requests: Sequence[bytes], connections: int) -> Round:
    before = server.cpu_seconds()
    seen = run_load(server.port, requests, connections=connections)
    spent = server.cpu_seconds() - before
    if seen.failures:
        raise RuntimeError(f"{seen.failures} requests failed")
    return Round(measured=seen.measured(), per_core_second=len(seen.latencies) / spent)


# /decide


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    content = msgspec.json.encode(msgspec.json.decode(body))
    headers = [
        (b"content-length", b"%d" % len(content)),
        (b"content-type", b"application/json"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def decide_requests(port: int, *, with_properties: bool) -> list[bytes]:
    made = []
    for id, properties in people():
        body: dict[str, Any] = {"api_key": PROJECT_KEY, "distinct_id": id}
        if with_properties:
            body["person_properties"] = properties
        made.append(request("POST", DECIDE, port, body))
    return made


@contextmanager
def hedgerow(core: set[int], *, flag_count: int) -> Iterator[Running]:
    """A server with the world in it that has answered once."""
    program = str(Path(sys.executable).parent / "hedgerow")
    with (
        tempfile.TemporaryDirectory(dir=".") as data,
        started([program, "serve", "--port", "0", "--data", data], core) as server,
    ):
        flag_world.fill(data, flag_count=flag_count, person_count=PEOPLE)
        first = decide_requests(server.port, with_properties=False)[:1]
        if run_load(server.port, first, connections=2, seconds=0.1).failures:
            raise RuntimeError("the server does not answer as it should")
        yield server


ECHO = "JSON echo, bare ASGI"
GIVEN = "/decide, properties given"
STORED = "/decide, person in SQLite"


def http(core: set[int]) -> None:
    rounds: dict[tuple[str, int], list[Round]] = {}
    for _ in range(ROUNDS):
        with (
            started([sys.executable, "-m", "benchmarks.decide", "echo"], core) as bare,
            hedgerow(core, flag_count=flag_world.FLAGS) as server,
        ):
            turns = (
                (ECHO, bare, decide_requests(bare.port, with_properties=True)),
                (GIVEN, server, decide_requests(server.port, with_properties=True)),
                (STORED, server, decide_requests(server.port, with_properties=False)),
            )
            for connections, (name, of, requests) in itertools.product(CONNECTIONS, turns):
                made = rounds.setdefault((name, connections), [])
                made.append(measured(of, requests, connections))
    for connections in CONNECTIONS:
        print(
            f"POST {DECIDE}, {flag_world.FLAGS} flags, {PEOPLE:,} people in turn,"
            f" {connections} connections, median of {ROUNDS} alternating rounds"
        )
        print(f"  {'':<28} {'per core-s':>12} {'per s':>10} {'p50 ms':>8} {'p99 ms':>8}")
        names = (ECHO, GIVEN, STORED)
        bare_rate, *our_rates = [shown(name, rounds[name, connections]) for name in names]
        bare_clock, *our_clocks = [clock_rate(rounds[name, connections]) for name in names]
        for name, rate, clock in zip(names[1:], our_rates, our_clocks, strict=True):
            print(f"  {name} / echo: {rate / bare_rate:.0%}, by the clock {clock / bare_clock:.0%}")


def clock_rate(rounds: Sequence[Round]) -> float:
    return statistics.median(each.measured.per_second for each in rounds)


# Changes under load


async def change_flags(port: int, spent: list[float]) -> None:
    """One flag, over and over: its rollout is another one each time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(CHANGES):
        await asyncio.sleep(PAUSE_S)
        filters = flag_world.filters(1)
        filters["groups"][0]["rollout_percentage"] = number + 1
        began = time.perf_counter()
        path = f"/api/projects/{flag_world.PROJECT}/feature_flags/2/"
        writer.write(request("PATCH", path, port, {"filters": filters}))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"unexpected answer: {head!r}")
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        spent.append(time.perf_counter() - began)
    writer.close()


def swap(core: set[int]) -> None:
    print(f"{CHANGES} changes of a flag while {SWAP_CONNECTIONS} connections ask {DECIDE}")
    print(
        f"  {'flags':>6} {'':<12} {'requests':>9} {'failures':>9} {'p50 ms':>8} {'p99 ms':>8}"
        f" {'slowest ms':>11} {'a change takes':>15} {'at most':>8}"
    )
    for count in SWAP_FLAGS:
        with hedgerow(core, flag_count=count) as server:
            requests = decide_requests(server.port, with_properties=True)
            spent: list[float] = []
            alone = run_load(server.port, requests, connections=SWAP_CONNECTIONS, seconds=3)
            changed = run_load(
                server.port,
                requests,
                connections=SWAP_CONNECTIONS,
                seconds=40,
                beside=lambda: change_flags(server.port, spent),  # noqa: B023 - called at once
            )
        took = f" {statistics.median(spent) * 1000:>12.1f} ms {max(spent) * 1000:>8.1f}"
        for name, seen, more in (("no changes", alone, ""), ("changes", changed, took)):
            summary = seen.measured()
            slowest = max(seen.latencies) * 1000
            print(
                f"  {count:>6,} {name:<12} {summary.answers:>9,} {seen.failures:>9}"
                f" {summary.p50_ms:>8.2f} {summary.p99_ms:>8.2f} {slowest:>11.1f}{more}"
            )


def configure_servers() -> None:
    """Set the keys of the servers, and no limits."""
    os.environ["HEDGEROW_BOOTSTRAP_PERSONAL_KEY"] = KEY
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    for limit in ("PROJECT_CALLS", "PROJECT_EVENTS", "ADDRESS_CALLS"):
        os.environ[f"HEDGEROW_{limit}_PER_S"] = "0"


def main() -> None:
    server_core, load_core = cores()
    configure_servers()
    os.sched_setaffinity(0, load_core)
    engine()
    http(server_core)
    growth()
    swap(server_core)


if __name__ == "__main__":
    serve(echo) if sys.argv[1:] == ["echo"] else main()
