"""Persons, groups and the data that flags are evaluated against."""

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn

import pytest

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.store import StoredData
from hedgerow.ingestion.persons.loaded_state import person_uuid
from hedgerow.persons.admin_actions import plan_split
from hedgerow.persons.model import Group, Person
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from tests.contract.storage.conftest import (
    ACTOR,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    build_no_entry,
    record_statements,
    run_before_statement,
    run_sql,
)
from tests.contract.storage.persons.test_cohorts import (
    add,
    create_person,
    delete_person,
    make_cohort,
    put_cohort,
)

ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**53 + 1},
    "": 0,
    "long": "x" * 100_000,
}
NO_EVALUATION_DATA = StoredData(
    person_id=None, properties={}, cohorts=frozenset(), hash_keys={}, groups={}
)


async def load_evaluation_data(
    stores: Stores,
    id: str,
    groups: Mapping[int, str] | None = None,
    project_id: ProjectId = DEFAULT_PROJECT,
) -> StoredData:
    return await stores.evaluation_data.load(project_id, id, groups or {})


async def list_names(stores: Stores, **filters: Any) -> tuple[list[str], int]:
    query = PersonQuery(**{"project_id": DEFAULT_PROJECT} | filters)
    found, count = await stores.persons.persons(query)
    return [person.distinct_ids[0] for person in found], count


async def save_keys(stores: Stores, ids: list[str], hash_key: str, *flags: str) -> None:
    await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, ids, hash_key, flags)


async def hash_keys(stores: Stores, id: str) -> Mapping[str, str]:
    return (await load_evaluation_data(stores, id)).hash_keys


async def test_person_round_trips(stores: Stores) -> None:
    created = await create_person(stores, "b 🌿", "a", "C", **ODD)
    assert (created.properties, created.created_at, created.updated_at) == (ODD, NOW, NOW)
    assert sorted(created.distinct_ids) == ["C", "a", "b 🌿"]
    assert await stores.persons.person(DEFAULT_PROJECT, created.uuid) == created
    assert await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT)) == ([created], 1)
    found = await load_evaluation_data(stores, "b 🌿")
    assert found == StoredData(
        person_id=created.id, properties=ODD, cohorts=frozenset(), hash_keys={}, groups={}
    )


async def test_change_callback_receives_the_current_person(
    stores: Stores,
) -> None:
    created = await create_person(stores, "ann", a=1)
    seen: list[Person | None] = []

    def change(before: Person | None) -> Mapping[str, Any]:
        seen.append(before)
        return {"b": 2}

    after = await stores.persons.upsert_person(
        DEFAULT_PROJECT, ["new", "ann"], change, build_no_entry, LATER
    )
    assert seen[-1] == created
    assert (after.id, after.uuid, after.properties) == (created.id, created.uuid, {"b": 2})
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert sorted(after.distinct_ids) == ["ann", "new"]
    assert (await load_evaluation_data(stores, "new")).person_id == created.id


async def test_existing_person_is_changed_and_gets_more_ids(stores: Stores) -> None:
    created = await create_person(stores, "ann", a=1)

    def change(before: Person) -> Mapping[str, Any]:
        return {**before.properties, "b": 2}

    change_person = stores.persons.update_person
    ids = ["new", "ann"]
    after = await change_person(DEFAULT_PROJECT, created.uuid, ids, change, build_no_entry, LATER)
    assert after is not None
    assert (after.id, after.properties) == (created.id, {"a": 1, "b": 2})
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert sorted(after.distinct_ids) == ["ann", "new"]
    await create_person(stores, "bob")
    with pytest.raises(Conflict):
        await change_person(DEFAULT_PROJECT, created.uuid, ["bob"], change, build_no_entry, LATER)


async def test_changing_a_deleted_person_does_not_recreate_it(stores: Stores) -> None:
    created = await create_person(stores, "ann", a=1)
    assert await stores.delete_person(created.uuid)
    changed = await stores.persons.update_person(
        DEFAULT_PROJECT, created.uuid, ["ann", "new"], lambda _: {"b": 2}, build_no_entry, LATER
    )
    assert changed is None
    assert await list_names(stores) == ([], 0)


async def test_duplicate_id_is_stored_once(stores: Stores) -> None:
    created = await create_person(stores, "ann", "ann")
    assert list(created.distinct_ids) == ["ann"]


async def test_ids_are_compared_exactly(stores: Stores) -> None:
    ids = ["ann", "Ann", "ann ", "änn", "a\u0308nn", "ann\n"]
    created = {(await create_person(stores, id, name=id)).id for id in ids}
    assert len(created) == len(ids)
    for id in ids:
        assert (await load_evaluation_data(stores, id)).properties == {"name": id}


async def test_ids_of_several_persons_are_a_conflict(stores: Stores) -> None:
    await create_person(stores, "ann", a=1)
    await create_person(stores, "bob", b=1)
    with pytest.raises(Conflict):
        await create_person(stores, "ann", "bob", "new", c=1)
    assert (await load_evaluation_data(stores, "ann")).properties == {"a": 1}
    assert (await load_evaluation_data(stores, "bob")).properties == {"b": 1}
    assert await load_evaluation_data(stores, "new") == NO_EVALUATION_DATA


async def test_rejected_change_stores_nothing(stores: Stores) -> None:
    def reject(_: Person | None) -> NoReturn:
        raise Invalid("No.")

    with pytest.raises(Invalid):
        await stores.persons.upsert_person(DEFAULT_PROJECT, ["ann"], reject, build_no_entry, NOW)
    assert await list_names(stores) == ([], 0)


async def test_project_sees_only_its_persons_and_groups(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await create_person(stores, "ann", of="mine")
    theirs = await create_person(stores, "ann", project_id=other.id, of="theirs")
    await stores.persons.upsert_group(other.id, 0, "acme", {"of": "theirs"}, NOW)
    await stores.persons.upsert_group_type(other.id, "company", 5)
    assert mine.id != theirs.id
    assert (await load_evaluation_data(stores, "ann")).properties == {"of": "mine"}
    assert (await load_evaluation_data(stores, "ann", {0: "acme"})).groups == {}
    their_data = await load_evaluation_data(stores, "ann", {0: "acme"}, other.id)
    assert (their_data.properties, their_data.groups) == (
        {"of": "theirs"},
        {0: {"of": "theirs"}},
    )
    assert await stores.persons.person(DEFAULT_PROJECT, theirs.uuid) is None
    assert not await stores.delete_person(theirs.uuid)
    assert await stores.persons.groups(DEFAULT_PROJECT, 0, limit=9, offset=0) == ([], 0)
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {}
    assert await list_names(stores, project_id=other.id, distinct_id="ann") == (["ann"], 1)


async def test_persons_are_listed_newest_first_in_pages(stores: Stores) -> None:
    for n in range(7):
        await create_person(stores, f"user-{n}")
    pages = [await list_names(stores, limit=3, offset=offset) for offset in (0, 3, 6, 2**62)]
    assert [id for page, _ in pages for id in page] == [f"user-{n}" for n in range(6, -1, -1)]
    assert {count for _, count in pages} == {7}


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"distinct_id": "ann"}, ["ann"]),
        ({"distinct_id": "ANN"}, []),
        ({"distinct_id": "an"}, []),
    ],
)
async def test_persons_can_be_filtered(
    stores: Stores, filters: dict[str, str], found: list[str]
) -> None:
    await create_person(stores, "ann", "second-id", "second-name")
    for id in ("hans", "100%", "a_b", "c\\d", "über"):
        await create_person(stores, id)
    ids, count = await list_names(stores, **filters)
    assert (sorted(ids), count) == (found, len(found))


async def test_page_of_persons_uses_three_statements(stores: Stores) -> None:
    for n in range(30):
        await create_person(stores, f"user-{n}", f"other-{n}")
    for limit in (1, 30):
        with record_statements() as seen:
            await list_names(stores, limit=limit)
        assert len([sql for sql in seen if sql.startswith("SELECT")]) == 3


async def test_deleted_person_leaves_no_id_cohort_or_hash_key(stores: Stores) -> None:
    ann = await create_person(stores, "ann", "ann-2", plan="pro")
    bob = await create_person(stores, "bob")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    await add(stores, cohort, "ann", "bob")
    await save_keys(stores, ["ann", "bob"], "anon", "a-flag")
    assert await stores.delete_person(ann.uuid)
    assert not await stores.delete_person(ann.uuid)
    assert await stores.persons.person(DEFAULT_PROJECT, ann.uuid) is None
    assert (
        await load_evaluation_data(stores, "ann")
        == await load_evaluation_data(stores, "ann-2")
        == NO_EVALUATION_DATA
    )
    for table in ("person_distinct_ids", "cohort_people", "flag_hash_keys"):
        [[owner]] = run_sql(stores.location, f"SELECT person_id FROM {table}")
        assert owner == bob.id
    again = await create_person(stores, "ann-2")
    assert again.uuid != ann.uuid
    assert (again.properties, await hash_keys(stores, "ann-2")) == ({}, {})


async def test_evaluation_data_uses_few_statements(stores: Stores) -> None:
    await create_person(stores, "ann")
    for n in range(12):
        cohort = await put_cohort(stores, make_cohort(name=str(n), is_static=True))
        await add(stores, cohort, "ann")
    await save_keys(stores, ["ann"], "anon", *(f"flag-{n}" for n in range(40)))
    for index in range(5):
        await stores.persons.upsert_group(DEFAULT_PROJECT, index, "acme", {"n": index}, NOW)
    fetched = 0
    fetch = stores.database.fetch

    async def counting(*arguments: Any) -> list[tuple[Any, ...]]:
        nonlocal fetched
        fetched += 1
        return await fetch(*arguments)

    setattr(stores.database, "fetch", counting)  # noqa: B010 - a method, to mypy
    with record_statements() as seen:
        found = await load_evaluation_data(stores, "ann", dict.fromkeys(range(5), "acme"))
    assert (len(found.cohorts), len(found.hash_keys), len(found.groups)) == (12, 40, 5)
    assert fetched <= 4 + 5
    assert len(seen) <= 4 + 5
    fetched = 0
    assert await load_evaluation_data(stores, "stranger") == NO_EVALUATION_DATA
    assert fetched == 1
    fetched = 0
    less = await stores.evaluation_data.load(
        DEFAULT_PROJECT, "ann", {}, cohorts=False, hash_keys=False, behaviors=False
    )
    assert (less.cohorts, less.hash_keys, fetched) == (frozenset(), {}, 1)


async def test_overlong_id_has_no_person(stores: Stores) -> None:
    await create_person(stores, "ann")
    assert (
        await load_evaluation_data(stores, "x" * 100_000, {0: "x" * 100_000}) == NO_EVALUATION_DATA
    )
    await save_keys(stores, ["ann", "x" * 100_000], "anon", "a-flag")
    assert await hash_keys(stores, "ann") == {"a-flag": "anon"}


async def test_first_hash_key_of_a_flag_is_kept(stores: Stores) -> None:
    await create_person(stores, "ann")
    await save_keys(stores, ["ann"], "first 🌿", "one")
    await save_keys(stores, ["ann"], "second", "one", "two")
    assert await hash_keys(stores, "ann") == {"one": "first 🌿", "two": "second"}


async def test_both_persons_of_a_login_get_the_hash_key(stores: Stores) -> None:
    await create_person(stores, "ann")
    await create_person(stores, "anon")
    await save_keys(stores, ["ann", "anon"], "anon", "one", "two")
    assert await hash_keys(stores, "ann") == {"one": "anon", "two": "anon"}
    assert await hash_keys(stores, "anon") == {"one": "anon", "two": "anon"}


async def test_two_ids_of_one_person_get_one_hash_key(stores: Stores) -> None:
    await create_person(stores, "ann", "anon")
    await save_keys(stores, ["ann", "anon"], "anon", "one")
    assert await hash_keys(stores, "ann") == {"one": "anon"}


async def test_unknown_ids_and_other_projects_get_no_hash_key(stores: Stores) -> None:
    other = await stores.new_project()
    await create_person(stores, "ann", project_id=other.id)
    await save_keys(stores, ["ann", "anon"], "anon", "one")
    await save_keys(stores, ["ann"], "anon")
    assert run_sql(stores.location, "SELECT * FROM flag_hash_keys") == []


async def test_concurrently_saved_hash_keys_agree(stores: Stores, other_stores: Stores) -> None:
    await create_person(stores, "ann")
    await asyncio.gather(
        *(
            save_keys(process, ["ann"], f"anon-{n}", "one", "two")
            for n in range(6)
            for process in (stores, other_stores)
        )
    )
    kept = await hash_keys(stores, "ann")
    assert kept.keys() == {"one", "two"}
    assert len(set(kept.values())) == 1


async def test_concurrently_deleted_person_is_skipped_when_saving_hash_keys(stores: Stores) -> None:
    """Contract 1.3: retried if a person was deleted concurrently. SQLite has one writer."""
    if stores.location.is_sqlite:
        pytest.skip("one writer at a time")
    await create_person(stores, "ann")
    await create_person(stores, "anon")
    with run_before_statement("INSERT INTO flag_hash_keys", lambda: delete_person(stores, "ann")):
        await save_keys(stores, ["ann", "anon"], "anon", "one")
    assert await hash_keys(stores, "anon") == {"one": "anon"}


async def test_concurrent_puts_of_one_id_create_one_person(
    stores: Stores, other_stores: Stores
) -> None:
    def change(name: str) -> Any:
        return lambda before: {**(before.properties if before else {}), name: True}

    created = await asyncio.gather(
        *(
            process.persons.upsert_person(
                DEFAULT_PROJECT,
                ["ann", f"{n}-{process is stores}"],
                change(f"p{n}"),
                build_no_entry,
                NOW,
            )
            for n in range(8)
            for process in (stores, other_stores)
        )
    )
    assert len({person.id for person in created}) == 1
    [ann], count = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT))
    assert count == 1
    assert ann.properties == {f"p{n}": True for n in range(8)}
    assert len(ann.distinct_ids) == 17


async def test_concurrent_puts_of_overlapping_ids_have_one_owner_each(
    stores: Stores, other_stores: Stores
) -> None:
    """With a-b, b-c and c-a the first put owns two ids; the others add one id or conflict."""
    id_pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"), ("e", "a")] * 3
    done = await asyncio.gather(
        *(
            create_person(process, *ids)
            for ids, process in zip(id_pairs, [stores, other_stores] * 8, strict=False)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(each, Person | Conflict) for each in done), done
    owners = run_sql(stores.location, "SELECT distinct_id, person_id FROM person_distinct_ids")
    assert len(owners) == len({id for id, _ in owners}) == 5
    persons = {id for [id] in run_sql(stores.location, "SELECT id FROM persons")}
    assert persons == {person for _, person in owners}


async def test_group_round_trips_and_merges_new_properties(stores: Stores) -> None:
    created = await stores.persons.upsert_group(DEFAULT_PROJECT, 4, "ä 🌿", ODD, NOW)
    assert created == Group(
        project_id=DEFAULT_PROJECT,
        type_index=4,
        key="ä 🌿",
        properties=ODD,
        created_at=NOW,
        updated_at=NOW,
    )
    after = await stores.persons.upsert_group(DEFAULT_PROJECT, 4, "ä 🌿", {"": 1, "new": []}, LATER)
    assert after.properties == {**ODD, "": 1, "new": []}
    assert (after.created_at, after.updated_at) == (NOW, LATER)
    assert await stores.persons.groups(DEFAULT_PROJECT, 4, limit=9, offset=0) == ([after], 1)
    assert (await load_evaluation_data(stores, "x", {4: "ä 🌿"})).groups == {4: after.properties}
    assert (await load_evaluation_data(stores, "x", {3: "ä 🌿"})).groups == {}


async def test_groups_are_searched_by_key_and_name(stores: Stores) -> None:
    names: dict[str, Any] = {"a": "Acme 100 %", "b-ACME": 7, "c": None, "d": ["acme"], "e": "x_y"}
    for key, name in names.items():
        await stores.persons.upsert_group(DEFAULT_PROJECT, 0, key, {"name": name, "of": "zz"}, NOW)

    async def search(text: str) -> list[str]:
        found, _ = await stores.persons.groups(DEFAULT_PROJECT, 0, limit=9, offset=0, search=text)
        return [each.key for each in found]

    assert (await search("ACME"))[:2] == ["a", "b-ACME"]
    assert [await search(text) for text in ("%", "_", "zz")] == [["a"], ["e"], []]
    found = await stores.persons.group(DEFAULT_PROJECT, 0, "e")
    assert found is not None
    assert found.properties["name"] == "x_y"
    assert await stores.persons.group(DEFAULT_PROJECT, 1, "e") is None


async def test_groups_are_listed_by_key_in_pages(stores: Stores) -> None:
    keys = ["B", "a", "b", "c", "ä"]
    for key in keys[::-1]:
        await stores.persons.upsert_group(DEFAULT_PROJECT, 0, key, {}, NOW)
    await stores.persons.upsert_group(DEFAULT_PROJECT, 1, "elsewhere", {}, NOW)
    pages = [
        await stores.persons.groups(DEFAULT_PROJECT, 0, limit=2, offset=offset)
        for offset in (0, 2, 4, 2**62)
    ]
    assert sorted(group.key for page, _ in pages for group in page) == keys
    assert {count for _, count in pages} == {5}


async def test_concurrent_group_updates_keep_all_properties(
    stores: Stores, other_stores: Stores
) -> None:
    await asyncio.gather(
        *(
            process.persons.upsert_group(DEFAULT_PROJECT, 0, "acme", {f"p{n}": n}, NOW)
            for n, process in enumerate([stores, other_stores] * 6)
        )
    )
    [acme], _ = await stores.persons.groups(DEFAULT_PROJECT, 0, limit=9, offset=0)
    assert acme.properties == {f"p{n}": n for n in range(12)}


async def test_group_type_keeps_its_index(stores: Stores) -> None:
    put = stores.persons.upsert_group_type
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


async def test_concurrent_group_types_respect_the_limit(
    stores: Stores, other_stores: Stores
) -> None:
    names = [f"type-{n}" for n in range(9)]
    got = await asyncio.gather(
        *(
            process.persons.upsert_group_type(DEFAULT_PROJECT, name, 5)
            for name in names
            for process in (stores, other_stores)
        )
    )
    types = await stores.persons.group_types(DEFAULT_PROJECT)
    assert sorted(types.values()) == [0, 1, 2, 3, 4]
    for name, both in zip(names, zip(got[::2], got[1::2], strict=True), strict=True):
        assert set(both) == {types.get(name)}
    assert await stores.flags.generation(DEFAULT_PROJECT) == 5


async def test_split_creates_the_persons_that_events_would_create(
    stores: Stores,
) -> None:
    created = await create_person(stores, "ann", "b", "c", plan="pro")
    after = await stores.persons.split_person(
        DEFAULT_PROJECT, created.uuid, lambda person: plan_split(person, "b", ACTOR), LATER
    )
    assert after is not None
    assert (after.uuid, after.distinct_ids, after.properties) == (
        created.uuid,
        ["b"],
        {"plan": "pro"},
    )
    others, count = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT))
    assert count == 3
    assert {each.distinct_ids[0]: (each.uuid, each.properties) for each in others[:2]} == {
        id: (person_uuid(DEFAULT_PROJECT, id), {}) for id in ("ann", "c")
    }
    (recorded,) = await stores.list_entries(scope="Person")
    assert (recorded.entry.activity, recorded.entry.item_id) == ("split_person", created.uuid)
    assert recorded.entry.detail == {"distinct_ids": 3, "split_off": 2}


async def test_split_chooses_another_uuid_if_the_derived_one_is_used(stores: Stores) -> None:
    created = await create_person(stores, "ann", "b")
    await stores.persons.split_person(
        DEFAULT_PROJECT, created.uuid, lambda person: plan_split(person, "ann", ACTOR), LATER
    )
    (b,), _ = await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT, distinct_id="b"))
    await stores.persons.update_person(
        DEFAULT_PROJECT, b.uuid, ["b2"], lambda _: {}, build_no_entry, LATER
    )
    await stores.persons.split_person(
        DEFAULT_PROJECT, b.uuid, lambda person: plan_split(person, "b2", ACTOR), LATER
    )
    (again,), _ = await stores.persons.persons(
        PersonQuery(project_id=DEFAULT_PROJECT, distinct_id="b")
    )
    assert again.uuid == person_uuid(DEFAULT_PROJECT, "b", attempt=1)
