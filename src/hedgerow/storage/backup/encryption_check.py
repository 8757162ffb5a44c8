"""Check that the encryption keys can decrypt the stored secrets, and re-encrypt the secrets."""

from sqlalchemy import Connection, delete, select, text, update

from hedgerow.errors import Conflict
from hedgerow.lib.encryption import DecryptionError, EncryptionKeys
from hedgerow.pipelines.config import reencrypt_settings
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import flags, sealing_check
from hedgerow.storage.tables import pipeline_records as records

PROBE = "hedgerow"


async def check_keys(database: Database, keys: EncryptionKeys) -> bool:
    """Return whether the keys match those that encrypted the stored secrets.

    The first check stores an encrypted probe that all later checks decrypt.
    """

    def change(connection: Connection) -> bool:
        if has_no_probe(connection):
            _store_probe(connection, keys)
        return matches_probe(connection, keys)

    return await database.write(change)


async def re_encrypt(database: Database, keys: EncryptionKeys) -> int:
    """Re-encrypt all secrets with the newest key, so that older keys can be removed.

    Returns the number of changed records. Raises Conflict, without changes, if none of the keys
    matches.
    """

    def change(connection: Connection) -> int:
        if not matches_probe(connection, keys):
            raise Conflict("The encryption keys do not match those of the stored secrets.")
        changed = _re_encrypt_settings(connection, keys) + _re_encrypt_payloads(connection, keys)
        connection.execute(delete(sealing_check))
        _store_probe(connection, keys)
        return changed

    return await database.write(change)


def _re_encrypt_settings(connection: Connection, keys: EncryptionKeys) -> int:
    changed = 0
    stored = select(records.c.id, records.c.config).with_for_update()
    for row in connection.execute(stored).all():
        config = reencrypt_settings(row.config, keys)
        if config != row.config:
            connection.execute(update(records).where(records.c.id == row.id).values(config=config))
            changed += 1
    return changed


def _re_encrypt_payloads(connection: Connection, keys: EncryptionKeys) -> int:
    stored = select(flags.c.id, flags.c.filters).where(flags.c.has_encrypted_payloads)
    rows = connection.execute(stored.with_for_update()).all()

    def re_encrypt_payload(encrypted: str) -> str:
        try:
            return keys.encrypt(keys.decrypt(encrypted))
        except DecryptionError:
            return encrypted

    for row in rows:
        payloads = {
            name: re_encrypt_payload(encrypted)
            for name, encrypted in (row.filters.get("payloads") or {}).items()
        }
        filters = {**row.filters, "payloads": payloads}
        connection.execute(update(flags).where(flags.c.id == row.id).values(filters=filters))
    return len(rows)


def has_no_probe(connection: Connection) -> bool:
    """Return True if no keys were ever used with this database."""
    return connection.execute(select(sealing_check.c.sealed)).scalar() is None


def _store_probe(connection: Connection, keys: EncryptionKeys) -> None:
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
