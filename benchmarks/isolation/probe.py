"""The victim, in a process of its own: what a project sees of an attack on another one."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any
from uuid import uuid4

import aiohttp
from aiohttp import web

from benchmarks.isolation.installation import PERSONAL_KEY, TIMEOUT_S, World

PROBES_PER_SECOND = 50
CAPTURES_PER_SECOND = 10
# How often an event is read, waited for at a webhook, and a small file imported.
READ_INTERVAL_S = 1.0
POLL_S = 0.05
WEBHOOK, FILES = 1, 41
LINES = "".join(
    json.dumps({"timestamp": "2026-01-01T10:00:00Z", "event": "imported", "distinct_id": f"p{n}"})
    + "\n"
    for n in range(3)
)


class Scope(StrEnum):
    """What to measure. At an edge process whose origin is away, events cannot be read."""

    DECIDE = "decide"
    EDGE = "edge"
    ALL = "all"


@dataclass(slots=True)
class Latencies:
    """In milliseconds. A request that fails counts with its whole timeout."""

    decide: list[float] = field(default_factory=list)
    capture: list[float] = field(default_factory=list)
    readable: list[float] = field(default_factory=list)
    delivered: list[float] = field(default_factory=list)
    imported: list[float] = field(default_factory=list)


class Victim:
    def __init__(self, address: str, key: str, project: int, scope: Scope) -> None:
        self._address = address
        self._key = key
        self._project = f"/api/projects/{project}"
        self._scope = scope
        self.found = Latencies()
        self._received: dict[str, asyncio.Event] = {}
        self._import = ""

    async def run(self, seconds: float) -> Latencies:
        async with self._open_client() as client, self._serve() as port:
            await self._decide(client)
            if self._scope is Scope.ALL:
                await self._prepare(client, port)
                await self._capture(client, f"first {uuid4()}")
            self.found = Latencies()
            ends = time.monotonic() + seconds
            async with asyncio.TaskGroup() as tasks:
                self._repeat(tasks, ends, 1 / PROBES_PER_SECOND, lambda: self._decide(client))
                if self._scope is not Scope.DECIDE:
                    capture = lambda: self._capture(client, "beat")  # noqa: E731
                    self._repeat(tasks, ends, 1 / CAPTURES_PER_SECOND, capture)
                if self._scope is Scope.ALL:
                    self._repeat(tasks, ends, READ_INTERVAL_S, lambda: self._follow(client))
                    tasks.create_task(self._run_import(client))
        return self.found

    def _repeat(
        self,
        tasks: asyncio.TaskGroup,
        ends: float,
        interval_s: float,
        send: Callable[[], Awaitable[None]],
    ) -> None:
        async def loop() -> None:
            while time.monotonic() < ends:
                tasks.create_task(send())  # type: ignore[arg-type]
                await asyncio.sleep(interval_s)

        tasks.create_task(loop())

    def _open_client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self._address,
            timeout=aiohttp.ClientTimeout(TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
            headers={"authorization": f"Bearer {PERSONAL_KEY}"},
        )

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[int]:
        """A receiver of webhooks, which also has a file to import."""
        app = web.Application()
        app.router.add_post("/hook", self._receive)
        app.router.add_get("/events.jsonl", lambda _: web.Response(text=LINES))  # type: ignore[arg-type,return-value]
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        name = (await request.json())["event"]["event"]
        if name in self._received:
            self._received[name].set()
        return web.Response()

    async def _prepare(self, client: aiohttp.ClientSession, port: int) -> None:
        hooks = f"{self._project}/pipeline_destination_configs/"
        hook = await self._configure(client, hooks, WEBHOOK, url=f"http://127.0.0.1:{port}/hook")
        await self._request(client, "PATCH", hook, {"enabled": True})
        imports = f"{self._project}/pipeline_import_apps_configs/"
        source = f"http://127.0.0.1:{port}/events.jsonl"
        self._import = await self._configure(client, imports, FILES, source=source)

    async def _configure(
        self, client: aiohttp.ClientSession, path: str, plugin: int, **settings: Any
    ) -> str:
        record = await self._request(client, "POST", path, {"plugin": plugin})
        own = f"{path}{record['id']}/"
        await self._request(client, "PUT", f"{own}config/", settings)
        return own

    async def _request(
        self, client: aiohttp.ClientSession, method: str, path: str, body: Any = None
    ) -> Any:
        async with client.request(method, path, json=body) as response:
            if response.status >= 300:
                raise RuntimeError(f"{method} {path}: {await response.text()}")
            return await response.json()

    async def _decide(self, client: aiohttp.ClientSession) -> None:
        body = {"api_key": self._key, "distinct_id": "bob"}
        await self._time(client, "/decide/?v=3", body, self.found.decide)

    async def _capture(self, client: aiohttp.ClientSession, name: str) -> None:
        body = {"api_key": self._key, "distinct_id": "bob", "event": name}
        await self._time(client, "/e/", body, self.found.capture)

    async def _time(
        self, client: aiohttp.ClientSession, path: str, body: Any, latencies: list[float]
    ) -> None:
        started = time.perf_counter()
        try:
            async with client.post(path, json=body) as response:
                is_good = response.status == 200
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            is_good = False
        spent = time.perf_counter() - started
        latencies.append((spent if is_good else max(spent, TIMEOUT_S)) * 1000)

    async def _follow(self, client: aiohttp.ClientSession) -> None:
        """Capture an event, and measure when it can be read and when it is delivered."""
        name = str(uuid4())
        received = self._received[name] = asyncio.Event()
        started = time.perf_counter()
        await self._capture(client, name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._await(received.wait(), started, self.found.delivered))
            tasks.create_task(self._await(self._read(client, name), started, self.found.readable))

    async def _await(self, done: Any, started: float, latencies: list[float]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await done
        latencies.append((time.perf_counter() - started) * 1000)

    async def _read(self, client: aiohttp.ClientSession, name: str) -> None:
        path = f"{self._project}/events/?event={name}"
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(path) as response:
                    if response.status == 200 and (await response.json())["results"]:
                        return
            await asyncio.sleep(POLL_S)

    async def _run_import(self, client: aiohttp.ClientSession) -> None:
        started = time.perf_counter()
        await self._await(self._import_once(client), started, self.found.imported)

    async def _import_once(self, client: aiohttp.ClientSession) -> None:
        start = f"{self._import}job/"
        body = {"job": {"type": "import", "payload": {}}}
        async with client.post(start, json=body) as response:
            job = f"{self._import}jobs/{response.headers['x-job-id']}/"
        while (await self._request(client, "GET", job))["status"] not in ("done", "failed"):
            await asyncio.sleep(POLL_S)


def probe(address: str, key: str, project: int, seconds: float, scope: Scope) -> None:
    """Send requests of the victim, and print the latencies as JSON."""
    victim = Victim(address, key, project, scope)
    print(json.dumps(asdict(asyncio.run(victim.run(seconds)))))


async def run_probe(world: World, seconds: float) -> list[float]:
    """Return the sorted latencies of `/decide`."""
    return (await run_victim(world, seconds, Scope.DECIDE)).decide


async def run_victim(world: World, seconds: float, scope: Scope = Scope.ALL) -> Latencies:
    """Run the victim in another process, and return what it saw, sorted."""
    command = ["-m", "benchmarks.isolation", "probe", world.victim_address, world.victim_key]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        str(world.victim_project),
        str(seconds),
        scope,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return Latencies(**{name: sorted(some) for name, some in json.loads(output).items()})
