"""How often flags were called, by what they answered."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, text, update

from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import Moment, flag_calls, flags

# A flag has few answers; whoever makes up others may not fill the table.
MAX_RESPONSES = 100
# One statement, so that two workers who come first at the same moment do not both insert.
_count = text(
    "INSERT INTO flag_calls (project_id, flag_key, response, calls, last_called_at)"
    " SELECT :project_id, :flag_key, :response, :calls, :now"
    " WHERE EXISTS (SELECT 1 FROM flags WHERE project_id = :project_id AND key = :flag_key)"
    " AND (SELECT count(*) FROM flag_calls WHERE project_id = :project_id"
    " AND flag_key = :flag_key AND response <> :response) < :most"
    " ON CONFLICT (project_id, flag_key, response) DO UPDATE"
    " SET calls = flag_calls.calls + excluded.calls, last_called_at = excluded.last_called_at"
).bindparams(bindparam("now", type_=Moment()))


def count(
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
            "most": MAX_RESPONSES,
        }
        # In one order, or two workers would wait for each other.
        for (flag_key, response), number in sorted(calls.items())
    ]
    connection.execute(_count, rows)
    called = (flags.c.project_id == project_id) & flags.c.key.in_({key for key, _ in calls})
    locked = select(flags.c.id).where(called).order_by(flags.c.id)
    connection.execute(locked.with_for_update(key_share=True)).all()
    connection.execute(update(flags).where(called).values(last_called_at=now))


def by_response(connection: Connection, project_id: ProjectId, flag_key: str) -> dict[str, int]:
    rows = connection.execute(
        select(flag_calls.c.response, flag_calls.c.calls)
        .where((flag_calls.c.project_id == project_id) & (flag_calls.c.flag_key == flag_key))
        .order_by(flag_calls.c.response)
    )
    return dict(rows.all())
