"""Pipeline records: lists, order, and concurrent changes."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest
from sqlalchemy import update

from hedgerow.errors import NotFound
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.pipelines.store import RecordEdit
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import pipeline_records
from tests.contract.storage.conftest import (
    ALL,
    DEFAULT_PROJECT,
    LATER,
    NOW,
    PLAIN,
    Stores,
    build_record,
    build_record_entry,
    edit_record,
    get_record_key,
    insert_records,
    list_orders,
    list_record_entries,
    list_record_ids,
    rearrange_records,
    record_statements,
)

HIGHEST = 2**31 - 1


async def test_record_round_trips(stores: Stores) -> None:
    moved = datetime(2026, 7, 1, 12, tzinfo=UTC)
    await insert_records(stores, replace(PLAIN, enabled=False, order=-(2**31), updated_at=moved))
    [record], _ = await stores.pipelines.records(ALL)
    assert record == replace(PLAIN, enabled=False, order=-(2**31), updated_at=moved)


async def test_project_without_records_lists_none(stores: Stores) -> None:
    assert await list_record_ids(stores) == ([], 0)


async def test_records_are_sorted_by_order_and_id(stores: Stores) -> None:
    await insert_records(
        stores, build_record(1, 5), build_record(2, -1), build_record(4, 2), build_record(3, 2)
    )
    assert await list_record_ids(stores) == ([2, 3, 4, 1], 4)


async def test_deleted_records_are_neither_listed_nor_counted(stores: Stores) -> None:
    await insert_records(
        stores, build_record(1), build_record(2, deleted=True), build_record(3, enabled=False)
    )
    assert await list_record_ids(stores) == ([1, 3], 2)


@pytest.mark.parametrize("family", list(Family))
async def test_family_lists_only_its_records(stores: Stores, family: Family) -> None:
    await insert_records(
        stores, *(build_record(n, family=kind) for n, kind in enumerate(Family, start=1))
    )
    assert await list_record_ids(stores, family=family) == ([list(Family).index(family) + 1], 1)


async def test_project_lists_only_its_records(stores: Stores) -> None:
    other = await stores.new_project()
    await insert_records(stores, build_record(1), build_record(2, project_id=other.id))
    assert await list_record_ids(stores) == ([1], 1)
    assert await list_record_ids(stores, project_id=other.id) == ([2], 1)


async def test_pages_have_no_gap_and_no_repetition(stores: Stores) -> None:
    await insert_records(stores, *(build_record(n, order=n % 3) for n in range(1, 24)))
    everything, count = await list_record_ids(stores)
    pages = [await list_record_ids(stores, limit=5, offset=offset) for offset in range(0, 30, 5)]
    assert [id for page, _ in pages for id in page] == everything
    assert {total for _, total in pages} == {count} == {23}
    assert await list_record_ids(stores, limit=1000, offset=2**62) == ([], 23)


async def test_page_uses_two_statements(stores: Stores) -> None:
    await insert_records(stores, *(build_record(n, order=n) for n in range(1, 301)))
    await list_record_ids(stores)
    costs = []
    for limit in (1, 10, 300):
        with record_statements() as seen:
            ids, _ = await list_record_ids(stores, limit=limit, search="hook", enabled=True)
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
async def test_search_is_literal_and_ignores_case(
    stores: Stores, search: str, found: list[int]
) -> None:
    names = ["Sale", "", "100% off", "a_b", "c:\\d", "e/f", "it's", "über"]
    descriptions = ["", "of all SALES", "", "", "", "", "", ""]
    await insert_records(
        stores,
        *(
            build_record(n, order=n, name=name, description=description)
            for n, (name, description) in enumerate(zip(names, descriptions, strict=True), 1)
        ),
    )
    assert await list_record_ids(stores, search=search) == (found, len(found))


async def test_search_finds_unnamed_records_by_component(stores: Stores) -> None:
    hook, other = ComponentId(1), ComponentId(2)
    await insert_records(
        stores,
        build_record(1, 1, name="", component_id=hook),
        build_record(2, 2, name="Mine", component_id=hook),
        build_record(3, 3, name="", component_id=other),
    )
    assert await list_record_ids(stores, search="web", components_by_name=[hook]) == ([1], 1)
    assert await list_record_ids(stores, search="web", components_by_name=[]) == ([], 0)


async def test_filters_are_combined(stores: Stores) -> None:
    one, two = ComponentId(1), ComponentId(2)
    await insert_records(
        stores,
        build_record(1, 1, component_id=one, enabled=True),
        build_record(2, 2, component_id=one, enabled=False),
        build_record(3, 3, component_id=two, enabled=True),
        build_record(4, 4, component_id=one, enabled=True, deleted=True),
    )
    assert await list_record_ids(stores, enabled=True) == ([1, 3], 2)
    assert await list_record_ids(stores, enabled=False) == ([2], 1)
    assert await list_record_ids(stores, component_id=one) == ([1, 2], 2)
    assert await list_record_ids(stores, component_id=one, enabled=True) == ([1], 1)


async def test_new_record_round_trips(stores: Stores) -> None:
    record = await stores.new_record(name="Wébhook 🪝", description="ü", enabled=True)
    assert await stores.pipelines.record(get_record_key(record)) == record
    assert (record.order, record.config, record.created_at) == (1, {}, NOW)
    assert await list_record_entries(stores) == [("created", str(record.id), "None -> 1")]


async def test_concurrently_created_records_get_distinct_orders(stores: Stores) -> None:
    records = await asyncio.gather(*(stores.new_record() for _ in range(30)))
    assert sorted(record.order for record in records) == list(range(1, 31))
    assert len({record.id for record in records}) == 30


async def test_order_is_per_family_and_project(stores: Stores) -> None:
    other = await stores.new_project()
    mine = await stores.new_record()
    theirs = await stores.new_record(project_id=other.id)
    app = await stores.new_record(family=Family.FRONTEND_APP)
    assert (mine.order, theirs.order, app.order) == (1, 1, 1)
    second = await stores.new_record(order=1)
    assert await list_orders(stores) == {second.id: 1, mine.id: 2}
    assert await list_orders(stores, project_id=other.id) == {theirs.id: 1}
    assert await list_orders(stores, family=Family.FRONTEND_APP) == {app.id: 1}


async def test_record_is_not_found_in_another_family_or_project(stores: Stores) -> None:
    record = await stores.new_record()
    place = get_record_key(record)
    for wrong in (
        replace(place, family=Family.IMPORT_APP),
        replace(place, project_id=(await stores.new_project()).id),
        replace(place, project_id=ProjectId(999)),
        replace(place, id=RecordId(2**62)),
    ):
        assert await stores.pipelines.record(wrong) is None
        with pytest.raises(NotFound):
            await stores.pipelines.edit(
                wrong, lambda r: RecordEdit(record=r, entry=None), build_record_entry, NOW
            )
    assert await stores.pipelines.record(place) == record


async def test_record_at_a_used_order_shifts_the_following_ones_and_audits(
    stores: Stores,
) -> None:
    first, second, third, far = [await stores.new_record(order=order) for order in (1, 2, 3, 9)]
    newcomer = await stores.new_record(order=2)
    assert await list_orders(stores) == {
        first.id: 1,
        newcomer.id: 2,
        second.id: 3,
        third.id: 4,
        far.id: 9,
    }
    assert set((await list_record_entries(stores))[4:]) == {
        ("order_changed", str(second.id), "2 -> 3"),
        ("order_changed", str(third.id), "3 -> 4"),
        ("created", str(newcomer.id), "None -> 2"),
    }


async def test_moved_or_restored_record_shifts_others(stores: Stores) -> None:
    first, second, third = [await stores.new_record() for _ in range(3)]
    await edit_record(stores, third, order=1)
    assert await list_orders(stores) == {third.id: 1, first.id: 2, second.id: 3}
    await edit_record(stores, second, deleted=True)
    fourth = await stores.new_record(order=3)
    await edit_record(stores, second, deleted=False)
    assert await list_orders(stores) == {third.id: 1, first.id: 2, second.id: 3, fourth.id: 4}


async def test_concurrent_edits_lose_no_update(stores: Stores) -> None:
    record = await stores.new_record()
    names = [edit_record(stores, record, name=lambda r: r.name + "n") for _ in range(15)]
    texts = [
        edit_record(stores, record, description=lambda r: r.description + "d") for _ in range(15)
    ]
    configs = [
        edit_record(stores, record, config=lambda r, n=n: {**r.config, f"k{n}": n})
        for n in range(15)
    ]
    await asyncio.gather(
        *(each for trio in zip(names, texts, configs, strict=True) for each in trio)
    )
    after = await stores.pipelines.record(get_record_key(record))
    assert after == replace(
        record,
        name="n" * 15,
        description="d" * 15,
        config={f"k{n}": n for n in range(15)},
        updated_at=LATER,
    )


async def test_failed_edit_changes_nothing(stores: Stores) -> None:
    first, _ = await stores.new_record(), await stores.new_record()

    def reject(_: object) -> NoReturn:
        raise NotFound("no")

    before = await list_orders(stores), await list_record_entries(stores)
    with pytest.raises(NotFound):
        await stores.pipelines.edit(get_record_key(first), reject, build_record_entry, LATER)
    with pytest.raises(NotFound):
        await stores.pipelines.rearrange(
            DEFAULT_PROJECT, Family.DESTINATION, reject, build_record_entry, LATER
        )
    assert (await list_orders(stores), await list_record_entries(stores)) == before


async def test_rearrange_changes_only_what_is_needed_and_audits(stores: Stores) -> None:
    first, second, third = [await stores.new_record() for _ in range(3)]
    gone = await stores.new_record(deleted=True)
    before = len(await list_record_entries(stores))
    result = await rearrange_records(stores, {second.id: 1})
    assert [(record.id, record.order) for record in result] == [
        (second.id, 1),
        (first.id, 2),
        (third.id, 3),
    ]
    assert await list_orders(stores) == {second.id: 1, first.id: 2, third.id: 3}
    assert set((await list_record_entries(stores))[before:]) == {
        ("order_changed", str(second.id), "2 -> 1"),
        ("order_changed", str(first.id), "1 -> 2"),
    }
    assert await stores.pipelines.record(get_record_key(gone)) == gone
    await rearrange_records(stores, {second.id: 1})
    assert len(await list_record_entries(stores)) == before + 2


async def test_concurrent_rearrange_move_create_and_rename(stores: Stores) -> None:
    records = [await stores.new_record() for _ in range(6)]
    changes: list[Any] = []
    for n in range(8):
        target = records[n % 6]
        changes += [
            rearrange_records(stores, {target.id: 1 + (n * 5) % 6}),
            edit_record(stores, target, order=1 + (n * 7) % 6),
            stores.new_record(order=3 if n % 2 else None),
            edit_record(stores, target, name=lambda r: r.name + "n"),
        ]
    await asyncio.gather(*changes)
    listed_now, count = await stores.pipelines.records(ALL)
    assert count == 6 + 8
    assert [
        place for place, times in Counter(r.order for r in listed_now).items() if times > 1
    ] == []
    names = {record.id: record.name for record in listed_now}
    assert [names[record.id] for record in records] == ["nn", "nn", "n", "n", "n", "n"]


async def test_idempotency_key_creates_one_record(stores: Stores) -> None:
    results = await asyncio.gather(*(stores.new_record("once", name=f"{n}") for n in range(10)))
    assert len({record.id for record in results}) == 1
    assert await list_record_ids(stores) == ([results[0].id], 1)
    assert len(await list_record_entries(stores)) == 1
    other = await stores.new_project()
    elsewhere = [
        await stores.new_record("twice"),
        await stores.new_record("once", family=Family.IMPORT_APP),
        await stores.new_record("once", project_id=other.id),
    ]
    assert len({record.id for record in (results[0], *elsewhere)}) == 4


async def test_repeated_idempotency_key_returns_the_current_record(stores: Stores) -> None:
    record = await stores.new_record("once")
    await edit_record(stores, record, name="Renamed", deleted=True)
    again = await stores.new_record("once")
    assert (again.id, again.name, again.deleted) == (record.id, "Renamed", True)


async def test_record_at_the_maximum_order_moves_down_for_another(stores: Stores) -> None:
    first = await stores.new_record(order=HIGHEST)
    second = await stores.new_record(order=HIGHEST)
    assert await list_orders(stores) == {first.id: HIGHEST - 1, second.id: HIGHEST}


async def test_records_move_down_at_the_maximum_order(stores: Stores) -> None:
    low = await stores.new_record(order=5)
    first = await stores.new_record(order=HIGHEST - 1)
    second = await stores.new_record(order=HIGHEST)
    third = await stores.new_record()
    assert await list_orders(stores) == {
        low.id: 5,
        first.id: HIGHEST - 2,
        second.id: HIGHEST - 1,
        third.id: HIGHEST,
    }


async def test_generation_advances_with_changes_of_its_project_only(stores: Stores) -> None:
    other = await stores.new_project()
    record = await stores.new_record()
    seen = [await stores.pipelines.generation(DEFAULT_PROJECT)]
    for change in (
        stores.new_record(family=Family.IMPORT_APP),
        edit_record(stores, record, name="Renamed"),
        rearrange_records(stores, {record.id: 7}),
    ):
        await change
        seen.append(await stores.pipelines.generation(DEFAULT_PROJECT))
    assert seen == sorted(set(seen))
    assert await stores.pipelines.generation(other.id) == 0


async def test_script_is_found_by_token_while_enabled(stores: Stores) -> None:
    record = await stores.new_record(enabled=True, web_token="right")
    assert await stores.pipelines.public_record(record.id, "right") == record
    assert await stores.pipelines.public_record(record.id, "wrong") is None
    assert await stores.pipelines.public_record(RecordId(record.id + 1), "right") is None
    await edit_record(stores, record, enabled=False)
    assert await stores.pipelines.public_record(record.id, "right") is None
    await edit_record(stores, record, enabled=True, deleted=True)
    assert await stores.pipelines.public_record(record.id, "right") is None


async def test_enabled_site_apps_are_listed_in_order(stores: Stores) -> None:
    other = await stores.new_project()
    app: dict[str, Any] = {"family": Family.FRONTEND_APP, "enabled": True}
    last = await stores.new_record(**app, order=9)
    first = await stores.new_record(**app, order=2)
    theirs = await stores.new_record(**app, project_id=other.id)
    await stores.new_record(family=Family.FRONTEND_APP)
    await stores.new_record(family=Family.DESTINATION, enabled=True)
    gone = await stores.new_record(**app, order=5)
    await edit_record(stores, gone, deleted=True)
    served = stores.pipelines.public_apps
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


async def test_record_of_an_unknown_family_is_skipped(
    stores: Stores,
) -> None:
    strange, plain = await stores.new_record(), await stores.new_record()
    odd = update(pipeline_records).where(pipeline_records.c.id == strange.id)
    await stores.database.write(lambda c: c.execute(odd.values(family="of-tomorrow")).close())
    assert await stores.pipelines.all_records(DEFAULT_PROJECT) == [plain]
