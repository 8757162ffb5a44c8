"""Deliveries that waited for too long or were dead for too long, their counts and log lines.

Queues may be long, so that each is walked by its index, from its old end, and some rows at a time:
nobody waits long for a transaction of ours.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy import Column, Connection, bindparam, delete, func, select

from hedgerow.pipelines.deliveries import Ages
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.retry import LONGEST_RETRY_AFTER_MS
from hedgerow.storage import bulk, delivered, delivery_counts, transformation_counts
from hedgerow.storage.database import Database
from hedgerow.storage.tables import deliveries, delivery_logs

LOGS_KEPT = 1000
AT_ONCE = 500

_GIVE_UP = (
    "UPDATE deliveries SET status = 'dead', due_ms = ?,"
    " error = trim('Given up, it waited for too long. ' || error) WHERE id IN ({numbers})"
)
_FORGET = "DELETE FROM deliveries WHERE id IN ({numbers})"
# New ones stand in the order in which they were made, so that the first says it for all.
_WAITING = (
    "SELECT id FROM (SELECT id, created_ms FROM deliveries"
    " WHERE record_id = ? AND status = 'waiting' ORDER BY due_ms, id LIMIT ?) AS first"
    " WHERE created_ms < ?"
)
_RETRYING = (
    "SELECT id FROM deliveries WHERE status = 'retrying' AND created_ms < ?"
    " ORDER BY created_ms LIMIT ?"
)
# Nobody is put off for so long, unless the clock was wrong.
_FAR_AWAY = (
    "SELECT id FROM deliveries WHERE record_id = ? AND status = 'retrying' AND due_ms > ?"
    " ORDER BY due_ms LIMIT ?"
)
_BRING_BACK = "UPDATE deliveries SET due_ms = ? WHERE id IN ({numbers})"
_DEAD = (
    "SELECT id FROM deliveries WHERE record_id = ? AND status = 'dead' AND due_ms < ?"
    " ORDER BY due_ms LIMIT ?"
)


async def forget_old(database: Database, ages: Ages, now: datetime) -> None:
    now_ms = int(now.timestamp() * 1000)
    too_old, long_dead = now_ms - ages.waiting_ms, now_ms - ages.dead_ms

    def retried(connection: Connection) -> int:
        found = _ids(bulk.select(connection, _RETRYING, too_old, AT_ONCE))
        return bulk.change(connection, _GIVE_UP, now_ms, found) if found else 0

    def waited(id: RecordId, connection: Connection) -> int:
        found = _ids(bulk.select(connection, _WAITING, id, AT_ONCE, too_old))
        return bulk.change(connection, _GIVE_UP, now_ms, found) if found else 0

    def dead(id: RecordId, connection: Connection) -> int:
        found = _ids(bulk.select(connection, _DEAD, id, long_dead, AT_ONCE))
        return bulk.change(connection, _FORGET, found) if found else 0

    def far_away(id: RecordId, connection: Connection) -> int:
        latest = now_ms + LONGEST_RETRY_AFTER_MS
        found = _ids(bulk.select(connection, _FAR_AWAY, id, latest, AT_ONCE))
        return bulk.change(connection, _BRING_BACK, now_ms, found) if found else 0

    await _until_done(database, retried)
    for id in await _records(database, deliveries.c.record_id):
        await _until_done(database, partial(waited, id))
        await _until_done(database, partial(dead, id))
        await _until_done(database, partial(far_away, id))
    await database.write(lambda connection: delivery_counts.forget_old(connection, now))
    before_ms = now_ms - ages.delivered_ms
    await _until_done(database, partial(delivered.forget_old, before_ms, AT_ONCE))
    await database.write(lambda connection: transformation_counts.forget_old(connection, now))
    for id in await _records(database, delivery_logs.c.record_id):
        await database.write(partial(_forget_logs, id))


async def _until_done(database: Database, some: Callable[[Connection], int]) -> None:
    while await database.write(some) >= AT_ONCE:
        pass


async def _records(database: Database, column: Column[int]) -> list[RecordId]:
    """The records that a table has rows of, each found by one step into its index."""

    def run(connection: Connection) -> list[RecordId]:
        found: list[RecordId] = []
        following = select(func.min(column)).where(column > bindparam("last"))
        last: int | None = 0
        while (last := connection.execute(following, {"last": last}).scalar()) is not None:
            found.append(RecordId(last))
        return found

    return await database.read(run)


def _ids(rows: bulk.Rows) -> list[int]:
    return [id for (id,) in rows]


def _forget_logs(record_id: RecordId, connection: Connection) -> None:
    """Only the newest lines stay."""
    own = delivery_logs.c.record_id == record_id
    last = connection.execute(
        select(delivery_logs.c.id)
        .where(own)
        .order_by(delivery_logs.c.id.desc())
        .limit(1)
        .offset(LOGS_KEPT)
    ).scalar()
    if last is not None:
        connection.execute(delete(delivery_logs).where(own & (delivery_logs.c.id <= last)))
