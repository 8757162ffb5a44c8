"""Many persons for the evaluation of flags: the same data as for one of them."""

from dataclasses import replace

from hedgerow.flags.store import PersonPage
from hedgerow.persons.behaviors.times import encode_behaviors
from hedgerow.storage.persons.evaluated_persons import SqlEvaluatedPersonStore
from tests.contract.storage.conftest import DEFAULT_PROJECT, Stores, run_sql
from tests.contract.storage.persons.test_cohorts import add, create_person, make_cohort, put_cohort

KEYS = frozenset(("plan", "$initial_os"))
PAGE = PersonPage(
    project_id=DEFAULT_PROJECT,
    limit=2,
    older_than=None,
    property_keys=KEYS,
    cohorts=True,
    hash_keys=True,
    behaviors=True,
)


async def test_persons_have_what_a_single_load_has(stores: Stores) -> None:
    store = SqlEvaluatedPersonStore(stores.database)
    ann = await create_person(stores, "ann", "a-phone", plan="ü", other={"deep": [1]})
    await create_person(stores, "bob", plan=None)
    await create_person(stores, "cid")
    other = await stores.new_project()
    await create_person(stores, "ann", project_id=other.id, plan="elsewhere")
    cohort = await put_cohort(stores, make_cohort(is_static=True))
    await add(stores, cohort, "ann", "cid")
    await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, ["ann"], "anon", ["one"])
    run_sql(
        stores.location,
        "INSERT INTO behavior_times (project_id, distinct_id, times) VALUES (1, 'ann', :times)",
        times=encode_behaviors({7: b"\x01\x02\x03\x04"}),
    )
    assert await store.count_persons(DEFAULT_PROJECT) == 3
    newest = await store.load_page(PAGE)
    assert [each.distinct_id for each in newest] == ["cid", "bob"]
    [last] = await store.load_page(replace_page(older_than=newest[-1].id))
    assert (last.id, last.distinct_id) == (ann.id, "a-phone")
    for each in (*newest, last):
        single = await stores.evaluation_data.load(DEFAULT_PROJECT, each.distinct_id, {})
        wanted = {key: value for key, value in single.properties.items() if key in KEYS}
        assert each.properties == wanted
        assert (each.cohorts, each.hash_keys) == (single.cohorts, single.hash_keys)
        assert each.behaviors == single.behaviors
    assert last.cohorts == {cohort.id}
    assert last.hash_keys == {"one": "anon"}
    assert last.behaviors != {}


async def test_only_what_is_requested_is_read(stores: Stores) -> None:
    store = SqlEvaluatedPersonStore(stores.database)
    await create_person(stores, "ann", plan="pro")
    await stores.evaluation_data.save_hash_keys(DEFAULT_PROJECT, ["ann"], "anon", ["one"])
    nothing = replace_page(
        property_keys=frozenset(), cohorts=False, hash_keys=False, behaviors=False
    )
    [ann] = await store.load_page(nothing)
    assert (ann.properties, ann.cohorts, ann.hash_keys) == ({}, frozenset(), {})
    assert await store.load_page(replace_page(older_than=ann.id)) == []


def replace_page(**fields: object) -> PersonPage:
    return replace(PAGE, **fields)  # type: ignore[arg-type]
