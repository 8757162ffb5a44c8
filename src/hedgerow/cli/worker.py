"""`hedgerow worker`: the chores of the service without its requests."""

import asyncio
import contextlib
import signal
from typing import Annotated

import structlog
import typer
import uvloop

from hedgerow import __version__
from hedgerow.app.sharing import check_shared
from hedgerow.app.worker import MetricsAddress, run_worker
from hedgerow.cli.options import DataOption, kept_in, settings_with
from hedgerow.settings import Settings


def worker(
    data: DataOption = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Show metrics for Prometheus on this port, 0 for any."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to show them on [default 127.0.0.1].", show_default=False)
    ] = "127.0.0.1",
) -> None:
    """Work on accepted events and other chores, and answer no requests.

    For PostgreSQL and ClickHouse, beside any number of `hedgerow serve --no-worker`. Several
    workers share the work.
    """
    settings = settings_with(data=data)
    check_shared(settings, "A worker of its own")
    port, host = metrics_port, metrics_host
    uvloop.run(_work(settings, None if port is None else MetricsAddress(host=host, port=port)))


async def _work(settings: Settings, shown_at: MetricsAddress | None) -> None:
    log = structlog.get_logger("hedgerow")

    def ready(metrics: str) -> None:
        shown = f"\nMetrics:   {metrics}" if metrics else ""
        print(f"Hedgerow {__version__} works for {kept_in(settings)}{shown}", flush=True)

    working = asyncio.create_task(run_worker(settings, shown_at, ready))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working
    log.info("worker stopped")
