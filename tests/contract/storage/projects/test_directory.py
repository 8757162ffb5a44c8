"""The snapshot of the directory and its generation."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hedgerow.projects.model import PersonalKey, SecretKey
from hedgerow.storage.tables import projects
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores

Change = Callable[[Stores, PersonalKey], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "a new project": lambda stores, _: stores.new_project("Another"),
    "an edited project": lambda stores, _: stores.projects.edit_project(
        DEFAULT_PROJECT, lambda p: replace(p, name="Edited"), ACTOR, NOW
    ),
    "a rotated token": lambda stores, _: stores.projects.rotate_token(
        DEFAULT_PROJECT, "phc_new", NOW, ACTOR, NOW
    ),
    "a new secret key": lambda stores, _: stores.projects.rotate_secret(
        DEFAULT_PROJECT, SecretKey(hash="h", mask="phs_...1234"), ACTOR, NOW
    ),
    "a new key": lambda stores, _: stores.new_key("Another"),
    "an edited key": lambda stores, key: stores.keys.edit_key(
        key.id, lambda k: replace(k, label="Edited"), "updated", ACTOR, NOW
    ),
    "a revoked key": lambda stores, key: stores.keys.remove_key(key.id, ACTOR, NOW),
}


@pytest.mark.parametrize("change_name", CHANGES)
async def test_every_change_advances_the_generation(stores: Stores, change_name: str) -> None:
    key = await stores.new_key()
    before = await stores.directory.generation()
    await CHANGES[change_name](stores, key)
    after = await stores.directory.generation()
    assert after > before
    assert (await stores.directory.snapshot()).generation == after


async def test_failed_change_and_key_use_keep_the_generation(stores: Stores) -> None:
    key = await stores.new_key()
    before = await stores.directory.generation()

    def broken(_: PersonalKey) -> PersonalKey:
        raise RuntimeError("the edit fails")

    with pytest.raises(RuntimeError, match="the edit fails"):
        await stores.keys.edit_key(key.id, broken, "updated", ACTOR, NOW)
    await stores.directory.save_last_use({key.id: NOW})
    assert await stores.directory.generation() == before


async def test_concurrent_changes_each_advance_the_generation(stores: Stores) -> None:
    before = await stores.directory.generation()
    await asyncio.gather(*(stores.new_key(f"K{n}") for n in range(25)))
    assert await stores.directory.generation() == before + 25


async def test_snapshot_contains_owner_and_organization(stores: Stores) -> None:
    seen = await stores.directory.snapshot()
    [owner] = seen.users.values()
    assert owner.id == 1
    assert owner.organization.id == seen.projects[DEFAULT_PROJECT].organization_id


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 29, 2, 30, 0, 999999, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(1999, 12, 31, 23, 59, 59, 0, tzinfo=timezone(timedelta(hours=-12))),
        datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC),
    ],
)
async def test_timestamps_of_any_time_zone_round_trip_as_utc(
    stores: Stores, moment: datetime
) -> None:
    project = await stores.projects.edit_project(
        DEFAULT_PROJECT, lambda p: replace(p, name="Moved"), ACTOR, moment
    )
    assert project.updated_at == moment
    assert project.updated_at.utcoffset() == timedelta(0)
    [entry, *_] = await stores.list_entries(scope="Project")
    assert entry.created_at == moment
    early = projects.select().where(projects.c.updated_at < moment)
    late = projects.select().where(projects.c.updated_at <= moment)
    assert await stores.fetch_scalar(early) is None
    assert await stores.fetch_scalar(late) == DEFAULT_PROJECT
