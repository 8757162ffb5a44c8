"""Counts of flag calls, by flag and response."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, text, update

from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import flag_calls, flags
from hedgerow.storage.tables.column_types import Moment

# A flag has few responses. The limit keeps clients from filling the table with invented ones.
MAX_RESPONSES = 100
# One statement, so that two workers with the first call of a flag do not both insert.
_add_calls = text(
    "INSERT INTO flag_calls (project_id, flag_key, response, calls, last_called_at)"
    " SELECT :project_id, :flag_key, :response, :calls, :now"
    " WHERE EXISTS (SELECT 1 FROM flags WHERE project_id = :project_id AND key = :flag_key)"
    " AND (SELECT count(*) FROM flag_calls WHERE project_id = :project_id"
    " AND flag_key = :flag_key AND response <> :response) < :max_responses"
    " ON CONFLICT (project_id, flag_key, response) DO UPDATE"
    " SET calls = flag_calls.calls + excluded.calls, last_called_at = excluded.last_called_at"
).bindparams(bindparam("now", type_=Moment()))


def add_calls(
    connection: Connection,
    project_id: ProjectId,
    calls: Mapping[tuple[str, str], int],
    now: datetime,
) -> None:
    if not calls:
        return
    rows = [
        {
            "project_id": project_id,
            "flag_key": flag_key,
            "response": response,
            "calls": number,
            "now": now,
            "max_responses": MAX_RESPONSES,
        }
        # Sorted, so that two workers lock rows in the same order and cannot deadlock.
        for (flag_key, response), number in sorted(calls.items())
    ]
    connection.execute(_add_calls, rows)
    called = (flags.c.project_id == project_id) & flags.c.key.in_({key for key, _ in calls})
    locked = select(flags.c.id).where(called).order_by(flags.c.id)
    connection.execute(locked.with_for_update(key_share=True)).all()
    connection.execute(update(flags).where(called).values(last_called_at=now))


def count_by_response(
    connection: Connection, project_id: ProjectId, flag_key: str
) -> dict[str, int]:
    rows = connection.execute(
        select(flag_calls.c.response, flag_calls.c.calls)
        .where((flag_calls.c.project_id == project_id) & (flag_calls.c.flag_key == flag_key))
        .order_by(flag_calls.c.response)
    )
    return dict(rows.all())
