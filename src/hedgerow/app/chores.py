"""What has to be done behind the requests, by whichever processes work: the service itself, or
workers beside it.
"""

from hedgerow.app.capture import Intake
from hedgerow.app.state import State
from hedgerow.kit.clock import utc_now
from hedgerow.worker import Chore

FORGET_TOKENS_EVERY_S = 3600.0


def working_chores(state: State, intake: Intake) -> list[Chore]:
    return [
        *intake.chores(worker=True),
        Chore(
            name="forget expired project keys",
            every_s=FORGET_TOKENS_EVERY_S,
            run=lambda: state.project_records.forget_expired_tokens(utc_now()),
        ),
    ]
