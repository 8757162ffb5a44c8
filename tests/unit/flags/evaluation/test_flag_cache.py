"""The flag cache loads a snapshot on first use and replaces it as a whole."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.evaluation.flag_cache import MAX_INLINE_VALUES, FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.flags import Flags
from hedgerow.flags.model import Flag
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    MATCH_ALL,
    build_filters,
    in_cohort,
    make_cohort,
    make_flag,
    prop,
)
from tests.unit.flags.stores import FakeFlagStore, build_flag_cache
from tests.unit.projects.factories import ONE, TWO, make_project

PROJECT = make_project(ONE)
OTHER = make_project(TWO, token="phc_another")
ACTOR = Actor(kind="key", id="k", name="a key", email="owner@example.com")


def keys(snapshot: FlagSnapshot) -> list[str]:
    return [each.flag.key for each in snapshot.all_flags]


async def cached_keys(flag_cache: FlagCache, project: Project = PROJECT) -> list[str]:
    return keys(await flag_cache.snapshot(project))


async def test_nothing_is_loaded_before_the_first_request() -> None:
    store = FakeFlagStore(make_flag())
    flag_cache = build_flag_cache(store)
    await flag_cache.refresh_changed()
    assert flag_cache.get_cached(PROJECT) is None
    assert store.calls == []


async def test_snapshot_is_loaded_once_and_cached() -> None:
    store = FakeFlagStore(make_flag())
    flag_cache = build_flag_cache(store)
    first = await flag_cache.snapshot(PROJECT)
    store.calls.clear()
    assert await flag_cache.snapshot(PROJECT) is first
    assert flag_cache.get_cached(PROJECT) is first
    assert store.calls == []


async def test_project_without_flags_is_loaded_once() -> None:
    store = FakeFlagStore()
    flag_cache = build_flag_cache(store)
    assert await cached_keys(flag_cache) == []
    store.calls.clear()
    assert await cached_keys(flag_cache) == []
    await flag_cache.refresh_changed()
    assert store.calls == ["generations"]


async def test_concurrent_first_requests_share_one_load() -> None:
    store = FakeFlagStore(make_flag())
    flag_cache = build_flag_cache(store)
    found = await asyncio.gather(*(flag_cache.snapshot(PROJECT) for _ in range(20)))
    assert len({id(each) for each in found}) == 1
    assert store.calls.count("definitions") == 1


async def test_refresh_loads_a_change_of_another_process() -> None:
    store = FakeFlagStore(make_flag(id=1))
    flag_cache = build_flag_cache(store)
    await flag_cache.snapshot(PROJECT)
    store.put(make_flag(id=1), make_flag(id=2))
    assert await cached_keys(flag_cache) == ["flag-1"]
    await flag_cache.refresh_changed()
    assert await cached_keys(flag_cache) == ["flag-1", "flag-2"]


async def test_refresh_without_changes_makes_one_store_call() -> None:
    store = FakeFlagStore(make_flag())
    store.put(make_flag(), project_id=2)
    flag_cache = build_flag_cache(store)
    one, two = await flag_cache.snapshot(PROJECT), await flag_cache.snapshot(OTHER)
    store.calls.clear()
    await flag_cache.refresh_changed()
    assert store.calls == ["generations"]
    assert (flag_cache.get_cached(PROJECT), flag_cache.get_cached(OTHER)) == (one, two)


async def test_refresh_loads_only_changed_projects() -> None:
    store = FakeFlagStore(make_flag())
    store.put(make_flag(), project_id=2)
    flag_cache = build_flag_cache(store)
    one, two = await flag_cache.snapshot(PROJECT), await flag_cache.snapshot(OTHER)
    store.put(project_id=2)
    store.calls.clear()
    await flag_cache.refresh_changed()
    assert store.calls.count("definitions") == 1
    assert flag_cache.get_cached(PROJECT) is one
    assert flag_cache.get_cached(OTHER) is not two


async def test_projects_without_requests_are_not_loaded() -> None:
    store = FakeFlagStore(make_flag())
    flag_cache = build_flag_cache(store)
    await flag_cache.snapshot(PROJECT)
    store.put(make_flag(), project_id=2)
    store.calls.clear()
    await flag_cache.refresh_changed()
    assert store.calls == ["generations"]


async def test_changed_cohort_or_group_type_makes_a_new_snapshot() -> None:
    filters = build_filters({"properties": [in_cohort(1)]})
    store = FakeFlagStore()
    store.put(make_flag(filters), cohorts=[make_cohort(1, prop("plan", "pro"))])
    flag_cache = build_flag_cache(store)
    before = await flag_cache.snapshot(PROJECT)
    store.put(make_flag(filters), cohorts=[make_cohort(1, prop("plan", "free"))])
    await flag_cache.refresh_changed()
    middle = await flag_cache.snapshot(PROJECT)
    store.put(make_flag(filters), group_types={"company": 0, "team": 1})
    await flag_cache.refresh_changed()
    after = await flag_cache.snapshot(PROJECT)
    assert len({id(each) for each in (before, middle, after)}) == 3
    assert after.definitions.group_types == {"company": 0, "team": 1}


async def test_unchanged_flags_are_not_recompiled() -> None:
    store = FakeFlagStore(make_flag(id=1))
    flag_cache = build_flag_cache(store)
    before = (await flag_cache.snapshot(PROJECT)).get("flag-1")
    store.put(make_flag(id=1), make_flag(id=2))
    assert (await flag_cache.refresh(PROJECT)).get("flag-1") is before


async def test_changed_time_zone_makes_a_new_snapshot() -> None:
    store = FakeFlagStore(make_flag())
    flag_cache = build_flag_cache(store)
    await flag_cache.snapshot(PROJECT)
    moved = replace(PROJECT, timezone="Asia/Tokyo")
    assert flag_cache.get_cached(moved) is None
    assert (await flag_cache.snapshot(moved)).definitions.timezone == "Asia/Tokyo"
    assert flag_cache.get_cached(moved) is not None


async def test_failed_refresh_keeps_the_snapshot_and_the_next_one_recovers() -> None:
    store = FakeFlagStore(make_flag(id=1))
    flag_cache = build_flag_cache(store)
    await flag_cache.snapshot(PROJECT)
    for call in ("generations", "generation", "definitions"):
        store.put(make_flag(id=1), make_flag(id=2))
        store.failures[call] = 1
        with pytest.raises(Unavailable):
            await flag_cache.refresh_changed()
        assert flag_cache.get_cached(PROJECT) is not None
    await flag_cache.refresh_changed()
    assert await cached_keys(flag_cache) == ["flag-1", "flag-2"]


async def test_refresh_after_a_failure_loads_every_project() -> None:
    """The next refresh reaches the projects that a failed one did not."""
    store = FakeFlagStore(make_flag())
    store.put(project_id=2)
    flag_cache = build_flag_cache(store)
    await flag_cache.snapshot(PROJECT)
    await flag_cache.snapshot(OTHER)
    store.put(make_flag(id=1), make_flag(id=2))
    store.put(make_flag(id=3), project_id=2)
    store.failures["definitions"] = 1
    with pytest.raises(Unavailable):
        await flag_cache.refresh_changed()
    await flag_cache.refresh_changed()
    assert await cached_keys(flag_cache) == ["flag-1", "flag-2"]
    assert await cached_keys(flag_cache, OTHER) == ["flag-3"]


async def test_failed_first_load_raises_and_can_be_retried() -> None:
    store = FakeFlagStore(make_flag())
    store.failures["definitions"] = 1
    flag_cache = build_flag_cache(store)
    with pytest.raises(Unavailable):
        await flag_cache.snapshot(PROJECT)
    assert await cached_keys(flag_cache) == ["flag-1"]


async def test_written_flag_is_cached_immediately() -> None:
    store = FakeFlagStore()
    flag_cache = build_flag_cache(store)
    flags = Flags(store, flag_cache, PlainCipher())
    await flag_cache.snapshot(PROJECT)
    made = await flags.create(PROJECT, FlagFields(key="new", filters=MATCH_ALL), ACTOR, START)
    assert await cached_keys(flag_cache) == ["new"]
    off = FlagFields(active=False)
    await flags.change(PROJECT, made.id, off, seen=None, actor=ACTOR, now=START)
    cached = flag_cache.get_cached(PROJECT)
    assert cached is not None
    [flag] = cached.definitions.flags
    assert (flag.active, flag.version) == (False, 2)


async def test_refresh_returns_everything_stored_before_it() -> None:
    """A load that began before a change must not answer a request after it."""
    store = FakeFlagStore(make_flag(id=1))
    flag_cache = build_flag_cache(store)
    began = asyncio.create_task(flag_cache.refresh(PROJECT))
    while "definitions" not in store.calls:
        await asyncio.sleep(0)
    store.put(make_flag(id=1), make_flag(id=2))
    assert keys(await flag_cache.refresh(PROJECT)) == ["flag-1", "flag-2"]
    await began
    assert await cached_keys(flag_cache) == ["flag-1", "flag-2"]


async def test_failed_project_does_not_stop_the_refresh_of_others() -> None:
    store = FakeFlagStore(make_flag(id=1))
    store.put(make_flag(id=1), project_id=OTHER.id)
    flag_cache = build_flag_cache(store)
    await cached_keys(flag_cache)
    await cached_keys(flag_cache, OTHER)
    for project in (PROJECT, OTHER):
        store.put(make_flag(id=1), make_flag(id=2), project_id=project.id)
    store.failures["definitions"] = 1
    with pytest.raises(Unavailable):
        await flag_cache.refresh_changed()
    assert sorted([await cached_keys(flag_cache), await cached_keys(flag_cache, OTHER)]) == [
        ["flag-1"],
        ["flag-1", "flag-2"],
    ]


def filters_with(conditions: int) -> Any:
    """Each condition is one value, in addition to the filters object and its list."""
    return build_filters(*({} for _ in range(conditions)))


@pytest.mark.parametrize(
    ("flags", "cohorts", "elsewhere"),
    [
        ([make_flag(filters_with(MAX_INLINE_VALUES - 2))], [], 0),
        ([make_flag(filters_with(MAX_INLINE_VALUES - 1))], [], 1),
        ([make_flag(MATCH_ALL, id) for id in range(1, MAX_INLINE_VALUES // 3 + 1)], [], 0),
        ([make_flag(MATCH_ALL, id) for id in range(1, MAX_INLINE_VALUES // 3 + 2)], [], 1),
        (
            [make_flag(build_filters({"properties": [prop("a", "x" * 100 * MAX_INLINE_VALUES)]}))],
            [],
            1,
        ),
        (
            [],
            [make_cohort(1, {"type": "OR", "values": [prop("a", list(range(MAX_INLINE_VALUES)))]})],
            1,
        ),
    ],
)
async def test_large_definitions_are_compiled_in_a_thread(
    flags: list[Flag], cohorts: list[Cohort], elsewhere: int
) -> None:
    sent: list[Any] = []

    async def run_elsewhere(make: Callable[[], FlagSnapshot]) -> FlagSnapshot:
        sent.append(make)
        return make()

    store = FakeFlagStore()
    store.put(*flags, cohorts=cohorts)
    assert len(await cached_keys(FlagCache(store, run_elsewhere))) == len(flags)
    assert len(sent) == elsewhere


async def test_large_snapshots_are_never_scanned_for_garbage() -> None:
    were_paused: list[bool] = []

    async def run_elsewhere(make: Callable[[], FlagSnapshot]) -> FlagSnapshot:
        were_paused.append(not gc.isenabled())
        return make()

    store = FakeFlagStore(make_flag(filters_with(MAX_INLINE_VALUES)))
    flag_cache = FlagCache(store, run_elsewhere)
    try:
        snapshot = await flag_cache.snapshot(PROJECT)
        assert not any(each is snapshot for each in gc.get_objects())
        frozen = gc.get_freeze_count()
        store.put(make_flag(filters_with(MAX_INLINE_VALUES)), make_flag(id=2))
        assert keys(await flag_cache.refresh(PROJECT)) == ["flag-1", "flag-2"]
        assert gc.get_freeze_count() <= frozen  # the changed flags are few
    finally:
        gc.unfreeze()
    assert were_paused == [True, True]
    assert gc.isenabled()


class PlainCipher:
    def encrypt(self, value: Any) -> str:
        return str(value)

    def decrypt(self, encrypted: str) -> Any:
        return encrypted
