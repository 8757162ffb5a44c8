"""Flags: round trips, generations and concurrent changes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from tests.contract.storage.conftest import (
    ACTOR,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    build_flag_services,
    build_no_entry,
    record_statements,
)
from tests.contract.storage.persons.test_cohorts import make_cohort, put_cohort
from tests.unit.flags.factories import FLAG
from tests.unit.projects.factories import make_project

EVERYBODY: dict[str, Any] = {"groups": [{"properties": [], "rollout_percentage": 100}]}
PLAIN = replace(
    FLAG,
    id=FlagId(0),
    project_id=DEFAULT_PROJECT,
    key="a-flag",
    filters=EVERYBODY,
    created_by="owner@example.com",
    last_modified_by="owner@example.com",
    created_at=NOW,
    updated_at=NOW,
)
FULL = replace(
    PLAIN,
    key="k" * 400,
    name="Größe 🌿 \u2028 'quoted' \\ %_",
    filters={
        "groups": [{"properties": [{"key": "naïve 🌿", "value": ["ü", 1, 1.5, None, True]}]}],
        "payloads": {"true": '{"a": "\\u00fc"}'},
        "big": 2**53 + 1,
        "": [],
    },
    active=False,
    archived=True,
    version=2**31 - 1,
    ensure_experience_continuity=True,
    is_remote_configuration=True,
    has_encrypted_payloads=True,
    evaluation_runtime=Runtime.SERVER,
    bucketing_identifier=Bucketing.DEVICE_ID,
    evaluation_contexts=("app", "ä"),
    tags=("🌿", "b", "a"),
    created_by="jemand@example.com",
    last_modified_by="",
    updated_at=NOW + timedelta(microseconds=1),
    last_called_at=LATER,
)


def build_flag_entry(flag: Flag) -> ActivityEntry:
    return ActivityEntry(
        scope="FeatureFlag",
        item_id=str(flag.id),
        item_name=flag.key,
        activity="written",
        actor=ACTOR,
        project_id=flag.project_id,
    )


async def put_flag(stores: Stores, flag: Flag = PLAIN, **fields: Any) -> Flag:
    expected = replace(flag, **fields)
    return await stores.flags.write(
        expected.project_id, lambda *_: FlagWrite(flag=expected, build_entry=build_flag_entry), NOW
    )


async def keys(stores: Stores, project_id: ProjectId = DEFAULT_PROJECT) -> list[str]:
    definitions = await stores.flags.definitions(project_id, "UTC")
    return [flag.key for flag in definitions.flags]


@pytest.mark.parametrize("flag", [PLAIN, FULL], ids=["plain", "full"])
async def test_flag_round_trips(stores: Stores, flag: Flag) -> None:
    created = await put_flag(stores, flag)
    assert created == replace(flag, id=created.id)
    assert created.id > 0
    assert await stores.flags.flag(DEFAULT_PROJECT, created.id) == created
    assert (await stores.flags.definitions(DEFAULT_PROJECT, "UTC")).flags == [created]


async def test_update_replaces_every_field(stores: Stores) -> None:
    created = await put_flag(stores)
    after = replace(FULL, id=created.id)
    assert await put_flag(stores, after) == after
    assert await stores.flags.flag(DEFAULT_PROJECT, created.id) == after


async def test_update_does_not_affect_other_flags(stores: Stores) -> None:
    one, two = await put_flag(stores, key="one"), await put_flag(stores, key="two")
    await put_flag(stores, one, active=False)
    assert await stores.flags.flag(DEFAULT_PROJECT, two.id) == two


async def test_deleted_flag_is_found_by_id_only(stores: Stores) -> None:
    created = await put_flag(stores)
    gone = await put_flag(stores, created, deleted=True)
    assert await stores.flags.flag(DEFAULT_PROJECT, created.id) == gone
    assert await keys(stores) == []


async def test_key_can_be_reused_after_deletion(stores: Stores) -> None:
    created = await put_flag(stores)
    await put_flag(stores, created, deleted=True)
    again = await put_flag(stores)
    assert again.id != created.id
    assert await keys(stores) == ["a-flag"]


async def test_project_sees_only_its_flags(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await put_flag(stores)
    theirs = await put_flag(stores, project_id=other.id)
    assert (await keys(stores), await keys(stores, other.id)) == (["a-flag"], ["a-flag"])
    assert await stores.flags.flag(DEFAULT_PROJECT, theirs.id) is None
    assert await stores.flags.flag(other.id, mine.id) is None
    assert await stores.flags.flag(DEFAULT_PROJECT, FlagId(2**62)) is None


async def test_decide_callback_sees_only_its_project(stores: Stores) -> None:
    other = await stores.new_project()
    theirs = await put_flag(stores, project_id=other.id)
    read_flags: list[Any] = []

    def decide(definitions: FlagDefinitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
        read_flags.append((list(definitions.flags), find(theirs.id)))
        return FlagWrite(flag=PLAIN, build_entry=build_flag_entry)

    await stores.flags.write(DEFAULT_PROJECT, decide, NOW)
    assert read_flags[-1] == ([], None)


async def test_definitions_contain_flags_cohorts_and_group_types(stores: Stores) -> None:
    other = await stores.new_project()
    await put_cohort(stores, make_cohort(project_id=other.id))
    await stores.persons.upsert_group_type(other.id, "theirs", 5)
    flag = await put_flag(stores)
    cohort = await put_cohort(stores, make_cohort())
    gone = await put_cohort(stores, make_cohort(name="Gone"))
    await put_cohort(stores, replace(gone, deleted=True))
    await stores.persons.upsert_group_type(DEFAULT_PROJECT, "company", 5)
    found = await stores.flags.definitions(DEFAULT_PROJECT, "Europe/Berlin")
    assert found == FlagDefinitions(
        generation=await stores.flags.generation(DEFAULT_PROJECT),
        flags=[flag],
        cohorts=[cohort],
        group_types={"company": 0},
        timezone="Europe/Berlin",
    )


async def test_definitions_use_a_constant_number_of_statements(stores: Stores) -> None:
    costs = []
    for n in range(3):
        await put_flag(stores, key=f"flag-{n}")
        await put_cohort(stores, make_cohort(name=f"Cohort {n}"))
        with record_statements() as read_flags:
            await stores.flags.definitions(DEFAULT_PROJECT, "UTC")
        costs.append(len(read_flags))
    assert len(set(costs)) == 1
    assert costs[0] <= 6


async def test_new_project_has_generation_zero(stores: Stores) -> None:
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.flags.generation(ProjectId(2**62)) == 0
    assert await stores.flags.generations() == {}
    empty = await stores.flags.definitions(ProjectId(999), "UTC")
    assert (empty.generation, empty.flags, empty.cohorts) == (0, [], [])


async def test_generation_advances_with_every_change_that_affects_flags(
    stores: Stores,
) -> None:
    async def count_generations(change: Any) -> int:
        before = await stores.flags.generation(DEFAULT_PROJECT)
        await change
        return await stores.flags.generation(DEFAULT_PROJECT) - before

    flag = await put_flag(stores)
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    ann = await stores.persons.upsert_person(
        DEFAULT_PROJECT, ["ann"], lambda _: {}, build_no_entry, NOW
    )
    assert await count_generations(put_flag(stores, key="another")) == 1
    assert await count_generations(put_flag(stores, flag, active=False)) == 1
    assert await count_generations(put_flag(stores, flag, deleted=True)) == 1
    assert await count_generations(put_cohort(stores, make_cohort(name="Another"))) == 1
    assert await count_generations(put_cohort(stores, replace(cohort, name="Renamed"))) == 1
    assert (
        await count_generations(stores.persons.upsert_group_type(DEFAULT_PROJECT, "company", 5))
        == 1
    )
    # Data that every evaluation reads does not advance the generation:
    assert (
        await count_generations(stores.persons.upsert_group_type(DEFAULT_PROJECT, "company", 5))
        == 0
    )
    assert await count_generations(put_cohort(stores, replace(cohort, name="Renamed"))) == 0
    assert (
        await count_generations(stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, ["ann"]))
        == 0
    )
    assert (
        await count_generations(
            stores.persons.upsert_group(DEFAULT_PROJECT, 0, "acme", {"a": 1}, NOW)
        )
        == 0
    )
    keep = stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, ["ann"], "anon", ["a-flag"])
    assert await count_generations(keep) == 0
    assert await count_generations(stores.delete_person(ann.uuid)) == 0


async def test_generations_are_per_project(stores: Stores) -> None:
    other = await stores.new_project()
    await put_flag(stores)
    await put_flag(stores, key="another")
    await put_cohort(stores, make_cohort(project_id=other.id))
    assert await stores.flags.generations() == {DEFAULT_PROJECT: 2, other.id: 1}


async def test_write_without_audit_entry_keeps_the_generation(stores: Stores) -> None:
    created = await put_flag(stores)
    before = (await stores.flags.generation(DEFAULT_PROJECT), await stores.count_entries())
    same = await stores.flags.write(
        DEFAULT_PROJECT, lambda *_: FlagWrite(flag=created, build_entry=lambda _: None), LATER
    )
    assert same == created
    after = (await stores.flags.generation(DEFAULT_PROJECT), await stores.count_entries())
    assert after == before


async def test_audit_entry_of_a_new_flag_has_its_id(stores: Stores) -> None:
    created = await put_flag(stores)
    [recorded] = await stores.list_entries(scope="FeatureFlag")
    assert (recorded.entry.item_id, recorded.created_at) == (str(created.id), NOW)


async def test_rejected_write_changes_nothing(stores: Stores) -> None:
    def reject(*_: Any) -> NoReturn:
        raise Invalid("No.")

    def fail(_: Flag) -> NoReturn:
        raise Invalid("No entry.")

    before = await stores.count_entries()
    with pytest.raises(Invalid):
        await stores.flags.write(DEFAULT_PROJECT, reject, NOW)
    with pytest.raises(Invalid):
        await stores.flags.write(
            DEFAULT_PROJECT, lambda *_: FlagWrite(flag=PLAIN, build_entry=fail), NOW
        )
    assert await keys(stores) == []
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.count_entries() == before


async def test_flags_written_together_can_reference_each_other(
    stores: Stores,
) -> None:
    old = await put_flag(stores, key="old")
    read_flags: list[list[Flag]] = []

    def work(definitions: FlagDefinitions, store: Callable[[FlagWrite], Flag]) -> None:
        read_flags.append(list(definitions.flags))
        first = store(FlagWrite(flag=replace(PLAIN, key="first"), build_entry=build_flag_entry))
        second = replace(PLAIN, key="second", name=f"after {first.id}")
        store(FlagWrite(flag=second, build_entry=build_flag_entry))
        store(FlagWrite(flag=old, build_entry=lambda _: None))

    before = await stores.flags.generation(DEFAULT_PROJECT)
    await stores.flags.write_all(DEFAULT_PROJECT, work, NOW)
    assert read_flags[-1] == [old]
    _, first, second = (await stores.flags.definitions(DEFAULT_PROJECT, "UTC")).flags
    assert (first.key, second.name) == ("first", f"after {first.id}")
    assert await stores.flags.generation(DEFAULT_PROJECT) == before + 1
    assert len(await stores.list_entries(scope="FeatureFlag")) == 3


async def test_flags_are_written_all_or_none(stores: Stores) -> None:
    def work(_: FlagDefinitions, store: Callable[[FlagWrite], Flag]) -> None:
        store(FlagWrite(flag=PLAIN, build_entry=build_flag_entry))
        raise Invalid("Not this one.")

    with pytest.raises(Invalid):
        await stores.flags.write_all(DEFAULT_PROJECT, work, NOW)
    assert await keys(stores) == []
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.list_entries(scope="FeatureFlag") == []


async def test_decode_cache_sees_changes_of_other_processes(
    stores: Stores, other_stores: Stores
) -> None:
    """Cached flags are reused only if they have not changed."""

    def create_many(_: FlagDefinitions, store: Callable[[FlagWrite], Flag]) -> None:
        for n in range(5):
            store(FlagWrite(flag=replace(PLAIN, key=f"flag-{n}"), build_entry=build_flag_entry))

    async def read_flags() -> dict[str, Flag]:
        found = await stores.flags.definitions(DEFAULT_PROJECT, "UTC")
        ids = [flag.id for flag in found.flags]
        assert ids == sorted(ids)
        return {flag.key: flag for flag in found.flags}

    await other_stores.flags.write_all(DEFAULT_PROJECT, create_many, NOW)
    before = await read_flags()
    assert len(before) == 5
    one, two, three = before["flag-0"], before["flag-1"], before["flag-2"]
    changed = await put_flag(other_stores, one, version=2, filters={"groups": []})
    gone = await put_flag(other_stores, two, version=2, deleted=True)
    renamed = await put_flag(other_stores, three, key="renamed", updated_at=LATER)
    new = await put_flag(other_stores, key="new")
    after = await read_flags()
    assert after["flag-3"] is before["flag-3"]
    assert (after["flag-0"], after["renamed"], after["new"]) == (changed, renamed, new)
    assert after.keys() == before.keys() - {"flag-1", "flag-2"} | {"renamed", "new"}
    restored = await put_flag(other_stores, gone, version=3, deleted=False, name="back")
    assert (await read_flags())["flag-1"] == restored


async def test_of_two_concurrent_flags_with_one_key_one_is_created(
    stores: Stores, other_stores: Stores
) -> None:
    project = make_project(DEFAULT_PROJECT)
    fields = FlagFields(key="same", filters=EVERYBODY)
    created = await asyncio.gather(
        *(
            service.create(project, fields, ACTOR, NOW)
            for _ in range(6)
            for service in build_flag_services(stores, other_stores)
        ),
        return_exceptions=True,
    )
    winners = [each for each in created if isinstance(each, Flag)]
    losers = [(each.code, each.attr) for each in created if isinstance(each, Invalid)]
    assert len(winners) == 1, created
    assert losers == [("unique", "key")] * 11
    assert await keys(stores) == ["same"]
    assert await stores.flags.generation(DEFAULT_PROJECT) == 1


async def test_concurrent_updates_of_a_flag_lose_no_change(
    stores: Stores, other_stores: Stores
) -> None:
    created = await put_flag(stores)

    def renamed(number: int) -> Callable[..., FlagWrite]:
        def decide(_: FlagDefinitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
            before = find(created.id)
            assert before is not None
            after = replace(before, version=before.version + 1, tags=(*before.tags, str(number)))
            return FlagWrite(flag=after, build_entry=build_flag_entry)

        return decide

    await asyncio.gather(
        *(
            process.flags.write(DEFAULT_PROJECT, renamed(number), NOW)
            for number, process in enumerate([stores, other_stores] * 10)
        )
    )
    after = await stores.flags.flag(DEFAULT_PROJECT, created.id)
    assert after is not None
    assert after.version == 21
    assert sorted(after.tags, key=int) == [str(n) for n in range(20)]
    assert await stores.flags.generation(DEFAULT_PROJECT) == 21


async def test_definitions_match_their_generation(stores: Stores, other_stores: Stores) -> None:
    """Each generation adds one flag, so the number of flags must match the generation."""

    async def read_repeatedly() -> None:
        for _ in range(30):
            found = await other_stores.flags.definitions(DEFAULT_PROJECT, "UTC")
            assert len(found.flags) == found.generation

    async def write_repeatedly() -> None:
        for n in range(20):
            await put_flag(stores, key=f"flag-{n}")

    await asyncio.gather(write_repeatedly(), read_repeatedly(), read_repeatedly())


def build_flag_using(cohort_id: int, is_there: bool) -> Flag:
    return replace(PLAIN, key=f"uses-{cohort_id}", name=f"{cohort_id} {is_there}")


async def test_flag_and_cohort_changes_are_serialized(stores: Stores, other_stores: Stores) -> None:
    """A flag can use a cohort only while it exists, also during its deletion."""
    flags: SqlFlagStore = stores.flags
    cohorts: SqlCohortStore = other_stores.cohorts
    for _ in range(5):
        cohort = await put_cohort(stores, make_cohort())

        def write_flag(
            definitions: FlagDefinitions, _: Callable[[FlagId], Flag | None], id: int = cohort.id
        ) -> FlagWrite:
            is_there = any(each.id == id for each in definitions.cohorts)
            return FlagWrite(flag=build_flag_using(id, is_there), build_entry=build_flag_entry)

        flag, _ = await asyncio.gather(
            flags.write(DEFAULT_PROJECT, write_flag, NOW),
            put_cohort(other_stores, replace(cohort, deleted=True)),
        )
        entries = await stores.list_entries(project_id=DEFAULT_PROJECT)
        first_done = min(entries[:2], key=lambda each: each.id)
        flag_came_first = first_done.entry.scope == "FeatureFlag"
        assert flag.name == f"{cohort.id} {flag_came_first}"
    assert (await cohorts.cohorts(DEFAULT_PROJECT, limit=10, offset=0))[1] == 0
