"""The encryption probe, and re-encryption of stored secrets."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from hedgerow.errors import Conflict
from hedgerow.lib.encryption import DecryptionError, EncryptionKeys, generate_encryption_key
from hedgerow.storage.backup.encryption_check import check_keys
from hedgerow.storage.backup.re_encryption import re_encrypt
from hedgerow.storage.tables import users
from tests.contract.storage.conftest import ALL, Stores, build_record, insert_records

OLD, NEW = generate_encryption_key(), generate_encryption_key()


def secret(keys: EncryptionKeys, value: Any) -> dict[str, str]:
    return {"$sealed": keys.encrypt(value)}


async def test_only_the_first_keys_match_the_probe(stores: Stores) -> None:
    assert await check_keys(stores.database, EncryptionKeys([OLD]))
    assert await check_keys(stores.database, EncryptionKeys([NEW, OLD]))
    assert not await check_keys(stores.database, EncryptionKeys([NEW]))


async def test_new_key_decrypts_everything_after_re_encryption(stores: Stores) -> None:
    old, both, new = EncryptionKeys([OLD]), EncryptionKeys([NEW, OLD]), EncryptionKeys([NEW])
    assert await check_keys(stores.database, old)
    config = {"token": secret(old, "s3cret"), "headers": secret(old, {"a": 1}), "url": "x"}
    lookalike = {"body": {"$sealed": "no seal"}, "more": {"$sealed": 5}}
    await insert_records(
        stores,
        replace(build_record(1), config=config),
        replace(build_record(2), config=lookalike),
        replace(build_record(3, deleted=True), config=config),
    )
    assert await re_encrypt(stores.database, both) == 2
    (first, second), _ = await stores.pipelines.records(ALL)
    assert new.decrypt(first.config["token"]["$sealed"]) == "s3cret"
    assert new.decrypt(first.config["headers"]["$sealed"]) == {"a": 1}
    assert first.config["url"] == "x"
    assert second.config == lookalike
    with pytest.raises(DecryptionError):
        old.decrypt(first.config["token"]["$sealed"])
    assert await check_keys(stores.database, new)
    assert not await check_keys(stores.database, old)


async def test_wrong_keys_re_encrypt_nothing(stores: Stores) -> None:
    old = EncryptionKeys([OLD])
    await check_keys(stores.database, old)
    await insert_records(stores, replace(build_record(1), config={"token": secret(old, "s3cret")}))
    with pytest.raises(Conflict):
        await re_encrypt(stores.database, EncryptionKeys([NEW]))
    [record], _ = await stores.pipelines.records(ALL)
    assert old.decrypt(record.config["token"]["$sealed"]) == "s3cret"


async def test_re_encryption_includes_authenticators(stores: Stores) -> None:
    old, new = EncryptionKeys([OLD]), EncryptionKeys([NEW])
    assert await check_keys(stores.database, old)
    enabled = update(users).values(totp_secret=old.encrypt("SECRET"))
    await stores.database.write(lambda connection: connection.execute(enabled).close())
    assert await re_encrypt(stores.database, EncryptionKeys([NEW, OLD])) == 1
    assert new.decrypt(await stores.fetch_scalar(select(users.c.totp_secret))) == "SECRET"
