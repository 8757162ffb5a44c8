"""`hedgerow worker`: process events and run background tasks, without answering requests."""

import asyncio
import contextlib
import signal
import sys
from typing import Annotated

import structlog
import typer
import uvloop

from hedgerow import __version__
from hedgerow.app.topology import require_shared_stores
from hedgerow.app.worker import MetricsAddress, run_worker
from hedgerow.cli.installation.malloc import limit_free_memory
from hedgerow.cli.options import DataOption, describe_state_location, load_command_settings
from hedgerow.settings import Settings

_log = structlog.get_logger("hedgerow")


def worker(
    data: DataOption = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port for Prometheus metrics, 0 for any [env HEDGEROW_METRICS_PORT].",
        ),
    ] = None,
    metrics_host: Annotated[
        str | None,
        typer.Option(
            help="Address for the metrics [env HEDGEROW_METRICS_HOST; default 127.0.0.1]."
        ),
    ] = None,
) -> None:
    """Process events and run background tasks, without answering requests.

    Needs PostgreSQL and ClickHouse. Run it next to any number of `hedgerow serve --no-worker`.
    Several workers share the work.
    """
    settings = load_command_settings(_log.warning, data_dir=data)
    require_shared_stores(settings, "`hedgerow worker`")
    port = metrics_port if metrics_port is not None else settings.metrics_port or None
    host = metrics_host or settings.metrics_host
    uvloop.run(_run(settings, None if port is None else MetricsAddress(host=host, port=port)))


async def _run(settings: Settings, metrics_address: MetricsAddress | None) -> None:
    def ready(metrics: str) -> None:
        print(f"Hedgerow {__version__} processes events for {describe_state_location(settings)}")
        if metrics:
            print(f"Metrics:   {metrics}")
        sys.stdout.flush()

    limit_free_memory()
    task = asyncio.create_task(run_worker(settings, metrics_address, ready))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    _log.info("worker stopped")
