"""What has to be done behind the requests, by whichever processes work: the service itself, or
workers beside it.
"""

from collections.abc import Iterable

from hedgerow.app.capture import Intake
from hedgerow.app.delivery import Delivery
from hedgerow.app.jobs import RunsJobs
from hedgerow.app.mirror import mirror_chore
from hedgerow.app.state import State
from hedgerow.events.delete import Deletion
from hedgerow.events.retention import Retention
from hedgerow.lib.clock import utc_now
from hedgerow.persons.mirror import Mirror
from hedgerow.projects.model import Project
from hedgerow.worker import Chore

FORGET_TOKENS_EVERY_S = 3600.0
# More often than once a day, so that a failure is made good for within the day.
ENFORCE_RETENTION_EVERY_S = 3600.0


def working_chores(
    state: State,
    intake: Intake,
    deletion: Deletion,
    mirror: Mirror,
    delivery: Delivery,
    jobs: RunsJobs,
) -> list[Chore]:
    async def projects() -> Iterable[Project]:
        await state.directory.refresh()
        return state.directory.all_projects()

    return [
        *intake.chores(worker=True),
        mirror_chore(mirror),
        *delivery.chores(),
        *jobs.chores(),
        Chore(
            name="forget expired project keys",
            every_s=FORGET_TOKENS_EVERY_S,
            run=lambda: state.project_records.forget_expired_tokens(utc_now()),
        ),
        Chore(
            name="delete events that are too old",
            every_s=ENFORCE_RETENTION_EVERY_S,
            run=Retention(deletion, projects, utc_now).enforce,
        ),
    ]
