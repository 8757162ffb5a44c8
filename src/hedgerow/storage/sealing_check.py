"""Whether the sealing keys at hand are those that sealed what is stored."""

from sqlalchemy import Connection, insert, select

from hedgerow.kit.sealing import CannotUnseal, SealingKeys
from hedgerow.storage.database import Database
from hedgerow.storage.tables import sealing_check

PROBE = "hedgerow"


async def keys_fit(database: Database, keys: SealingKeys) -> bool:
    """True when they do. The first keys that are asked about leave the mark for all later ones."""

    def change(connection: Connection) -> bool:
        if connection.execute(select(sealing_check.c.sealed)).scalar() is None:
            connection.execute(insert(sealing_check), {"id": 1, "sealed": keys.seal(PROBE)})
        return check(connection, keys)

    return await database.write(change)


def check(connection: Connection, keys: SealingKeys) -> bool:
    """Only look: keys fit where no mark was left yet."""
    sealed = connection.execute(select(sealing_check.c.sealed)).scalar()
    try:
        return sealed is None or bool(keys.unseal(sealed) == PROBE)
    except CannotUnseal:
        return False
