"""A reader: a process beside the owner of the data, on the same machine and port.

It evaluates flags with the definitions of the owner, as an edge process does. The owner answers all
else, on an internal connection.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import structlog
from starlette.routing import Mount

from hedgerow import __version__
from hedgerow.edge.http import (
    DECIDE_BYTES,
    EdgeServices,
    build_app,
    build_evaluators,
    build_forwarded_routes,
    build_gateway,
    build_lenient_table,
    build_local_evaluation,
)
from hedgerow.edge.owner import NO_OWNER, OwnerApp, OwnerRoute, build_owner_headers
from hedgerow.edge.run import build_gauges, check_nothing, run_gateway
from hedgerow.edge.sources import EdgeSource
from hedgerow.edge.state import (
    AbsentData,
    EdgeDirectoryStore,
    EdgeFlagStore,
    EdgeState,
    NeedsOrigin,
)
from hedgerow.flags.edge.document import InvalidDocument, OwnedProject, decode_document
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.route_tables import build_fast_table
from hedgerow.http.server.gateway import FastRoute, Gateway
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import (
    KEEP_ALIVE_S,
    OriginClient,
    OriginRefused,
    OriginUnreachable,
)
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings

# The host name of requests on the internal connection.
OWNER_URL = "http://owner"
RETRY_INTERVAL_S = 0.25

_log = structlog.get_logger("hedgerow.reader")
_decode_projects = msgspec.json.Decoder(list[OwnedProject]).decode


class OwnerData(AbsentData):
    """Stored data, all of which the owner has."""

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        raise NeedsOrigin


class OwnerFollower:
    """Holds the definitions of the projects that are in use at the owner. A request for another
    one is the owner's, and brings it into use. The owner acknowledges a change once this process
    asks for the one after it."""

    def __init__(
        self,
        client: OriginClient,
        state: EdgeState,
        directory: Directory,
        flag_cache: FlagCache,
        number: int,
    ) -> None:
        self._client = client
        self._path = f"/readers/{number}/{os.getpid()}"
        self._state = state
        self._directory = directory
        self._flag_cache = flag_cache
        self._held: dict[EdgeSource, OwnedProject] = {}
        self._etag = ""
        # Set once the owner counts on this process.
        self.is_known = asyncio.Event()

    async def run(self) -> None:
        """Follow the owner until cancelled. While it restarts, the last definitions stay."""
        while True:
            try:
                while True:
                    await self._follow()
            except (OriginUnreachable, OriginRefused) as error:
                _log.debug("no definitions from the owner", reason=str(error))
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def _follow(self) -> None:
        """Wait for a change, and take it over."""
        found = await self._client.fetch(self._path, "", self._etag)
        if found is None:
            self.is_known.set()
            return
        body, etag = found
        await self._replace(_decode_projects(body))
        self._etag = etag

    async def _replace(self, projects: Sequence[OwnedProject]) -> None:
        sources = {
            EdgeSource(url=OWNER_URL, key="", project=str(each.id)): each for each in projects
        }
        for source in [each for each in self._held if each not in sources]:
            self._state.remove(source)
            del self._held[source]
        for source, project in sources.items():
            if self._held.get(source) != project:
                await self._hold(source, project)
        await self._directory.refresh()

    async def _hold(self, source: EdgeSource, listed: OwnedProject) -> None:
        try:
            found = await self._client.fetch(f"/projects/{listed.id}", "", "")
            assert found is not None
            body = found[0]
            document = await run_in_thread(lambda: decode_document(body))
        except OriginRefused:  # it was deleted a moment ago
            return
        except InvalidDocument as error:
            raise OriginUnreachable(str(error)) from None
        project = self._state.replace_document(source, document, listed.secret_hashes)
        # Compiled before a request can find it by its keys.
        await self._flag_cache.refresh(project)
        self._held[source] = listed


@asynccontextmanager
async def run_reader(
    settings: Settings, socket_path: str, number: int, ready: Callable[[], None]
) -> AsyncIterator[Gateway]:
    """Run a reader of the owner at this Unix socket. It answers 503 until it has definitions.
    `number` is its place among the processes."""
    state = EdgeState()
    directory = Directory(EdgeDirectoryStore(state), utc_now, time.monotonic)
    flag_cache = FlagCache(EdgeFlagStore(state), run_in_thread)
    client = OriginClient(
        OWNER_URL,
        f"hedgerow-reader/{__version__}",
        socket_path,
        # The owner drains for longer, and closes each connection after a response meanwhile: it
        # never closes one on which a request is on its way.
        keep_alive_s=min(KEEP_ALIVE_S, settings.shutdown_drain_s / 2) or KEEP_ALIVE_S,
    )
    services = EdgeServices(
        settings, state, directory, flag_cache, client, build_headers=build_owner_headers
    )
    readiness = Readiness(check_nothing)
    metrics = Metrics(lambda: build_gauges(services), lambda: (services.refusals.metric(),))
    # The metrics on the port of the service are those of the owner.
    routes = {
        **_build_evaluation_routes(services),
        **build_forwarded_routes(services, NO_OWNER),
        **build_fast_table([readiness]),
    }
    app = build_app([Mount("/", OwnerApp(client))])
    gateway = build_gateway(services, routes, app, readiness, metrics)
    follower = OwnerFollower(client, state, directory, flag_cache, number)
    following = _follow(follower, readiness, ready)
    async with run_gateway(services, gateway, metrics, following):
        yield gateway


async def _follow(follower: OwnerFollower, readiness: Readiness, ready: Callable[[], None]) -> None:
    readiness.waiting_for = "the definitions of the owner"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follower.run())
        await follower.is_known.wait()
        readiness.waiting_for = None
        ready()


def _build_evaluation_routes(services: EdgeServices) -> Mapping[str, FastRoute]:
    handlers = build_evaluators(services, OwnerData(NeedsOrigin), NeedsOrigin, services.limits)
    lenient = build_lenient_table(services)
    return {
        path: replace(
            route,
            handler=OwnerRoute(
                route.handler,
                lenient[path].handler if path in lenient else None,
                services.forwarder,
                max_bytes=DECIDE_BYTES,
            ),
        )
        for path, route in build_fast_table([*handlers, build_local_evaluation(services)]).items()
    }
