"""The persons of a page of events: one query per hundred ids."""

from hedgerow.events.listing.record import EventPerson
from hedgerow.storage.persons.event_persons import BATCH_SIZE, SqlEventPersons
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores, build_no_entry


async def test_event_person_has_one_id_and_the_listed_properties(stores: Stores) -> None:
    known = {"email": "ann@x.org", "name": None, "username": ["a"], "secret": "s" * 10_000}
    await stores.persons.upsert_person(
        DEFAULT_PROJECT, ["b", "a"], lambda _: known, build_no_entry, NOW
    )
    found = await SqlEventPersons(stores.database).persons_of(DEFAULT_PROJECT, {"b", "unknown"})
    shown = {"email": "ann@x.org", "name": None, "username": ["a"]}
    expected = EventPerson(is_identified=False, distinct_ids=["a"], properties=shown)
    assert found == {"b": expected}


async def test_persons_of_a_whole_page_are_found(stores: Stores) -> None:
    ids = [f"id-{number}" for number in range(2 * BATCH_SIZE + 1)]
    for id in ids:
        await stores.persons.upsert_person(DEFAULT_PROJECT, [id], lambda _: {}, build_no_entry, NOW)
    found = await SqlEventPersons(stores.database).persons_of(DEFAULT_PROJECT, ids)
    assert {id: person.distinct_ids[0] for id, person in found.items()} == {id: id for id in ids}


async def test_unknown_ids_and_other_projects_have_no_person(stores: Stores) -> None:
    other = await stores.new_project("Other")
    await stores.persons.upsert_person(other.id, ["ann"], lambda _: {}, build_no_entry, NOW)
    records = SqlEventPersons(stores.database)
    assert await records.persons_of(DEFAULT_PROJECT, ["ann", "\x00", "\ud800", "' OR 1=1"]) == {}
    assert await records.persons_of(DEFAULT_PROJECT, []) == {}
