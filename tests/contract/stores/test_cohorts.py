"""Cohorts: definitions come back whole, members are persons of the same project, each once."""

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
from hedgerow.persons.store import Askers, PersonQuery
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    SOMEBODY,
    Stores,
    before_statement,
    flag_rooms,
    nothing_told,
    run_sql,
    statements,
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


def a_cohort(**fields: Any) -> Cohort:
    return replace(PLAIN, **fields)


def tell(before: Cohort | None, after: Cohort) -> Entry:
    return Entry(
        scope="Cohort",
        item_id=str(after.id),
        item_name=f"{before.name if before else None} -> {after.name}",
        activity="written",
        actor=SOMEBODY,
        project_id=after.project_id,
    )


async def put_cohort(stores: Stores, cohort: Cohort) -> Cohort:
    return await stores.cohorts.write_cohort(cohort.project_id, lambda *_: cohort, tell, NOW)


async def a_person(
    stores: Stores, *ids: str, project_id: ProjectId = DEFAULT_PROJECT, **properties: Any
) -> Person:
    return await stores.persons.put_person(project_id, ids, lambda _: properties, nothing_told, NOW)


async def add(stores: Stores, cohort: Cohort, *ids: str) -> int:
    return await stores.cohorts.add_members(cohort.project_id, cohort.id, ids)


async def members(stores: Stores, cohort: Cohort) -> int:
    return (await stores.cohorts.members([cohort.id]))[cohort.id]


async def is_in(stores: Stores, id: str) -> frozenset[int]:
    return (await stores.subjects.subject(DEFAULT_PROJECT, id, {})).cohorts


@pytest.mark.parametrize("cohort", [PLAIN, FULL], ids=["plain", "full"])
async def test_a_cohort_reads_back_as_it_was_written(stores: Stores, cohort: Cohort) -> None:
    made = await put_cohort(stores, cohort)
    assert made == replace(cohort, id=made.id)
    assert made.id > 0
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, made.id) == made
    assert await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=9, offset=0) == ([made], 1)
    changed = replace(FULL, id=made.id, name="Changed")
    assert await put_cohort(stores, changed) == changed
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, made.id) == changed


async def test_the_newest_cohort_stands_first_and_pages_follow_each_other(stores: Stores) -> None:
    ids = [(await put_cohort(stores, a_cohort(name=str(n)))).id for n in range(7)]
    pages = [
        await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=3, offset=offset)
        for offset in (0, 3, 6, 2**62)
    ]
    assert [each.id for page, _ in pages for each in page] == ids[::-1]
    assert {count for _, count in pages} == {7}


async def test_a_deleted_cohort_is_found_by_its_id_alone(stores: Stores) -> None:
    made = await put_cohort(stores, PLAIN)
    gone = await put_cohort(stores, replace(made, deleted=True))
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, made.id) == gone
    assert await stores.cohorts.cohorts(DEFAULT_PROJECT, limit=9, offset=0) == ([], 0)


async def test_a_project_sees_its_own_cohorts_only(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await put_cohort(stores, PLAIN)
    theirs = await put_cohort(stores, a_cohort(project_id=other.id))
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, theirs.id) is None
    assert await stores.cohorts.cohort(DEFAULT_PROJECT, CohortId(2**62)) is None
    assert await stores.cohorts.cohorts(other.id, limit=9, offset=0) == ([theirs], 1)
    seen: list[Mapping[CohortId, Cohort]] = []

    def decide(present: Mapping[CohortId, Cohort], _: Askers) -> Cohort:
        seen.append(present)
        return PLAIN

    await stores.cohorts.write_cohort(DEFAULT_PROJECT, decide, tell, NOW)
    assert seen[-1] == {mine.id: mine}


async def test_a_write_that_changes_nothing_tells_nothing(stores: Stores) -> None:
    made = await put_cohort(stores, FULL)
    before = await stores.entry_count()
    assert await put_cohort(stores, made) == made
    assert await stores.entry_count() == before
    assert await stores.flags.generation(DEFAULT_PROJECT) == 1


async def test_the_trail_holds_each_change_once(stores: Stores) -> None:
    made = await put_cohort(stores, PLAIN)
    await put_cohort(stores, replace(made, name="Other"))
    names = [(each.entry.item_id, each.entry.item_name) for each in await stores.entries()]
    assert names[:2] == [
        (str(made.id), "A cohort -> Other"),
        (str(made.id), "None -> A cohort"),
    ]


async def test_a_refused_write_leaves_nothing_behind(stores: Stores) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise Invalid("No.")

    before = await stores.entry_count()
    with pytest.raises(Invalid):
        await stores.cohorts.write_cohort(DEFAULT_PROJECT, refuse, tell, NOW)
    assert await stores.flags.generation(DEFAULT_PROJECT) == 0
    assert await stores.entry_count() == before


async def test_members_are_the_persons_of_the_ids_each_once(stores: Stores) -> None:
    await a_person(stores, "ann", "ann-2")
    await a_person(stores, "🌿", "'; DROP TABLE persons; --")
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    assert await add(stores, cohort, "ann", "ann-2", "ann", "nobody") == 1
    assert await add(stores, cohort, "ann") == 1
    assert await add(stores, cohort, "'; DROP TABLE persons; --", "🌿") == 2
    assert await add(stores, cohort) == 2
    assert await members(stores, cohort) == 2
    assert await is_in(stores, "ann-2") == {cohort.id}
    assert await is_in(stores, "nobody") == frozenset()


async def test_the_members_of_many_cohorts_are_counted_by_one_statement(stores: Stores) -> None:
    for id in ("ann", "bob"):
        await a_person(stores, id)
    both, one, none = [await put_cohort(stores, a_cohort(is_static=True)) for _ in range(3)]
    await add(stores, both, "ann", "bob")
    await add(stores, one, "bob")
    with statements() as seen:
        found = await stores.cohorts.members([both.id, one.id, none.id])
    assert found == {both.id: 2, one.id: 1, none.id: 0}
    assert sum("cohort_people" in each for each in seen) == 1
    assert await stores.cohorts.members([]) == {}


async def test_members_are_persons_of_the_same_project(stores: Stores) -> None:
    other = await stores.new_project()
    await a_person(stores, "ann", project_id=other.id)
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    assert await add(stores, cohort, "ann") == 0


async def test_a_cohort_of_thousands_is_filled_in_few_statements(stores: Stores) -> None:
    for n in range(3):
        await a_person(stores, f"user-{n}", f"user-{n + 1500}")
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    with statements() as seen:
        assert await add(stores, cohort, *(f"user-{n}" for n in range(2000))) == 3
    assert len(seen) <= 15


async def test_a_listing_of_persons_can_be_of_one_cohort(stores: Stores) -> None:
    ann, bob = await a_person(stores, "ann"), await a_person(stores, "bob")
    one, two = [await put_cohort(stores, a_cohort(is_static=True)) for _ in range(2)]
    await add(stores, one, "ann", "bob")
    await add(stores, two, "bob")
    found = [
        await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT, cohort_id=each.id))
        for each in (one, two)
    ]
    assert found == [([bob, ann], 2), ([bob], 1)]


async def test_a_forgotten_person_is_in_no_cohort(stores: Stores) -> None:
    ann = await a_person(stores, "ann")
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    await add(stores, cohort, "ann")
    assert await stores.forget(ann.uuid)
    assert await members(stores, cohort) == 0
    await a_person(stores, "ann")
    assert await is_in(stores, "ann") == frozenset()


async def test_members_added_at_once_are_all_there_once(
    stores: Stores, other_stores: Stores
) -> None:
    ids = [f"user-{n}" for n in range(12)]
    for id in ids:
        await a_person(stores, id)
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    await asyncio.gather(
        *(
            add(process, cohort, *(ids[turn:] + ids[:turn]))
            for turn in range(6)
            for process in (stores, other_stores)
        )
    )
    assert await members(stores, cohort) == 12


async def test_cohorts_that_come_to_contain_each_other_at_once_do_not(
    stores: Stores, other_stores: Stores
) -> None:
    one, two = [await put_cohort(stores, a_cohort(name=str(n))) for n in range(2)]

    def asking_for(other: Cohort) -> CohortFields:
        leaf = {"type": "cohort", "key": "id", "value": other.id}
        return CohortFields(definition={"type": "AND", "values": [leaf]})

    mine, theirs = Cohorts(stores.cohorts), Cohorts(other_stores.cohorts)
    done = await asyncio.gather(
        mine.change(DEFAULT_PROJECT, one.id, asking_for(two), SOMEBODY, LATER),
        theirs.change(DEFAULT_PROJECT, two.id, asking_for(one), SOMEBODY, LATER),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Invalid) for each in done) == 1, done
    assert sum(isinstance(each, Cohort) for each in done) == 1, done


GONE = CohortFields(deleted=True)


def asked_by(key: str, cohort: Cohort) -> FlagFields:
    filter = {"key": "id", "type": "cohort", "value": cohort.id}
    return FlagFields(key=key, filters={"groups": [{"properties": [filter]}]})


async def test_a_cohort_that_a_flag_asks_for_stays(stores: Stores) -> None:
    [flags], cohorts = flag_rooms(stores), Cohorts(stores.cohorts)
    project = await stores.new_project()
    cohort = await put_cohort(stores, a_cohort(project_id=project.id))
    made = await flags.create(project, asked_by("asks", cohort), SOMEBODY, NOW)
    with pytest.raises(Invalid, match=r"flags ask for this cohort \(asks\)"):
        await cohorts.change(project.id, cohort.id, GONE, SOMEBODY, LATER)
    off = FlagFields(deleted=True)
    await flags.change(project, made.id, off, seen=None, actor=SOMEBODY, now=LATER)
    assert (await cohorts.change(project.id, cohort.id, GONE, SOMEBODY, LATER)).deleted


async def test_a_cohort_that_another_cohort_asks_for_stays(stores: Stores) -> None:
    cohorts = Cohorts(stores.cohorts)
    inner = await put_cohort(stores, PLAIN)
    leaf = {"type": "cohort", "key": "id", "value": inner.id}
    definition = {"type": "AND", "values": [{"type": "OR", "values": [leaf]}]}
    outer = await put_cohort(stores, a_cohort(name="Outer " * 50, definition=definition))
    with pytest.raises(Invalid, match="other cohorts ask for this one") as refused:
        await cohorts.change(DEFAULT_PROJECT, inner.id, GONE, SOMEBODY, LATER)
    assert len(refused.value.detail) < 200
    for each in (outer, inner):
        assert (await cohorts.change(DEFAULT_PROJECT, each.id, GONE, SOMEBODY, LATER)).deleted


async def test_a_cohort_goes_or_a_flag_comes_to_ask_for_it_but_not_both(
    stores: Stores, other_stores: Stores
) -> None:
    project = await stores.new_project()
    mine, [theirs] = Cohorts(stores.cohorts), flag_rooms(other_stores)
    for number in range(5):
        cohort = await put_cohort(stores, a_cohort(project_id=project.id))
        wish = asked_by(f"asks-{number}", cohort)
        done = await asyncio.gather(
            mine.change(project.id, cohort.id, GONE, SOMEBODY, LATER),
            theirs.create(project, wish, SOMEBODY, LATER),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Invalid) for each in done) == 1, done


async def test_a_person_forgotten_while_a_cohort_is_filled_is_passed_over(stores: Stores) -> None:
    """Somebody else deletes between our look and our insert. SQLite lets nobody in between."""
    if stores.place.is_sqlite:
        pytest.skip("one writer at a time")
    await a_person(stores, "ann")
    await a_person(stores, "bob")
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    with before_statement("INSERT INTO cohort_people", lambda: forget(stores, "ann")):
        assert await add(stores, cohort, "ann", "bob") == 1


def forget(stores: Stores, distinct_id: str) -> None:
    run_sql(
        stores.place,
        "DELETE FROM persons WHERE id IN "
        "(SELECT person_id FROM person_distinct_ids WHERE distinct_id = :id)",
        id=distinct_id,
    )
