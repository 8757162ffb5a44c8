"""Whether the sealing keys at hand are those that sealed what is stored, and sealing it anew."""

from sqlalchemy import Connection, delete, select, text, update

from hedgerow.errors import Conflict
from hedgerow.lib.sealing import CannotUnseal, SealingKeys
from hedgerow.pipelines.config import resealed
from hedgerow.storage.database import Database
from hedgerow.storage.tables import flags, sealing_check
from hedgerow.storage.tables import pipeline_records as records

PROBE = "hedgerow"


async def keys_fit(database: Database, keys: SealingKeys) -> bool:
    """True when they do. The first keys that are asked about leave the mark for all later ones."""

    def change(connection: Connection) -> bool:
        if has_no_mark(connection):
            _leave_mark(connection, keys)
        return check(connection, keys)

    return await database.write(change)


async def reseal(database: Database, keys: SealingKeys) -> int:
    """Seal with the newest key whatever the keys open, so that the older ones can go. How many
    records had secrets; Conflict, and nothing done, if these are other keys altogether."""

    def change(connection: Connection) -> int:
        if not check(connection, keys):
            raise Conflict("These sealing keys are not those that sealed the stored secrets.")
        changed = _reseal_settings(connection, keys) + _reseal_payloads(connection, keys)
        connection.execute(delete(sealing_check))
        _leave_mark(connection, keys)
        return changed

    return await database.write(change)


def _reseal_settings(connection: Connection, keys: SealingKeys) -> int:
    changed = 0
    stored = select(records.c.id, records.c.config).with_for_update()
    for row in connection.execute(stored).all():
        config = resealed(row.config, keys)
        if config != row.config:
            connection.execute(update(records).where(records.c.id == row.id).values(config=config))
            changed += 1
    return changed


def _reseal_payloads(connection: Connection, keys: SealingKeys) -> int:
    stored = select(flags.c.id, flags.c.filters).where(flags.c.has_encrypted_payloads)
    rows = connection.execute(stored.with_for_update()).all()

    def again(sealed: str) -> str:
        try:
            return keys.seal(keys.unseal(sealed))
        except CannotUnseal:
            return sealed

    for row in rows:
        payloads = {
            name: again(sealed) for name, sealed in (row.filters.get("payloads") or {}).items()
        }
        filters = {**row.filters, "payloads": payloads}
        connection.execute(update(flags).where(flags.c.id == row.id).values(filters=filters))
    return len(rows)


def has_no_mark(connection: Connection) -> bool:
    """Nothing was ever sealed here, as far as anybody knows."""
    return connection.execute(select(sealing_check.c.sealed)).scalar() is None


def _leave_mark(connection: Connection, keys: SealingKeys) -> None:
    # Processes that start together all try; the first one's mark stays.
    connection.execute(
        text("INSERT INTO sealing_check (id, sealed) VALUES (1, :sealed) ON CONFLICT DO NOTHING"),
        {"sealed": keys.seal(PROBE)},
    )


def check(connection: Connection, keys: SealingKeys) -> bool:
    """Only look: keys fit where no mark was left yet."""
    sealed = connection.execute(select(sealing_check.c.sealed)).scalar()
    try:
        return sealed is None or bool(keys.unseal(sealed) == PROBE)
    except CannotUnseal:
        return False
