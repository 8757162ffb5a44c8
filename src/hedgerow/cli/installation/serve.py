"""`hedgerow serve`: start the service. The first start prints the keys and commands to try."""

import asyncio
import gc
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import structlog
import typer
import uvloop

from hedgerow import __version__
from hedgerow.app.event_store import warn_of_missing_packages
from hedgerow.app.http.readers import ReaderProcess
from hedgerow.app.serve import ServiceCallbacks, run_service
from hedgerow.app.state import ensure_data_dir
from hedgerow.app.topology import (
    SPLIT_EVENTS,
    can_share_stores,
    has_local_events_only,
    require_shared_stores,
)
from hedgerow.cli.installation.malloc import limit_free_memory
from hedgerow.cli.installation.processes.plan import SupervisorPlan
from hedgerow.cli.installation.processes.supervisor import listen_for_readers, start_supervisor
from hedgerow.cli.options import (
    DataOption,
    describe_state_location,
    format_command,
    load_command_settings,
)
from hedgerow.edge.own_copies import OwnCopies
from hedgerow.http.server.gateway import FastHandler
from hedgerow.http.server.server import build_server, display_url, listen, listen_several
from hedgerow.http.server.uvicorn_server import InternalListener
from hedgerow.people.model import build_url
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.settings import Settings

# How many new objects start a garbage collection. The objects of open requests stay, and with
# Python's default of 700 they are scanned several times.
YOUNG_OBJECTS = 10_000

_log = structlog.get_logger("hedgerow")


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on [env HEDGEROW_HOST; default 127.0.0.1]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port, 0 for any [env HEDGEROW_PORT; default 8000]."),
    ] = None,
    data: DataOption = None,
    no_worker: Annotated[
        bool,
        typer.Option(
            "--no-worker",
            help="Only answer requests; `hedgerow worker` processes events. Needs PostgreSQL and "
            "ClickHouse.",
        ),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes on one port, for several cores [env HEDGEROW_PROCESSES; default 1].",
        ),
    ] = None,
) -> None:
    """Start the service. The first start creates everything it needs.

    Stop it with Ctrl-C: it finishes open requests first. After SIGTERM it serves on for a moment,
    until its balancer knows that it is not ready any more.
    """
    overrides = {"host": host, "port": port, "data_dir": data, "processes": processes}
    settings = load_command_settings(_log.warning, **overrides)
    if no_worker:
        require_shared_stores(settings, "--no-worker")
    elif has_local_events_only(settings):
        _log.warning(SPLIT_EVENTS)
    ensure_data_dir(settings.data_dir)
    warn_of_missing_packages(settings)
    if settings.processes > 1:
        _supervise(settings, {**overrides, "data_dir": data and str(data)}, worker=not no_worker)
    uvloop.run(run(settings, worker=not no_worker))


def _supervise(settings: Settings, overrides: Mapping[str, Any], *, worker: bool) -> NoReturn:
    sockets = listen_several(settings.host, settings.port, settings.processes)
    address = settings.public_url or display_url(sockets[0])
    readers = None if can_share_stores(settings) else listen_for_readers()
    # They stay open in the program that replaces this one.
    descriptors = [each.detach() for each in sockets]
    start_supervisor(
        SupervisorPlan(
            program=sys.argv[0],
            address=address,
            sockets=descriptors,
            overrides=overrides,
            has_worker=worker,
            drain_s=settings.shutdown_drain_s,
            grace_s=settings.shutdown_grace_s,
            owner_socket=None if readers is None else readers[0].detach(),
            owner_path="" if readers is None else readers[1],
        )
    )


async def run(settings: Settings, *, worker: bool) -> None:
    """Serve until a signal stops the process. Without `worker`, other processes process events."""
    listening = listen(settings.host, settings.port)
    address = settings.public_url or display_url(listening)

    def ready(first: InitialKeys | None) -> None:
        # The objects made so far stay. Freezing them keeps the collector from scanning them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        print(format_start_screen(address, settings, first), flush=True)

    await run_on_sockets(settings, [listening], ready, worker=worker)


class OwnerSocket(NamedTuple):
    """Where the readers of this process use its data. `replace` ends one that does not answer."""

    listening: socket.socket
    readers: Sequence[int]
    replace: Callable[[ReaderProcess], None]


async def run_on_sockets(
    settings: Settings,
    sockets: list[socket.socket],
    ready: Callable[[InitialKeys | None], None],
    *,
    worker: bool,
    owner: OwnerSocket | None = None,
    is_replacement: bool = False,
) -> None:
    """Serve on the first socket, and where other processes are busy."""
    limit_free_memory()
    failure: list[Exception] = []
    internal: InternalListener | None = None

    def failed(error: Exception) -> None:
        failure.append(error)
        running.should_exit = True

    def report_ready(first: InitialKeys | None) -> None:
        ready(first)
        if owner is not None and is_replacement:
            http.internal_app.readers.await_reconnection(owner.readers)
        running.start_accepting()

    # A local database is not away.
    copies = OwnCopies(settings.data_dir) if settings.database_url else None
    callbacks = ServiceCallbacks(
        ready=report_ready,
        failed=failed,
        build_fallback=None if copies is None else lambda: _build_fallback(settings),
    )
    async with run_service(settings, callbacks, worker=worker) as http:
        if owner is not None:
            internal = InternalListener(owner.listening, http.internal_app)
            http.internal_app.readers.replace = owner.replace
        running = build_server(
            http.gateway,
            header_timeout_s=settings.request_read_timeout_s,
            drain_s=settings.shutdown_drain_s,
            grace_s=settings.shutdown_grace_s,
            internal=internal,
            is_replacement=is_replacement,
        )
        saving = None
        if copies is not None:
            saving = asyncio.create_task(copies.keep(http.edge_documents, http.directory))
        await running.serve(sockets=sockets)
        if saving is not None:
            saving.cancel()
    if failure:
        raise failure[0]


def _build_fallback(settings: Settings) -> Awaitable[Mapping[str, FastHandler]]:
    # It loads the HTTP client of edge processes, which a service does not need otherwise.
    fallback: Awaitable[Mapping[str, FastHandler]] = import_module(
        "hedgerow.edge.fallback"
    ).build_fallback(settings)
    return fallback


def _format_setup_link(address: str, first: InitialKeys) -> str:
    if not first.setup_token:
        return f"  Owner         {first.owner_email}\n"
    link = build_url(address, "setup", first.setup_token)
    return f"  Setup link    {link}   secret: once, within 24 hours, sets the owner's password\n"


def format_start_screen(address: str, settings: Settings, first: InitialKeys | None) -> str:
    """Return what a start prints. The first start shows generated keys once, and commands to
    try."""
    heading = f"Hedgerow {__version__} is ready at {address}"
    docs = f"Console:   {address}/\nAPI docs:  {address}/api/docs/"
    if settings.metrics_port:
        docs += f"\nMetrics:   http://{settings.metrics_host}:{settings.metrics_port}/metrics"
    new_keys = f"New keys:  {format_command('keys create --label my-laptop', settings)}"
    if first is None:
        return f"{heading}\n{docs}\n{new_keys}\n"
    return f"""{heading}

{first.describe()}
{_format_setup_link(address, first)}
Try it:
  # set KEY to the personal key, and PROJECT_KEY to the project key
  # list your pipeline destinations
  curl -H "Authorization: Bearer $KEY" {address}/api/environments/1/pipeline_destination_configs/
  # evaluate your flags for a user
  curl -H 'Content-Type: application/json' '{address}/decide?v=3' -d '{{"api_key": "'$PROJECT_KEY'", "distinct_id": "ann"}}'
  # capture an event
  curl -H 'Content-Type: application/json' '{address}/capture/' -d '{{"api_key": "'$PROJECT_KEY'", "event": "signed up", "distinct_id": "ann"}}'

{docs}
{new_keys}
Data:      {describe_state_location(settings)}
"""
