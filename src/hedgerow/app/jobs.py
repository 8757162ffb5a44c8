"""Jobs that run, joined: the loop, and the kinds of jobs that it knows."""

from dataclasses import dataclass

import structlog

from hedgerow.app.capture import Intake
from hedgerow.app.delivery import Delivery
from hedgerow.app.pipelines import Pipelines
from hedgerow.kit.clock import utc_now
from hedgerow.pipelines.connection_test import ConnectionTest
from hedgerow.pipelines.job_runner import KEEP_EVERY_S, JobRunner
from hedgerow.pipelines.model import JobId
from hedgerow.pipelines.replay import Replay
from hedgerow.pipelines.trial import Trials
from hedgerow.storage.database import Database
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.replay import ReplayQueues, StoredEvents
from hedgerow.storage.running_jobs import RunningJobRecords
from hedgerow.worker import Chore

RUN_EVERY_S = 0.5
MAX_PAUSE_S = 5.0

_log = structlog.get_logger("hedgerow.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsJobs:
    runner: JobRunner

    def chores(self) -> list[Chore]:
        return [
            Chore(
                name="run jobs",
                every_s=RUN_EVERY_S,
                run=self.runner.run,
                max_pause_s=MAX_PAUSE_S,
            ),
            Chore(name="keep jobs", every_s=KEEP_EVERY_S, run=self.runner.keep),
        ]


def join_jobs(
    database: Database, pipelines: Pipelines, delivery: Delivery, intake: Intake
) -> RunsJobs:
    stored = StoredEvents(EventQueries(intake.events.reached), intake.inbox)
    replay = Replay(stored, ReplayQueues(database), delivery.deliverer.wake, utc_now)
    trials = Trials(pipelines.records, delivery.outbound)
    works = {
        "replay": replay.run,
        "test_connection": ConnectionTest(trials, utc_now).run,
    }

    def note(id: JobId, error: BaseException) -> None:
        _log.error("a job failed", job=id, exc_info=error)

    runner = JobRunner(RunningJobRecords(database), pipelines.records, works, utc_now, note)
    return RunsJobs(runner=runner)
