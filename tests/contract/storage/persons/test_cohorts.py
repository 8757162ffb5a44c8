"""Cohorts and their members, also under concurrent changes."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.persons.cohorts import CohortFields, Cohorts
from hedgerow.persons.model import Cohort, CohortId, Person
from hedgerow.persons.store import FlagsUsingCohort, PersonQuery
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from tests.contract.storage.conftest import (
    ACTOR,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    build_flag_services,
    build_no_entry,
    record_statements,
    run_before_statement,
    run_sql,
)

PLAIN = Cohort(
    id=CohortId(0),
    project_id=DEFAULT_PROJECT,
    name="A cohort",
    description="",
    is_static=False,
    definition={"type": "AND", "values": []},
    deleted=False,
    created_by="owner@example.com",
    created_at=NOW,
    updated_at=NOW,
)
FULL = replace(
    PLAIN,
    name="Größe 🌿",
    description="'quoted' \\ %_ \u2028",
    is_static=True,
    definition={
        "type": "OR",
        "values": [{"key": "naïve 🌿", "value": ["ü", 1, 1.5, True, None, 2**53 + 1]}],
    },
    created_by="jemand@example.com",
    updated_at=NOW + timedelta(microseconds=1),
)


def make_cohort(**fields: Any) -> Cohort:
    return replace(PLAIN, **fields)


def build_entry(before: Cohort | None, after: Cohort) -> ActivityEntry:
    return ActivityEntry(
        scope="Cohort",
        item_id=str(after.id),
        item_name=f"{before.name if before else None} -> {after.name}",
        activity="written",
        actor=ACTOR,
        project_id=after.project_id,
    )


async def put_cohort(stores: Stores, cohort: Cohort) -> Cohort:
    return await stores.cohorts.write_cohort(cohort.project_id, lambda *_: cohort, build_entry, NOW)


async def create_person(
    stores: Stores, *ids: str, project_id: ProjectId = DEFAULT_PROJECT, **properties: Any
) -> Person:
    return await stores.persons.upsert_person(
        project_id, ids, lambda _: properties, build_no_entry, NOW
    )


async def add(stores: Stores, cohort: Cohort, *ids: str) -> int:
    return await stores.cohorts.add_members(cohort.project_id, cohort.id, ids)


async def members(stores: Stores, cohort: Cohort) -> int:
    return (await stores.cohorts.count_members([cohort.id]))[cohort.id]


async def is_in(stores: Stores, id: str) -> frozenset[int]:
    return (await stores.evaluation_data.load(DEFAULT_PROJECT, id, {})).cohorts


@pytest.mark.parametrize("cohort", [PLAIN, FULL], ids=["plain", "full"])
async def test_cohort_round_trips(stores: Stores, cohort: Cohort) -> None:
    created = await put_cohort(stores, cohort)
    assert created == replace(cohort, id=created.id)
    assert created.id > 0
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, created.id) == created
    assert await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=9, offset=0) == ([created], 1)
    changed = replace(FULL, id=created.id, name="Changed")
    assert await put_cohort(stores, changed) == changed
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, created.id) == changed


async def test_cohorts_are_listed_newest_first_in_pages(stores: Stores) -> None:
    ids = [(await put_cohort(stores, make_cohort(name=str(n)))).id for n in range(7)]
    pages = [
        await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=3, offset=offset)
        for offset in (0, 3, 6, 2**62)
    ]
    assert [each.id for page, _ in pages for each in page] == ids[::-1]
    assert {count for _, count in pages} == {7}
    found = await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=9, offset=0, search="3")
    assert [each.id for each in found[0]] == [ids[3]]


async def test_deleted_cohort_is_found_by_id_only(stores: Stores) -> None:
    created = await put_cohort(stores, PLAIN)
    gone = await put_cohort(stores, replace(created, deleted=True))
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, created.id) == gone
    assert await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=9, offset=0) == ([], 0)


async def test_project_sees_only_its_cohorts(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await put_cohort(stores, PLAIN)
    theirs = await put_cohort(stores, make_cohort(project_id=other.id))
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, theirs.id) is None
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, CohortId(2**62)) is None
    assert await stores.cohorts.cohorts(other.id, limit=9, offset=0) == ([theirs], 1)
    seen: list[Mapping[CohortId, Cohort]] = []

    def decide(present: Mapping[CohortId, Cohort], _: FlagsUsingCohort) -> Cohort:
        seen.append(present)
        return PLAIN

    await stores.cohorts.write_cohort(DEFAULT_PROJECT, decide, build_entry, NOW)
    assert seen[-1] == {mine.id: mine}


async def test_write_without_change_is_not_audited(stores: Stores) -> None:
    created = await put_cohort(stores, FULL)
    before = await stores.count_entries()
    assert await put_cohort(stores, created) == created
    assert await stores.count_entries() == before
    assert await stores.flags.generation(DEFAULT_PROJECT) == 1


async def test_each_change_is_audited_once(stores: Stores) -> None:
    created = await put_cohort(stores, PLAIN)
    await put_cohort(stores, replace(created, name="Other"))
    names = [(each.entry.item_id, each.entry.item_name) for each in await stores.list_entries()]
    assert names[:2] == [
        (str(created.id), "A cohort -> Other"),
        (str(created.id), "None -> A cohort"),
    ]


async def test_rejected_write_changes_nothing(stores: Stores) -> None:
    def reject(*_: Any) -> NoReturn:
        raise Invalid("No.")

    before = await stores.count_entries()
    with pytest.raises(Invalid):
        await stores.cohorts.write_cohort(DEFAULT_PROJECT, reject, build_entry, NOW)
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.count_entries() == before


async def test_members_are_distinct_persons(stores: Stores) -> None:
    await create_person(stores, "ann", "ann-2")
    await create_person(stores, "🌿", "'; DROP TABLE persons; --")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    assert await add(stores, cohort, "ann", "ann-2", "ann", "unknown") == 1
    assert await add(stores, cohort, "ann") == 1
    assert await add(stores, cohort, "'; DROP TABLE persons; --", "🌿") == 2
    assert await add(stores, cohort) == 2
    assert await members(stores, cohort) == 2
    assert await is_in(stores, "ann-2") == {cohort.id}
    assert await is_in(stores, "unknown") == frozenset()


async def test_members_of_many_cohorts_are_counted_in_one_statement(stores: Stores) -> None:
    for id in ("ann", "bob"):
        await create_person(stores, id)
    both, one, none = [await put_cohort(stores, make_cohort(is_static=True)) for _ in range(3)]
    await add(stores, both, "ann", "bob")
    await add(stores, one, "bob")
    with record_statements() as seen:
        found = await stores.cohorts.count_members([both.id, one.id, none.id])
    assert found == {both.id: 2, one.id: 1, none.id: 0}
    assert sum("cohort_people" in each for each in seen) == 1
    assert await stores.cohorts.count_members([]) == {}


async def test_members_are_persons_of_the_same_project(stores: Stores) -> None:
    other = await stores.new_project()
    await create_person(stores, "ann", project_id=other.id)
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    assert await add(stores, cohort, "ann") == 0


async def test_large_cohort_is_filled_in_few_statements(stores: Stores) -> None:
    for n in range(3):
        await create_person(stores, f"user-{n}", f"user-{n + 1500}")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    with record_statements() as seen:
        assert await add(stores, cohort, *(f"user-{n}" for n in range(2000))) == 3
    assert len(seen) <= 15


async def test_persons_can_be_listed_by_cohort(stores: Stores) -> None:
    ann, bob = await create_person(stores, "ann"), await create_person(stores, "bob")
    one, two = [await put_cohort(stores, make_cohort(is_static=True)) for _ in range(2)]
    await add(stores, one, "ann", "bob")
    await add(stores, two, "bob")
    found = [
        await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT, cohort_id=each.id))
        for each in (one, two)
    ]
    assert found == [([bob, ann], 2), ([bob], 1)]


async def test_deleted_person_is_in_no_cohort(stores: Stores) -> None:
    ann = await create_person(stores, "ann")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    await add(stores, cohort, "ann")
    assert await stores.delete_person(ann.uuid)
    assert await members(stores, cohort) == 0
    await create_person(stores, "ann")
    assert await is_in(stores, "ann") == frozenset()


async def test_concurrently_added_members_are_stored_once(
    stores: Stores, other_stores: Stores
) -> None:
    ids = [f"user-{n}" for n in range(12)]
    for id in ids:
        await create_person(stores, id)
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    await asyncio.gather(
        *(
            add(process, cohort, *(ids[turn:] + ids[:turn]))
            for turn in range(6)
            for process in (stores, other_stores)
        )
    )
    assert await members(stores, cohort) == 12


async def test_concurrent_changes_cannot_create_a_cohort_cycle(
    stores: Stores, other_stores: Stores
) -> None:
    one, two = [await put_cohort(stores, make_cohort(name=str(n))) for n in range(2)]

    def build_reference(other: Cohort) -> CohortFields:
        leaf = {"type": "cohort", "key": "id", "value": other.id}
        return CohortFields(definition={"type": "AND", "values": [leaf]})

    mine, theirs = Cohorts(stores.cohorts), Cohorts(other_stores.cohorts)
    done = await asyncio.gather(
        mine.change(DEFAULT_PROJECT, one.id, build_reference(two), ACTOR, LATER),
        theirs.change(DEFAULT_PROJECT, two.id, build_reference(one), ACTOR, LATER),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Invalid) for each in done) == 1, done
    assert sum(isinstance(each, Cohort) for each in done) == 1, done


GONE = CohortFields(deleted=True)


def build_flag_fields(key: str, cohort: Cohort) -> FlagFields:
    filter = {"key": "id", "type": "cohort", "value": cohort.id}
    return FlagFields(key=key, filters={"groups": [{"properties": [filter]}]})


async def test_cohort_used_by_a_flag_cannot_be_deleted(stores: Stores) -> None:
    [flags], cohorts = build_flag_services(stores), Cohorts(stores.cohorts)
    project = await stores.new_project()
    cohort = await put_cohort(stores, make_cohort(project_id=project.id))
    created = await flags.create(project, build_flag_fields("uses", cohort), ACTOR, NOW)
    with pytest.raises(Invalid, match=r"flags use this cohort \(uses\)"):
        await cohorts.change(project.id, cohort.id, GONE, ACTOR, LATER)
    off = FlagFields(deleted=True)
    await flags.change(project, created.id, off, seen=None, actor=ACTOR, now=LATER)
    assert (await cohorts.change(project.id, cohort.id, GONE, ACTOR, LATER)).deleted


async def test_cohort_used_by_a_cohort_cannot_be_deleted(stores: Stores) -> None:
    cohorts = Cohorts(stores.cohorts)
    inner = await put_cohort(stores, PLAIN)
    leaf = {"type": "cohort", "key": "id", "value": inner.id}
    definition = {"type": "AND", "values": [{"type": "OR", "values": [leaf]}]}
    outer = await put_cohort(stores, make_cohort(name="Outer " * 50, definition=definition))
    with pytest.raises(Invalid, match="other cohorts use it") as refused:
        await cohorts.change(DEFAULT_PROJECT, inner.id, GONE, ACTOR, LATER)
    assert len(refused.value.detail) < 200
    for each in (outer, inner):
        assert (await cohorts.change(DEFAULT_PROJECT, each.id, GONE, ACTOR, LATER)).deleted


async def test_concurrent_cohort_deletion_and_flag_use_exclude_each_other(
    stores: Stores, other_stores: Stores
) -> None:
    project = await stores.new_project()
    mine, [theirs] = Cohorts(stores.cohorts), build_flag_services(other_stores)
    for number in range(5):
        cohort = await put_cohort(stores, make_cohort(project_id=project.id))
        flag_fields = build_flag_fields(f"uses-{number}", cohort)
        done = await asyncio.gather(
            mine.change(project.id, cohort.id, GONE, ACTOR, LATER),
            theirs.create(project, flag_fields, ACTOR, LATER),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Invalid) for each in done) == 1, done


async def test_concurrently_deleted_person_is_skipped_when_filling_a_cohort(stores: Stores) -> None:
    """Another process deletes between read and insert. SQLite has one writer."""
    if stores.location.is_sqlite:
        pytest.skip("one writer at a time")
    await create_person(stores, "ann")
    await create_person(stores, "bob")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    with run_before_statement("INSERT INTO cohort_people", lambda: delete_person(stores, "ann")):
        assert await add(stores, cohort, "ann", "bob") == 1


def delete_person(stores: Stores, distinct_id: str) -> None:
    run_sql(
        stores.location,
        "DELETE FROM persons WHERE id IN "
        "(SELECT person_id FROM person_distinct_ids WHERE distinct_id = :id)",
        id=distinct_id,
    )


def build_filters(count: int) -> dict[str, Any]:
    filter = {"type": "person", "key": "plan", "operator": "exact", "value": "pro"}
    return {"type": "AND", "values": [filter] * count}


def refer_to(*cohorts: Cohort) -> dict[str, Any]:
    values = [{"type": "cohort", "key": "id", "value": each.id} for each in cohorts]
    return {"type": "OR", "values": values}


async def test_a_change_cannot_make_a_cohort_too_large(stores: Stores) -> None:
    """Neither the cohort itself nor one that refers to it."""
    cohorts = Cohorts(stores.cohorts)

    async def create(definition: Any) -> Cohort:
        fields = CohortFields(name="A cohort", definition=definition)
        return await cohorts.create(DEFAULT_PROJECT, fields, ACTOR, NOW)

    async def change(cohort: Cohort, definition: Any) -> Cohort:
        fields = CohortFields(definition=definition)
        return await cohorts.change(DEFAULT_PROJECT, cohort.id, fields, ACTOR, NOW)

    large = [await create(build_filters(990)) for _ in range(3)]
    small = await create(build_filters(1))
    outer = await create(refer_to(large[0], large[1], large[2], small))
    with pytest.raises(Invalid) as caught:
        await change(small, build_filters(500))
    assert caught.value.code == "cohort_too_large"
    assert 'The cohort "A cohort" uses this one.' in caught.value.detail
    with pytest.raises(Invalid) as caught:
        await change(small, refer_to(outer))
    assert caught.value.detail == "A cohort cannot contain itself, not even through others."
    await change(small, build_filters(2))
    await change(outer, refer_to(small))
    await change(small, build_filters(500))
