"""What events do to persons and groups, read and stored: on either engine, and among others."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from hedgerow.ingestion.model import Arrived
from hedgerow.persons.changes import Processed
from hedgerow.persons.known import Known, mentioned, person_uuid
from hedgerow.persons.model import Person
from hedgerow.persons.process import process
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.person_changes import PersonsMoved, load, save
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    nothing_told,
    run_sql,
    statements,
)
from tests.contract.stores.test_cohorts import a_cohort, put_cohort
from tests.happenings import AT, alias, group_identify, happening, identify, nowhere, setting

ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_ ?",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**70},
    "": 0,
}


async def applied(
    stores: Stores, *events: Arrived, project_id: ProjectId = DEFAULT_PROJECT
) -> Processed:
    def change(connection: Connection) -> Processed:
        known = load(connection, project_id, mentioned(events))
        processed = process(project_id, known, events, nowhere)
        save(connection, project_id, processed.changes, LATER)
        return processed

    return await stores.database.write(change)


async def everybody(stores: Stores, project_id: ProjectId = DEFAULT_PROJECT) -> list[Person]:
    found, _ = await stores.persons.persons(PersonQuery(project_id=project_id, limit=1000))
    return list(reversed(found))


async def person(stores: Stores, distinct_id: str) -> Person:
    query = PersonQuery(project_id=DEFAULT_PROJECT, distinct_id=distinct_id)
    found, _ = await stores.persons.persons(query)
    assert len(found) == 1
    return found[0]


async def loaded(stores: Stores, *events: Arrived) -> Known:
    return await stores.database.write(
        lambda connection: load(connection, DEFAULT_PROJECT, mentioned(events))
    )


async def hash_keys(stores: Stores, distinct_id: str) -> Mapping[str, str]:
    return (await stores.subjects.subject(DEFAULT_PROJECT, distinct_id, {})).hash_keys


async def test_a_new_person_is_stored_as_decided(stores: Stores) -> None:
    event = happening("$identify", "ann 🌿", {"$set": ODD, "$anon_distinct_id": "anon?"})
    await applied(stores, event)
    [made] = await everybody(stores)
    assert made.properties == {**ODD, "$creator_event_uuid": event.uuid}
    assert made.uuid == person_uuid(DEFAULT_PROJECT, "ann 🌿")
    assert sorted(made.distinct_ids) == ["ann 🌿", "anon?"]
    assert (made.is_identified, made.created_at, made.updated_at) == (True, AT, LATER)


async def test_what_was_stored_is_what_is_known(stores: Stores) -> None:
    await applied(stores, identify("ann", "anon", **ODD), group_identify("company", "acme", **ODD))
    events = [identify("ann", "stranger"), group_identify("company", "acme")]
    known = await loaded(stores, *events)
    [made] = await everybody(stores)
    found = known.persons["ann"]
    assert known.persons.keys() == {"ann"}
    assert (found.id, found.uuid, found.created_at) == (made.id, made.uuid, AT)
    assert (found.is_identified, found.properties) == (True, made.properties)
    assert known.uuids == {"stranger": person_uuid(DEFAULT_PROJECT, "stranger")}
    assert known.group_types == {"company": 0}
    assert known.groups.keys() == {("company", "acme")}
    assert known.groups["company", "acme"].properties == ODD
    assert known.groups["company", "acme"].created_at == AT


async def test_two_ids_of_one_person_are_one_object(stores: Stores) -> None:
    await applied(stores, identify("ann", "anon"))
    known = await loaded(stores, identify("ann", "anon"))
    assert known.persons["ann"] is known.persons["anon"]


async def test_a_known_person_is_changed_and_given_ids(stores: Stores) -> None:
    await applied(stores, setting("ann", plan="free", old=1))
    await applied(stores, setting("ann", plan="pro"), identify("ann", "anon"))
    [made] = await everybody(stores)
    assert made.properties["plan"] == "pro"
    assert made.properties["old"] == 1
    assert sorted(made.distinct_ids) == ["ann", "anon"]
    assert made.is_identified


async def test_a_batch_that_changes_nothing_writes_nothing(stores: Stores) -> None:
    events = [setting("ann", plan="free"), group_identify("company", "acme", size=5)]
    await applied(stores, *events)
    with statements() as seen:
        processed = await applied(stores, *events)
    assert not processed.changes.persons
    assert not [each for each in seen if not each.startswith("SELECT")]


async def test_a_merge_takes_everything_along(stores: Stores) -> None:
    cohort = await put_cohort(stores, a_cohort(is_static=True))
    both = await put_cohort(stores, a_cohort(is_static=True, name="both"))
    await applied(
        stores,
        happening("seen", "anon", {"$set": {"a": 1, "b": 1}}, at=AT - timedelta(days=1)),
        setting("ann", b=2),
    )
    await stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, ["anon"])
    await stores.cohorts.add_members(DEFAULT_PROJECT, both.id, ["anon", "ann"])
    await stores.subjects.keep_hash_keys(DEFAULT_PROJECT, ["anon"], "by anon", ["one", "two"])
    await stores.subjects.keep_hash_keys(DEFAULT_PROJECT, ["ann"], "by ann", ["two"])
    survivor = await person(stores, "ann")
    await applied(stores, identify("ann", "anon", c=3))
    [left] = await everybody(stores)
    assert left.id == survivor.id
    assert sorted(left.distinct_ids) == ["ann", "anon"]
    assert {name: left.properties[name] for name in "abc"} == {"a": 1, "b": 2, "c": 3}
    assert (left.is_identified, left.created_at) == (True, AT - timedelta(days=1))
    subject = await stores.subjects.subject(DEFAULT_PROJECT, "anon", {})
    assert subject.cohorts == {cohort.id, both.id}
    assert subject.hash_keys == {"one": "by anon", "two": "by ann"}


async def test_of_several_who_are_merged_the_first_wins(stores: Stores) -> None:
    await applied(stores, setting("a", x=1), setting("b", x=2, y=2), setting("c", z=3))
    for id in "abc":
        await stores.subjects.keep_hash_keys(DEFAULT_PROJECT, [id], f"by {id}", ["flag", id])
    # b takes a, then somebody new takes b and c.
    await applied(stores, alias("b", "a"), setting("new"), identify("new", "c"))
    await applied(stores, alias("new", "b", "$merge_dangerously"))
    [left] = await everybody(stores)
    assert sorted(left.distinct_ids) == ["a", "b", "c", "new"]
    assert {name: left.properties[name] for name in "xyz"} == {"x": 2, "y": 2, "z": 3}
    expected = {"flag": "by c", "a": "by a", "b": "by b", "c": "by c"}
    assert await hash_keys(stores, "new") == expected


async def test_a_chain_of_merges_in_one_batch(stores: Stores) -> None:
    await applied(stores, setting("a", x=1), setting("b", x=2), setting("c", x=3))
    for id in "ab":
        await stores.subjects.keep_hash_keys(DEFAULT_PROJECT, [id], f"by {id}", ["flag"])
    await applied(stores, alias("b", "a"), alias("c", "b", "$merge_dangerously"))
    [left] = await everybody(stores)
    assert sorted(left.distinct_ids) == ["a", "b", "c"]
    assert left.properties["x"] == 3
    assert await hash_keys(stores, "a") == {"flag": "by b"}


async def test_a_stored_person_is_merged_into_one_who_is_new(stores: Stores) -> None:
    await applied(stores, setting("anon", x=1))
    await applied(stores, setting("ann", y=2), identify("ann", "anon"))
    [left] = await everybody(stores)
    assert left.uuid == person_uuid(DEFAULT_PROJECT, "ann")
    assert sorted(left.distinct_ids) == ["ann", "anon"]
    assert (left.properties["x"], left.properties["y"]) == (1, 2)


async def test_ids_of_a_merged_person_that_no_event_mentions_move_too(stores: Stores) -> None:
    await applied(stores, alias("anon", "other"), setting("ann"))
    await applied(stores, alias("ann", "anon", "$merge_dangerously"))
    assert sorted((await person(stores, "other")).distinct_ids) == ["ann", "anon", "other"]


async def test_a_person_id_that_is_taken_is_not_given_again(stores: Stores) -> None:
    await applied(stores, identify("ann", "anon"))
    run_sql(stores.place, "DELETE FROM person_distinct_ids WHERE distinct_id = 'ann'")
    processed = await applied(stores, happening(distinct_id="ann"))
    placed = processed.placed[0]
    assert placed is not None
    assert placed.person_uuid == person_uuid(DEFAULT_PROJECT, "ann", 1)
    assert (await person(stores, "ann")).uuid == placed.person_uuid
    assert len(await everybody(stores)) == 2


async def test_projects_do_not_share_persons_or_groups(stores: Stores) -> None:
    other = await stores.new_project("other")
    events = [identify("ann", "anon", x=1), group_identify("company", "acme", x=1)]
    await applied(stores, *events)
    await applied(stores, *events, project_id=other.id)
    [here], [there] = await everybody(stores), await everybody(stores, other.id)
    assert here.uuid != there.uuid
    assert await stores.persons.group_types(other.id) == {"company": 0}


async def test_a_new_group_type_is_told_to_those_who_evaluate_flags(stores: Stores) -> None:
    before = await stores.flags.generation(DEFAULT_PROJECT)
    await applied(stores, happening(properties={"$groups": {"company": "acme", "team": "a"}}))
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {"company": 0, "team": 1}
    after = await stores.flags.generation(DEFAULT_PROJECT)
    assert after > before
    await applied(stores, happening(properties={"$groups": {"company": "acme"}}))
    assert await stores.flags.generation(DEFAULT_PROJECT) == after
    assert await stores.persons.groups(DEFAULT_PROJECT, 0, limit=10, offset=0) == ([], 0)


async def test_groups_are_made_and_changed(stores: Stores) -> None:
    await applied(stores, group_identify("company", "acme", a=1, b=1))
    earlier = group_identify("company", "acme", b=2)
    await applied(
        stores,
        happening(
            "$groupidentify", "ann", earlier.properties, at=NOW.min.replace(tzinfo=NOW.tzinfo)
        ),
    )
    [group], _ = await stores.persons.groups(DEFAULT_PROJECT, 0, limit=10, offset=0)
    assert (group.key, group.properties) == ("acme", {"a": 1, "b": 2})
    assert group.created_at == NOW.min.replace(tzinfo=NOW.tzinfo)
    assert group.updated_at == LATER


async def test_what_no_database_takes_is_replaced(stores: Stores) -> None:
    bad = "a\x00\ud800"
    await applied(
        stores,
        happening(
            "$identify", bad, {"$set": {bad: [bad, {bad: bad}]}, "$anon_distinct_id": bad * 2}
        ),
        happening(
            "$groupidentify", bad, {"$group_type": bad, "$group_key": bad, "$group_set": {bad: bad}}
        ),
        happening("seen", bad, {"$groups": {bad: bad}}),
    )
    good = "a\ufffd\ufffd"
    found = await person(stores, good)
    assert found.properties[good] == [good, {good: good}]
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {good: 0}


async def test_a_thousand_at_once(stores: Stores) -> None:
    events = [setting(f"id {number}", number=number) for number in range(1500)]
    await applied(stores, *events)
    known = await loaded(stores, *events)
    assert len(known.persons) == 1500
    assert known.persons["id 1499"].properties["number"] == 1499


async def test_what_another_made_meanwhile_is_noticed(stores: Stores) -> None:
    """Decided from what was there before: the other's person is found when it is stored."""
    events = [identify("ann", "anon"), group_identify("company", "acme", a=1)]
    processed = process(DEFAULT_PROJECT, Known(), events, nowhere)
    await applied(stores, setting("ann", x=1))
    await refused(stores, processed)
    await applied(stores, identify("ann", "anon"))
    await applied(stores, group_identify("company", "acme", b=1))
    processed = process(DEFAULT_PROJECT, await loaded(stores, events[0]), events, nowhere)
    await refused(stores, processed)
    assert [each.properties.get("x") for each in await everybody(stores)] == [1]


async def test_a_person_deleted_meanwhile_is_noticed(stores: Stores) -> None:
    await applied(stores, setting("ann", x=1), setting("anon", x=1))
    events = [setting("ann", x=2)], [identify("ann", "anon")]
    wishes = [
        process(DEFAULT_PROJECT, await loaded(stores, *each), each, nowhere) for each in events
    ]
    await stores.forget((await person(stores, "anon")).uuid)
    await refused(stores, wishes[1])
    assert (await person(stores, "ann")).properties["x"] == 1
    await stores.forget((await person(stores, "ann")).uuid)
    await refused(stores, wishes[0])


async def refused(stores: Stores, processed: Processed) -> None:
    with pytest.raises(PersonsMoved):
        await stores.database.write(
            lambda connection: save(connection, DEFAULT_PROJECT, processed.changes, LATER)
        )


async def patiently(stores: Stores, *events: Arrived) -> int:
    """Apply, again and again if need be; how often it took."""
    for tries in range(1, 50):
        try:
            await applied(stores, *events)
        except PersonsMoved:
            continue
        return tries
    raise AssertionError("never stored")


async def test_many_workers_at_once_lose_nothing(stores: Stores, other_stores: Stores) -> None:
    """Persons are made, changed and merged by several at the same moment."""
    workers = [stores, other_stores]

    async def work(number: int) -> None:
        for step in range(6):
            await patiently(
                workers[number % 2],
                setting("shared", **{f"{number} {step}": step}),
                setting(f"id {step}", **{f"by {number}": number}),
                alias(f"id {step}", f"anon {number} {step}"),
                alias("all", f"id {step}", "$merge_dangerously"),
                happening(properties={"$groups": {f"type {number}": "key"}}),
            )

    await asyncio.gather(*(work(number) for number in range(4)))
    shared, all = await person(stores, "shared"), await person(stores, "all")
    for number in range(4):
        assert all.properties[f"by {number}"] == number
        for step in range(6):
            assert shared.properties[f"{number} {step}"] == step
            assert f"anon {number} {step}" in all.distinct_ids
    assert len(await everybody(stores)) == 3
    kinds = await stores.persons.group_types(DEFAULT_PROJECT)
    assert sorted(kinds.values()) == [0, 1, 2, 3]


async def test_those_who_change_a_person_by_hand_lose_nothing_either(
    stores: Stores, other_stores: Stores
) -> None:
    await applied(stores, setting("ann"))

    async def by_hand(number: int) -> None:
        def change(before: Person | None) -> Mapping[str, Any]:
            assert before is not None
            return {**before.properties, f"by hand {number}": 1}

        await stores.persons.put_person(DEFAULT_PROJECT, ["ann"], change, nothing_told, LATER)

    async def by_event(number: int) -> None:
        await patiently(other_stores, setting("ann", **{f"by event {number}": 1}))

    for number in range(8):
        await asyncio.gather(by_hand(number), by_event(number))
    properties = (await person(stores, "ann")).properties
    for number in range(8):
        assert properties[f"by hand {number}"] == properties[f"by event {number}"] == 1
