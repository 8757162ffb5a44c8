"""Loading and saving the persons and groups of a batch, also concurrently."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.changes import PersonBatchResult
from hedgerow.ingestion.persons.loaded_state import LoadedState, collect_references, person_uuid
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.persons.model import Person
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.persons.changes import ConcurrentPersonChangeError, load_state, save_changes
from tests.contract.storage.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    build_no_entry,
    record_statements,
    run_sql,
)
from tests.contract.storage.persons.test_cohorts import make_cohort, put_cohort
from tests.support.factories import (
    AT,
    alias,
    captured_event,
    group_identify,
    identify,
    no_location,
    setting,
)

ODD: dict[str, Any] = {
    "naïve 🌿": "ü \u2028 'quoted' \\ %_ ?",
    "nested": {"list": [1, 1.5, None, True, {"": ""}], "big": 2**70},
    "": 0,
}


async def apply_events(
    stores: Stores, *events: CapturedEvent, project_id: ProjectId = DEFAULT_PROJECT
) -> PersonBatchResult:
    def change(connection: Connection) -> PersonBatchResult:
        known = load_state(connection, project_id, collect_references(events))
        processed = process_batch(project_id, known, events, no_location)
        save_changes(connection, project_id, processed.changes, LATER)
        return processed

    return await stores.database.write(change)


async def list_persons(stores: Stores, project_id: ProjectId = DEFAULT_PROJECT) -> list[Person]:
    found, _ = await stores.persons.persons(PersonQuery(project_id=project_id, limit=1000))
    return list(reversed(found))


async def person(stores: Stores, distinct_id: str) -> Person:
    query = PersonQuery(project_id=DEFAULT_PROJECT, distinct_id=distinct_id)
    found, _ = await stores.persons.persons(query)
    assert len(found) == 1
    return found[0]


async def load_events(stores: Stores, *events: CapturedEvent) -> LoadedState:
    return await stores.database.write(
        lambda connection: load_state(connection, DEFAULT_PROJECT, collect_references(events))
    )


async def hash_keys(stores: Stores, distinct_id: str) -> Mapping[str, str]:
    return (await stores.evaluation_data.load(DEFAULT_PROJECT, distinct_id, {})).hash_keys


async def test_new_person_is_stored(stores: Stores) -> None:
    event = captured_event("$identify", "ann 🌿", {"$set": ODD, "$anon_distinct_id": "anon?"})
    await apply_events(stores, event)
    [created] = await list_persons(stores)
    assert created.properties == {**ODD, "$creator_event_uuid": event.uuid}
    assert created.uuid == person_uuid(DEFAULT_PROJECT, "ann 🌿")
    assert sorted(created.distinct_ids) == ["ann 🌿", "anon?"]
    assert (created.is_identified, created.created_at, created.updated_at) == (True, AT, LATER)


async def test_loaded_state_matches_the_stored_state(stores: Stores) -> None:
    await apply_events(
        stores, identify("ann", "anon", **ODD), group_identify("company", "acme", **ODD)
    )
    events = [identify("ann", "stranger"), group_identify("company", "acme")]
    known = await load_events(stores, *events)
    [created] = await list_persons(stores)
    found = known.persons["ann"]
    assert known.persons.keys() == {"ann"}
    assert (found.id, found.uuid, found.created_at) == (created.id, created.uuid, AT)
    assert (found.is_identified, found.properties) == (True, created.properties)
    assert known.uuids == {"stranger": person_uuid(DEFAULT_PROJECT, "stranger")}
    assert known.group_types == {"company": 0}
    assert known.groups.keys() == {("company", "acme")}
    assert known.groups["company", "acme"].properties == ODD
    assert known.groups["company", "acme"].created_at == AT


async def test_two_ids_of_a_person_load_one_object(stores: Stores) -> None:
    await apply_events(stores, identify("ann", "anon"))
    known = await load_events(stores, identify("ann", "anon"))
    assert known.persons["ann"] is known.persons["anon"]


async def test_existing_person_is_updated_and_gets_ids(stores: Stores) -> None:
    await apply_events(stores, setting("ann", plan="free", old=1))
    await apply_events(stores, setting("ann", plan="pro"), identify("ann", "anon"))
    [created] = await list_persons(stores)
    assert created.properties["plan"] == "pro"
    assert created.properties["old"] == 1
    assert sorted(created.distinct_ids) == ["ann", "anon"]
    assert created.is_identified


async def test_batch_without_changes_writes_nothing(stores: Stores) -> None:
    events = [setting("ann", plan="free"), group_identify("company", "acme", size=5)]
    await apply_events(stores, *events)
    with record_statements() as seen:
        processed = await apply_events(stores, *events)
    assert not processed.changes.persons
    assert not [each for each in seen if not each.startswith("SELECT")]


async def test_merge_moves_all_data(stores: Stores) -> None:
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    both = await put_cohort(stores, make_cohort(is_static=True, name="both"))
    await apply_events(
        stores,
        captured_event("seen", "anon", {"$set": {"a": 1, "b": 1}}, at=AT - timedelta(days=1)),
        setting("ann", b=2),
    )
    await stores.cohorts.add_members(DEFAULT_PROJECT, cohort.id, ["anon"])
    await stores.cohorts.add_members(DEFAULT_PROJECT, both.id, ["anon", "ann"])
    await stores.evaluation_data.save_hash_keys(
        DEFAULT_PROJECT, ["anon"], "by anon", ["one", "two"]
    )
    await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, ["ann"], "by ann", ["two"])
    survivor = await person(stores, "ann")
    await apply_events(stores, identify("ann", "anon", c=3))
    [left] = await list_persons(stores)
    assert left.id == survivor.id
    assert sorted(left.distinct_ids) == ["ann", "anon"]
    assert {name: left.properties[name] for name in "abc"} == {"a": 1, "b": 2, "c": 3}
    assert (left.is_identified, left.created_at) == (True, AT - timedelta(days=1))
    evaluation_data_of_anon = await stores.evaluation_data.load(DEFAULT_PROJECT, "anon", {})
    assert evaluation_data_of_anon.cohorts == {cohort.id, both.id}
    assert evaluation_data_of_anon.hash_keys == {"one": "by anon", "two": "by ann"}


async def test_first_merged_person_wins(stores: Stores) -> None:
    await apply_events(stores, setting("a", x=1), setting("b", x=2, y=2), setting("c", z=3))
    for id in "abc":
        await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, [id], f"by {id}", ["flag", id])
    # b absorbs a, then a new person absorbs b and c.
    await apply_events(stores, alias("b", "a"), setting("new"), identify("new", "c"))
    await apply_events(stores, alias("new", "b", "$merge_dangerously"))
    [left] = await list_persons(stores)
    assert sorted(left.distinct_ids) == ["a", "b", "c", "new"]
    assert {name: left.properties[name] for name in "xyz"} == {"x": 2, "y": 2, "z": 3}
    expected = {"flag": "by c", "a": "by a", "b": "by b", "c": "by c"}
    assert await hash_keys(stores, "new") == expected


async def test_chain_of_merges_in_one_batch(stores: Stores) -> None:
    await apply_events(stores, setting("a", x=1), setting("b", x=2), setting("c", x=3))
    for id in "ab":
        await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, [id], f"by {id}", ["flag"])
    await apply_events(stores, alias("b", "a"), alias("c", "b", "$merge_dangerously"))
    [left] = await list_persons(stores)
    assert sorted(left.distinct_ids) == ["a", "b", "c"]
    assert left.properties["x"] == 3
    assert await hash_keys(stores, "a") == {"flag": "by b"}


async def test_stored_person_is_merged_into_a_new_one(stores: Stores) -> None:
    await apply_events(stores, setting("anon", x=1))
    await apply_events(stores, setting("ann", y=2), identify("ann", "anon"))
    [left] = await list_persons(stores)
    assert left.uuid == person_uuid(DEFAULT_PROJECT, "ann")
    assert sorted(left.distinct_ids) == ["ann", "anon"]
    assert (left.properties["x"], left.properties["y"]) == (1, 2)


async def test_all_ids_of_a_merged_person_move(stores: Stores) -> None:
    await apply_events(stores, alias("anon", "other"), setting("ann"))
    await apply_events(stores, alias("ann", "anon", "$merge_dangerously"))
    assert sorted((await person(stores, "other")).distinct_ids) == ["ann", "anon", "other"]


async def test_used_person_uuid_is_not_reused(stores: Stores) -> None:
    await apply_events(stores, identify("ann", "anon"))
    run_sql(stores.location, "DELETE FROM person_distinct_ids WHERE distinct_id = 'ann'")
    processed = await apply_events(stores, captured_event(distinct_id="ann"))
    stored_event = processed.events[0]
    assert stored_event is not None
    assert stored_event.person_id == person_uuid(DEFAULT_PROJECT, "ann", 1)
    assert (await person(stores, "ann")).uuid == stored_event.person_id
    assert len(await list_persons(stores)) == 2


async def test_projects_do_not_share_persons_or_groups(stores: Stores) -> None:
    other = await stores.new_project("other")
    events = [identify("ann", "anon", x=1), group_identify("company", "acme", x=1)]
    await apply_events(stores, *events)
    await apply_events(stores, *events, project_id=other.id)
    [here], [there] = await list_persons(stores), await list_persons(stores, other.id)
    assert here.uuid != there.uuid
    assert await stores.persons.group_types(other.id) == {"company": 0}


async def test_new_group_type_advances_the_flags_generation(stores: Stores) -> None:
    before = await stores.flags.generation(DEFAULT_PROJECT)
    await apply_events(
        stores, captured_event(properties={"$groups": {"company": "acme", "team": "a"}})
    )
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {"company": 0, "team": 1}
    after = await stores.flags.generation(DEFAULT_PROJECT)
    assert after > before
    await apply_events(stores, captured_event(properties={"$groups": {"company": "acme"}}))
    assert await stores.flags.generation(DEFAULT_PROJECT) == after
    assert await stores.persons.groups(DEFAULT_PROJECT, 0, limit=10, offset=0) == ([], 0)


async def test_groups_are_created_and_updated(stores: Stores) -> None:
    await apply_events(stores, group_identify("company", "acme", a=1, b=1))
    earlier = group_identify("company", "acme", b=2)
    await apply_events(
        stores,
        captured_event(
            "$groupidentify", "ann", earlier.properties, at=NOW.min.replace(tzinfo=NOW.tzinfo)
        ),
    )
    [group], _ = await stores.persons.groups(DEFAULT_PROJECT, 0, limit=10, offset=0)
    assert (group.key, group.properties) == ("acme", {"a": 1, "b": 2})
    assert group.created_at == NOW.min.replace(tzinfo=NOW.tzinfo)
    assert group.updated_at == LATER


async def test_unstorable_text_is_replaced(stores: Stores) -> None:
    bad = "a\x00\ud800"
    await apply_events(
        stores,
        captured_event(
            "$identify", bad, {"$set": {bad: [bad, {bad: bad}]}, "$anon_distinct_id": bad * 2}
        ),
        captured_event(
            "$groupidentify", bad, {"$group_type": bad, "$group_key": bad, "$group_set": {bad: bad}}
        ),
        captured_event("seen", bad, {"$groups": {bad: bad}}),
    )
    good = "a\ufffd\ufffd"
    found = await person(stores, good)
    assert found.properties[good] == [good, {good: good}]
    assert await stores.persons.group_types(DEFAULT_PROJECT) == {good: 0}


async def test_batch_of_a_thousand_persons(stores: Stores) -> None:
    events = [setting(f"id {number}", number=number) for number in range(1500)]
    await apply_events(stores, *events)
    known = await load_events(stores, *events)
    assert len(known.persons) == 1500
    assert known.persons["id 1499"].properties["number"] == 1499


async def test_concurrently_created_person_is_detected(stores: Stores) -> None:
    """Decided from an outdated state: saving detects the person of the other process."""
    events = [identify("ann", "anon"), group_identify("company", "acme", a=1)]
    processed = process_batch(DEFAULT_PROJECT, LoadedState(), events, no_location)
    await apply_events(stores, setting("ann", x=1))
    await assert_rejected(stores, processed)
    await apply_events(stores, identify("ann", "anon"))
    await apply_events(stores, group_identify("company", "acme", b=1))
    processed = process_batch(
        DEFAULT_PROJECT, await load_events(stores, events[0]), events, no_location
    )
    await assert_rejected(stores, processed)
    assert [each.properties.get("x") for each in await list_persons(stores)] == [1]


async def test_concurrently_deleted_person_is_detected(stores: Stores) -> None:
    await apply_events(stores, setting("ann", x=1), setting("anon", x=1))
    events = [setting("ann", x=2)], [identify("ann", "anon")]
    outdated = [
        process_batch(DEFAULT_PROJECT, await load_events(stores, *each), each, no_location)
        for each in events
    ]
    await stores.delete_person((await person(stores, "anon")).uuid)
    await assert_rejected(stores, outdated[1])
    assert (await person(stores, "ann")).properties["x"] == 1
    await stores.delete_person((await person(stores, "ann")).uuid)
    await assert_rejected(stores, outdated[0])


async def assert_rejected(stores: Stores, processed: PersonBatchResult) -> None:
    with pytest.raises(ConcurrentPersonChangeError):
        await stores.database.write(
            lambda connection: save_changes(connection, DEFAULT_PROJECT, processed.changes, LATER)
        )


async def apply_with_retries(stores: Stores, *events: CapturedEvent) -> int:
    """Apply with retries and return the number of attempts."""
    for tries in range(1, 50):
        try:
            await apply_events(stores, *events)
        except ConcurrentPersonChangeError:
            continue
        return tries
    raise AssertionError("never stored")


async def test_concurrent_workers_lose_nothing(stores: Stores, other_stores: Stores) -> None:
    """Several workers create, change and merge persons at the same time."""
    workers = [stores, other_stores]

    async def work(number: int) -> None:
        for step in range(6):
            await apply_with_retries(
                workers[number % 2],
                setting("shared", **{f"{number} {step}": step}),
                setting(f"id {step}", **{f"by {number}": number}),
                alias(f"id {step}", f"anon {number} {step}"),
                alias("all", f"id {step}", "$merge_dangerously"),
                captured_event(properties={"$groups": {f"type {number}": "key"}}),
            )

    await asyncio.gather(*(work(number) for number in range(4)))
    shared, all = await person(stores, "shared"), await person(stores, "all")
    for number in range(4):
        assert all.properties[f"by {number}"] == number
        for step in range(6):
            assert shared.properties[f"{number} {step}"] == step
            assert f"anon {number} {step}" in all.distinct_ids
    assert len(await list_persons(stores)) == 3
    kinds = await stores.persons.group_types(DEFAULT_PROJECT)
    assert sorted(kinds.values()) == [0, 1, 2, 3]


async def test_concurrent_api_changes_and_events_lose_nothing(
    stores: Stores, other_stores: Stores
) -> None:
    await apply_events(stores, setting("ann"))

    async def by_hand(number: int) -> None:
        def change(before: Person | None) -> Mapping[str, Any]:
            assert before is not None
            return {**before.properties, f"by hand {number}": 1}

        await stores.persons.upsert_person(DEFAULT_PROJECT, ["ann"], change, build_no_entry, LATER)

    async def by_event(number: int) -> None:
        await apply_with_retries(other_stores, setting("ann", **{f"by event {number}": 1}))

    for number in range(8):
        await asyncio.gather(by_hand(number), by_event(number))
    properties = (await person(stores, "ann")).properties
    for number in range(8):
        assert properties[f"by hand {number}"] == properties[f"by event {number}"] == 1
