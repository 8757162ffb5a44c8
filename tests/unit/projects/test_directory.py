import asyncio
from datetime import datetime, timedelta

import pytest

from hedgerow.errors import Unavailable
from hedgerow.projects.directory import MISS_POLL_S, Directory
from hedgerow.projects.model import KeyId, ProjectToken
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.world import (
    KEY,
    ONE,
    OWNER,
    TOKEN,
    TWO,
    ListStore,
    a_directory,
    a_key,
    a_project,
)

ID = KeyId("key-1")


@pytest.fixture
def store() -> ListStore:
    return ListStore(a_key())


@pytest.fixture
async def directory(store: ListStore, fake_time: FakeTime) -> Directory:
    return await a_directory(store, fake_time)


def last_use(directory: Directory) -> datetime | None:
    key = directory.key(ID)
    assert key is not None
    return key.last_used_at


async def test_a_warm_check_asks_the_store_nothing(directory: Directory, store: ListStore) -> None:
    assert directory.find_key(KEY) == a_key()
    assert directory.find_token(TOKEN) == a_project()
    assert directory.project(ONE) == a_project()
    assert directory.find_key("phx_unknown") is None
    assert directory.find_token("phc_unknown") is None
    assert directory.project(TWO) is None
    assert store.calls == []


async def test_before_its_first_look_the_directory_knows_nobody(
    store: ListStore, fake_time: FakeTime
) -> None:
    assert Directory(store, fake_time.now, fake_time.monotonic).find_key(KEY) is None


async def test_a_refresh_reads_everything_only_when_the_generation_moved(
    directory: Directory, store: ListStore
) -> None:
    await directory.refresh()
    assert store.calls == ["generation"]
    store.number += 1
    await directory.refresh()
    assert store.calls == ["generation", "generation", "snapshot"]


async def test_refreshes_that_come_together_share_a_look_that_began_after_they_asked(
    directory: Directory, store: ListStore
) -> None:
    await asyncio.gather(*(directory.refresh() for _ in range(50)))
    assert store.calls == ["generation", "generation"]


async def test_a_key_made_elsewhere_is_found_at_its_first_use(
    directory: Directory, store: ListStore
) -> None:
    store.keys.append(a_key("phx_new", "key-2"))
    store.number += 1
    assert directory.find_key("phx_new") is None
    found = await directory.find_new_key("phx_new")
    assert found is not None
    assert found.id == "key-2"


async def test_a_project_made_elsewhere_is_found_with_its_public_key(
    directory: Directory, store: ListStore
) -> None:
    store.projects.append(a_project(TWO, "phc_two"))
    store.tokens.append(ProjectToken(value="phc_two", project_id=TWO, expires_at=None))
    store.number += 1
    assert await directory.find_new_token("phc_two") == a_project(TWO, "phc_two")
    assert await directory.find_new_project(TWO) == a_project(TWO, "phc_two")


async def test_unknown_keys_that_come_together_share_one_look(
    directory: Directory, store: ListStore
) -> None:
    found = await asyncio.gather(*(directory.find_new_key(f"phx_{n}") for n in range(200)))
    assert found == [None] * 200
    assert store.calls == ["generation"]


async def test_looks_for_unknown_keys_are_spaced_out_however_many_come(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    began_s = fake_time.monotonic()
    for _ in range(10):
        await asyncio.gather(*(directory.find_new_key(f"phx_{n}") for n in range(20)))
    elapsed_s = fake_time.monotonic() - began_s
    assert len(store.calls) == 10
    assert elapsed_s == pytest.approx(9 * MISS_POLL_S, abs=0.001)


async def test_while_the_store_is_away_unknown_keys_share_a_look_and_are_not_called_bad(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    """Otherwise each of a crowd waits for the timeouts of all before it."""
    store.away["generation"] = 200
    began_s = fake_time.monotonic()
    answers = await asyncio.gather(
        *(directory.find_new_key(f"phx_{n}") for n in range(200)), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {Unavailable}
    elapsed_s = fake_time.monotonic() - began_s
    assert elapsed_s < 1
    assert len(store.calls) <= 1 + elapsed_s / MISS_POLL_S


async def test_a_failed_look_keeps_what_is_known_and_the_next_one_catches_up(
    directory: Directory, store: ListStore
) -> None:
    store.keys.append(a_key("phx_new", "key-2"))
    store.number += 1
    store.away["generation"] = 1
    with pytest.raises(Unavailable):
        await directory.refresh()
    assert directory.find_key(KEY) is not None
    await directory.refresh()
    assert directory.find_key("phx_new") is not None


async def test_a_revoked_key_is_gone_after_the_next_look(
    directory: Directory, store: ListStore
) -> None:
    store.keys.clear()
    store.number += 1
    await directory.watch()
    assert directory.find_key(KEY) is None
    assert directory.all_keys() == []


async def test_a_rotated_project_key_works_until_its_grace_is_over(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    until = fake_time.now() + timedelta(seconds=60)
    store.tokens = [ProjectToken(value=TOKEN, project_id=ONE, expires_at=until)]
    store.number += 1
    await directory.refresh()
    assert directory.find_token(TOKEN) == a_project()
    fake_time.advance(60)
    assert directory.find_token(TOKEN) is None


async def test_a_use_is_saved_once_and_not_again_within_the_hour(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    first = fake_time.now()
    for _ in range(60):
        directory.find_key(KEY)
        await directory.watch()
        fake_time.advance(59)
    assert store.noted == [{ID: first}]
    fake_time.advance(60)
    second = fake_time.now()
    directory.find_key(KEY)
    await directory.watch()
    assert store.noted == [{ID: first}, {ID: second}]


async def test_a_use_that_the_store_knows_is_not_noted_again_within_the_hour(
    fake_time: FakeTime,
) -> None:
    store = ListStore(a_key(last_used_at=fake_time.now() + timedelta(minutes=30)))
    directory = await a_directory(store, fake_time)
    directory.find_key(KEY)
    await directory.watch()
    assert store.noted == []


async def test_a_use_that_could_not_be_saved_is_saved_at_the_next_turn(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    used_at = fake_time.now()
    directory.find_key(KEY)
    store.away["note_use"] = 1
    with pytest.raises(Unavailable):
        await directory.watch()
    await directory.watch()
    assert store.noted == [{ID: used_at}]


async def test_a_use_shows_at_once_among_the_keys(
    directory: Directory, fake_time: FakeTime
) -> None:
    assert last_use(directory) is None
    directory.find_key(KEY)
    assert last_use(directory) == fake_time.now()


async def test_of_two_uses_the_later_is_shown_wherever_it_was_seen(
    directory: Directory, store: ListStore, fake_time: FakeTime
) -> None:
    directory.find_key(KEY)
    elsewhere = fake_time.now() + timedelta(hours=2)
    store.keys = [a_key(last_used_at=elsewhere)]
    store.number += 1
    await directory.refresh()
    assert last_use(directory) == elsewhere


async def test_a_failed_sign_in_notes_no_use(directory: Directory, store: ListStore) -> None:
    directory.find_key("phx_unknown")
    await directory.watch()
    assert store.noted == []


async def test_keys_are_listed_newest_first_and_found_by_id(fake_time: FakeTime) -> None:
    newer = a_key("phx_b", "key-2", created_at=START + timedelta(days=1))
    directory = await a_directory(ListStore(a_key(), newer), fake_time)
    assert [key.id for key in directory.all_keys()] == ["key-2", "key-1"]
    assert directory.key(KeyId("key-2")) == newer
    assert directory.key(KeyId("key-3")) is None


async def test_a_key_is_shown_its_own_projects_only(store: ListStore, fake_time: FakeTime) -> None:
    store.projects.append(a_project(TWO, "phc_two"))
    directory = await a_directory(store, fake_time)
    assert directory.projects_for(a_key()) == store.projects
    assert directory.projects_for(a_key(project_ids=(TWO,))) == [store.projects[1]]
    assert directory.all_projects() == store.projects


async def test_the_owner_is_the_first_person(directory: Directory) -> None:
    assert directory.owner() == OWNER
    assert directory.user(OWNER.id) == OWNER
