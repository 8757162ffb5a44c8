"""Salts and states of cookieless visitors, shared by all processes."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, update

from hedgerow.ingestion.cookieless.identity import SALT_BYTES
from hedgerow.ingestion.cookieless.visits import Visit, VisitorState, apply_visits
from hedgerow.ingestion.store import CookielessStore
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables.ingestion import cookieless_salts as salts
from hedgerow.storage.tables.ingestion import cookieless_visitors as visitors

BATCH_SIZE = 500

_decode_state = msgspec.json.Decoder(VisitorState).decode


class SqlCookielessStore(CookielessStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_salt(self, day: str, new_salt: bytes) -> bytes:
        stored = select(salts.c.salt).where(salts.c.day == day)

        def change(connection: Connection) -> bytes:
            bulk.insert_ignoring_conflicts(connection, salts, [{"day": day, "salt": new_salt}])
            return bytes(connection.execute(stored).scalar_one())

        return await self._database.write(change)

    async def apply_visits(
        self, project_id: ProjectId, visits: Sequence[Visit]
    ) -> Sequence[tuple[int, str]]:
        # In one order for all processes, so that none waits for another one that waits for it.
        days = dict(sorted((visit.device, visit.day) for visit in visits))

        def change(connection: Connection) -> Sequence[tuple[int, str]]:
            states = _lock_states(connection, project_id, days)
            found = apply_visits(states, visits)
            _save_states(connection, project_id, states)
            return found

        return await self._database.write(change)

    async def delete_days(self, last: str) -> None:
        def change(connection: Connection) -> None:
            expired = salts.c.day <= last
            # SQLite keeps the bytes of a deleted row in its file until it needs the space.
            connection.execute(update(salts).where(expired).values(salt=bytes(SALT_BYTES)))
            connection.execute(delete(salts).where(expired))
            connection.execute(delete(visitors).where(visitors.c.day <= last))

        await self._database.write(change)


def _lock_states(
    connection: Connection, project_id: ProjectId, days: dict[str, str]
) -> dict[str, VisitorState]:
    new = [
        {"project_id": project_id, "device": device, "day": day, "state": "{}"}
        for device, day in days.items()
    ]
    bulk.insert_ignoring_conflicts(connection, visitors, new)
    devices = list(days)
    states: dict[str, VisitorState] = {}
    for start in range(0, len(devices), BATCH_SIZE):
        part = visitors.c.device.in_(devices[start : start + BATCH_SIZE])
        stored = select(visitors.c.device, visitors.c.state).where(
            visitors.c.project_id == project_id, part
        )
        rows = connection.execute(stored.order_by(visitors.c.device).with_for_update())
        states |= {row.device: _decode_state(row.state) for row in rows}
    return states


def _save_states(
    connection: Connection, project_id: ProjectId, states: dict[str, VisitorState]
) -> None:
    changed = (
        update(visitors)
        .where(
            visitors.c.project_id == bindparam("of_project"),
            visitors.c.device == bindparam("of_device"),
        )
        .values(state=bindparam("new_state"))
    )
    rows = [
        {
            "of_project": project_id,
            "of_device": device,
            "new_state": msgspec.json.encode(state).decode(),
        }
        for device, state in states.items()
    ]
    connection.execute(changed, rows)
