"""Jobs that run, joined: the loop, the kinds of jobs that it knows, and the schedule of imports."""

from dataclasses import dataclass

import structlog

from hedgerow.app.capture import Intake
from hedgerow.app.delivery import MEGABYTE, Delivery
from hedgerow.app.pipelines import Pipelines
from hedgerow.ingestion.imported import ImportedEvents
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.connection_test import ConnectionTest
from hedgerow.pipelines.imports.run import Importing
from hedgerow.pipelines.imports.scheduler import Scheduler
from hedgerow.pipelines.job_runner import KEEP_EVERY_S, JobRunner
from hedgerow.pipelines.model import JobId
from hedgerow.pipelines.replay import Replay
from hedgerow.pipelines.trial import Trials
from hedgerow.settings import Settings
from hedgerow.storage.database import Database
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.import_files import ImportFolder
from hedgerow.storage.import_states import ImportRecords
from hedgerow.storage.queried_rows import PostgresRows
from hedgerow.storage.replay import ReplayQueues, StoredEvents
from hedgerow.storage.running_jobs import RunningJobRecords
from hedgerow.worker import Chore

RUN_EVERY_S = 0.5
SCHEDULE_EVERY_S = 1.0
MAX_PAUSE_S = 5.0

_log = structlog.get_logger("hedgerow.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsJobs:
    runner: JobRunner
    scheduler: Scheduler

    def chores(self) -> list[Chore]:
        return [
            Chore(
                name="run jobs",
                every_s=RUN_EVERY_S,
                run=self.runner.run,
                max_pause_s=MAX_PAUSE_S,
            ),
            Chore(name="keep jobs", every_s=KEEP_EVERY_S, run=self.runner.keep),
            Chore(
                name="start imports that are due",
                every_s=SCHEDULE_EVERY_S,
                run=self.scheduler.look,
            ),
        ]


def join_jobs(
    settings: Settings,
    database: Database,
    pipelines: Pipelines,
    delivery: Delivery,
    intake: Intake,
) -> RunsJobs:
    stored = StoredEvents(EventQueries(intake.events.reached), intake.inbox)
    replay = Replay(stored, ReplayQueues(database), delivery.deliverer.wake, utc_now)
    imports = ImportRecords(database)
    importing = Importing(
        memory=imports,
        takes=ImportedEvents(intake.capture, intake.progress, utc_now),
        http=delivery.http,
        files=ImportFolder(settings.imports, min_free_bytes=settings.min_free_mb * MEGABYTE),
        queried=PostgresRows(delivery.databases),
        clock=utc_now,
    )
    trials = Trials(pipelines.records, delivery.ways_out)
    works = {
        "replay": replay.run,
        "import": importing.run,
        "test_connection": ConnectionTest(trials, importing, utc_now).run,
    }

    def note(id: JobId, error: BaseException) -> None:
        _log.error("a job failed", job=id, exc_info=error)

    return RunsJobs(
        runner=JobRunner(RunningJobRecords(database), pipelines.records, works, utc_now, note),
        scheduler=Scheduler(imports, pipelines.catalogue, utc_now),
    )
