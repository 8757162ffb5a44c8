"""The running service: every room, the HTTP application in front of them and the chores behind."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from starlette.types import Scope

from hedgerow.app.backup import WishedBackups
from hedgerow.app.capture import LOOK_EVERY_S, Intake, join_deletion, join_intake
from hedgerow.app.chores import working_chores
from hedgerow.app.delivery import join_delivery
from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.experiments import join_experiments
from hedgerow.app.jobs import join_jobs
from hedgerow.app.metrics import join_metrics
from hedgerow.app.mirror import join_mirror
from hedgerow.app.pipelines import (
    WRONG_SEALING_KEY,
    Pipelines,
    join_pipelines,
    register_components,
)
from hedgerow.app.reading import join_reading
from hedgerow.app.state import State, join_state, place_of, wished_keys
from hedgerow.app.surveys import join_surveys
from hedgerow.app.waiting import once_available
from hedgerow.flags.board import FlagCache
from hedgerow.flags.decide import Decider
from hedgerow.flags.early_access import EarlyAccess
from hedgerow.flags.flags import Flags
from hedgerow.flags.local_board import LocalBoard
from hedgerow.flags.reach import Reaches
from hedgerow.flags.streams import FlagStreams
from hedgerow.http.access import Rooms
from hedgerow.http.body import BodyReader
from hedgerow.http.capture import CaptureDoor
from hedgerow.http.decide import Decide, Places
from hedgerow.http.door import FrontDoor
from hedgerow.http.early_access import EarlyAccessDoor
from hedgerow.http.health import Readiness
from hedgerow.http.local_evaluation import LocalEvaluationDoor
from hedgerow.http.log import AccessLog
from hedgerow.http.ofrep import OfrepDoor
from hedgerow.http.origin import Origins
from hedgerow.http.page_cache import PageCache
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.routes import Doors, api, lean_routes
from hedgerow.http.sdk_config import SdkConfigs
from hedgerow.http.sdk_extras import ExtrasDoor
from hedgerow.http.surveys import SurveysDoor
from hedgerow.ingestion.subjects import FreshSubjects
from hedgerow.lib.clock import utc_now
from hedgerow.lib.logs import wants_people
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.persons.cohorts import Cohorts
from hedgerow.pipelines.jobs import Jobs
from hedgerow.pipelines.standings import Standings
from hedgerow.pipelines.transform_trial import TransformTrials
from hedgerow.pipelines.trial import Trials
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.projects.directory import POLL_S
from hedgerow.projects.throttle import API_RATES, SDK_RATES, Throttle
from hedgerow.settings import Settings
from hedgerow.storage import sealing_check
from hedgerow.storage.activity import ActivityRecords
from hedgerow.storage.backup_desk import BackupDesk
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.connect import open_database
from hedgerow.storage.database import Database
from hedgerow.storage.delivery_reading import DeliveryTrail
from hedgerow.storage.early_access import FeatureRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.geoip import GeoIp
from hedgerow.storage.import_states import ImportRecords
from hedgerow.storage.jobs import JobRecords
from hedgerow.storage.migrate import prepare
from hedgerow.storage.persons import PersonRecords
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.storage.sealing_file import sealing_keys
from hedgerow.storage.subjects import SubjectRecords
from hedgerow.storage.transformation_counts import TransformationTrail
from hedgerow.surveys.board import SurveyBoard
from hedgerow.worker import Chore, Failing, work

# A decision is asked for with a few properties; nobody has a megabyte of them.
DECIDE_BYTES = 1024 * 1024
CAPTURE_BYTES = 20 * 1024 * 1024
CAPTURE_UNPACKED_BYTES = 100 * 1024 * 1024

_log = structlog.get_logger("hedgerow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """What the service tells whoever started it."""

    ready: Callable[[FirstKeys | None], None]
    failed: Callable[[Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What has to be ready before anybody is served, and what goes on afterwards."""

    state: State
    pipelines: Pipelines
    intake: Intake
    chores: Sequence[Chore]
    failing: Failing


@asynccontextmanager
async def service(settings: Settings, events: Events, *, worker: bool) -> AsyncIterator[FrontDoor]:
    """The running service. It answers at once; until its database is ready it answers 503."""
    place = place_of(settings)
    events_store = OpenedWhenNeeded(event_place(settings), locks_at_once=place.is_sqlite)
    database = open_database(place)
    state = join_state(database)
    pipelines = join_pipelines(database, sealing_keys(settings.sealing_keys, settings.data))
    flag_records = FlagRecords(database)
    board = FlagCache(flag_records, in_daemon_thread)
    geoip = GeoIp(settings.geoip_file)
    delivery = join_delivery(settings, database, pipelines)
    intake = join_intake(
        settings, database, events_store, geoip, pipelines.transformations, delivery.routing
    )
    subjects = FreshSubjects(
        SubjectRecords(database), intake.progress, at_most_s=settings.read_wait_s
    )
    deletion = join_deletion(database, events_store, intake.arrivals)
    mirror = join_mirror(database, events_store)
    running_jobs = join_jobs(settings, database, pipelines, delivery, intake)
    reading = join_reading(
        database,
        events_store,
        intake.arrivals.stored,
        partial(mirror.arrived, at_most_s=settings.read_wait_s),
    )
    decider = Decider(board, subjects)
    served_records = PipelineRecords(database)
    surveys = join_surveys(database, flag_records, board, reading.reading)
    experiments = join_experiments(database, flag_records, board, reading)
    sdk_configs = SdkConfigs(served_records, pipelines.catalogue, surveys.board.any_runs)
    standings = Standings(delivery.records, utc_now)
    local_board = LocalBoard(board, in_daemon_thread)
    stopping = asyncio.Event()
    rooms = Rooms(
        directory=state.directory,
        keys=state.keys,
        projects=state.projects,
        activity=ActivityRecords(database),
        catalogue=pipelines.catalogue,
        records=pipelines.records,
        served_records=served_records,
        jobs=Jobs(JobRecords(database), ActivityRecords(database)),
        schedules=ImportRecords(database),
        standings=standings,
        deliveries=DeliveryTrail(database),
        trials=Trials(pipelines.records, delivery.ways_out),
        transformed=TransformationTrail(database),
        transform_trials=TransformTrials(pipelines.records, pipelines.tried),
        flags=Flags(flag_records, board, pipelines.sealer),
        local_board=local_board,
        early_access=EarlyAccess(FeatureRecords(database, flag_records), board),
        surveys=surveys.surveys,
        survey_board=surveys.board,
        survey_responses=surveys.responses,
        experiments=experiments.experiments,
        experiment_results=experiments.results,
        cohorts=Cohorts(CohortRecords(database)),
        persons=PersonRecords(database),
        arrivals=intake.arrivals,
        deletion=deletion,
        listing=reading.listing,
        selecting=reading.selecting,
        values=reading.values,
        queries=reading.queries,
        warnings=intake.warnings,
        decider=decider,
        reaches=Reaches(board, PersonRecords(database)),
        sdk_fields=sdk_configs,
        pages=PageCache(),
        throttle=Throttle(API_RATES if settings.rate_limits else ()),
        sdk_throttle=Throttle(SDK_RATES if settings.rate_limits else ()),
        bodies=BodyReader(settings.max_body_bytes, settings.body_timeout_s),
        origins=Origins(settings.trusted_proxies, settings.public_url),
        flag_streams=FlagStreams(board, local_board, stopping),
        sdk_scripts=Path(settings.sdk_scripts) if settings.sdk_scripts else None,
        clock=utc_now,
    )
    readiness = Readiness(lambda: _ping(database))
    failing = Failing()
    metrics = join_metrics(database, intake, delivery, failing)
    log = AccessLog(
        sys.stderr,
        for_people=wants_people(settings.log_format, sys.stderr),
        enabled=settings.log_level in ("debug", "info"),
    )
    payloads = PayloadReader(
        max_bytes=DECIDE_BYTES, max_unpacked_bytes=DECIDE_BYTES, timeout_s=settings.body_timeout_s
    )
    places = _places(geoip, rooms.origins)
    decide = Decide(
        state.directory,
        decider,
        sdk_configs,
        payloads,
        places,
        utc_now,
    )
    capture = CaptureDoor(
        state.directory,
        intake.capture,
        PayloadReader(
            max_bytes=CAPTURE_BYTES,
            max_unpacked_bytes=CAPTURE_UNPACKED_BYTES,
            timeout_s=settings.body_timeout_s,
            is_forgiving=True,
        ),
        rooms.origins,
        utc_now,
    )
    door = FrontDoor(
        lean_routes(
            readiness,
            metrics,
            Doors(
                decide=decide,
                capture=capture,
                local_evaluation=LocalEvaluationDoor(
                    state.directory, rooms.local_board, rooms.sdk_throttle
                ),
                ofrep=OfrepDoor(state.directory, decider, payloads, places, utc_now),
                early_access=EarlyAccessDoor(state.directory, rooms.early_access),
                surveys=SurveysDoor(state.directory, surveys.board),
                extras=ExtrasDoor(max_bytes=CAPTURE_BYTES, timeout_s=settings.body_timeout_s),
            ),
        ),
        api(rooms),
        readiness=readiness,
        metrics=metrics,
        log=log,
        stopping=stopping,
    )
    parts = Parts(
        state=state,
        pipelines=pipelines,
        intake=intake,
        failing=failing,
        chores=[
            *_backup_chores(settings, events_store),
            *_watching_chores(state, board, surveys.board, sdk_configs, intake),
            Chore(
                name="see how destinations fare",
                every_s=LOOK_EVERY_S,
                run=standings.watch,
                backs_off=False,
            ),
            delivery.tidying(),
            *([surveys.chore(state)] if worker else []),
            *(
                working_chores(state, intake, deletion, mirror, delivery, running_jobs)
                if worker
                else intake.chores(worker=False)
            ),
        ],
    )
    background = asyncio.create_task(_live(settings, parts, readiness, events))
    try:
        yield door
    finally:
        readiness.waiting_for = "shutting down"
        background.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await background
        await reading.queries.end()
        await intake.processor.end()
        await delivery.close()
        pipelines.close()
        await events_store.close()
        await database.close()
        log.flush()


async def _live(settings: Settings, parts: Parts, readiness: Readiness, events: Events) -> None:
    """Get ready, say so, then keep up with the chores until cancelled."""
    keys = wished_keys(settings)
    try:
        is_new = await _prepared(settings, readiness, keys)
        await register_components(parts.pipelines)
        await parts.intake.processor.begin()
        for chore in parts.chores:
            if not chore.backs_off:  # what these watch must be known before anybody is served
                await chore.run()
        if not await sealing_check.keys_fit(parts.state.database, parts.pipelines.sealer):
            _log.error(WRONG_SEALING_KEY)
    except Exception as error:  # noqa: BLE001 - handed on to whoever started us
        events.failed(error)
        return
    readiness.waiting_for = None
    events.ready(keys if is_new else None)
    await work(parts.chores, parts.failing)


def _places(geoip: GeoIp, origins: Origins) -> Places | None:
    def place_of_request(scope: Scope) -> Mapping[str, str]:
        address = origins.said_address(scope)
        return geoip.properties(address) if address else {}

    return place_of_request if geoip.is_there else None


def _watching_chores(
    state: State, board: FlagCache, surveys: SurveyBoard, sdk_configs: SdkConfigs, intake: Intake
) -> list[Chore]:
    return [
        Chore(name="see changes", every_s=POLL_S, run=state.directory.watch, backs_off=False),
        Chore(name="see changed flags", every_s=POLL_S, run=board.watch, backs_off=False),
        Chore(name="see changed surveys", every_s=POLL_S, run=surveys.watch, backs_off=False),
        Chore(name="see changed apps", every_s=POLL_S, run=sdk_configs.watch, backs_off=False),
        Chore(name="look at the disk", every_s=LOOK_EVERY_S, run=intake.room.look, backs_off=False),
        Chore(name="see how long events wait", every_s=LOOK_EVERY_S, run=intake.lag.look),
    ]


def _backup_chores(settings: Settings, events: OpenedWhenNeeded) -> list[Chore]:
    """Where only this process can open the events."""
    if settings.database_url or settings.clickhouse_url:
        return []
    wished = WishedBackups(BackupDesk(event_place(settings).folder), events)
    return [Chore(name="copy events for a backup", every_s=LOOK_EVERY_S, run=wished.serve)]


async def _prepared(settings: Settings, readiness: Readiness, keys: FirstKeys) -> bool:
    """Migrate and fill, trying again for as long as the database is away or another migrates it."""
    place = place_of(settings)

    def tell(waiting_for: str) -> None:
        readiness.waiting_for = waiting_for

    return await once_available(
        lambda: prepare(place, keys, utc_now()), "applying migrations", tell
    )


async def _ping(database: Database) -> None:
    await database.version()
