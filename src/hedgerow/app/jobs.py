"""The job system: the runner, the kinds of jobs, and the schedule of imports."""

from dataclasses import dataclass

import structlog

from hedgerow.app.delivery import DeliverySystem
from hedgerow.app.event_store import LazyEventReader
from hedgerow.app.ingestion import Ingestion
from hedgerow.app.pipelines import Pipelines
from hedgerow.ingestion.import_events import EventImporter
from hedgerow.lib.clock import utc_now
from hedgerow.outbound.import_files import ImportFolder
from hedgerow.pipelines.destinations.delivery_preview import DeliveryPreviews
from hedgerow.pipelines.imports.run import ImportJob
from hedgerow.pipelines.imports.scheduler import ImportScheduler
from hedgerow.pipelines.imports.workers import ImportWorkers
from hedgerow.pipelines.jobs.connection_check import ConnectionCheck
from hedgerow.pipelines.jobs.dead_letter_retry import DeadLetterRetry
from hedgerow.pipelines.jobs.replay import ReplayJob
from hedgerow.pipelines.jobs.runner import JobRunner
from hedgerow.pipelines.model import JobId
from hedgerow.settings import Settings
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines.dead_letters import SqlDeadLetterQueue
from hedgerow.storage.pipelines.import_states import SqlImportStore
from hedgerow.storage.pipelines.replay import ClickHouseReplayEvents, SqlReplayQueue
from hedgerow.storage.pipelines.running_jobs import SqlRunningJobStore

_log = structlog.get_logger("hedgerow.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSystem:
    runner: JobRunner
    scheduler: ImportScheduler
    workers: ImportWorkers

    def close(self) -> None:
        self.workers.close()


def build_jobs(
    settings: Settings,
    database: Database,
    pipelines: Pipelines,
    delivery: DeliverySystem,
    ingestion: Ingestion,
) -> JobSystem:
    stored = ClickHouseReplayEvents(LazyEventReader(ingestion.event_store), ingestion.inbox)
    replay = ReplayJob(stored, SqlReplayQueue(database), delivery.deliverer.wake, utc_now)
    imports = SqlImportStore(database)
    workers = ImportWorkers(delivery.guard.resolve)
    importing = ImportJob(
        state=imports,
        sink=EventImporter(ingestion.capture, ingestion.progress, utc_now),
        http=delivery.http,
        files=ImportFolder(
            settings.imports_path,
            data_dir=settings.data_dir,
            min_free_bytes=settings.import_min_free_bytes,
        ),
        workers=workers,
        clock=utc_now,
    )
    trials = DeliveryPreviews(pipelines.records, delivery.clients)
    works = {
        "replay": replay.run,
        "retry_dead_letters": DeadLetterRetry(
            SqlDeadLetterQueue(database), delivery.deliverer.wake, utc_now
        ).run,
        "import": importing.run,
        "test_connection": ConnectionCheck(trials, importing, utc_now).run,
    }

    def note(id: JobId, error: BaseException) -> None:
        _log.error("job failed", job=id, exc_info=error)

    return JobSystem(
        runner=JobRunner(SqlRunningJobStore(database), pipelines.records, works, utc_now, note),
        scheduler=ImportScheduler(imports, pipelines.catalogue, utc_now),
        workers=workers,
    )
