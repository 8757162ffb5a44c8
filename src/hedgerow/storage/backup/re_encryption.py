"""Re-encrypt the stored secrets with the newest key."""

from sqlalchemy import Connection, delete, select, update

from hedgerow.errors import Conflict
from hedgerow.lib.encryption import DecryptionError, EncryptionKeys
from hedgerow.pipelines.config import reencrypt_settings
from hedgerow.storage.backup.encryption_check import matches_probe, store_probe
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import flags, sealing_check, users
from hedgerow.storage.tables import pipeline_records as records


async def re_encrypt(database: Database, keys: EncryptionKeys) -> int:
    """Re-encrypt all secrets with the newest key, so that older keys can be removed.

    Returns the number of changed records. Raises Conflict, without changes, if none of the keys
    matches.
    """

    def change(connection: Connection) -> int:
        if not matches_probe(connection, keys):
            raise Conflict("The encryption keys do not match those of the stored secrets.")
        changed = (
            _re_encrypt_settings(connection, keys)
            + _re_encrypt_payloads(connection, keys)
            + _re_encrypt_authenticators(connection, keys)
        )
        connection.execute(delete(sealing_check))
        store_probe(connection, keys)
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
    for row in rows:
        payloads = {
            name: _re_encrypt_value(encrypted, keys)
            for name, encrypted in (row.filters.get("payloads") or {}).items()
        }
        filters = {**row.filters, "payloads": payloads}
        connection.execute(update(flags).where(flags.c.id == row.id).values(filters=filters))
    return len(rows)


def _re_encrypt_authenticators(connection: Connection, keys: EncryptionKeys) -> int:
    stored = select(users.c.id, users.c.totp_secret).where(users.c.totp_secret.is_not(None))
    rows = connection.execute(stored.with_for_update()).all()
    for row in rows:
        # A secret that is not confirmed yet is created again.
        values = {"totp_secret": _re_encrypt_value(row.totp_secret, keys), "totp_pending": None}
        connection.execute(update(users).where(users.c.id == row.id).values(values))
    return len(rows)


def _re_encrypt_value(encrypted: str, keys: EncryptionKeys) -> str:
    try:
        return keys.encrypt(keys.decrypt(encrypted))
    except DecryptionError:
        return encrypted
