"""What transformations did: counted with the events that they did it to, and not otherwise."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from hedgerow.ingestion.model import Arrived
from hedgerow.ingestion.store import Settled
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.persons.known import Known
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries import Ages
from hedgerow.pipelines.model import ComponentId, Family, RecordId
from hedgerow.pipelines.store import Edited, Place
from hedgerow.pipelines.transform import Tally
from hedgerow.pipelines.transformations import Transformations
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.delivery_reading import DeliveryTrail
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.transformation_counts import TransformationTrail
from tests.contract.stores.conftest import DEFAULT_PROJECT, LATER, NOW, Stores, tell
from tests.contract.stores.test_inbox import arrived, decide

SEALER = SealingKeys([new_sealing_key()])
HOUR_MS = int(NOW.timestamp()) // 3600 * 3_600_000


async def settled(
    stores: Stores, *tallies: Tally, fails: bool = False, later: bool = False
) -> None:
    inbox = InboxRecords(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [arrived(1)], (), NOW)
    rows = await inbox.oldest(0)

    def deciding(project_id: ProjectId, events: Sequence[Arrived], known: Known) -> Settled:
        usual = decide(project_id, events, known)
        return Settled(
            events=usual.events,
            changes=usual.changes,
            warnings=() if not fails else [None],  # type: ignore[list-item]
            flag_calls={},
            tallies=tallies,
        )

    await inbox.settle(0, rows, deciding, LATER if later else NOW)


async def hours(stores: Stores, id: RecordId) -> list[tuple[int, int, int, int]]:
    found = await TransformationTrail(stores.database).hours(id, HOUR_MS - 1)
    return [(each.hour_ms - HOUR_MS, each.changed, each.dropped, each.failed) for each in found]


async def errors(stores: Stores) -> dict[RecordId, str]:
    return dict(await DeliveryRecords(stores.database).errors())


async def messages(stores: Stores, id: RecordId) -> list[tuple[str, str]]:
    trail = DeliveryTrail(stores.database)
    lines, _ = await trail.logs(id, None, "", limit=10, offset=0)
    return [(told.line.message, told.line.uuid) for told in lines]


async def test_counts_add_up_by_the_hour_and_go_with_their_events(stores: Stores) -> None:
    one = (await stores.new_record(family=Family.TRANSFORMATION)).id
    two = (await stores.new_record(family=Family.TRANSFORMATION)).id
    await settled(
        stores,
        Tally(record_id=two, seen=5),
        Tally(record_id=one, seen=9, changed=3, dropped=2, failed=1, reasons={"bad": "u"}),
    )
    await settled(stores, Tally(record_id=one, seen=1, changed=1))
    await settled(stores, Tally(record_id=one, seen=1, dropped=1), later=True)
    assert await hours(stores, one) == [(0, 4, 2, 1), (3_600_000, 0, 1, 0)]
    assert await hours(stores, two) == []
    with pytest.raises(TypeError):
        await settled(stores, Tally(record_id=one, seen=9, changed=9), fails=True)
    assert await hours(stores, one) == [(0, 4, 2, 1), (3_600_000, 0, 1, 0)]


async def test_an_error_is_told_once_and_goes_when_all_is_well(stores: Stores) -> None:
    id = (await stores.new_record(family=Family.TRANSFORMATION)).id
    bad = Tally(record_id=id, seen=2, failed=2, reasons={"bad ü 🌿": "u1", "worse": "u2"})
    for _ in range(3):
        await settled(stores, bad)
    assert await errors(stores) == {id: "bad ü 🌿"}
    told = [
        ("The event was kept as it was: worse", "u2"),
        ("The event was kept as it was: bad ü 🌿", "u1"),
    ]
    assert await messages(stores, id) == told
    await settled(stores, Tally(record_id=id))
    assert await errors(stores) == {id: "bad ü 🌿"}, "it has seen nothing since"
    await settled(stores, Tally(record_id=id, seen=1))
    assert await errors(stores) == {}
    await settled(stores, bad)
    assert len(await messages(stores, id)) == 4


async def test_a_batch_of_which_nothing_is_left_is_done(stores: Stores) -> None:
    inbox = InboxRecords(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [arrived(1), arrived(2)], (), NOW)
    (row,) = await inbox.oldest(0)
    empty = msgspec.structs.replace(row, events=[])
    assert await inbox.settle(0, [empty], decide, LATER)
    assert await inbox.oldest(0) == []
    (ready,) = await inbox.ready(0)
    assert (list(ready.events), ready.number) == ([], 2)
    assert await inbox.waits_since() == LATER.replace(microsecond=LATER.microsecond // 1000 * 1000)


async def test_only_enabled_ones_are_read_in_their_order(stores: Stores) -> None:
    family = Family.TRANSFORMATION
    last = await stores.new_record(family=family, enabled=True, order=5)
    first = await stores.new_record(family=family, enabled=True, order=1)
    await stores.new_record(family=family)
    await stores.new_record(family=family, enabled=True, deleted=True)
    await stores.new_record(enabled=True)
    other = await stores.new_project()
    read = await stores.pipelines.transformations([DEFAULT_PROJECT, other.id])
    assert [record.id for record in read] == [first.id, last.id]
    assert await stores.pipelines.transformations([other.id]) == []


async def test_a_change_is_seen_by_the_next_look_however_many_projects(stores: Stores) -> None:
    projects = [DEFAULT_PROJECT, *[(await stores.new_project(f"p{n}")).id for n in range(5)]]
    transformations = Transformations(stores.pipelines, Catalogue(), SEALER)
    for some in (projects[:2], projects):
        await transformations.refresh(some)
        assert transformations.chains == {}
        made = await stores.new_record(
            family=Family.TRANSFORMATION,
            component_id=ComponentId(65),
            enabled=True,
            project_id=some[-1],
        )
        await transformations.refresh(some)
        assert list(transformations.chains) == [some[-1]]
        await stores.pipelines.edit(
            Place(project_id=some[-1], family=made.family, id=made.id),
            lambda before: Edited(record=replace(before, enabled=False), entry=None),
            tell,
            NOW,
        )
        await transformations.refresh(some)


async def test_old_counts_are_forgotten(stores: Stores) -> None:
    id = (await stores.new_record(family=Family.TRANSFORMATION)).id
    await settled(stores, Tally(record_id=id, seen=1, changed=1))
    records, ages = DeliveryRecords(stores.database), Ages(waiting_ms=1, dead_ms=1, delivered_ms=1)
    await records.forget_old(ages, NOW + timedelta(days=30))
    assert await hours(stores, id) == [(0, 1, 0, 0)]
    await records.forget_old(ages, NOW + timedelta(days=31))
    assert await hours(stores, id) == []
