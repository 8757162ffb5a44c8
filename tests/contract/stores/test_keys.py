"""Personal keys: stored as a hash, changed one at a time, gone when they are revoked."""

import asyncio
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from hedgerow.errors import NotFound
from hedgerow.lib.tokens import token_hash
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from tests.contract.stores.conftest import NOW, SOMEBODY, Stores, run_sql


async def edit(
    stores: Stores, key: PersonalKey, verb: str = "updated", /, **fields: object
) -> PersonalKey:
    def changed(found: PersonalKey) -> PersonalKey:
        return PersonalKey(**{**asdict(found), **fields})

    return await stores.keys.edit_key(key.id, changed, verb, SOMEBODY, NOW)


async def test_a_key_reads_back_as_it_was_made(stores: Stores) -> None:
    made = await stores.new_key("Schlüssel 🗝", scopes=("plugin:read", "query:read"))
    seen = await stores.directory.snapshot()
    assert seen.keys_by_hash[made.hash] == made
    assert (made.label, made.scopes, made.project_ids) == (
        "Schlüssel 🗝",
        ("plugin:read", "query:read"),
        (),
    )


async def test_the_value_of_a_key_is_nowhere_in_the_database(stores: Stores) -> None:
    key = await stores.new_key(value="phx_a-value-that-nobody-may-find")
    assert key.hash == token_hash("phx_a-value-that-nobody-may-find")
    for table in ("personal_keys", "activity"):
        assert "that-nobody-may" not in str(run_sql(stores.place, f"SELECT * FROM {table}"))


async def test_two_keys_of_one_value_are_refused(stores: Stores) -> None:
    await stores.new_key("One", value="phx_same")
    before = await stores.entry_count()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stores.new_key("Two", value="phx_same")
    assert await stores.entry_count() == before


async def test_an_edit_changes_the_fields_it_names(stores: Stores) -> None:
    key = await stores.new_key()
    after = await edit(stores, key, label="Renamed", project_ids=(ProjectId(1),))
    assert after == replace(key, label="Renamed", project_ids=(ProjectId(1),))
    assert (await stores.directory.snapshot()).keys_by_hash[key.hash] == after


async def test_a_rolled_key_answers_to_its_new_value_only(stores: Stores) -> None:
    key = await stores.new_key(value="phx_old")
    new = token_hash("phx_new")
    await edit(stores, key, "rolled", hash=new, mask="phx_..._new", last_rolled_at=NOW)
    known = (await stores.directory.snapshot()).keys_by_hash
    assert key.hash not in known
    assert (known[new].id, known[new].last_rolled_at) == (key.id, NOW)


async def test_a_revoked_key_is_gone_and_can_be_revoked_once(stores: Stores) -> None:
    key = await stores.new_key()
    await stores.keys.remove_key(key.id, SOMEBODY, NOW)
    assert key.hash not in (await stores.directory.snapshot()).keys_by_hash
    with pytest.raises(NotFound):
        await stores.keys.remove_key(key.id, SOMEBODY, NOW)
    with pytest.raises(NotFound):
        await edit(stores, key, label="Back from the dead")


async def test_a_key_revoked_by_many_at_once_is_revoked_once(stores: Stores) -> None:
    key = await stores.new_key()
    outcomes = await asyncio.gather(
        *(stores.keys.remove_key(key.id, SOMEBODY, NOW) for _ in range(8)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 7
    assert len(await stores.entries(item_id=key.id)) == 2


async def test_edits_of_different_fields_at_once_do_not_lose_each_other(stores: Stores) -> None:
    key = await stores.new_key(label="L")

    def relabel(found: PersonalKey) -> PersonalKey:
        return replace(found, label=found.label + "l")

    def widen(found: PersonalKey) -> PersonalKey:
        return replace(found, scopes=(*found.scopes, f"plugin:{len(found.scopes)}"))

    edits = [relabel, widen] * 15
    await asyncio.gather(
        *(stores.keys.edit_key(key.id, change, "updated", SOMEBODY, NOW) for change in edits)
    )
    after = (await stores.directory.snapshot()).keys_by_hash[key.hash]
    assert after.label == "L" + "l" * 15
    assert after.scopes == ("*", *(f"plugin:{n}" for n in range(1, 16)))


async def test_the_last_use_of_keys_is_kept_and_an_unknown_key_does_no_harm(
    stores: Stores,
) -> None:
    used, idle = await stores.new_key("Used"), await stores.new_key("Idle")
    moment = NOW + timedelta(hours=3)
    await stores.directory.note_use({used.id: moment, KeyId("revoked a moment ago"): moment})
    known = (await stores.directory.snapshot()).keys_by_hash
    assert known[used.hash].last_used_at == moment
    assert known[idle.hash].last_used_at is None


async def test_an_edit_keeps_the_last_use_noted_since_the_key_was_read(stores: Stores) -> None:
    key = await stores.new_key()
    await stores.directory.note_use({key.id: NOW})
    assert (await edit(stores, key, label="Renamed", last_used_at=NOW)).last_used_at == NOW
    await asyncio.gather(
        stores.directory.note_use({key.id: NOW + timedelta(hours=2)}),
        stores.keys.edit_key(
            key.id, lambda found: replace(found, label="Again"), "updated", SOMEBODY, NOW
        ),
    )
    after = (await stores.directory.snapshot()).keys_by_hash[key.hash]
    assert (after.label, after.last_used_at) == ("Again", NOW + timedelta(hours=2))
