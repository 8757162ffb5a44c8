"""Surveys. A survey and its flags are stored in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.flags.store import FlagWrite
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.flags import TOPIC as FLAGS
from hedgerow.storage.flags.flags import SqlFlagStore, find_flags, store_flag
from hedgerow.storage.flags.flags import flag_topic as topic_of_flags
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import surveys as table
from hedgerow.surveys.model import Survey, SurveySchedule, SurveyType, SurveyWithFlags
from hedgerow.surveys.store import (
    Generation,
    StoredSurveys,
    SurveyStore,
    SurveyWrite,
    SurveyWriteContext,
)

TOPIC = "surveys:"
_log = structlog.get_logger("hedgerow.surveys")


def survey_topic(project_id: ProjectId) -> str:
    return f"{TOPIC}{project_id}"


class SqlSurveyStore(SurveyStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def generations(self) -> Mapping[ProjectId, Generation]:
        found = await generations.fetch_project_generations(self._database, TOPIC)
        if not found:
            return {}
        flags = await generations.fetch_project_generations(self._database, FLAGS)
        return {id: (number, flags.get(id, 0)) for id, number in found.items()}

    async def generation(self, project_id: ProjectId) -> Generation:
        number = await generations.fetch_generation(self._database, survey_topic(project_id))
        if not number:
            return (0, 0)
        return (
            number,
            await generations.fetch_generation(self._database, topic_of_flags(project_id)),
        )

    async def surveys(self, project_id: ProjectId) -> StoredSurveys:
        def read(connection: Connection) -> StoredSurveys:
            found = _read_all(connection, project_id)
            return StoredSurveys(
                generation=(
                    generations.read_generation(connection, survey_topic(project_id)),
                    generations.read_generation(connection, topic_of_flags(project_id)),
                ),
                surveys=_attach_flags(
                    connection,
                    project_id,
                    sorted(found, key=lambda each: (each.created_at, each.id), reverse=True),
                ),
            )

        return await self._database.read(read)

    async def write_survey(
        self,
        project_id: ProjectId,
        decide: Callable[[SurveyWriteContext], SurveyWrite],
        now: datetime,
    ) -> SurveyWithFlags:
        def change(connection: Connection, gate: WriteGate) -> SurveyWithFlags:
            definitions = self._flags.lock_definitions(connection, project_id)
            stored = {survey.id: survey for survey in _read_all(connection, project_id)}
            write = decide(SurveyWriteContext(definitions=definitions, surveys=stored))
            survey = _store_flags(connection, write, now, gate)
            _write_row(
                connection, survey, is_new=survey.id not in stored, is_deleted=write.is_deleted
            )
            for flag in write.deleted_flags:  # only now: no survey owns them any more
                store_flag(connection, flag, now, gate)
            if write.internal or write.targeting or write.deleted_flags:
                generations.advance(connection, topic_of_flags(project_id))
            if write.entry is not None:
                activity.record(connection, write.entry, now)
                generations.advance(connection, survey_topic(project_id))
            [found] = _attach_flags(connection, project_id, [survey])
            return found

        return await self._flags.write_gated(change)


def _store_flags(
    connection: Connection, write: SurveyWrite, now: datetime, gate: WriteGate
) -> Survey:
    survey = write.survey
    if write.internal is not None:
        id = _store_flag(connection, write.internal, now, gate)
        survey = replace(survey, internal_targeting_flag_id=id)
    if write.targeting is not None:
        id = _store_flag(connection, write.targeting, now, gate)
        survey = replace(survey, targeting_flag_id=id)
    return survey


def _store_flag(connection: Connection, write: FlagWrite, now: datetime, gate: WriteGate) -> Any:
    flag, _ = store_flag(connection, write, now, gate)
    return flag.id


def _write_row(connection: Connection, survey: Survey, *, is_new: bool, is_deleted: bool) -> None:
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


def _read_all(connection: Connection, project_id: ProjectId) -> list[Survey]:
    rows = connection.execute(select(table).where(table.c.project_id == project_id))
    return [survey for row in rows if (survey := _decode_survey(row)) is not None]


def _decode_survey(row: Row[Any]) -> Survey | None:
    """Return None for an unknown type, written by a newer version. It must not break the others."""
    try:
        schedule = None if row.schedule is None else SurveySchedule(row.schedule)
        return Survey(**{**row._mapping, "type": SurveyType(row.type), "schedule": schedule})
    except ValueError as error:
        _log.warning("survey skipped", survey=row.id, reason=str(error))
        return None


def _attach_flags(
    connection: Connection, project_id: ProjectId, surveys: Iterable[Survey]
) -> Sequence[SurveyWithFlags]:
    surveys = list(surveys)
    ids = {
        id
        for each in surveys
        for id in (each.internal_targeting_flag_id, each.targeting_flag_id, each.linked_flag_id)
        if id is not None
    }
    flags = find_flags(connection, project_id, ids)
    return [
        SurveyWithFlags(
            survey=each,
            internal=flags[each.internal_targeting_flag_id],  # flag rows are never deleted
            targeting=flags.get(each.targeting_flag_id) if each.targeting_flag_id else None,
            linked=flags.get(each.linked_flag_id) if each.linked_flag_id else None,
        )
        for each in surveys
    ]
