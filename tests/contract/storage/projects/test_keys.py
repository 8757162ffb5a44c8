"""Personal API keys: stored as a hash, edited atomically, gone when revoked."""

import asyncio
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from hedgerow.errors import NotFound
from hedgerow.lib.tokens import hash_token
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from tests.contract.storage.conftest import ACTOR, NOW, Stores, run_sql


async def edit(
    stores: Stores, key: PersonalKey, activity_name: str = "updated", /, **fields: object
) -> PersonalKey:
    def apply_fields(found: PersonalKey) -> PersonalKey:
        return PersonalKey(**{**asdict(found), **fields})

    return await stores.keys.edit_key(key.id, apply_fields, activity_name, ACTOR, NOW)


async def test_key_round_trips(stores: Stores) -> None:
    created = await stores.new_key("Schlüssel 🗝", scopes=("plugin:read", "query:read"))
    seen = await stores.directory.snapshot()
    assert seen.keys_by_hash[created.hash] == created
    assert (created.label, created.scopes, created.project_ids) == (
        "Schlüssel 🗝",
        ("plugin:read", "query:read"),
        (),
    )


async def test_key_value_is_not_stored(stores: Stores) -> None:
    key = await stores.new_key(value="phx_a-value-that-must-not-be-stored")
    assert key.hash == hash_token("phx_a-value-that-must-not-be-stored")
    for table in ("personal_keys", "activity"):
        assert "that-must-not" not in str(run_sql(stores.location, f"SELECT * FROM {table}"))


async def test_duplicate_key_value_is_rejected(stores: Stores) -> None:
    await stores.new_key("One", value="phx_same")
    before = await stores.count_entries()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stores.new_key("Two", value="phx_same")
    assert await stores.count_entries() == before


async def test_edit_changes_only_the_given_fields(stores: Stores) -> None:
    key = await stores.new_key()
    after = await edit(stores, key, label="Renamed", project_ids=(ProjectId(1),))
    assert after == replace(key, label="Renamed", project_ids=(ProjectId(1),))
    assert (await stores.directory.snapshot()).keys_by_hash[key.hash] == after


async def test_rolled_key_works_with_its_new_value_only(stores: Stores) -> None:
    key = await stores.new_key(value="phx_old")
    new = hash_token("phx_new")
    await edit(stores, key, "rolled", hash=new, mask="phx_..._new", last_rolled_at=NOW)
    known = (await stores.directory.snapshot()).keys_by_hash
    assert key.hash not in known
    assert (known[new].id, known[new].last_rolled_at) == (key.id, NOW)


async def test_revoked_key_is_gone_and_can_be_revoked_once(stores: Stores) -> None:
    key = await stores.new_key()
    await stores.keys.remove_key(key.id, ACTOR, NOW)
    assert key.hash not in (await stores.directory.snapshot()).keys_by_hash
    with pytest.raises(NotFound):
        await stores.keys.remove_key(key.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        await edit(stores, key, label="Back from the dead")


async def test_concurrent_revocations_take_effect_once(stores: Stores) -> None:
    key = await stores.new_key()
    outcomes = await asyncio.gather(
        *(stores.keys.remove_key(key.id, ACTOR, NOW) for _ in range(8)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 7
    assert len(await stores.list_entries(item_id=key.id)) == 2


async def test_concurrent_edits_lose_no_update(stores: Stores) -> None:
    key = await stores.new_key(label="L")

    def relabel(found: PersonalKey) -> PersonalKey:
        return replace(found, label=found.label + "l")

    def add_scope(found: PersonalKey) -> PersonalKey:
        return replace(found, scopes=(*found.scopes, f"plugin:{len(found.scopes)}"))

    edits = [relabel, add_scope] * 15
    await asyncio.gather(
        *(stores.keys.edit_key(key.id, change, "updated", ACTOR, NOW) for change in edits)
    )
    after = (await stores.directory.snapshot()).keys_by_hash[key.hash]
    assert after.label == "L" + "l" * 15
    assert after.scopes == ("*", *(f"plugin:{n}" for n in range(1, 16)))


async def test_last_use_is_stored_and_unknown_keys_are_ignored(
    stores: Stores,
) -> None:
    used, idle = await stores.new_key("Used"), await stores.new_key("Idle")
    moment = NOW + timedelta(hours=3)
    await stores.directory.save_last_use({used.id: moment, KeyId("revoked a moment ago"): moment})
    known = (await stores.directory.snapshot()).keys_by_hash
    assert known[used.hash].last_used_at == moment
    assert known[idle.hash].last_used_at is None


async def test_edit_keeps_a_newer_last_use(stores: Stores) -> None:
    key = await stores.new_key()
    await stores.directory.save_last_use({key.id: NOW})
    assert (await edit(stores, key, label="Renamed", last_used_at=NOW)).last_used_at == NOW
    await asyncio.gather(
        stores.directory.save_last_use({key.id: NOW + timedelta(hours=2)}),
        stores.keys.edit_key(
            key.id, lambda found: replace(found, label="Again"), "updated", ACTOR, NOW
        ),
    )
    after = (await stores.directory.snapshot()).keys_by_hash[key.hash]
    assert (after.label, after.last_used_at) == ("Again", NOW + timedelta(hours=2))
