"""`hedgerow edge`: evaluate flags without a database, with the definitions of a running service."""

import gc
from collections.abc import Sequence
from typing import Annotated

import structlog
import typer
import uvloop

from hedgerow import __version__
from hedgerow.cli.options import DataOption, load_command_settings
from hedgerow.edge.run import run_edge
from hedgerow.edge.sources import EdgeSource, build_sources
from hedgerow.errors import OperatorError
from hedgerow.http.server.server import build_server, display_url, listen
from hedgerow.projects.model import Project
from hedgerow.setting_parsers import parse_server_url
from hedgerow.settings import Settings, mask_password

_log = structlog.get_logger("hedgerow.edge")


def edge(
    origin: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="URL of the service [env HEDGEROW_SERVER_URL]."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on [env HEDGEROW_HOST; default 127.0.0.1]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port, 0 for any [env HEDGEROW_PORT; default 8000]."),
    ] = None,
    data: DataOption = None,
) -> None:
    """Answer /decide, /flags and OFREP without a database, with the definitions of a service.

    HEDGEROW_EDGE_KEYS has the secret keys of the projects. Definitions come from the service and
    follow its changes; the last ones are kept in the data directory, for the time when the service
    is away. Captured events are sent on to the service; while that is not possible, they wait in
    the data directory.
    """
    settings = load_command_settings(
        _log.warning, host=host, port=port, data_dir=data, server_url=_parse_origin(origin)
    )
    if not settings.server_url:
        raise OperatorError("`hedgerow edge` needs --from URL or HEDGEROW_SERVER_URL.")
    if not settings.edge_keys:
        raise OperatorError(
            "`hedgerow edge` needs HEDGEROW_EDGE_KEYS: the secret keys (phs_…) of the projects, "
            "separated by commas."
        )
    sources = build_sources(settings.server_url.rstrip("/"), settings.edge_keys)
    uvloop.run(_run(settings, sources))


def _parse_origin(origin: str | None) -> str | None:
    if origin is None:
        return None
    try:
        return parse_server_url(origin)
    except ValueError as expected:
        raise OperatorError(f"--from must be {expected}.") from None


async def _run(settings: Settings, sources: Sequence[EdgeSource]) -> None:
    listening = listen(settings.host, settings.port)
    address = settings.public_url or display_url(listening)
    failure: list[Exception] = []

    def ready(projects: Sequence[Project]) -> None:
        gc.collect()
        gc.freeze()
        names = ", ".join(f"{each.id} ({each.name})" for each in projects)
        print(
            f"Hedgerow {__version__} edge is ready at {address}\n"
            f"Origin:    {mask_password(settings.server_url)}\nProjects:  {names}",
            flush=True,
        )

    def failed(error: Exception) -> None:
        failure.append(error)
        running.should_exit = True

    async with run_edge(settings, sources, ready=ready, failed=failed) as gateway:
        running = build_server(
            gateway,
            header_timeout_s=settings.request_read_timeout_s,
            drain_s=settings.shutdown_drain_s,
            grace_s=settings.shutdown_grace_s,
        )
        await running.serve(sockets=[listening])
    if failure:
        raise failure[0]
