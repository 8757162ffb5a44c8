"""Persons and groups: who owns which id, what is known of them, and what a decision reads."""

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn

import pytest

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.store import StoredSubject
from hedgerow.persons.curate import split
from hedgerow.persons.known import person_uuid
from hedgerow.persons.model import Group, Person
from hedgerow.persons.store import PersonQuery, Walked
from hedgerow.projects.model import ProjectId
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    SOMEBODY,
    Stores,
    before_statement,
    nothing_told,
    run_sql,
    statements,
)
from tests.contract.stores.test_cohorts import a_cohort, a_person, add, forget, put_cohort

ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**53 + 1},
    "": 0,
    "long": "x" * 100_000,
}
STRANGER = StoredSubject(
    person_id=None, properties={}, cohorts=frozenset(), hash_keys={}, groups={}
)


async def subject(
    stores: Stores,
    id: str,
    groups: Mapping[int, str] | None = None,
    project_id: ProjectId = DEFAULT_PROJECT,
) -> StoredSubject:
    return await stores.subjects.subject(project_id, id, groups or {})


async def listed(stores: Stores, **asked: Any) -> tuple[list[str], int]:
    query = PersonQuery(**{"project_id": DEFAULT_PROJECT} | asked)
    found, count = await stores.persons.persons(query)
    return [person.distinct_ids[0] for person in found], count


async def keep(stores: Stores, ids: list[str], hash_key: str, *flags: str) -> None:
    await stores.subjects.keep_hash_keys(DEFAULT_PROJECT, ids, hash_key, flags)


async def hash_keys(stores: Stores, id: str) -> Mapping[str, str]:
    return (await subject(stores, id)).hash_keys


async def test_a_person_reads_back_as_they_were_stored(stores: Stores) -> None:
    made = await a_person(stores, "b 🌿", "a", "C", **ODD)
    assert (made.properties, made.created_at, made.updated_at) == (ODD, NOW, NOW)
    assert sorted(made.distinct_ids) == ["C", "a", "b 🌿"]
    assert await stores.persons.person(DEFAULT_PROJECT, made.uuid) == made
    assert await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT)) == ([made], 1)
    found = await subject(stores, "b 🌿")
    assert found == StoredSubject(
        person_id=made.id, properties=ODD, cohorts=frozenset(), hash_keys={}, groups={}
    )


async def test_a_change_gets_the_person_as_they_are_and_gives_what_they_become(
    stores: Stores,
) -> None:
    made = await a_person(stores, "ann", a=1)
    seen: list[Person | None] = []

    def change(before: Person | None) -> Mapping[str, Any]:
        seen.append(before)
        return {"b": 2}

    after = await stores.persons.put_person(
        DEFAULT_PROJECT, ["new", "ann"], change, nothing_told, LATER
    )
    assert seen[-1] == made
    assert (after.id, after.uuid, after.properties) == (made.id, made.uuid, {"b": 2})
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert sorted(after.distinct_ids) == ["ann", "new"]
    assert (await subject(stores, "new")).person_id == made.id


async def test_a_person_who_is_there_is_changed_and_gets_more_ids(stores: Stores) -> None:
    made = await a_person(stores, "ann", a=1)

    def change(before: Person) -> Mapping[str, Any]:
        return {**before.properties, "b": 2}

    change_person = stores.persons.change_person
    ids = ["new", "ann"]
    after = await change_person(DEFAULT_PROJECT, made.uuid, ids, change, nothing_told, LATER)
    assert after is not None
    assert (after.id, after.properties) == (made.id, {"a": 1, "b": 2})
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert sorted(after.distinct_ids) == ["ann", "new"]
    await a_person(stores, "bob")
    with pytest.raises(Conflict):
        await change_person(DEFAULT_PROJECT, made.uuid, ["bob"], change, nothing_told, LATER)


async def test_changing_a_person_who_is_gone_does_not_bring_them_back(stores: Stores) -> None:
    made = await a_person(stores, "ann", a=1)
    assert await stores.forget(made.uuid)
    changed = await stores.persons.change_person(
        DEFAULT_PROJECT, made.uuid, ["ann", "new"], lambda _: {"b": 2}, nothing_told, LATER
    )
    assert changed is None
    assert await listed(stores) == ([], 0)


async def test_an_id_named_twice_is_one(stores: Stores) -> None:
    made = await a_person(stores, "ann", "ann")
    assert list(made.distinct_ids) == ["ann"]


async def test_ids_differ_by_case_accents_and_blanks(stores: Stores) -> None:
    ids = ["ann", "Ann", "ann ", "änn", "a\u0308nn", "ann\n"]
    made = {(await a_person(stores, id, name=id)).id for id in ids}
    assert len(made) == len(ids)
    for id in ids:
        assert (await subject(stores, id)).properties == {"name": id}


async def test_ids_of_several_persons_are_a_conflict_that_changes_nothing(stores: Stores) -> None:
    await a_person(stores, "ann", a=1)
    await a_person(stores, "bob", b=1)
    with pytest.raises(Conflict):
        await a_person(stores, "ann", "bob", "new", c=1)
    assert (await subject(stores, "ann")).properties == {"a": 1}
    assert (await subject(stores, "bob")).properties == {"b": 1}
    assert await subject(stores, "new") == STRANGER


async def test_a_change_that_is_refused_leaves_nothing_behind(stores: Stores) -> None:
    def refuse(_: Person | None) -> NoReturn:
        raise Invalid("No.")

    with pytest.raises(Invalid):
        await stores.persons.put_person(DEFAULT_PROJECT, ["ann"], refuse, nothing_told, NOW)
    assert await listed(stores) == ([], 0)


async def test_a_project_sees_its_own_persons_and_groups_only(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await a_person(stores, "ann", of="mine")
    theirs = await a_person(stores, "ann", project_id=other.id, of="theirs")
    await stores.persons.put_group(other.id, 0, "acme", {"of": "theirs"}, NOW)
    await stores.persons.put_group_type(other.id, "company", 5)
    assert mine.id != theirs.id
    assert (await subject(stores, "ann")).properties == {"of": "mine"}
    assert (await subject(stores, "ann", {0: "acme"})).groups == {}
    theirs_seen = await subject(stores, "ann", {0: "acme"}, other.id)
    assert (theirs_seen.properties, theirs_seen.groups) == (
        {"of": "theirs"},
        {0: {"of": "theirs"}},
    )
    assert await stores.persons.person(DEFAULT_PROJECT, theirs.uuid) is None
    assert not await stores.forget(theirs.uuid)
    assert await stores.persons.groups(DEFAULT_PROJECT, 0, limit=9, offset=0) == ([], 0)
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {}
    assert await listed(stores, project_id=other.id, distinct_id="ann") == (["ann"], 1)
    assert [
        each.id
        for each in await stores.persons.some(PersonQuery(project_id=other.id), after=0, limit=9)
    ] == [theirs.id]


async def test_the_newest_person_stands_first_and_pages_follow_each_other(stores: Stores) -> None:
    for n in range(7):
        await a_person(stores, f"user-{n}")
    pages = [await listed(stores, limit=3, offset=offset) for offset in (0, 3, 6, 2**62)]
    assert [id for page, _ in pages for id in page] == [f"user-{n}" for n in range(6, -1, -1)]
    assert {count for _, count in pages} == {7}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"distinct_id": "ann"}, ["ann"]),
        ({"distinct_id": "ANN"}, []),
        ({"distinct_id": "an"}, []),
        ({"search": "AN"}, ["ann", "hans"]),
        ({"search": "second"}, ["ann"]),
        ({"search": "%"}, ["100%"]),
        ({"search": "_"}, ["a_b"]),
        ({"search": "\\"}, ["c\\d"]),
        ({"search": "ÜBER"}, ["über"]),
        ({"search": "ann", "distinct_id": "hans"}, []),
    ],
)
async def test_a_listing_can_be_narrowed(
    stores: Stores, asked: dict[str, str], found: list[str]
) -> None:
    await a_person(stores, "ann", "second-id", "second-name")
    for id in ("hans", "100%", "a_b", "c\\d", "über"):
        await a_person(stores, id)
    ids, count = await listed(stores, **asked)
    assert (sorted(ids), count) == (found, len(found))


async def test_a_page_of_persons_costs_three_statements_however_long(stores: Stores) -> None:
    for n in range(30):
        await a_person(stores, f"user-{n}", f"other-{n}")
    for limit in (1, 30):
        with statements() as seen:
            await listed(stores, limit=limit)
        assert len([sql for sql in seen if sql.startswith("SELECT")]) == 3


async def test_walking_over_everybody_sees_each_person_once(stores: Stores) -> None:
    ids = [(await a_person(stores, f"user-{n}", n=n)).id for n in range(7)]
    walked: list[Walked] = []
    while some := await stores.persons.some(
        PersonQuery(project_id=DEFAULT_PROJECT), after=walked[-1].id if walked else 0, limit=3
    ):
        walked += some
    assert walked == [
        Walked(id=id, distinct_id=f"user-{n}", properties={"n": n}, cohorts=frozenset())
        for n, id in enumerate(ids)
    ]


async def test_a_forgotten_person_leaves_no_id_cohort_or_hash_key(stores: Stores) -> None:
    ann = await a_person(stores, "ann", "ann-2", plan="pro")
    bob = await a_person(stores, "bob")
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    await add(stores, cohort, "ann", "bob")
    await keep(stores, ["ann", "bob"], "anon", "a-flag")
    assert await stores.forget(ann.uuid)
    assert not await stores.forget(ann.uuid)
    assert await stores.persons.person(DEFAULT_PROJECT, ann.uuid) is None
    assert await subject(stores, "ann") == await subject(stores, "ann-2") == STRANGER
    for table in ("person_distinct_ids", "cohort_people", "flag_hash_keys"):
        [[owner]] = run_sql(stores.place, f"SELECT person_id FROM {table}")
        assert owner == bob.id
    again = await a_person(stores, "ann-2")
    assert again.uuid != ann.uuid
    assert (again.properties, await hash_keys(stores, "ann-2")) == ({}, {})


async def test_what_a_decision_reads_costs_few_statements(stores: Stores) -> None:
    await a_person(stores, "ann")
    for n in range(12):
        cohort = await put_cohort(stores, a_cohort(name=str(n), is_static=True))
        await add(stores, cohort, "ann")
    await keep(stores, ["ann"], "anon", *(f"flag-{n}" for n in range(40)))
    for index in range(5):
        await stores.persons.put_group(DEFAULT_PROJECT, index, "acme", {"n": index}, NOW)
    fetched = 0
    fetch = stores.database.fetch

    async def counting(*arguments: Any) -> list[tuple[Any, ...]]:
        nonlocal fetched
        fetched += 1
        return await fetch(*arguments)

    setattr(stores.database, "fetch", counting)  # noqa: B010 - a method, to mypy
    with statements() as seen:
        found = await subject(stores, "ann", dict.fromkeys(range(5), "acme"))
    assert (len(found.cohorts), len(found.hash_keys), len(found.groups)) == (12, 40, 5)
    assert fetched <= 3 + 5
    assert len(seen) <= 3 + 5
    fetched = 0
    assert await subject(stores, "stranger") == STRANGER
    assert fetched == 1
    fetched = 0
    less = await stores.subjects.subject(DEFAULT_PROJECT, "ann", {}, cohorts=False, hash_keys=False)
    assert (less.cohorts, less.hash_keys, fetched) == (frozenset(), {}, 1)


async def test_an_id_longer_than_any_is_a_strangers(stores: Stores) -> None:
    await a_person(stores, "ann")
    assert await subject(stores, "x" * 100_000, {0: "x" * 100_000}) == STRANGER
    await keep(stores, ["ann", "x" * 100_000], "anon", "a-flag")
    assert await hash_keys(stores, "ann") == {"a-flag": "anon"}


async def test_the_first_hash_key_of_a_flag_stays(stores: Stores) -> None:
    await a_person(stores, "ann")
    await keep(stores, ["ann"], "first 🌿", "one")
    await keep(stores, ["ann"], "second", "one", "two")
    assert await hash_keys(stores, "ann") == {"one": "first 🌿", "two": "second"}


async def test_both_persons_of_a_login_get_the_hash_key(stores: Stores) -> None:
    await a_person(stores, "ann")
    await a_person(stores, "anon")
    await keep(stores, ["ann", "anon"], "anon", "one", "two")
    assert await hash_keys(stores, "ann") == {"one": "anon", "two": "anon"}
    assert await hash_keys(stores, "anon") == {"one": "anon", "two": "anon"}


async def test_two_ids_of_one_person_get_one_hash_key(stores: Stores) -> None:
    await a_person(stores, "ann", "anon")
    await keep(stores, ["ann", "anon"], "anon", "one")
    assert await hash_keys(stores, "ann") == {"one": "anon"}


async def test_strangers_and_other_projects_get_no_hash_key(stores: Stores) -> None:
    other = await stores.new_project()
    await a_person(stores, "ann", project_id=other.id)
    await keep(stores, ["ann", "anon"], "anon", "one")
    await keep(stores, ["ann"], "anon")
    assert run_sql(stores.place, "SELECT * FROM flag_hash_keys") == []


async def test_hash_keys_kept_at_once_agree(stores: Stores, other_stores: Stores) -> None:
    await a_person(stores, "ann")
    await asyncio.gather(
        *(
            keep(process, ["ann"], f"anon-{n}", "one", "two")
            for n in range(6)
            for process in (stores, other_stores)
        )
    )
    kept = await hash_keys(stores, "ann")
    assert kept.keys() == {"one", "two"}
    assert len(set(kept.values())) == 1


async def test_a_person_forgotten_while_hash_keys_are_kept_is_passed_over(stores: Stores) -> None:
    """Contract 1.3: tried again if a person is gone meanwhile. SQLite lets nobody in between."""
    if stores.place.is_sqlite:
        pytest.skip("one writer at a time")
    await a_person(stores, "ann")
    await a_person(stores, "anon")
    with before_statement("INSERT INTO flag_hash_keys", lambda: forget(stores, "ann")):
        await keep(stores, ["ann", "anon"], "anon", "one")
    assert await hash_keys(stores, "anon") == {"one": "anon"}


async def test_persons_put_at_once_under_one_id_are_one(
    stores: Stores, other_stores: Stores
) -> None:
    def change(name: str) -> Any:
        return lambda before: {**(before.properties if before else {}), name: True}

    made = await asyncio.gather(
        *(
            process.persons.put_person(
                DEFAULT_PROJECT,
                ["ann", f"{n}-{process is stores}"],
                change(f"p{n}"),
                nothing_told,
                NOW,
            )
            for n in range(8)
            for process in (stores, other_stores)
        )
    )
    assert len({person.id for person in made}) == 1
    [ann], count = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT))
    assert count == 1
    assert ann.properties == {f"p{n}": True for n in range(8)}
    assert len(ann.distinct_ids) == 17


async def test_overlapping_ids_put_at_once_never_have_two_owners(
    stores: Stores, other_stores: Stores
) -> None:
    """a-b, b-c and c-a: who comes first owns two, then one more id joins, or is a conflict."""
    wishes = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"), ("e", "a")] * 3
    done = await asyncio.gather(
        *(
            a_person(process, *ids)
            for ids, process in zip(wishes, [stores, other_stores] * 8, strict=False)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(each, Person | Conflict) for each in done), done
    owners = run_sql(stores.place, "SELECT distinct_id, person_id FROM person_distinct_ids")
    assert len(owners) == len({id for id, _ in owners}) == 5
    persons = {id for [id] in run_sql(stores.place, "SELECT id FROM persons")}
    assert persons == {person for _, person in owners}


async def test_a_group_reads_back_and_new_properties_lie_over_old(stores: Stores) -> None:
    made = await stores.persons.put_group(DEFAULT_PROJECT, 4, "ä 🌿", ODD, NOW)
    assert made == Group(
        project_id=DEFAULT_PROJECT,
        type_index=4,
        key="ä 🌿",
        properties=ODD,
        created_at=NOW,
        updated_at=NOW,
    )
    after = await stores.persons.put_group(DEFAULT_PROJECT, 4, "ä 🌿", {"": 1, "new": []}, LATER)
    assert after.properties == {**ODD, "": 1, "new": []}
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert await stores.persons.groups(DEFAULT_PROJECT, 4, limit=9, offset=0) == ([after], 1)
    assert (await subject(stores, "x", {4: "ä 🌿"})).groups == {4: after.properties}
    assert (await subject(stores, "x", {3: "ä 🌿"})).groups == {}


async def test_groups_stand_by_key_and_pages_follow_each_other(stores: Stores) -> None:
    keys = ["B", "a", "b", "c", "ä"]
    for key in keys[::-1]:
        await stores.persons.put_group(DEFAULT_PROJECT, 0, key, {}, NOW)
    await stores.persons.put_group(DEFAULT_PROJECT, 1, "elsewhere", {}, NOW)
    pages = [
        await stores.persons.groups(DEFAULT_PROJECT, 0, limit=2, offset=offset)
        for offset in (0, 2, 4, 2**62)
    ]
    assert sorted(group.key for page, _ in pages for group in page) == keys
    assert {count for _, count in pages} == {5}


async def test_groups_put_at_once_keep_all_properties(stores: Stores, other_stores: Stores) -> None:
    await asyncio.gather(
        *(
            process.persons.put_group(DEFAULT_PROJECT, 0, "acme", {f"p{n}": n}, NOW)
            for n, process in enumerate([stores, other_stores] * 6)
        )
    )
    [acme], _ = await stores.persons.groups(DEFAULT_PROJECT, 0, limit=9, offset=0)
    assert acme.properties == {f"p{n}": n for n in range(12)}


async def test_a_group_type_keeps_its_index(stores: Stores) -> None:
    put = stores.persons.put_group_type
    assert [await put(DEFAULT_PROJECT, name, 5) for name in ("b", "a 🌿", "b", "A 🌿")] == [
        0,
        1,
        0,
        2,
    ]
    assert dict(await stores.persons.group_types(DEFAULT_PROJECT)) == {
        "b": 0,
        "a 🌿": 1,
        "A 🌿": 2,
    }


async def test_group_types_race_to_five(stores: Stores, other_stores: Stores) -> None:
    names = [f"type-{n}" for n in range(9)]
    got = await asyncio.gather(
        *(
            process.persons.put_group_type(DEFAULT_PROJECT, name, 5)
            for name in names
            for process in (stores, other_stores)
        )
    )
    types = await stores.persons.group_types(DEFAULT_PROJECT)
    assert sorted(types.values()) == [0, 1, 2, 3, 4]
    for name, both in zip(names, zip(got[::2], got[1::2], strict=True), strict=True):
        assert set(both) == {types.get(name)}
    assert await stores.flags.generation(DEFAULT_PROJECT) == 5


async def test_a_split_makes_the_persons_whom_events_would_make_and_tells_of_it(
    stores: Stores,
) -> None:
    made = await a_person(stores, "ann", "b", "c", plan="pro")
    after = await stores.persons.split_person(
        DEFAULT_PROJECT, made.uuid, lambda person: split(person, "b", SOMEBODY), LATER
    )
    assert after is not None
    assert (after.uuid, after.distinct_ids, after.properties) == (made.uuid, ["b"], {"plan": "pro"})
    others, count = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT))
    assert count == 3
    assert {each.distinct_ids[0]: (each.uuid, each.properties) for each in others[:2]} == {
        id: (person_uuid(DEFAULT_PROJECT, id), {}) for id in ("ann", "c")
    }
    (told,) = await stores.entries(scope="Person")
    assert (told.entry.activity, told.entry.item_id) == ("split_person", made.uuid)
    assert told.entry.detail == {"distinct_ids": 3, "split_off": 2}


async def test_an_id_whose_own_person_is_somebody_else_by_now_gets_another(stores: Stores) -> None:
    made = await a_person(stores, "ann", "b")
    await stores.persons.split_person(
        DEFAULT_PROJECT, made.uuid, lambda person: split(person, "ann", SOMEBODY), LATER
    )
    (b,), _ = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT, distinct_id="b"))
    await stores.persons.change_person(
        DEFAULT_PROJECT, b.uuid, ["b2"], lambda _: {}, nothing_told, LATER
    )
    await stores.persons.split_person(
        DEFAULT_PROJECT, b.uuid, lambda person: split(person, "b2", SOMEBODY), LATER
    )
    (again,), _ = await stores.persons.persons(
        PersonQuery(project_id=DEFAULT_PROJECT, distinct_id="b")
    )
    assert again.uuid == person_uuid(DEFAULT_PROJECT, "b", attempt=1)
