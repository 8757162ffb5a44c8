"""Check that the encryption keys can decrypt the stored secrets."""

from sqlalchemy import Connection, select, text

from hedgerow.lib.encryption import DecryptionError, EncryptionKeys
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import sealing_check

PROBE = "hedgerow"


async def check_keys(database: Database, keys: EncryptionKeys) -> bool:
    """Return whether the keys match those that encrypted the stored secrets.

    The first check stores an encrypted probe that all later checks decrypt.
    """

    def change(connection: Connection) -> bool:
        if has_no_probe(connection):
            store_probe(connection, keys)
        return matches_probe(connection, keys)

    return await database.write(change)


def has_no_probe(connection: Connection) -> bool:
    """Return True if no keys were ever used with this database."""
    return connection.execute(select(sealing_check.c.sealed)).scalar() is None


def store_probe(connection: Connection, keys: EncryptionKeys) -> None:
    # Processes that start together all try; the first probe is kept.
    connection.execute(
        text("INSERT INTO sealing_check (id, sealed) VALUES (1, :sealed) ON CONFLICT DO NOTHING"),
        {"sealed": keys.encrypt(PROBE)},
    )


def matches_probe(connection: Connection, keys: EncryptionKeys) -> bool:
    """Check the keys without storing a probe. Any keys match if there is no probe yet."""
    probe = connection.execute(select(sealing_check.c.sealed)).scalar()
    try:
        return probe is None or bool(keys.decrypt(probe) == PROBE)
    except DecryptionError:
        return False
