"""Sealing keys: the mark that tells whether they fit, and sealing everything anew."""

from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Conflict
from hedgerow.lib.sealing import CannotUnseal, SealingKeys, new_sealing_key
from hedgerow.storage.sealing_check import keys_fit, reseal
from tests.contract.stores.conftest import ALL, Stores, add, numbered

OLD, NEW = new_sealing_key(), new_sealing_key()


def secret(keys: SealingKeys, value: Any) -> dict[str, str]:
    return {"$sealed": keys.seal(value)}


async def test_the_first_keys_leave_the_mark_and_only_they_fit(stores: Stores) -> None:
    assert await keys_fit(stores.database, SealingKeys([OLD]))
    assert await keys_fit(stores.database, SealingKeys([NEW, OLD]))
    assert not await keys_fit(stores.database, SealingKeys([NEW]))


async def test_after_resealing_the_new_key_alone_opens_everything(stores: Stores) -> None:
    old, both, new = SealingKeys([OLD]), SealingKeys([NEW, OLD]), SealingKeys([NEW])
    assert await keys_fit(stores.database, old)
    config = {"token": secret(old, "s3cret"), "headers": secret(old, {"a": 1}), "url": "x"}
    lookalike = {"body": {"$sealed": "no seal"}, "more": {"$sealed": 5}}
    await add(
        stores,
        replace(numbered(1), config=config),
        replace(numbered(2), config=lookalike),
        replace(numbered(3, deleted=True), config=config),
    )
    assert await reseal(stores.database, both) == 2
    (first, second), _ = await stores.pipelines.records(ALL)
    assert new.unseal(first.config["token"]["$sealed"]) == "s3cret"
    assert new.unseal(first.config["headers"]["$sealed"]) == {"a": 1}
    assert first.config["url"] == "x"
    assert second.config == lookalike
    with pytest.raises(CannotUnseal):
        old.unseal(first.config["token"]["$sealed"])
    assert await keys_fit(stores.database, new)
    assert not await keys_fit(stores.database, old)


async def test_keys_that_do_not_fit_reseal_nothing(stores: Stores) -> None:
    old = SealingKeys([OLD])
    await keys_fit(stores.database, old)
    await add(stores, replace(numbered(1), config={"token": secret(old, "s3cret")}))
    with pytest.raises(Conflict):
        await reseal(stores.database, SealingKeys([NEW]))
    [record], _ = await stores.pipelines.records(ALL)
    assert old.unseal(record.config["token"]["$sealed"]) == "s3cret"
