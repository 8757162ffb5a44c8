"""Pipeline records as a listing sees them: one project, one family, in their order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hedgerow.pipelines.model import ComponentId, Family, Record, RecordId
from hedgerow.storage.tables import pipeline_records
from tests.contract.stores.conftest import DEFAULT_PROJECT, NOW, Stores

PLAIN = Record(
    id=RecordId(1),
    project_id=DEFAULT_PROJECT,
    family=Family.DESTINATION,
    component_id=ComponentId(5),
    enabled=True,
    order=0,
    name="Wébhook 🪝",
    description="",
    deleted=False,
    created_at=NOW,
    updated_at=NOW + timedelta(microseconds=1),
)


async def add(stores: Stores, *records: Record) -> None:
    rows = [
        {name: getattr(record, name) for name in pipeline_records.columns.keys()}  # noqa: SIM118
        | {"family": record.family.value}
        for record in records
    ]
    await stores.database.write(lambda c: c.execute(insert(pipeline_records), rows).close())


async def listed(stores: Stores, **asked: Any) -> tuple[list[int], int]:
    given = {"project_id": DEFAULT_PROJECT, "family": Family.DESTINATION, "limit": 100, "offset": 0}
    records, count = await stores.pipelines.records(**{**given, **asked})
    return [record.id for record in records], count


def numbered(id: int, order: int = 0, **fields: Any) -> Record:
    return replace(PLAIN, id=RecordId(id), order=order, **fields)


async def test_a_record_reads_back_as_it_was_stored(stores: Stores) -> None:
    moved = datetime(2026, 7, 1, 12, tzinfo=UTC)
    await add(stores, replace(PLAIN, enabled=False, order=-(2**31), updated_at=moved))
    [record], _ = await stores.pipelines.records(
        DEFAULT_PROJECT, Family.DESTINATION, limit=10, offset=0
    )
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
