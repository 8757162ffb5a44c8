"""Who events are by, for a page of them: one question for each hundred."""

from hedgerow.events.record import EventPerson
from hedgerow.storage.event_persons import AT_ONCE, EventPersonRecords
from tests.contract.stores.conftest import DEFAULT_PROJECT, NOW, Stores, nothing_told


async def test_a_person_has_one_of_their_ids_and_what_is_told_of_them(stores: Stores) -> None:
    known = {"email": "ann@x.org", "name": None, "username": ["a"], "secret": "s" * 10_000}
    await stores.persons.put_person(DEFAULT_PROJECT, ["b", "a"], lambda _: known, nothing_told, NOW)
    found = await EventPersonRecords(stores.database).persons_of(DEFAULT_PROJECT, {"b", "nobody"})
    told = {"email": "ann@x.org", "name": None, "username": ["a"]}
    expected = EventPerson(is_identified=False, distinct_ids=["a"], properties=told)
    assert found == {"b": expected}


async def test_as_many_as_a_page_has_are_found(stores: Stores) -> None:
    ids = [f"id-{number}" for number in range(2 * AT_ONCE + 1)]
    for id in ids:
        await stores.persons.put_person(DEFAULT_PROJECT, [id], lambda _: {}, nothing_told, NOW)
    found = await EventPersonRecords(stores.database).persons_of(DEFAULT_PROJECT, ids)
    assert {id: person.distinct_ids[0] for id, person in found.items()} == {id: id for id in ids}


async def test_ids_of_nobody_and_of_others_are_nobodys(stores: Stores) -> None:
    other = await stores.new_project("Other")
    await stores.persons.put_person(other.id, ["ann"], lambda _: {}, nothing_told, NOW)
    records = EventPersonRecords(stores.database)
    assert await records.persons_of(DEFAULT_PROJECT, ["ann", "\x00", "\ud800", "' OR 1=1"]) == {}
    assert await records.persons_of(DEFAULT_PROJECT, []) == {}
