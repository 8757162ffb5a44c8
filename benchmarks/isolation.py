"""How long `/decide` of one project waits while another client attacks the same installation.

    python -m benchmarks.isolation [attack ...] [--seconds 8]

A separate process sends 50 `/decide` requests a second for a project that is not under attack,
first without an attack (the reference), then during each one. The table shows p50, p99 and the
maximum in milliseconds, what the attack adds to the p99, the answers that the attacker got, and the
peak memory of the service with its child processes. At most 50 ms should be added.

Loopback only, bounded in count and time.
"""

import argparse
import asyncio
import base64
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx

HEDGEROW = str(Path(sys.executable).parent / "hedgerow")
PERSONAL_KEY = "phx_benchmark-key-of-isolation"
PROJECT_KEY = "phc_benchmark-key-of-isolation"
PROBES_PER_SECOND = 50
TIMEOUT_S = 60
# Slow connections are tried against a service with few file descriptors.
FEW_DESCRIPTORS = 300
SLOW_CONNECTIONS = 400
LEVELS, REFERENCES = 11, 4
FLOOD_PIPELINE = 16
MANY_PERSONS, BATCH_SIZE = 20_000, 1_000


@dataclass(slots=True)
class World:
    """The attacked service. `key` is the public key of the project that the attacker owns."""

    port: int
    pid: int
    client: httpx.AsyncClient
    victim_key: str
    key: str = PROJECT_KEY
    answers: Counter[str] = field(default_factory=Counter)

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Send a request of the attacker and count its status."""
        try:
            response = await self.client.request(method, path, **options)
        except httpx.HTTPError as error:
            self.answers[type(error).__name__] += 1
            return None
        self.answers[str(response.status_code)] += 1
        return response

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.client.post(f"/api/projects/1/{path}/", json=body)
        if response.status_code not in {200, 201}:
            raise Refused(f"{response.status_code} {response.text[:160]}")
        created: dict[str, Any] = response.json()
        return created


class Refused(Exception):
    """The service refused the definitions of the attack."""


Attack = Callable[[World], Awaitable[Any]]


async def attack_nested_cohorts(world: World) -> None:
    cohort_id = await create_nested_cohorts(world)
    group = {"properties": [{"key": "id", "type": "cohort", "value": cohort_id}]}
    await world.create(
        "feature_flags", {"key": f"nested-{cohort_id}", "filters": {"groups": [group]}}
    )
    await repeat(lambda: decide(world, world.key), copies=2)


async def attack_nested_cohorts_in_queries(world: World) -> None:
    cohort_id = await create_nested_cohorts(world)
    sql = f"select count() from events where person_id in cohort {cohort_id}"
    await repeat(lambda: query(world, sql), copies=3)


async def create_nested_cohorts(world: World) -> int:
    leaf: dict[str, Any] = {"key": "plan", "type": "person", "value": ["a"], "operator": "exact"}
    values = [leaf] * REFERENCES
    cohort_id = 0
    for level in range(LEVELS):
        group = {"type": "OR", "values": [{"type": "OR", "values": values}]}
        body = {"name": f"level {level}", "filters": {"properties": group}}
        cohort_id = int((await world.create("cohorts", body))["id"])
        values = [{"key": "id", "type": "cohort", "value": cohort_id}] * REFERENCES
    return cohort_id


async def attack_look_around(world: World) -> None:
    groups = [
        {
            "properties": [
                {
                    "key": "text",
                    "type": "person",
                    "operator": "regex",
                    "value": f"(?!{number})(a|aa)+c$",
                }
            ]
        }
        for number in range(100)
    ]
    await world.create("feature_flags", {"key": "look-around", "filters": {"groups": groups}})
    await repeat(lambda: decide(world, world.key, text="a" * 200), copies=4)


async def attack_bombs(world: World, key: str) -> None:
    objects = b",".join([b"{}"] * 990_000)
    head = b'{"api_key":"%s",' % key.encode() if key else b"{"
    body = gzip.compress(head + b'"batch":[' + objects + b"]}")
    await repeat(
        lambda: world.send("POST", "/batch/", content=body, headers={"content-encoding": "gzip"}),
        copies=10,
    )


async def attack_blanks(world: World) -> None:
    body = base64.b64encode(gzip.compress(b" " * 90_000_000))
    await repeat(lambda: world.send("POST", "/e/", data={"data": body.decode()}), copies=10)


async def attack_unpacked_values(world: World) -> None:
    body = b'{"api_key":"%s","batch":[%s]}' % (world.key.encode(), b",".join([b"1"] * 5_000_000))
    await repeat(lambda: world.send("POST", "/batch/", content=body), copies=4)


async def attack_templates(world: World) -> None:
    template = {"size": "{{ (1..10000000) | join: '' | size }}"}
    record = await world.create("pipeline_destination_configs", {"plugin": 1})
    path = f"/api/projects/1/pipeline_destination_configs/{record['id']}/"
    config = {"url": "https://example.com/hook", "body": template}
    if (response := await world.client.put(f"{path}config/", json=config)).is_error:
        raise Refused(f"{response.status_code} {response.text[:160]}")
    await repeat(lambda: world.send("POST", f"{path}test/", json={}), copies=4)


async def attack_large_answers(world: World) -> None:
    await repeat(lambda: query(world, "select arrayMap(x -> range(10000), range(3000))"), copies=3)


async def attack_slow_functions(world: World) -> None:
    text = "concat(repeat('ab', 32000), toString(n))"
    distance = f"editDistance({text}, repeat('ba', 32000))"
    sql = f"select arrayMap(n -> {distance}, range(1000))"
    await repeat(lambda: query(world, sql), copies=3)


async def attack_flood(world: World) -> None:
    """Pipelined requests over few connections, without the cost of an HTTP client."""
    requests = build_decide_request(world.key) * FLOOD_PIPELINE

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        try:
            while True:
                writer.write(requests)
                for _ in range(FLOOD_PIPELINE):
                    count_status(world, await read_response(reader))
        finally:
            writer.close()

    await repeat(lambda: ignore_errors(send), copies=16)


async def attack_reconnects(world: World) -> None:
    """A new connection for each request."""
    request = build_decide_request(world.key, "connection: close\r\n")

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        try:
            writer.write(request)
            count_status(world, await reader.read())
        finally:
            writer.close()

    await repeat(lambda: ignore_errors(send), copies=64)


async def attack_changes(world: World) -> None:
    """Changes of one project, which wait for each other."""
    names = iter(range(1_000_000))
    await repeat(
        lambda: world.send(
            "POST",
            "/api/projects/1/feature_flags/",
            json={"key": f"flag-{next(names)}", "filters": {"groups": [{"properties": []}]}},
        ),
        copies=64,
    )


def build_decide_request(key: str, more_headers: str = "") -> bytes:
    body = json.dumps({"api_key": key, "distinct_id": "ann"})
    head = f"POST /decide/?v=3 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    return f"{head}{more_headers}\r\n{body}".encode()


async def read_response(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return head


def count_status(world: World, response: bytes) -> None:
    world.answers[response[9:12].decode() or "closed"] += 1


async def ignore_errors(send: Callable[[], Awaitable[None]]) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await send()


async def attack_streams(world: World) -> None:
    path = "/api/projects/1/feature_flags/stream/"

    async def listen() -> None:
        with suppress(httpx.HTTPError):
            async with world.client.stream("GET", path) as response:
                world.answers[str(response.status_code)] += 1
                if response.status_code == 200:
                    await asyncio.sleep(TIMEOUT_S)

    await repeat(listen, copies=150)


async def attack_exports(world: World) -> None:
    await capture_persons(world)
    await repeat(
        lambda: world.send("GET", "/api/projects/1/events/", params={"format": "csv"}), copies=8
    )


async def attack_metrics(world: World) -> None:
    """Without a key."""
    await repeat(lambda: world.send("GET", "/metrics"), copies=400)


async def attack_what_if(world: World) -> None:
    await capture_persons(world)
    group = {"properties": [{"key": "n", "type": "person", "operator": "gt", "value": "9"}]}
    body = {"key": "draft", "filters": {"groups": [group]}}
    await repeat(
        lambda: world.send("POST", "/api/projects/1/feature_flags/what_if/", json=body), copies=8
    )


async def capture_persons(world: World) -> None:
    """Store events of many persons."""
    for start in range(0, MANY_PERSONS, BATCH_SIZE):
        events = [
            {"event": "seen", "distinct_id": f"p{number}", "properties": {"$set": {"n": number}}}
            for number in range(start, start + BATCH_SIZE)
        ]
        body = {"api_key": world.key, "batch": events}
        response = await world.client.post("/batch/", json=body)
        if response.is_error:
            raise Refused(f"{response.status_code} {response.text[:160]}")


async def attack_slow_connections(world: World) -> None:
    """Connections that send one header byte a second."""
    writers = []
    for _ in range(SLOW_CONNECTIONS):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writers.append(writer)
    world.answers["connections"] = len(writers)
    try:
        while True:
            for writer in writers:
                with suppress(OSError):
                    writer.write(b"P")
            await asyncio.sleep(1)
    finally:
        for writer in writers:
            writer.close()


ATTACKS: dict[str, Attack] = {
    "flood": attack_flood,
    "reconnects": attack_reconnects,
    "changes": attack_changes,
    "cohorts": attack_nested_cohorts,
    "cohorts-query": attack_nested_cohorts_in_queries,
    "look-around": attack_look_around,
    "bomb-no-key": lambda world: attack_bombs(world, ""),
    "bomb-unknown-key": lambda world: attack_bombs(world, "phc_unknown"),
    "bomb-valid-key": lambda world: attack_bombs(world, world.key),
    "blanks": attack_blanks,
    "values": attack_unpacked_values,
    "templates": attack_templates,
    "large-answers": attack_large_answers,
    "slow-functions": attack_slow_functions,
    "streams": attack_streams,
    "exports": attack_exports,
    "metrics": attack_metrics,
    "what-if": attack_what_if,
    "slow-connections": attack_slow_connections,
}


async def repeat(send: Callable[[], Awaitable[Any]], copies: int) -> None:
    async def loop() -> None:
        while True:
            await send()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(copies):
            tasks.create_task(loop())


async def decide(world: World, key: str, **properties: str) -> None:
    body = {"api_key": key, "distinct_id": "ann", "person_properties": properties}
    await world.send("POST", "/decide/?v=3", json=body)


async def query(world: World, sql: str) -> None:
    body = {"query": {"kind": "HogQLQuery", "query": sql}, "refresh": "force_blocking"}
    await world.send("POST", "/api/projects/1/query/", json=body)


# The probe, in a process of its own.


def probe(port: int, key: str, seconds: float) -> None:
    """Send `/decide` at a steady rate and print the latencies in milliseconds as JSON."""
    print(json.dumps(asyncio.run(measure_latencies(port, key, seconds))))


async def measure_latencies(port: int, key: str, seconds: float) -> list[float]:
    """A request that fails counts with its whole timeout. The first prepares the client."""
    latencies: list[float] = []
    body = {"api_key": key, "distinct_id": "bob"}

    async def send(client: aiohttp.ClientSession) -> None:
        started = time.perf_counter()
        try:
            async with client.post("/decide/?v=3", json=body) as response:
                is_good = response.status == 200
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            is_good = False
        spent = time.perf_counter() - started
        latencies.append((spent if is_good else max(spent, TIMEOUT_S)) * 1000)

    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{port}",
        timeout=aiohttp.ClientTimeout(TIMEOUT_S),
        connector=aiohttp.TCPConnector(limit=0),
    ) as client:
        await send(client)
        latencies.clear()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(int(seconds * PROBES_PER_SECOND)):
                tasks.create_task(send(client))
                await asyncio.sleep(1 / PROBES_PER_SECOND)
    return latencies


async def run_probe(world: World, seconds: float) -> list[float]:
    command = ["-m", "benchmarks.isolation", "probe", str(world.port), world.victim_key]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, str(seconds), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    latencies: list[float] = sorted(json.loads(output))
    return latencies


# The service


@contextmanager
def run_service(descriptors: int, options: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """Yield the port and the process id."""

    def limit() -> None:
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    environment = os.environ | {
        "HEDGEROW_BOOTSTRAP_PERSONAL_KEY": PERSONAL_KEY,
        "HEDGEROW_BOOTSTRAP_PROJECT_KEY": PROJECT_KEY,
        # The attacker's own requests must not be stopped by the limit of the key.
        "HEDGEROW_RATE_LIMITS_ENABLED": "false",
    }
    if options.data_url:
        environment["HEDGEROW_DATABASE_URL"] = options.data_url
        environment["HEDGEROW_CLICKHOUSE_URL"] = options.events_url
    with tempfile.TemporaryDirectory(dir=".") as data:
        process = subprocess.Popen(
            [HEDGEROW, "serve", "--port", "0", "--data", data],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=limit,
            env=environment,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r":(\d+)\s*$", line)
            if found is None:
                raise RuntimeError(f"no address in {line!r}")
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            process.wait(30)


@asynccontextmanager
async def open_world(port: int, pid: int) -> Any:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        timeout=TIMEOUT_S,
        headers={"authorization": f"Bearer {PERSONAL_KEY}"},
        limits=httpx.Limits(max_connections=None),
    ) as client:
        victim = (await client.post("/api/projects/", json={"name": "Victim"})).json()
        group = {"properties": [], "rollout_percentage": 50}
        flag = {"key": "steady", "filters": {"groups": [group]}}
        created = await client.post(f"/api/projects/{victim['id']}/feature_flags/", json=flag)
        created.raise_for_status()
        yield World(port=port, pid=pid, client=client, victim_key=victim["api_token"])


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and its descendants."""
    total = 0
    pending = [pid]
    while pending:
        process = pending.pop()
        with suppress(OSError):
            # Pages; the size is 0 for a process that has just ended.
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1])
            for task in Path(f"/proc/{process}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
    return total * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def watch_memory(world: World) -> float:
    peak = 0.0
    with suppress(asyncio.CancelledError):
        while True:
            peak = max(peak, resident_mib(world.pid))
            await asyncio.sleep(0.1)
    return peak


# The report


def percentile(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


def show(name: str, latencies: list[float], reference_p99: float, rest: str) -> None:
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    print(
        f"  {name:<18} {p50:>8.1f} {p99:>8.1f} {latencies[-1]:>9.1f}"
        f" {p99 - reference_p99:>+8.1f}  {rest}",
        flush=True,
    )


async def measure_attack(world: World, attack: Attack, seconds: float) -> tuple[list[float], str]:
    """Return the latencies during the attack, and what the attacker saw."""
    world.answers.clear()
    attacking = asyncio.ensure_future(attack(world))
    memory = asyncio.create_task(watch_memory(world))
    await asyncio.sleep(0.5)
    refused = ""
    latencies = await run_probe(world, seconds)
    if attacking.done() and isinstance(error := attacking.exception(), Refused):
        refused = f"refused: {error}"
    attacking.cancel()
    with suppress(asyncio.CancelledError, Refused):
        await attacking
    memory.cancel()
    return latencies, f"{await memory:>7,.0f}  {dict(world.answers)} {refused}"


async def measure_service(names: list[str], descriptors: int, options: argparse.Namespace) -> None:
    with run_service(descriptors, options) as (port, pid):
        async with open_world(port, pid) as world:
            await run_probe(world, 1)
            reference = await run_probe(world, options.seconds)
            p99 = percentile(reference, 0.99)
            show("no attack", reference, p99, f"{resident_mib(pid):>7,.0f}")
            for name in names:
                latencies, rest = await measure_attack(world, ATTACKS[name], options.seconds)
                show(name, latencies, p99, rest)
                await asyncio.sleep(3)  # what still runs must not count for the next attack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks", nargs="*", choices=[[], *ATTACKS], default=[])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--data-url", default="")
    parser.add_argument("--events-url", default="")
    options = parser.parse_args()
    names = options.attacks or list(ATTACKS)
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"  {'/decide, ms':<18} {'p50':>8} {'p99':>8} {'max':>9} {'added':>8}  {'MiB':>7}  answers"
    )
    ordinary = [name for name in names if name != "slow-connections"]
    if ordinary:
        asyncio.run(measure_service(ordinary, 0, options))
    if "slow-connections" in names:
        asyncio.run(measure_service(["slow-connections"], FEW_DESCRIPTORS, options))


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        probe(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
    else:
        main()
