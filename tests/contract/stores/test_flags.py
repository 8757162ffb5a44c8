"""Flags: what is stored comes back, every change is seen, and changes at once leave one truth."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.flags import FEW, FlagRecords
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    SOMEBODY,
    Stores,
    flag_rooms,
    nothing_told,
    statements,
)
from tests.contract.stores.test_cohorts import a_cohort, put_cohort
from tests.unit.projects.world import a_project

EVERYBODY: dict[str, Any] = {"groups": [{"properties": [], "rollout_percentage": 100}]}
PLAIN = Flag(
    id=FlagId(0),
    project_id=DEFAULT_PROJECT,
    key="a-flag",
    name="",
    filters=EVERYBODY,
    active=True,
    deleted=False,
    archived=False,
    version=1,
    ensure_experience_continuity=False,
    is_remote_configuration=False,
    has_encrypted_payloads=False,
    evaluation_runtime=Runtime.ALL,
    bucketing_identifier=Bucketing.DISTINCT_ID,
    evaluation_contexts=(),
    tags=(),
    created_by="owner@example.com",
    last_modified_by="owner@example.com",
    created_at=NOW,
    updated_at=NOW,
    last_called_at=None,
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


def told_of(flag: Flag) -> Entry:
    return Entry(
        scope="FeatureFlag",
        item_id=str(flag.id),
        item_name=flag.key,
        activity="written",
        actor=SOMEBODY,
        project_id=flag.project_id,
    )


async def put_flag(stores: Stores, flag: Flag = PLAIN, **fields: Any) -> Flag:
    wanted = replace(flag, **fields)
    return await stores.flags.write(
        wanted.project_id, lambda *_: FlagWrite(flag=wanted, tell=told_of), NOW
    )


async def keys(stores: Stores, project_id: ProjectId = DEFAULT_PROJECT) -> list[str]:
    definitions = await stores.flags.definitions(project_id, "UTC")
    return [flag.key for flag in definitions.flags]


@pytest.mark.parametrize("flag", [PLAIN, FULL], ids=["plain", "full"])
async def test_a_flag_reads_back_as_it_was_written(stores: Stores, flag: Flag) -> None:
    made = await put_flag(stores, flag)
    assert made == replace(flag, id=made.id)
    assert made.id > 0
    assert await stores.flags.flag(DEFAULT_PROJECT, made.id) == made
    assert (await stores.flags.definitions(DEFAULT_PROJECT, "UTC")).flags == [made]


async def test_a_change_replaces_every_field(stores: Stores) -> None:
    made = await put_flag(stores)
    after = replace(FULL, id=made.id)
    assert await put_flag(stores, after) == after
    assert await stores.flags.flag(DEFAULT_PROJECT, made.id) == after


async def test_a_change_leaves_other_flags_as_they_were(stores: Stores) -> None:
    one, two = await put_flag(stores, key="one"), await put_flag(stores, key="two")
    await put_flag(stores, one, active=False)
    assert await stores.flags.flag(DEFAULT_PROJECT, two.id) == two


async def test_a_deleted_flag_is_found_by_its_id_alone(stores: Stores) -> None:
    made = await put_flag(stores)
    gone = await put_flag(stores, made, deleted=True)
    assert await stores.flags.flag(DEFAULT_PROJECT, made.id) == gone
    assert await keys(stores) == []


async def test_a_key_is_free_again_once_its_flag_is_deleted(stores: Stores) -> None:
    made = await put_flag(stores)
    await put_flag(stores, made, deleted=True)
    again = await put_flag(stores)
    assert again.id != made.id
    assert await keys(stores) == ["a-flag"]


async def test_a_project_sees_its_own_flags_only(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await put_flag(stores)
    theirs = await put_flag(stores, project_id=other.id)
    assert (await keys(stores), await keys(stores, other.id)) == (["a-flag"], ["a-flag"])
    assert await stores.flags.flag(DEFAULT_PROJECT, theirs.id) is None
    assert await stores.flags.flag(other.id, mine.id) is None
    assert await stores.flags.flag(DEFAULT_PROJECT, FlagId(2**62)) is None


async def test_decide_sees_and_finds_nothing_of_another_project(stores: Stores) -> None:
    other = await stores.new_project()
    theirs = await put_flag(stores, project_id=other.id)
    seen: list[Any] = []

    def decide(definitions: Definitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
        seen.append((list(definitions.flags), find(theirs.id)))
        return FlagWrite(flag=PLAIN, tell=told_of)

    await stores.flags.write(DEFAULT_PROJECT, decide, NOW)
    assert seen[-1] == ([], None)


async def test_definitions_hold_flags_cohorts_and_group_types(stores: Stores) -> None:
    other = await stores.new_project()
    await put_cohort(stores, a_cohort(project_id=other.id))
    await stores.persons.put_group_type(other.id, "theirs", 5)
    flag = await put_flag(stores)
    cohort = await put_cohort(stores, a_cohort())
    gone = await put_cohort(stores, a_cohort(name="Gone"))
    await put_cohort(stores, replace(gone, deleted=True))
    await stores.persons.put_group_type(DEFAULT_PROJECT, "company", 5)
    found = await stores.flags.definitions(DEFAULT_PROJECT, "Europe/Berlin")
    assert found == Definitions(
        generation=await stores.flags.generation(DEFAULT_PROJECT),
        flags=[flag],
        cohorts=[cohort],
        group_types={"company": 0},
        timezone="Europe/Berlin",
    )


async def test_definitions_cost_the_same_however_many_there_are(stores: Stores) -> None:
    costs = []
    for n in range(3):
        await put_flag(stores, key=f"flag-{n}")
        await put_cohort(stores, a_cohort(name=f"Cohort {n}"))
        with statements() as seen:
            await stores.flags.definitions(DEFAULT_PROJECT, "UTC")
        costs.append(len(seen))
    assert len(set(costs)) == 1
    assert costs[0] <= 6


async def test_a_project_nobody_wrote_to_has_no_generation(stores: Stores) -> None:
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.flags.generation(ProjectId(2**62)) == 0
    assert await stores.flags.generations() == {}
    empty = await stores.flags.definitions(ProjectId(999), "UTC")
    assert (empty.generation, empty.flags, empty.cohorts) == (0, [], [])


async def test_the_generation_moves_with_every_change_of_what_decides_flags(
    stores: Stores,
) -> None:
    async def moves(change: Any) -> int:
        before = await stores.flags.generation(DEFAULT_PROJECT)
        await change
        return await stores.flags.generation(DEFAULT_PROJECT) - before

    flag = await put_flag(stores)
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    ann = await stores.persons.put_person(DEFAULT_PROJECT, ["ann"], lambda _: {}, nothing_told, NOW)
    assert await moves(put_flag(stores, key="another")) == 1
    assert await moves(put_flag(stores, flag, active=False)) == 1
    assert await moves(put_flag(stores, flag, deleted=True)) == 1
    assert await moves(put_cohort(stores, a_cohort(name="Another"))) == 1
    assert await moves(put_cohort(stores, replace(cohort, name="Renamed"))) == 1
    assert await moves(stores.persons.put_group_type(DEFAULT_PROJECT, "company", 5)) == 1
    # What is read anew for each decision moves nothing:
    assert await moves(stores.persons.put_group_type(DEFAULT_PROJECT, "company", 5)) == 0
    assert await moves(put_cohort(stores, replace(cohort, name="Renamed"))) == 0
    assert await moves(stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, ["ann"])) == 0
    assert await moves(stores.persons.put_group(DEFAULT_PROJECT, 0, "acme", {"a": 1}, NOW)) == 0
    keep = stores.subjects.keep_hash_keys(DEFAULT_PROJECT, ["ann"], "anon", ["a-flag"])
    assert await moves(keep) == 0
    assert await moves(stores.forget(ann.uuid)) == 0


async def test_generations_are_each_projects_own(stores: Stores) -> None:
    other = await stores.new_project()
    await put_flag(stores)
    await put_flag(stores, key="another")
    await put_cohort(stores, a_cohort(project_id=other.id))
    assert await stores.flags.generations() == {DEFAULT_PROJECT: 2, other.id: 1}


async def test_a_write_that_tells_nothing_moves_nothing(stores: Stores) -> None:
    made = await put_flag(stores)
    before = (await stores.flags.generation(DEFAULT_PROJECT), await stores.entry_count())
    same = await stores.flags.write(
        DEFAULT_PROJECT, lambda *_: FlagWrite(flag=made, tell=lambda _: None), LATER
    )
    assert same == made
    after = (await stores.flags.generation(DEFAULT_PROJECT), await stores.entry_count())
    assert after == before


async def test_the_trail_names_a_new_flag_by_its_id(stores: Stores) -> None:
    made = await put_flag(stores)
    [recorded] = await stores.entries(scope="FeatureFlag")
    assert (recorded.entry.item_id, recorded.created_at) == (str(made.id), NOW)


async def test_a_refused_write_leaves_nothing_behind(stores: Stores) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise Invalid("No.")

    def fail(_: Flag) -> NoReturn:
        raise Invalid("Not told.")

    before = await stores.entry_count()
    with pytest.raises(Invalid):
        await stores.flags.write(DEFAULT_PROJECT, refuse, NOW)
    with pytest.raises(Invalid):
        await stores.flags.write(DEFAULT_PROJECT, lambda *_: FlagWrite(flag=PLAIN, tell=fail), NOW)
    assert await keys(stores) == []
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.entry_count() == before


async def test_several_flags_are_written_at_once_and_the_next_may_name_the_one_before(
    stores: Stores,
) -> None:
    old = await put_flag(stores, key="old")
    seen: list[list[Flag]] = []

    def work(definitions: Definitions, store: Callable[[FlagWrite], Flag]) -> None:
        seen.append(list(definitions.flags))
        first = store(FlagWrite(flag=replace(PLAIN, key="first"), tell=told_of))
        second = replace(PLAIN, key="second", name=f"after {first.id}")
        store(FlagWrite(flag=second, tell=told_of))
        store(FlagWrite(flag=old, tell=lambda _: None))

    before = await stores.flags.generation(DEFAULT_PROJECT)
    await stores.flags.write_all(DEFAULT_PROJECT, work, NOW)
    assert seen[-1] == [old]
    _, first, second = (await stores.flags.definitions(DEFAULT_PROJECT, "UTC")).flags
    assert (first.key, second.name) == ("first", f"after {first.id}")
    assert await stores.flags.generation(DEFAULT_PROJECT) == before + 1
    assert len(await stores.entries(scope="FeatureFlag")) == 3


async def test_several_flags_are_written_all_or_none(stores: Stores) -> None:
    def work(_: Definitions, store: Callable[[FlagWrite], Flag]) -> None:
        store(FlagWrite(flag=PLAIN, tell=told_of))
        raise Invalid("Not this one.")

    with pytest.raises(Invalid):
        await stores.flags.write_all(DEFAULT_PROJECT, work, NOW)
    assert await keys(stores) == []
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.entries(scope="FeatureFlag") == []


async def test_among_many_flags_every_change_of_another_process_is_seen(
    stores: Stores, other_stores: Stores
) -> None:
    """What was read before is taken over only as far as it has not changed."""

    def many(_: Definitions, store: Callable[[FlagWrite], Flag]) -> None:
        for n in range(FEW + 5):
            store(FlagWrite(flag=replace(PLAIN, key=f"flag-{n}"), tell=told_of))

    async def seen() -> dict[str, Flag]:
        found = await stores.flags.definitions(DEFAULT_PROJECT, "UTC")
        ids = [flag.id for flag in found.flags]
        assert ids == sorted(ids)
        return {flag.key: flag for flag in found.flags}

    await other_stores.flags.write_all(DEFAULT_PROJECT, many, NOW)
    before = await seen()
    assert len(before) == FEW + 5
    one, two, three = before["flag-0"], before["flag-100"], before["flag-204"]
    changed = await put_flag(other_stores, one, version=2, filters={"groups": []})
    gone = await put_flag(other_stores, two, version=2, deleted=True)
    renamed = await put_flag(other_stores, three, key="renamed", updated_at=LATER)
    new = await put_flag(other_stores, key="new")
    after = await seen()
    assert (after["flag-0"], after["renamed"], after["new"]) == (changed, renamed, new)
    assert after.keys() == before.keys() - {"flag-100", "flag-204"} | {"renamed", "new"}
    restored = await put_flag(other_stores, gone, version=3, deleted=False, name="back")
    assert (await seen())["flag-100"] == restored


async def test_of_two_flags_with_one_key_made_at_once_one_wins(
    stores: Stores, other_stores: Stores
) -> None:
    project = a_project(DEFAULT_PROJECT)
    fields = FlagFields(key="same", filters=EVERYBODY)
    made = await asyncio.gather(
        *(
            room.create(project, fields, SOMEBODY, NOW)
            for _ in range(6)
            for room in flag_rooms(stores, other_stores)
        ),
        return_exceptions=True,
    )
    winners = [each for each in made if isinstance(each, Flag)]
    losers = [(each.code, each.attr) for each in made if isinstance(each, Invalid)]
    assert len(winners) == 1, made
    assert losers == [("unique", "key")] * 11
    assert await keys(stores) == ["same"]
    assert await stores.flags.generation(DEFAULT_PROJECT) == 1


async def test_changes_of_one_flag_at_once_do_not_lose_each_other(
    stores: Stores, other_stores: Stores
) -> None:
    made = await put_flag(stores)

    def renamed(number: int) -> Callable[..., FlagWrite]:
        def decide(_: Definitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
            before = find(made.id)
            assert before is not None
            after = replace(before, version=before.version + 1, tags=(*before.tags, str(number)))
            return FlagWrite(flag=after, tell=told_of)

        return decide

    await asyncio.gather(
        *(
            process.flags.write(DEFAULT_PROJECT, renamed(number), NOW)
            for number, process in enumerate([stores, other_stores] * 10)
        )
    )
    after = await stores.flags.flag(DEFAULT_PROJECT, made.id)
    assert after is not None
    assert after.version == 21
    assert sorted(after.tags, key=int) == [str(n) for n in range(20)]
    assert await stores.flags.generation(DEFAULT_PROJECT) == 21


async def test_a_generation_never_belongs_to_definitions_of_another(
    stores: Stores, other_stores: Stores
) -> None:
    """One flag is added with each generation, so whoever reads finds as many as it says."""

    async def reading() -> None:
        for _ in range(30):
            found = await other_stores.flags.definitions(DEFAULT_PROJECT, "UTC")
            assert len(found.flags) == found.generation

    async def writing() -> None:
        for n in range(20):
            await put_flag(stores, key=f"flag-{n}")

    await asyncio.gather(writing(), reading(), reading())


def asked_by(cohort_id: int, is_there: bool) -> Flag:
    return replace(PLAIN, key=f"asks-{cohort_id}", name=f"{cohort_id} {is_there}")


async def test_flags_and_cohorts_of_one_project_change_one_after_another(
    stores: Stores, other_stores: Stores
) -> None:
    """A flag may ask for a cohort only while it is there, whoever deletes it meanwhile."""
    flags: FlagRecords = stores.flags
    cohorts: CohortRecords = other_stores.cohorts
    for _ in range(5):
        cohort = await put_cohort(stores, a_cohort())

        def asking(
            definitions: Definitions, _: Callable[[FlagId], Flag | None], id: int = cohort.id
        ) -> FlagWrite:
            is_there = any(each.id == id for each in definitions.cohorts)
            return FlagWrite(flag=asked_by(id, is_there), tell=told_of)

        flag, _ = await asyncio.gather(
            flags.write(DEFAULT_PROJECT, asking, NOW),
            put_cohort(other_stores, replace(cohort, deleted=True)),
        )
        entries = await stores.entries(project_id=DEFAULT_PROJECT)
        first_done = min(entries[:2], key=lambda each: each.id)
        flag_came_first = first_done.entry.scope == "FeatureFlag"
        assert flag.name == f"{cohort.id} {flag_came_first}"
    assert (await cohorts.cohorts(DEFAULT_PROJECT, limit=10, offset=0))[1] == 0
