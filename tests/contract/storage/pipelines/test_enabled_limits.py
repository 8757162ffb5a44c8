"""At most so many destinations and transformations of a project are enabled, however it is done."""

from dataclasses import replace

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.records.limits import EnabledLimits
from hedgerow.pipelines.store import RecordChanges, RecordEdit
from hedgerow.plugin.component import Family
from hedgerow.storage.pipelines.records import SqlRecordStore
from tests.contract.storage.conftest import (
    DEFAULT_PROJECT,
    LATER,
    Stores,
    build_record_entry,
    edit_record,
)

TOO_MANY = r"no more than 2 enabled .*Disable or delete another one .*HEDGEROW_MAX_ENABLED"


@pytest.fixture
def limited(stores: Stores) -> Stores:
    store = SqlRecordStore(stores.database, EnabledLimits(destinations=2, transformations=2))
    return replace(stores, pipelines=store)


async def read(stores: Stores) -> list[Record]:
    return await stores.pipelines.all_records(DEFAULT_PROJECT)


@pytest.mark.parametrize("family", [Family.DESTINATION, Family.TRANSFORMATION])
async def test_no_record_is_enabled_beyond_the_limit(limited: Stores, family: Family) -> None:
    one, _ = [await limited.new_record(enabled=True, family=family) for _ in range(2)]
    other = await limited.new_record(enabled=False, family=family)
    gone = await limited.new_record(enabled=False, deleted=True, family=family)
    before = await read(limited)
    with pytest.raises(Invalid, match=TOO_MANY):
        await limited.new_record(enabled=True, family=family)
    with pytest.raises(Invalid, match=TOO_MANY):
        await edit_record(limited, other, enabled=True)
    with pytest.raises(Invalid, match=TOO_MANY):
        await edit_record(limited, gone, enabled=True, deleted=False)
    assert await read(limited) == before
    # Other families and projects do not count.
    await limited.new_record(enabled=True, family=Family.IMPORT_APP)
    project = await limited.new_project()
    await limited.new_record(enabled=True, family=family, project_id=project.id)
    await edit_record(limited, one, enabled=False)
    await edit_record(limited, other, enabled=True)


async def test_a_document_enables_none_beyond_the_limit(limited: Stores) -> None:
    one, two = [await limited.new_record(enabled=True) for _ in range(2)]
    new = replace(one, id=RecordId(0), name="New")

    async def write(*added: Record, disabled: Record | None = None) -> None:
        edits = (
            [RecordEdit(record=replace(disabled, enabled=False), entry=None)] if disabled else []
        )
        await limited.pipelines.write_all(
            DEFAULT_PROJECT,
            lambda _: RecordChanges(added=added, edited=edits),
            lambda record: build_record_entry(None, record),
            LATER,
        )

    with pytest.raises(Invalid, match=TOO_MANY):
        await write(new)
    assert len(await read(limited)) == 2
    await write(new, replace(new, enabled=False), disabled=two)
    assert [each.enabled for each in await read(limited)].count(True) == 2


async def test_a_project_with_more_keeps_and_edits_them(stores: Stores) -> None:
    records = [await stores.new_record(enabled=True) for _ in range(3)]
    store = SqlRecordStore(stores.database, EnabledLimits(destinations=1))
    limited = replace(stores, pipelines=store)
    await edit_record(limited, records[0], name="Renamed")
    assert [each.enabled for each in await read(limited)] == [True] * 3
    off = await edit_record(limited, records[0], enabled=False)
    with pytest.raises(Invalid, match="no more than 1 enabled destinations"):
        await edit_record(limited, off, enabled=True)
