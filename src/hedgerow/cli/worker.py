"""`hedgerow worker`: the chores of the service without its requests."""

import asyncio
import contextlib
import signal

import structlog
import uvloop

from hedgerow import __version__
from hedgerow.app.sharing import check_shared
from hedgerow.app.worker import run_worker
from hedgerow.cli.options import DataOption, kept_in, settings_with
from hedgerow.settings import Settings


def worker(data: DataOption = None) -> None:
    """Work on accepted events and other chores, and answer no requests.

    For PostgreSQL and ClickHouse, beside any number of `hedgerow serve --no-worker`. Several
    workers share the work.
    """
    settings = settings_with(data=data)
    check_shared(settings, "A worker of its own")
    uvloop.run(_work(settings))


async def _work(settings: Settings) -> None:
    log = structlog.get_logger("hedgerow")

    def ready() -> None:
        print(f"Hedgerow {__version__} works for {kept_in(settings)}", flush=True)

    working = asyncio.create_task(run_worker(settings, ready))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working
    log.info("worker stopped")
