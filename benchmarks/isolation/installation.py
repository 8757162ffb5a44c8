"""The attacked service, and what the attacker and the victim have in it."""

import argparse
import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
from tests.support.clickhouse_http import ClickHouseTestServer

HEDGEROW = str(Path(sys.executable).parent / "hedgerow")
PERSONAL_KEY = "phx_benchmark-key-of-isolation"
PROJECT_KEY = "phc_benchmark-key-of-isolation"
TIMEOUT_S = 60
EDGE_INBOX_MB = 64


@dataclass(slots=True)
class World:
    """The attacked service. `key` is the public key of the project that the attacker owns."""

    port: int
    pid: int
    client: httpx.AsyncClient
    victim_address: str
    victim_key: str
    victim_project: int
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

    async def rotate_secret(self, project: int) -> str:
        """Return a new secret key of a project, for an edge process."""
        path = f"/api/projects/{project}/rotate_secret_token/"
        response = await self.client.patch(path, json={})
        response.raise_for_status()
        return str(response.json()["secret_api_token"])

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.client.post(f"/api/projects/1/{path}/", json=body)
        if response.status_code not in {200, 201}:
            raise Refused(f"{response.status_code} {response.text[:160]}")
        created: dict[str, Any] = response.json()
        return created


class Refused(Exception):
    """The service refused the definitions of the attack."""


@dataclass(slots=True, kw_only=True)
class Servers:
    """Servers of databases, with new ones for each service."""

    postgres: Any
    clickhouse: Any

    def create_databases(self) -> dict[str, str]:
        return {
            "HEDGEROW_DATABASE_URL": self.postgres.create_database(),
            "HEDGEROW_CLICKHOUSE_URL": self.clickhouse.create_database(),
        }


@contextmanager
def open_servers(*, wanted: bool) -> Iterator[Servers | None]:
    if not wanted:
        yield None
        return
    # Imported on demand: it warns about the environment.
    postgres = import_module("tests.support.postgres").PostgresTestServer()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        clickhouse = ClickHouseTestServer(Path(folder))
        try:
            yield Servers(postgres=postgres, clickhouse=clickhouse)
        finally:
            clickhouse.kill()
            postgres.close()


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
        # The servers of attacker and victim are on this machine.
        "HEDGEROW_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
    }
    if options.servers is not None:
        environment |= options.servers.create_databases()
    processes = ["--processes", str(options.processes)] if options.processes > 1 else []
    with tempfile.TemporaryDirectory(dir=".") as data:
        process = subprocess.Popen(
            [HEDGEROW, "serve", "--port", "0", "--data", data, *processes],
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


@contextmanager
def run_edge(origin_port: int, secrets: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the address and the process id of an edge process with a small inbox."""
    environment = os.environ | {
        "HEDGEROW_EDGE_KEYS": ",".join(secrets),
        "HEDGEROW_EDGE_INBOX_MAX_MB": str(EDGE_INBOX_MB),
    }
    with tempfile.TemporaryDirectory(dir=".") as data:
        origin = f"http://127.0.0.1:{origin_port}"
        process = subprocess.Popen(
            [HEDGEROW, "edge", "--from", origin, "--port", "0", "--data", data],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        try:
            found = re.search(r"ready at (\S+)", process.stdout.readline())
            if found is None:
                raise RuntimeError("the edge process did not start")
            yield found[1], process.pid
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
        yield World(
            port=port,
            pid=pid,
            client=client,
            victim_address=f"http://127.0.0.1:{port}",
            victim_key=victim["api_token"],
            victim_project=victim["id"],
        )


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


def proportional_mib(pid: int) -> float:
    """Return the memory of a process and its descendants, shared pages in equal parts."""
    total = 0
    pending = [pid]
    while pending:
        process = pending.pop()
        with suppress(OSError):
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            found = re.search(r"Pss:\s+(\d+)", rollup)
            total += int(found[1]) if found else 0
            for task in Path(f"/proc/{process}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
    return total / 1024


@dataclass(slots=True)
class Memory:
    """Peaks: of the main process, and of all processes together."""

    main_mib: float = 0.0
    all_mib: float = 0.0


async def watch_memory(world: World) -> Memory:
    peak = Memory()
    with suppress(asyncio.CancelledError):
        while True:
            with suppress(OSError):
                pages = int(Path(f"/proc/{world.pid}/statm").read_text().split()[1])
                resident = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
                peak.main_mib = max(peak.main_mib, resident)
            peak.all_mib = max(peak.all_mib, proportional_mib(world.pid))
            await asyncio.sleep(0.2)
    return peak


def percentile(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]
