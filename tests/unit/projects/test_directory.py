import asyncio
from datetime import datetime, timedelta

import pytest

from hedgerow.errors import Unavailable
from hedgerow.projects.caller import call_with_key
from hedgerow.projects.directory import MISS_POLL_INTERVAL_S, Directory
from hedgerow.projects.model import KeyId, ProjectToken
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.factories import (
    KEY,
    ONE,
    OWNER,
    TOKEN,
    TWO,
    FakeProjectStore,
    make_directory,
    make_key,
    make_project,
)

ID = KeyId("key-1")


@pytest.fixture
def store() -> FakeProjectStore:
    return FakeProjectStore(make_key())


@pytest.fixture
async def directory(store: FakeProjectStore, fake_time: FakeTime) -> Directory:
    return await make_directory(store, fake_time)


def last_use(directory: Directory) -> datetime | None:
    key = directory.get_key(ID)
    assert key is not None
    return key.last_used_at


async def test_warm_check_makes_no_store_call(
    directory: Directory, store: FakeProjectStore
) -> None:
    assert directory.find_key(KEY) == make_key()
    assert directory.find_token(TOKEN) == make_project()
    assert directory.get_project(ONE) == make_project()
    assert directory.find_key("phx_unknown") is None
    assert directory.find_token("phc_unknown") is None
    assert directory.get_project(TWO) is None
    assert store.calls == []


async def test_directory_is_empty_before_the_first_refresh(
    store: FakeProjectStore, fake_time: FakeTime
) -> None:
    assert Directory(store, fake_time.now, fake_time.monotonic).find_key(KEY) is None


async def test_refresh_loads_a_snapshot_only_for_a_new_generation(
    directory: Directory, store: FakeProjectStore
) -> None:
    await directory.refresh()
    assert store.calls == ["generation"]
    store.stored_generation += 1
    await directory.refresh()
    assert store.calls == ["generation", "generation", "snapshot"]


async def test_concurrent_refreshes_share_one_reload(
    directory: Directory, store: FakeProjectStore
) -> None:
    await asyncio.gather(*(directory.refresh() for _ in range(50)))
    assert store.calls == ["generation", "generation"]


async def test_key_created_by_another_process_is_found_on_first_use(
    directory: Directory, store: FakeProjectStore
) -> None:
    store.keys.append(make_key("phx_new", "key-2"))
    store.stored_generation += 1
    assert directory.find_key("phx_new") is None
    found = await directory.find_new_key("phx_new")
    assert found is not None
    assert found.id == "key-2"


async def test_project_created_by_another_process_is_found_by_its_token(
    directory: Directory, store: FakeProjectStore
) -> None:
    store.projects.append(make_project(TWO, "phc_two"))
    store.tokens.append(ProjectToken(value="phc_two", project_id=TWO, expires_at=None))
    store.stored_generation += 1
    assert await directory.find_new_token("phc_two") == make_project(TWO, "phc_two")
    assert await directory.find_new_project(TWO) == make_project(TWO, "phc_two")


async def test_concurrent_unknown_keys_share_one_reload(
    directory: Directory, store: FakeProjectStore
) -> None:
    found = await asyncio.gather(*(directory.find_new_key(f"phx_{n}") for n in range(200)))
    assert found == [None] * 200
    assert store.calls == ["generation"]


async def test_reloads_for_unknown_keys_are_rate_limited(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    began_s = fake_time.monotonic()
    for _ in range(10):
        await asyncio.gather(*(directory.find_new_key(f"phx_{n}") for n in range(20)))
    elapsed_s = fake_time.monotonic() - began_s
    assert len(store.calls) == 10
    assert elapsed_s == pytest.approx(9 * MISS_POLL_INTERVAL_S, abs=0.001)


async def test_unknown_keys_share_the_failure_of_an_unavailable_store(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    """Otherwise each request waits for the timeouts of all requests before it."""
    store.failures["generation"] = 200
    began_s = fake_time.monotonic()
    answers = await asyncio.gather(
        *(directory.find_new_key(f"phx_{n}") for n in range(200)), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {Unavailable}
    elapsed_s = fake_time.monotonic() - began_s
    assert elapsed_s < 1
    assert len(store.calls) <= 1 + elapsed_s / MISS_POLL_INTERVAL_S


async def test_failed_refresh_keeps_the_snapshot_and_the_next_one_recovers(
    directory: Directory, store: FakeProjectStore
) -> None:
    store.keys.append(make_key("phx_new", "key-2"))
    store.stored_generation += 1
    store.failures["generation"] = 1
    with pytest.raises(Unavailable):
        await directory.refresh()
    assert directory.find_key(KEY) is not None
    await directory.refresh()
    assert directory.find_key("phx_new") is not None


async def test_revoked_key_is_gone_after_a_refresh(
    directory: Directory, store: FakeProjectStore
) -> None:
    store.keys.clear()
    store.stored_generation += 1
    await directory.refresh_and_save_usage()
    assert directory.find_key(KEY) is None
    assert directory.list_keys() == []


async def test_rotated_token_works_until_the_grace_period_ends(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    until = fake_time.now() + timedelta(seconds=60)
    store.tokens = [ProjectToken(value=TOKEN, project_id=ONE, expires_at=until)]
    store.stored_generation += 1
    await directory.refresh()
    assert directory.find_token(TOKEN) == make_project()
    fake_time.advance(60)
    assert directory.find_token(TOKEN) is None


async def test_use_is_saved_at_most_once_an_hour(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    first = fake_time.now()
    for _ in range(60):
        directory.find_key(KEY)
        await directory.refresh_and_save_usage()
        fake_time.advance(59)
    assert store.saved_uses == [{ID: first}]
    fake_time.advance(60)
    second = fake_time.now()
    directory.find_key(KEY)
    await directory.refresh_and_save_usage()
    assert store.saved_uses == [{ID: first}, {ID: second}]


async def test_stored_use_is_not_saved_again_within_the_hour(
    fake_time: FakeTime,
) -> None:
    store = FakeProjectStore(make_key(last_used_at=fake_time.now() + timedelta(minutes=30)))
    directory = await make_directory(store, fake_time)
    directory.find_key(KEY)
    await directory.refresh_and_save_usage()
    assert store.saved_uses == []


async def test_unsaved_use_is_saved_on_the_next_run(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    used_at = fake_time.now()
    directory.find_key(KEY)
    store.failures["save_last_use"] = 1
    with pytest.raises(Unavailable):
        await directory.refresh_and_save_usage()
    await directory.refresh_and_save_usage()
    assert store.saved_uses == [{ID: used_at}]


async def test_use_is_listed_immediately(directory: Directory, fake_time: FakeTime) -> None:
    assert last_use(directory) is None
    directory.find_key(KEY)
    assert last_use(directory) == fake_time.now()


async def test_later_of_two_uses_is_listed(
    directory: Directory, store: FakeProjectStore, fake_time: FakeTime
) -> None:
    directory.find_key(KEY)
    elsewhere = fake_time.now() + timedelta(hours=2)
    store.keys = [make_key(last_used_at=elsewhere)]
    store.stored_generation += 1
    await directory.refresh()
    assert last_use(directory) == elsewhere


async def test_failed_authentication_records_no_use(
    directory: Directory, store: FakeProjectStore
) -> None:
    directory.find_key("phx_unknown")
    await directory.refresh_and_save_usage()
    assert store.saved_uses == []


async def test_keys_are_listed_newest_first_and_found_by_id(fake_time: FakeTime) -> None:
    newer = make_key("phx_b", "key-2", created_at=START + timedelta(days=1))
    directory = await make_directory(FakeProjectStore(make_key(), newer), fake_time)
    assert [key.id for key in directory.list_keys()] == ["key-2", "key-1"]
    assert directory.get_key(KeyId("key-2")) == newer
    assert directory.get_key(KeyId("key-3")) is None


async def test_key_lists_only_its_projects(store: FakeProjectStore, fake_time: FakeTime) -> None:
    store.projects.append(make_project(TWO, "phc_two"))
    directory = await make_directory(store, fake_time)
    assert directory.list_projects_for(call_with_key(make_key(), OWNER)) == store.projects
    restricted = call_with_key(make_key(project_ids=(TWO,)), OWNER)
    assert directory.list_projects_for(restricted) == [store.projects[1]]
    assert directory.list_projects() == store.projects


async def test_owner_is_the_first_user(directory: Directory) -> None:
    assert directory.get_owner() == OWNER
    assert directory.get_user(OWNER.id) == OWNER
