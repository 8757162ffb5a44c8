"""The lean front door against a bare ASGI application on the same server, in one run.

    python -m benchmarks.http

Both run on uvicorn, uvloop and httptools, pinned to one core; the load comes from another. Rounds
alternate between the two, so that a noisy machine is noisy for both.
"""

import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """The least that an ASGI application can do."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


def serve(app: ASGIApp) -> None:
    """Run an application on the same server as Hedgerow, with nothing around it."""
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


@contextmanager
def started(command: list[str], core: set[int]) -> Iterator[int]:
    """The port of a server that runs on one core while the block lasts."""
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
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(10)


def measure(path: str, port: int) -> Measured:
    return run(
        Load(
            host="127.0.0.1",
            port=port,
            request=get(path, port),
            connections=CONNECTIONS,
            seconds=SECONDS,
        )
    )


def median(rounds: list[Measured]) -> Measured:
    return Measured(
        per_second=statistics.median(m.per_second for m in rounds),
        p50_ms=statistics.median(m.p50_ms for m in rounds),
        p99_ms=statistics.median(m.p99_ms for m in rounds),
    )


def main() -> None:
    server_core, load_core = cores()
    os.sched_setaffinity(0, load_core)
    hedgerow = str(Path(sys.executable).parent / "hedgerow")
    with (
        tempfile.TemporaryDirectory(dir=".") as data,
        started([sys.executable, "-m", "benchmarks.http", "bare"], server_core) as bare_port,
        started([hedgerow, "serve", "--port", "0", "--data", data], server_core) as our_port,
    ):
        reference, ours = [], []
        for _ in range(ROUNDS):
            reference.append(measure("/", bare_port))
            ours.append(measure("/_liveness", our_port))
    print(f"GET, {CONNECTIONS} connections, median of {ROUNDS} alternating rounds of {SECONDS:g} s")
    print(f"  {'':<22} {'req/s':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for name, measured in (("bare ASGI", median(reference)), ("lean door", median(ours))):
        print(
            f"  {name:<22} {measured.per_second:>8,.0f} "
            f"{measured.p50_ms:>8.2f} {measured.p99_ms:>8.2f}"
        )
    ratio = median(ours).per_second / median(reference).per_second
    print(f"  lean door / bare: {ratio:.0%}")


if __name__ == "__main__":
    serve(bare) if sys.argv[1:] == ["bare"] else main()
