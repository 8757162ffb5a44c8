"""Surveys' SQL. A survey and its flags are stored in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.flags.store import FlagWrite
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, generations
from hedgerow.storage.database import Database
from hedgerow.storage.flags import TOPIC as FLAGS
from hedgerow.storage.flags import FlagRecords, find_flags, store_and_tell
from hedgerow.storage.flags import topic_of as topic_of_flags
from hedgerow.storage.tables import surveys as table
from hedgerow.surveys.model import Flagged, Schedule, Survey, SurveyType
from hedgerow.surveys.store import Generation, Stored, Surroundings, SurveyWrite

TOPIC = "surveys:"
_log = structlog.get_logger("hedgerow.surveys")


def topic_of(project_id: ProjectId) -> str:
    return f"{TOPIC}{project_id}"


class SurveyRecords:
    def __init__(self, database: Database, flags: FlagRecords) -> None:
        self._database = database
        self._flags = flags

    async def generations(self) -> Mapping[ProjectId, Generation]:
        found = await generations.project_numbers(self._database, TOPIC)
        if not found:
            return {}
        flags = await generations.project_numbers(self._database, FLAGS)
        return {id: (number, flags.get(id, 0)) for id, number in found.items()}

    async def generation(self, project_id: ProjectId) -> Generation:
        number = await generations.number_of(self._database, topic_of(project_id))
        if not number:
            return (0, 0)
        return (number, await generations.number_of(self._database, topic_of_flags(project_id)))

    async def surveys(self, project_id: ProjectId) -> Stored:
        def read(connection: Connection) -> Stored:
            found = _all(connection, project_id)
            return Stored(
                generation=(
                    generations.current(connection, topic_of(project_id)),
                    generations.current(connection, topic_of_flags(project_id)),
                ),
                surveys=_flagged(
                    connection,
                    project_id,
                    sorted(found, key=lambda each: (each.created_at, each.id), reverse=True),
                ),
            )

        return await self._database.read(read)

    async def write_survey(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], SurveyWrite],
        now: datetime,
    ) -> Flagged:
        def change(connection: Connection) -> Flagged:
            definitions = self._flags.locked_definitions(connection, project_id)
            stored = {survey.id: survey for survey in _all(connection, project_id)}
            wish = decide(Surroundings(definitions=definitions, surveys=stored))
            survey = _with_flags(connection, wish, now)
            _put(connection, survey, is_new=survey.id not in stored, is_deleted=wish.is_deleted)
            for flag in wish.gone:  # only now that no survey has them any more
                store_and_tell(connection, flag, now)
            if wish.internal or wish.targeting or wish.gone:
                generations.advance(connection, topic_of_flags(project_id))
            if wish.entry is not None:
                activity.record(connection, wish.entry, now)
                generations.advance(connection, topic_of(project_id))
            [found] = _flagged(connection, project_id, [survey])
            return found

        return await self._database.write(change)


def _with_flags(connection: Connection, wish: SurveyWrite, now: datetime) -> Survey:
    survey = wish.survey
    if wish.internal is not None:
        id = _stored_flag(connection, wish.internal, now)
        survey = replace(survey, internal_targeting_flag_id=id)
    if wish.targeting is not None:
        id = _stored_flag(connection, wish.targeting, now)
        survey = replace(survey, targeting_flag_id=id)
    return survey


def _stored_flag(connection: Connection, wish: FlagWrite, now: datetime) -> Any:
    flag, _ = store_and_tell(connection, wish, now)
    return flag.id


def _put(connection: Connection, survey: Survey, *, is_new: bool, is_deleted: bool) -> None:
    values = asdict(survey) | {
        "type": survey.type.value,
        "schedule": survey.schedule.value if survey.schedule else None,
        "questions": survey.questions,
    }
    own = table.c.id == survey.id
    if is_deleted:
        connection.execute(delete(table).where(own))
    elif is_new:
        connection.execute(insert(table), values)
    else:
        connection.execute(update(table).where(own).values(**values))


def _all(connection: Connection, project_id: ProjectId) -> list[Survey]:
    rows = connection.execute(select(table).where(table.c.project_id == project_id))
    return [survey for row in rows if (survey := _survey(row)) is not None]


def _survey(row: Row[Any]) -> Survey | None:
    """None for one of a kind that another version has made: shown as another kind it would be
    wrong, and it may not take the others with it."""
    try:
        schedule = None if row.schedule is None else Schedule(row.schedule)
        return Survey(**{**row._mapping, "type": SurveyType(row.type), "schedule": schedule})
    except ValueError as error:
        _log.warning("a survey is left out", survey=row.id, reason=str(error))
        return None


def _flagged(
    connection: Connection, project_id: ProjectId, surveys: Iterable[Survey]
) -> Sequence[Flagged]:
    surveys = list(surveys)
    ids = {
        id
        for each in surveys
        for id in (each.internal_targeting_flag_id, each.targeting_flag_id, each.linked_flag_id)
        if id is not None
    }
    flags = find_flags(connection, project_id, ids)
    return [
        Flagged(
            survey=each,
            internal=flags[each.internal_targeting_flag_id],  # rows of flags are never removed
            targeting=flags.get(each.targeting_flag_id) if each.targeting_flag_id else None,
            linked=flags.get(each.linked_flag_id) if each.linked_flag_id else None,
        )
        for each in surveys
    ]
