"""What the service serves at three times the load that it can take.

    python -m benchmarks.overload [part ...] [--rounds 5] [--seconds 2] [--factor 3] [--flags 50]
        [--database-url postgresql://…]

Parts are flags, decide, capture, mixed, reconnect and eager; all of them by default. `flags` sends
what PostHog's Python SDK sends to evaluate flags, `decide` the shortest request that there is: the
cheaper an answer, the more the refusals beside it matter.

Each part measures the capacity: 64 connections, each of which sends its next request when the last
one is answered. Then requests start at `--factor` times that rate, whether or not earlier ones are
answered, on as many connections as that takes. Both alternate, because the speed of a machine
changes. `reconnect` opens a connection for each request, at both loads. `eager` has a thousand
connections instead, which ignore refusals and send the next request at once. The first second, in
which the connections are opened, does not count. A request on a new connection begins before it is
connected. The flags are those of benchmarks/flag_world.py; with `--flags 1` an answer is the
cheapest, and a refusal beside it the dearest.

The table shows the medians of all rounds: the served requests a second at both loads; the ratio of
each round to the capacity before and after it, which should be at least 0.8, and the same ratio per
second of CPU time of the service; how long 99 % of the served and of the refused requests took.
Then the longest health check of a process that sends ten a second, to the port of the service and
to that of its metrics, and all answers. The service has a core of its own at both loads, and the
load and the health checks share another: `load` is the part of it that the load took. If that is
about 1, or if requests are "not sent" because 1,500 connections wait already, the load was less
than `--factor` times the capacity. Loopback only, bounded in count and time.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, cast

import httpx
import uvloop

from benchmarks.load import cores

HEDGEROW = str(Path(sys.executable).parent / "hedgerow")
PERSONAL_KEY = "phx_benchmark-key-of-overload"
PROJECT_KEY = "phc_benchmark-key-of-overload"
PARTS = ("flags", "decide", "capture", "mixed", "reconnect", "eager")
CAPACITY_CONNECTIONS = 64
EAGER_CONNECTIONS = 1000
# The rate of those: as fast as they are answered.
EAGER = -1.0
MAX_CONNECTIONS = 1500
MAX_REQUESTS = 600_000
TIMEOUT_S = 20.0
RAMP_UP_S = 1.0
TICK_S = 0.005
PROBE_INTERVAL_S = 0.1
PERSONS = 1000
PATHS = {"flags": "/flags/?v=2", "decide": "/decide/?v=3", "capture": "/e/"}
# As posthog-python 7 sends them.
SDK_HEADERS = (
    "User-Agent: posthog-python/7.79.0\r\nAccept-Encoding: gzip, deflate, zstd\r\nAccept: */*\r\n"
    "Connection: keep-alive\r\n"
)
SDK_FIELDS = {
    "groups": {"company": "acme"},
    "person_properties": {"email": "a@example.com", "plan": "pro", "age": 30},
    "group_properties": {"company": {"$group_key": "acme", "name": "Acme", "size": 50}},
    "geoip_disable": True,
    "device_id": None,
    "sent_at": "2026-11-14T23:55:38.831987+00:00",
}


def build_requests(part: str, port: int) -> list[bytes]:
    """Return the requests that the load sends in turns."""
    one_kind = {
        "flags": ["flags"],
        "decide": ["decide"],
        "eager": ["decide"],
        "capture": ["capture"],
    }
    kinds = one_kind.get(part, ["decide", "capture"])
    more = {"reconnect": "Connection: close\r\n", "flags": SDK_HEADERS}.get(part, "")
    requests = []
    for number in range(PERSONS):
        for kind in kinds:
            # Others than those of the events: an evaluation waits for the events of its person.
            body: dict[str, Any] = {"api_key": PROJECT_KEY, "distinct_id": f"{kind} {number}"}
            if kind == "capture":
                body |= {"event": "viewed", "properties": {"number": number, "$lib": "web"}}
            elif kind == "flags":
                body |= SDK_FIELDS
            encoded = json.dumps(body).encode()
            head = (
                f"POST {PATHS[kind]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}"
                f"Content-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
            )
            requests.append(head.encode() + encoded)
    return requests


# The load, in a process of its own.


@dataclass(slots=True)
class Load:
    """`rate` is the number of requests a second, 0 for as many as the service answers on so many
    `connections`."""

    port: int
    requests: list[bytes]
    reconnects: bool
    rate: float
    connections: int = CAPACITY_CONNECTIONS
    # Earlier and later answers do not count.
    begins: float = 0.0
    ends: float = 0.0
    sent: int = 0
    cpu_s: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    served_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    idle: deque["Client"] = field(default_factory=deque)
    clients: set["Client | SingleRequest"] = field(default_factory=set)
    is_over: bool = False

    def next_request(self) -> bytes:
        self.sent += 1
        return self.requests[self.sent % len(self.requests)]

    def count(self, status: str, request: bytes, seconds: float) -> None:
        now = time.perf_counter()
        if now < self.begins:
            return
        self.statuses[status] += 1
        if status.startswith("2") and now < self.ends:
            self.served_s.append(seconds)
        elif status in ("429", "503"):
            self.refused_s.append(seconds)


class Client(asyncio.Protocol):
    """A connection with at most one request in progress, which began at `started`."""

    def __init__(self, load: Load, started: float) -> None:
        self._load = load
        self.started = started
        self._buffer = b""
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._load.clients.add(self)
        self.send(self.started)

    def send(self, started: float) -> None:
        self.started = started
        self._request = self._load.next_request()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not is_complete(self._buffer):
            return
        now = time.perf_counter()
        is_closed = b"connection: close" in self._buffer.partition(b"\r\n\r\n")[0].lower()
        self._load.count(self._buffer[9:12].decode(), self._request, now - self.started)
        self._buffer = self._request = b""
        if is_closed:
            self._transport.close()
        elif self._load.rate:
            self._load.idle.append(self)
        elif not self._load.is_over:
            self.send(now)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.clients.discard(self)
        if self._request:
            self._load.count("lost", self._request, 0)
            self._request = b""
        if not self._load.rate and not self._load.is_over:
            start_client(self._load)

    @property
    def is_waiting(self) -> bool:
        return bool(self._request)

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()


class SingleRequest:
    """A connection for one request, on a plain socket. A transport of the event loop sends the
    request some iterations after it is connected: the load would measure its own queue."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._started = time.perf_counter()
        self._loop = asyncio.get_running_loop()
        self._request = load.next_request()
        self._buffer = b""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        load.clients.add(self)
        self._socket.connect_ex(("127.0.0.1", load.port))
        # On loopback it is connected by now, unless the accept queue is full.
        self._send()

    @property
    def is_waiting(self) -> bool:
        return self._socket.fileno() >= 0

    def _send(self) -> None:
        try:
            self._socket.send(self._request)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._send_later)
            return
        except OSError:
            self._end("no connection")
            return
        self._loop.add_reader(self._socket, self._receive)

    def _send_later(self) -> None:
        self._loop.remove_writer(self._socket)
        self._send()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._buffer += data
        if not data:
            self._end("lost")
        elif is_complete(self._buffer):
            self._end(self._buffer[9:12].decode())

    def _end(self, status: str) -> None:
        self._load.count(status, self._request, time.perf_counter() - self._started)
        self.abort()
        if not self._load.rate and not self._load.is_over:
            start_client(self._load)

    def abort(self) -> None:
        self._load.clients.discard(self)
        if self.is_waiting:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()


def is_complete(answer: bytes) -> bool:
    end = answer.find(b"\r\n\r\n")
    at = answer.lower().find(b"content-length: ", 0, end)
    if end < 0 or at < 0:
        return False
    return len(answer) >= end + 4 + int(answer[at + 16 : answer.index(b"\r", at)])


def start_client(load: Load) -> None:
    if load.reconnects:
        SingleRequest(load)
        return
    started = time.perf_counter()

    async def connect() -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await loop.create_connection(lambda: Client(load, started), "127.0.0.1", load.port)
        except (OSError, TimeoutError):
            load.statuses["no connection"] += 1

    task = asyncio.get_running_loop().create_task(connect())
    _connecting.add(task)
    task.add_done_callback(_connecting.discard)


_connecting: set["asyncio.Task[None]"] = set()


async def run_load(load: Load, seconds: float) -> None:
    load.begins = time.perf_counter() + RAMP_UP_S
    load.ends = load.begins + seconds
    loop = asyncio.get_running_loop()
    loop.call_later(RAMP_UP_S, _count_cpu, load, -1)
    loop.call_later(RAMP_UP_S + seconds, _count_cpu, load, 1)
    if load.rate:
        await send_at_rate(load, RAMP_UP_S + seconds)
        # Answers that are still on their way.
        deadline = time.perf_counter() + TIMEOUT_S
        while time.perf_counter() < deadline and (
            _connecting or any(client.is_waiting for client in load.clients)
        ):
            await asyncio.sleep(0.05)
    else:
        for _ in range(load.connections):
            start_client(load)
        await asyncio.sleep(RAMP_UP_S + seconds)
    load.is_over = True
    for client in list(load.clients):
        if load.rate and client.is_waiting:
            load.statuses["timeout"] += 1
        client.abort()


def _count_cpu(load: Load, sign: int) -> None:
    load.cpu_s += sign * time.process_time()


async def send_at_rate(load: Load, seconds: float) -> None:
    started = time.perf_counter()
    due = 0
    while (now := time.perf_counter()) < started + seconds and load.sent < MAX_REQUESTS:
        while due < (now - started) * load.rate:
            due += 1
            client = load.idle.popleft() if load.idle else None
            if client is not None and client.is_open:
                client.send(now)
            elif len(load.clients) + len(_connecting) < MAX_CONNECTIONS:
                start_client(load)
            else:
                load.statuses["not sent"] += 1
        await asyncio.sleep(TICK_S)


def print_load(part: str, port: int, rate: float, seconds: float) -> None:
    load = Load(port, build_requests(part, port), part == "reconnect", max(0.0, rate))
    if rate == EAGER:
        load.connections = EAGER_CONNECTIONS
    wait_for_begin()
    uvloop.run(run_load(load, seconds))
    result = {
        "load_cores": load.cpu_s / seconds,
        "statuses": load.statuses,
        "served_per_s": len(load.served_s) / seconds,
        "served_p99_ms": compute_p99_ms(load.served_s),
        "refused_p99_ms": compute_p99_ms(load.refused_s),
    }
    print(json.dumps(result))


def compute_p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000 if seconds else 0.0


def print_probes(port: int, seconds: float) -> None:
    """Send health checks on new connections and print their durations in milliseconds."""
    wait_for_begin()
    ended = time.perf_counter() + seconds
    durations = []
    while (started := time.perf_counter()) < ended:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
                connection.sendall(b"GET /_liveness HTTP/1.1\r\nHost: x\r\n\r\n")
                is_good = connection.recv(4096)[8:13] == b" 200 "
        except OSError:
            is_good = False
        spent = time.perf_counter() - started
        durations.append((spent if is_good else TIMEOUT_S) * 1000)
        time.sleep(max(0.0, PROBE_INTERVAL_S - spent))
    print(json.dumps(durations))


# The service and the table.


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    port: int
    metrics_port: int
    pid: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def run_service(database_url: str, flag_count: int, core: set[int]) -> Iterator[Service]:
    """Run a service without limits per project, with flags that need a person."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics_port = free.getsockname()[1]
    environment = os.environ | {
        "HEDGEROW_METRICS_PORT": str(metrics_port),
        "HEDGEROW_BOOTSTRAP_PERSONAL_KEY": PERSONAL_KEY,
        "HEDGEROW_BOOTSTRAP_PROJECT_KEY": PROJECT_KEY,
        "HEDGEROW_DATABASE_URL": database_url,
        "HEDGEROW_LOG_LEVEL": "warning",
        "HEDGEROW_PROJECT_CALLS_PER_S": "0",
        "HEDGEROW_PROJECT_EVENTS_PER_S": "0",
        "HEDGEROW_ADDRESS_CALLS_PER_S": "0",
        "HEDGEROW_INBOX_MAX_EVENTS": "100000000",
    }
    with tempfile.TemporaryDirectory(dir=".", ignore_cleanup_errors=True) as data:
        process = subprocess.Popen(
            [HEDGEROW, "serve", "--port", "0", "--data", data],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            preexec_fn=partial(os.sched_setaffinity, 0, core),
        )
        assert process.stdout is not None
        try:
            port = next(
                int(line.rsplit(":", 1)[1]) for line in process.stdout if "is ready at" in line
            )
            create_flags(port, flag_count)
            yield Service(port=port, metrics_port=metrics_port, pid=process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def create_flags(port: int, count: int) -> None:
    # Not needed by the processes of the load and the health checks, which start quickly.
    from benchmarks import flag_world  # noqa: PLC0415

    url = f"http://127.0.0.1:{port}/api/projects/1/feature_flags/"
    headers = {"Authorization": f"Bearer {PERSONAL_KEY}"}
    with httpx.Client(headers=headers, timeout=60) as client:
        # With --database-url, an earlier part has created them.
        if client.get(url).json()["count"]:
            return
        for body in flag_world.bodies(count):
            client.post(url, json=body).raise_for_status()


class Helper:
    """A process that sends a load or health checks. It begins later: to start an interpreter takes
    half a second of the core that the load needs."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "benchmarks.overload", *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()

    def wait(self) -> Any:
        return json.loads(self._process.communicate()[0])


def wait_for_begin() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def measure(service: Service, part: str, rate: float, seconds: float) -> dict[str, Any]:
    """Return the result of a load, with the longest health check."""
    load = Helper("load", part, service.port, rate, seconds)
    probes = [Helper("probes", port, seconds) for port in (service.port, service.metrics_port)]
    load.begin()
    time.sleep(RAMP_UP_S)
    for each in probes:
        each.begin()
    cpu_s = service.cpu_s()
    time.sleep(seconds)
    spent_s = service.cpu_s() - cpu_s
    result: dict[str, Any] = load.wait()
    result["health_ms"], result["own_health_ms"] = (max(each.wait()) for each in probes)
    result["served_per_cpu_s"] = result["served_per_s"] * seconds / spent_s
    return result


def measure_part(part: str, options: argparse.Namespace) -> None:
    service_core, load_core = cores()
    everywhere = os.sched_getaffinity(0)
    overloads: list[dict[str, Any]] = []
    with run_service(options.database_url, options.flags, service_core) as service:
        os.sched_setaffinity(0, load_core)
        measure(service, part, 0, 1)
        capacities = [measure(service, part, 0, options.seconds)]
        for _ in range(options.rounds):
            rate = EAGER if part == "eager" else capacities[-1]["served_per_s"] * options.factor
            overloads.append(measure(service, part, rate, options.seconds))
            capacities.append(measure(service, part, 0, options.seconds))
        os.sched_setaffinity(0, everywhere)
    print_row(part, capacities, overloads)


def print_row(part: str, capacities: list[dict[str, Any]], overloads: list[dict[str, Any]]) -> None:
    def list_ratios(figure: str) -> list[float]:
        """Compare each round with the capacity before and after it."""
        around = pairwise(each[figure] for each in capacities)
        return [
            2 * overload[figure] / max(1.0, sum(pair))
            for overload, pair in zip(overloads, around, strict=True)
        ]

    ratios = list_ratios("served_per_s")
    answers = sum((Counter(each["statuses"]) for each in overloads), Counter[str]())
    print(
        f"{part:<10} {compute_median(capacities, 'served_per_s'):>10.0f} "
        f"{compute_median(overloads, 'served_per_s'):>9.0f} "
        f"{median(ratios):>6.2f} {min(ratios):>5.2f}-{max(ratios):<4.2f} "
        f"{median(list_ratios('served_per_cpu_s')):>6.2f} "
        f"{compute_median(overloads, 'served_p99_ms'):>8.0f} "
        f"{compute_median(overloads, 'refused_p99_ms'):>8.0f} "
        f"{max(each['health_ms'] for each in capacities):>7.0f} "
        f"{max(each['health_ms'] for each in overloads):>7.0f} "
        f"{max(each['own_health_ms'] for each in overloads):>7.0f} "
        f"{compute_median(overloads, 'load_cores'):>5.2f}  {dict(answers)}",
        flush=True,
    )


def compute_median(rounds: list[dict[str, Any]], figure: str) -> float:
    found: float = median(each[figure] for each in rounds)
    return found


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        part, port, rate, seconds = sys.argv[2:]
        print_load(part, int(port), float(rate), float(seconds))
        return
    if sys.argv[1:2] == ["probes"]:
        print_probes(int(sys.argv[2]), float(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--factor", type=float, default=3.0)
    parser.add_argument("--flags", type=int, default=50)
    parser.add_argument("--database-url", default="")
    options = parser.parse_args()
    print(
        "part       capacity/s  served/s  ratio     (from-to)    CPU   served  refused  health"
        "  health    port   load\n"
        "                                                      ratio   p99 ms   p99 ms  before"
        "  during  during  cores"
    )
    for part in options.parts or PARTS:
        measure_part(part, options)


if __name__ == "__main__":
    main()
