"""The worker: runs the background tasks in a process that serves no API requests."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hedgerow.app.background_tasks import build_shared_tasks, build_worker_tasks
from hedgerow.app.container import build_container
from hedgerow.app.periodic_tasks import run_tasks
from hedgerow.app.pipelines import register_components
from hedgerow.app.startup import ping, wait_for_database
from hedgerow.app.state import state_location
from hedgerow.errors import OperatorError, Unavailable
from hedgerow.http.loop_holds import count_loop_holds
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.lib.threads import run_in_thread
from hedgerow.settings import Settings
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.schema_check import check_columns
from hedgerow.storage.migrations.state import inspect_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAddress:
    host: str
    port: int


async def run_worker(
    settings: Settings, metrics_address: MetricsAddress | None, ready: Callable[[str], None]
) -> None:
    """Run the background tasks until cancelled. `ready` receives the URL of the metrics, or ""."""
    container = build_container(settings, _sealer(settings))
    try:
        readiness = Readiness(lambda: ping(container.database))
        with _expose(container.metrics, readiness, metrics_address) as address:
            location = state_location(settings)

            def report(waiting_for: str) -> None:
                readiness.waiting_for = waiting_for

            await wait_for_database(
                lambda: run_in_thread(lambda: _check_schema(location)), "migrations", report
            )
            ready(address)
            await wait_for_database(
                lambda: register_components(container.pipelines), "components", report
            )
            readiness.waiting_for = None
            tasks = [*build_shared_tasks(container), *build_worker_tasks(container)]
            async with (
                container.telemetry.run(container.metrics.collect),
                count_loop_holds(container.metrics),
            ):
                await run_tasks(tasks, container.task_health)
    finally:
        await container.close()


def _sealer(settings: Settings) -> EncryptionKeys:
    """Without the keys of the service, destinations with encrypted settings have to wait."""
    try:
        return load_encryption_keys(settings.encryption_keys, settings.data_dir, create=False)
    except OperatorError:
        return EncryptionKeys([generate_encryption_key()])


def _expose(
    metrics: Metrics, readiness: Readiness, at: MetricsAddress | None
) -> AbstractContextManager[str]:
    return nullcontext("") if at is None else metrics.serve(at.host, at.port, readiness.answer)


def _check_schema(location: DatabaseLocation) -> None:
    """The worker leaves migrations to `serve`, which prints the first keys."""
    if not inspect_schema(location).is_current:
        raise Unavailable(
            "The database schema is not up to date. Start `hedgerow serve` or run "
            "`hedgerow migrate`."
        )
    with create_sync_engine(location).connect() as connection:
        check_columns(connection)
