"""A fast route of the gateway against a bare ASGI application on the same server, in one run.

    python -m benchmarks.http

Both run on uvicorn, uvloop and httptools, pinned to one core; the load comes from another core.
Rounds alternate between the two, so that a noisy machine affects both, and each round restarts
both: the memory layout of a process alone changes its rate by a fifth.

The result is requests per second of the server's CPU time. Requests per second of wall time are
shown, too, but two event loops that wait for each other can both idle half of the time.
"""

import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.load import Load, Measured, cores, get, run

ROUNDS = 5
SECONDS = 3.0
CONNECTIONS = 32
BODY = b'{"status":"ok"}'
HEADERS = [(b"content-length", b"%d" % len(BODY)), (b"content-type", b"application/json")]


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """The smallest possible ASGI application."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


def serve(app: ASGIApp) -> None:
    """Run an application on the same server as Hedgerow, without the gateway."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"is ready at http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        ws="none",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="error",
    )
    uvicorn.Server(config).run([listening])


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads of the process."""
        return _read_cpu_seconds(self.pid)

    def engine_cpu_seconds(self) -> float:
        """Return the CPU time of the embedded event engine, which is a process of its own."""
        pids = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
        return sum(_read_cpu_seconds(pid) for pid in pids if _is_engine_of(pid, self.pid))


def _read_cpu_seconds(pid: int) -> float:
    times = _read_stat(pid)
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _is_engine_of(pid: int, parent: int) -> bool:
    try:
        is_engine = b"chdb_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return is_engine and int(_read_stat(pid)[1]) == parent
    except OSError:  # it has ended
        return False


def _read_stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    measured: Measured
    per_core_second: float


@contextmanager
def started(command: list[str], core: set[int]) -> Iterator[Running]:
    """Run a server on one core for the duration of the block."""
    pin: Callable[[], None] = lambda: os.sched_setaffinity(0, core)  # noqa: E731
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=pin
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r":(\d+)\s*$", line)
        if found is None:
            raise RuntimeError(f"no address in {line!r}")
        yield Running(port=int(found[1]), pid=process.pid)
    finally:
        process.send_signal(signal.SIGINT)  # ends without waiting for a balancer
        process.wait(10)


def measure(server: Running, request: bytes) -> Round:
    load = Load(
        host="127.0.0.1",
        port=server.port,
        request=request,
        connections=CONNECTIONS,
        seconds=SECONDS,
    )
    before = server.cpu_seconds()
    measured = run(load)
    spent = server.cpu_seconds() - before
    return Round(measured=measured, per_core_second=measured.answers / spent)


def shown(name: str, rounds: list[Round]) -> float:
    """Print the medians. Return the rate per second of CPU time."""
    rate = statistics.median(each.per_core_second for each in rounds)
    clock = statistics.median(each.measured.per_second for each in rounds)
    p50 = statistics.median(each.measured.p50_ms for each in rounds)
    p99 = statistics.median(each.measured.p99_ms for each in rounds)
    print(f"  {name:<28} {rate:>12,.0f} {clock:>10,.0f} {p50:>8.2f} {p99:>8.2f}")
    return rate


def heading(what: str) -> None:
    print(f"{what}, {CONNECTIONS} connections, median of {ROUNDS} alternating rounds")
    print(f"  {'':<28} {'per core-s':>12} {'per s':>10} {'p50 ms':>8} {'p99 ms':>8}")


def main() -> None:
    server_core, load_core = cores()
    os.sched_setaffinity(0, load_core)
    hedgerow = str(Path(sys.executable).parent / "hedgerow")
    reference: list[Round] = []
    ours: list[Round] = []
    for _ in range(ROUNDS):
        with (
            tempfile.TemporaryDirectory(dir=".") as data,
            started([sys.executable, "-m", "benchmarks.http", "bare"], server_core) as bare_server,
            started([hedgerow, "serve", "--port", "0", "--data", data], server_core) as our_server,
        ):
            reference.append(measure(bare_server, get("/", bare_server.port)))
            ours.append(measure(our_server, get("/_liveness", our_server.port)))
    heading("GET")
    bare_rate, our_rate = shown("bare ASGI", reference), shown("fast route", ours)
    print(f"  fast route / bare: {our_rate / bare_rate:.0%}")


if __name__ == "__main__":
    serve(bare) if sys.argv[1:] == ["bare"] else main()
