"""The worker: the chores behind the requests, in a process that answers none. For installations of
several processes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from hedgerow.app.capture import LOOK_EVERY_S, join_deletion, join_intake
from hedgerow.app.chores import working_chores
from hedgerow.app.delivery import join_delivery
from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.jobs import join_jobs
from hedgerow.app.metrics import join_metrics
from hedgerow.app.mirror import join_mirror
from hedgerow.app.pipelines import join_pipelines, register_components
from hedgerow.app.reading import join_reading
from hedgerow.app.state import join_state, place_of
from hedgerow.app.surveys import join_surveys
from hedgerow.app.waiting import once_available
from hedgerow.errors import Unavailable, Unready
from hedgerow.flags.board import FlagCache
from hedgerow.http.metrics import Metrics
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.settings import Settings
from hedgerow.storage.connect import Place, open_database
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.geoip import GeoIp
from hedgerow.storage.schema import schema_state
from hedgerow.storage.sealing_file import sealing_keys
from hedgerow.worker import Chore, Failing, work


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAddress:
    host: str
    port: int


async def run_worker(
    settings: Settings, shown_at: MetricsAddress | None, ready: Callable[[str], None]
) -> None:
    """Keep up with the chores until cancelled. `ready` hears where metrics are, if anywhere."""
    place = place_of(settings)
    geoip = GeoIp(settings.geoip_file)
    database = open_database(place)
    events = OpenedWhenNeeded(event_place(settings))
    pipelines = join_pipelines(database, _sealer(settings))
    delivery = join_delivery(settings, database, pipelines)
    intake = join_intake(
        settings, database, events, geoip, pipelines.transformations, delivery.routing
    )
    deletion = join_deletion(database, events, intake.arrivals)
    mirror = join_mirror(database, events)
    jobs = join_jobs(settings, database, pipelines, delivery, intake)
    reading = join_reading(
        database,
        events,
        intake.arrivals.stored,
        partial(mirror.arrived, at_most_s=settings.read_wait_s),
    )
    flag_records = FlagRecords(database)
    board = FlagCache(flag_records, in_daemon_thread)
    surveys = join_surveys(database, flag_records, board, reading.reading)
    failing = Failing()
    waits = Chore(name="see how long events wait", every_s=LOOK_EVERY_S, run=intake.lag.look)
    try:
        with _shown(join_metrics(database, intake, delivery, failing), shown_at) as address:
            await once_available(lambda: _check_current(place), "migrations", lambda _: None)
            ready(address)
            state = join_state(database)
            await register_components(pipelines)
            await work(
                [
                    waits,
                    delivery.tidying(),
                    surveys.chore(state),
                    *working_chores(state, intake, deletion, mirror, delivery, jobs),
                ],
                failing,
            )
    finally:
        await delivery.close()
        pipelines.close()
        await intake.processor.end()
        await events.close()
        await database.close()


def _sealer(settings: Settings) -> SealingKeys:
    """Without the keys of those who serve, destinations whose settings are sealed have to wait."""
    try:
        return sealing_keys(settings.sealing_keys, settings.data, make=False)
    except Unready:
        return SealingKeys([new_sealing_key()])


def _shown(metrics: Metrics, at: MetricsAddress | None) -> AbstractContextManager[str]:
    return nullcontext("") if at is None else metrics.served(at.host, at.port)


def _check_current(place: Place) -> None:
    """Migrating is left to those who serve: the first of them has keys to show."""
    if not schema_state(place).is_current:
        raise Unavailable(
            "The database lacks migration steps: `hedgerow serve` or `hedgerow migrate` runs them."
        )
