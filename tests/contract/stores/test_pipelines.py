"""Pipeline records: what a listing sees, and what changes at once leave behind."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest
from sqlalchemy import update

from hedgerow.errors import Invalid, NotFound
from hedgerow.pipelines.model import ComponentId, Family, RecordId
from hedgerow.pipelines.store import Edited
from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import pipeline_records
from tests.contract.stores.conftest import (
    ALL,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    PLAIN,
    Stores,
    add,
    edited,
    listed,
    numbered,
    orders,
    place_of,
    rearranged,
    statements,
    tell,
    told,
)

HIGHEST = 2**31 - 1


async def test_a_record_reads_back_as_it_was_stored(stores: Stores) -> None:
    moved = datetime(2026, 7, 1, 12, tzinfo=UTC)
    await add(stores, replace(PLAIN, enabled=False, order=-(2**31), updated_at=moved))
    [record], _ = await stores.pipelines.records(ALL)
    assert record == replace(PLAIN, enabled=False, order=-(2**31), updated_at=moved)


async def test_a_project_without_records_lists_none(stores: Stores) -> None:
    assert await listed(stores) == ([], 0)


async def test_records_stand_by_order_and_then_by_id(stores: Stores) -> None:
    await add(stores, numbered(1, 5), numbered(2, -1), numbered(4, 2), numbered(3, 2))
    assert await listed(stores) == ([2, 3, 4, 1], 4)


async def test_deleted_records_are_neither_listed_nor_counted(stores: Stores) -> None:
    await add(stores, numbered(1), numbered(2, deleted=True), numbered(3, enabled=False))
    assert await listed(stores) == ([1, 3], 2)


@pytest.mark.parametrize("family", list(Family))
async def test_a_family_sees_its_own_records_only(stores: Stores, family: Family) -> None:
    await add(stores, *(numbered(n, family=kind) for n, kind in enumerate(Family, start=1)))
    assert await listed(stores, family=family) == ([list(Family).index(family) + 1], 1)


async def test_a_project_sees_its_own_records_only(stores: Stores) -> None:
    other = await stores.new_project()
    await add(stores, numbered(1), numbered(2, project_id=other.id))
    assert await listed(stores) == ([1], 1)
    assert await listed(stores, project_id=other.id) == ([2], 1)


async def test_pages_follow_each_other_without_gap_or_repeat(stores: Stores) -> None:
    await add(stores, *(numbered(n, order=n % 3) for n in range(1, 24)))
    everything, count = await listed(stores)
    pages = [await listed(stores, limit=5, offset=offset) for offset in range(0, 30, 5)]
    assert [id for page, _ in pages for id in page] == everything
    assert {total for _, total in pages} == {count} == {23}
    assert await listed(stores, limit=1000, offset=2**62) == ([], 23)


async def test_a_page_costs_two_statements_however_long_it_is(stores: Stores) -> None:
    await add(stores, *(numbered(n, order=n) for n in range(1, 301)))
    await listed(stores)
    costs = []
    for limit in (1, 10, 300):
        with statements() as seen:
            ids, _ = await listed(stores, limit=limit, search="hook", enabled=True)
        assert len(ids) == limit
        costs.append(len([sql for sql in seen if "pipeline_records" in sql]))
        assert len(seen) <= 3
    assert costs == [2, 2, 2]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("sale", [1, 2]),
        ("SALE", [1, 2]),
        ("100%", [3]),
        ("%", [3]),
        ("a_b", [4]),
        ("_", [4]),
        ("c:\\d", [5]),
        ("\\", [5]),
        ("/", [6]),
        ("'", [7]),
        ("ÜBER", [8]),
        ("nowhere", []),
    ],
)
async def test_a_search_finds_its_text_as_it_is_written_in_either_case(
    stores: Stores, search: str, found: list[int]
) -> None:
    names = ["Sale", "", "100% off", "a_b", "c:\\d", "e/f", "it's", "über"]
    descriptions = ["", "of all SALES", "", "", "", "", "", ""]
    await add(
        stores,
        *(
            numbered(n, order=n, name=name, description=description)
            for n, (name, description) in enumerate(zip(names, descriptions, strict=True), 1)
        ),
    )
    assert await listed(stores, search=search) == (found, len(found))


async def test_a_search_finds_nameless_records_by_their_components(stores: Stores) -> None:
    hook, other = ComponentId(1), ComponentId(2)
    await add(
        stores,
        numbered(1, 1, name="", component_id=hook),
        numbered(2, 2, name="Mine", component_id=hook),
        numbered(3, 3, name="", component_id=other),
    )
    assert await listed(stores, search="web", named_alike=[hook]) == ([1], 1)
    assert await listed(stores, search="web", named_alike=[]) == ([], 0)


async def test_filters_narrow_together(stores: Stores) -> None:
    one, two = ComponentId(1), ComponentId(2)
    await add(
        stores,
        numbered(1, 1, component_id=one, enabled=True),
        numbered(2, 2, component_id=one, enabled=False),
        numbered(3, 3, component_id=two, enabled=True),
        numbered(4, 4, component_id=one, enabled=True, deleted=True),
    )
    assert await listed(stores, enabled=True) == ([1, 3], 2)
    assert await listed(stores, enabled=False) == ([2], 1)
    assert await listed(stores, component_id=one) == ([1, 2], 2)
    assert await listed(stores, component_id=one, enabled=True) == ([1], 1)


async def test_a_new_record_reads_back_as_it_was_made(stores: Stores) -> None:
    record = await stores.new_record(name="Wébhook 🪝", description="ü", enabled=True)
    assert await stores.pipelines.record(place_of(record)) == record
    assert (record.order, record.config, record.created_at) == (1, {}, NOW)
    assert await told(stores) == [("created", str(record.id), "None -> 1")]


async def test_records_made_at_once_stand_one_after_another(stores: Stores) -> None:
    records = await asyncio.gather(*(stores.new_record() for _ in range(30)))
    assert sorted(record.order for record in records) == list(range(1, 31))
    assert len({record.id for record in records}) == 30


async def test_families_and_projects_count_and_move_for_themselves(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await stores.new_record()
    theirs = await stores.new_record(project_id=other.id)
    app = await stores.new_record(family=Family.FRONTEND_APP)
    assert (mine.order, theirs.order, app.order) == (1, 1, 1)
    second = await stores.new_record(order=1)
    assert await orders(stores) == {second.id: 1, mine.id: 2}
    assert await orders(stores, project_id=other.id) == {theirs.id: 1}
    assert await orders(stores, family=Family.FRONTEND_APP) == {app.id: 1}


async def test_an_address_in_another_family_or_project_leads_nowhere(stores: Stores) -> None:
    record = await stores.new_record()
    place = place_of(record)
    for wrong in (
        replace(place, family=Family.IMPORT_APP),
        replace(place, project_id=(await stores.new_project()).id),
        replace(place, project_id=ProjectId(999)),
        replace(place, id=RecordId(2**62)),
    ):
        assert await stores.pipelines.record(wrong) is None
        with pytest.raises(NotFound):
            await stores.pipelines.edit(wrong, lambda r: Edited(record=r, entry=None), tell, NOW)
    assert await stores.pipelines.record(place) == record


async def test_a_record_at_a_taken_place_moves_the_run_behind_it_and_says_so(
    stores: Stores,
) -> None:
    first, second, third, far = [await stores.new_record(order=order) for order in (1, 2, 3, 9)]
    newcomer = await stores.new_record(order=2)
    assert await orders(stores) == {
        first.id: 1,
        newcomer.id: 2,
        second.id: 3,
        third.id: 4,
        far.id: 9,
    }
    assert set((await told(stores))[4:]) == {
        ("order_changed", str(second.id), "2 -> 3"),
        ("order_changed", str(third.id), "3 -> 4"),
        ("created", str(newcomer.id), "None -> 2"),
    }


async def test_a_record_that_is_moved_or_restored_finds_room(stores: Stores) -> None:
    first, second, third = [await stores.new_record() for _ in range(3)]
    await edited(stores, third, order=1)
    assert await orders(stores) == {third.id: 1, first.id: 2, second.id: 3}
    await edited(stores, second, deleted=True)
    fourth = await stores.new_record(order=3)
    await edited(stores, second, deleted=False)
    assert await orders(stores) == {third.id: 1, first.id: 2, second.id: 3, fourth.id: 4}


async def test_edits_of_different_fields_at_once_do_not_lose_each_other(stores: Stores) -> None:
    record = await stores.new_record()
    names = [edited(stores, record, name=lambda r: r.name + "n") for _ in range(15)]
    texts = [edited(stores, record, description=lambda r: r.description + "d") for _ in range(15)]
    configs = [
        edited(stores, record, config=lambda r, n=n: {**r.config, f"k{n}": n}) for n in range(15)
    ]
    await asyncio.gather(
        *(each for trio in zip(names, texts, configs, strict=True) for each in trio)
    )
    after = await stores.pipelines.record(place_of(record))
    assert after == replace(
        record,
        name="n" * 15,
        description="d" * 15,
        config={f"k{n}": n for n in range(15)},
        updated_at=LATER,
    )


async def test_an_edit_that_fails_leaves_everything_as_it_was(stores: Stores) -> None:
    first, _ = await stores.new_record(), await stores.new_record()

    def refuse(_: object) -> NoReturn:
        raise NotFound("no")

    before = await orders(stores), await told(stores)
    with pytest.raises(NotFound):
        await stores.pipelines.edit(place_of(first), refuse, tell, LATER)
    with pytest.raises(NotFound):
        await stores.pipelines.rearrange(DEFAULT_PROJECT, Family.DESTINATION, refuse, tell, LATER)
    assert (await orders(stores), await told(stores)) == before


async def test_a_rearrange_moves_only_what_must_move_and_says_so(stores: Stores) -> None:
    first, second, third = [await stores.new_record() for _ in range(3)]
    gone = await stores.new_record(deleted=True)
    before = len(await told(stores))
    answer = await rearranged(stores, {second.id: 1})
    assert [(record.id, record.order) for record in answer] == [
        (second.id, 1),
        (first.id, 2),
        (third.id, 3),
    ]
    assert await orders(stores) == {second.id: 1, first.id: 2, third.id: 3}
    assert set((await told(stores))[before:]) == {
        ("order_changed", str(second.id), "2 -> 1"),
        ("order_changed", str(first.id), "1 -> 2"),
    }
    assert await stores.pipelines.record(place_of(gone)) == gone
    await rearranged(stores, {second.id: 1})
    assert len(await told(stores)) == before + 2


async def test_rearranging_moving_making_and_renaming_at_once_ends_well(stores: Stores) -> None:
    records = [await stores.new_record() for _ in range(6)]
    changes: list[Any] = []
    for n in range(8):
        target = records[n % 6]
        changes += [
            rearranged(stores, {target.id: 1 + (n * 5) % 6}),
            edited(stores, target, order=1 + (n * 7) % 6),
            stores.new_record(order=3 if n % 2 else None),
            edited(stores, target, name=lambda r: r.name + "n"),
        ]
    await asyncio.gather(*changes)
    listed_now, count = await stores.pipelines.records(ALL)
    assert count == 6 + 8
    assert [
        place for place, times in Counter(r.order for r in listed_now).items() if times > 1
    ] == []
    names = {record.id: record.name for record in listed_now}
    assert [names[record.id] for record in records] == ["nn", "nn", "n", "n", "n", "n"]


async def test_one_idempotency_key_makes_one_record_however_often_it_comes(stores: Stores) -> None:
    answers = await asyncio.gather(*(stores.new_record("once", name=f"{n}") for n in range(10)))
    assert len({record.id for record in answers}) == 1
    assert await listed(stores) == ([answers[0].id], 1)
    assert len(await told(stores)) == 1
    other = await stores.new_project()
    elsewhere = [
        await stores.new_record("twice"),
        await stores.new_record("once", family=Family.IMPORT_APP),
        await stores.new_record("once", project_id=other.id),
    ]
    assert len({record.id for record in (answers[0], *elsewhere)}) == 4


async def test_a_key_used_before_gives_the_record_as_it_is_now(stores: Stores) -> None:
    record = await stores.new_record("once")
    await edited(stores, record, name="Renamed", deleted=True)
    again = await stores.new_record("once")
    assert (again.id, again.name, again.deleted) == (record.id, "Renamed", True)


async def test_nothing_goes_beyond_the_highest_place(stores: Stores) -> None:
    last = await stores.new_record(order=HIGHEST)
    with pytest.raises(Invalid, match=str(HIGHEST)):
        await stores.new_record(order=HIGHEST)
    assert await orders(stores) == {last.id: HIGHEST}


async def test_at_the_highest_place_the_others_move_down_for_a_new_record(stores: Stores) -> None:
    low = await stores.new_record(order=5)
    first = await stores.new_record(order=HIGHEST - 1)
    second = await stores.new_record(order=HIGHEST)
    third = await stores.new_record()
    assert await orders(stores) == {
        low.id: 5,
        first.id: HIGHEST - 2,
        second.id: HIGHEST - 1,
        third.id: HIGHEST,
    }


async def test_the_generation_moves_with_every_change_of_its_project_alone(stores: Stores) -> None:
    other = await stores.new_project()
    record = await stores.new_record()
    seen = [await stores.pipelines.generation(DEFAULT_PROJECT)]
    for change in (
        stores.new_record(family=Family.IMPORT_APP),
        edited(stores, record, name="Renamed"),
        rearranged(stores, {record.id: 7}),
    ):
        await change
        seen.append(await stores.pipelines.generation(DEFAULT_PROJECT))
    assert seen == sorted(set(seen))
    assert await stores.pipelines.generation(other.id) == 0


async def test_a_script_is_served_by_its_token_while_its_record_is_enabled(stores: Stores) -> None:
    record = await stores.new_record(enabled=True, web_token="right")
    assert await stores.pipelines.served(record.id, "right") == record
    assert await stores.pipelines.served(record.id, "wrong") is None
    assert await stores.pipelines.served(RecordId(record.id + 1), "right") is None
    await edited(stores, record, enabled=False)
    assert await stores.pipelines.served(record.id, "right") is None
    await edited(stores, record, enabled=True, deleted=True)
    assert await stores.pipelines.served(record.id, "right") is None


async def test_enabled_frontend_apps_are_served_in_order(stores: Stores) -> None:
    other = await stores.new_project()
    app: dict[str, Any] = {"family": Family.FRONTEND_APP, "enabled": True}
    last = await stores.new_record(**app, order=9)
    first = await stores.new_record(**app, order=2)
    theirs = await stores.new_record(**app, project_id=other.id)
    await stores.new_record(family=Family.FRONTEND_APP)
    await stores.new_record(family=Family.DESTINATION, enabled=True)
    gone = await stores.new_record(**app, order=5)
    await edited(stores, gone, deleted=True)
    served = stores.pipelines.served_apps
    assert await served([DEFAULT_PROJECT]) == [first, last]
    assert await served([other.id]) == [theirs]
    assert {record.id for record in await served([DEFAULT_PROJECT, other.id])} == {
        first.id,
        last.id,
        theirs.id,
    }
    assert await served([]) == []
    assert await stores.pipelines.generations() == {
        id: await stores.pipelines.generation(id) for id in (DEFAULT_PROJECT, other.id)
    }


async def test_a_record_of_another_versions_family_keeps_no_other_from_being_read(
    stores: Stores,
) -> None:
    strange, plain = await stores.new_record(), await stores.new_record()
    odd = update(pipeline_records).where(pipeline_records.c.id == strange.id)
    await stores.database.write(lambda c: c.execute(odd.values(family="of-tomorrow")).close())
    assert await stores.pipelines.all_records(DEFAULT_PROJECT) == [plain]
