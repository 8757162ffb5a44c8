"""Surveys, joined with their storage, their flags and the events that tell how they fare."""

from collections.abc import Iterable
from dataclasses import dataclass

from hedgerow.app.state import State
from hedgerow.events.reading import Reading
from hedgerow.flags.board import FlagCache
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.storage.database import Database
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.surveys import SurveyRecords
from hedgerow.surveys.board import SurveyBoard
from hedgerow.surveys.keeping import Keeping
from hedgerow.surveys.responses import Responses
from hedgerow.surveys.surveys import Surveys
from hedgerow.worker import Chore

KEEP_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSurveys:
    board: SurveyBoard
    surveys: Surveys
    responses: Responses

    def chore(self, state: State) -> Chore:
        async def projects() -> Iterable[Project]:
            await state.directory.refresh()
            return state.directory.all_projects()

        keeping = Keeping(self.surveys, self.board, self.responses, projects, utc_now)
        return Chore(name="keep surveys up to date", every_s=KEEP_EVERY_S, run=keeping.keep)


def join_surveys(
    database: Database, flag_records: FlagRecords, flags: FlagCache, reading: Reading
) -> JoinedSurveys:
    records = SurveyRecords(database, flag_records)
    board = SurveyBoard(records, in_daemon_thread)
    return JoinedSurveys(
        board=board, surveys=Surveys(records, board, flags), responses=Responses(reading)
    )
