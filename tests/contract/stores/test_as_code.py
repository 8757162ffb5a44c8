"""Many pipeline records written at once: all of them or none, told of, and never over somebody
else's change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Conflict, NotFound
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.as_code import AsCode
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import unsealed
from hedgerow.pipelines.model import Family, Record, RecordId
from hedgerow.pipelines.plan import Plan
from hedgerow.pipelines.store import Batch, Edited
from hedgerow.projects.activity import TERMINAL, Entry
from hedgerow.projects.model import ProjectId
from tests.contract.stores.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    PLAIN,
    SOMEBODY,
    Stores,
    add,
    edited,
    numbered,
    orders,
    place_of,
    rearranged,
    tell,
    told,
)

NEW = replace(PLAIN, id=RecordId(0), name="New", config={"url": "ü"}, web_token="new")
CATALOGUE = Catalogue()
WEBHOOK = CATALOGUE.of_family(Family.DESTINATION)[0].component
SECRETS = {"T": "hunter2"}
SEALER = SealingKeys([new_sealing_key()])


def created(record: Record) -> Entry:
    return tell(None, record)


def renamed(record: Record, name: str) -> Edited:
    entry = replace(tell(record, record), activity="updated", item_name=name)
    return Edited(record=replace(record, name=name), entry=entry)


async def everything(stores: Stores) -> tuple[Any, ...]:
    return (
        await stores.pipelines.all_records(DEFAULT_PROJECT),
        await told(stores),
        await stores.pipelines.generation(DEFAULT_PROJECT),
    )


async def test_all_records_are_those_of_every_family_that_are_not_deleted(stores: Stores) -> None:
    other = await stores.new_project()
    await add(
        stores,
        numbered(1, 3),
        numbered(2, 1, family=Family.IMPORT_APP),
        numbered(3, 1, family=Family.FRONTEND_APP, enabled=False),
        numbered(4, 2, deleted=True),
        numbered(5, 0, project_id=other.id),
    )
    found = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert [record.id for record in found] == [2, 3, 1]
    assert found[-1] == numbered(1, 3)
    assert await stores.pipelines.all_records(ProjectId(999)) == []


async def test_a_batch_makes_changes_and_tells_in_one_go(stores: Stores) -> None:
    await add(stores, numbered(101, 1), numbered(102, 2), numbered(103, 3))
    before = await stores.pipelines.generation(DEFAULT_PROJECT)

    def decide(present: Sequence[Record]) -> Batch:
        first, second, third = present
        return Batch(
            added=[replace(NEW, order=9), replace(NEW, order=7, family=Family.IMPORT_APP)],
            edited=[
                renamed(first, "First"),
                Edited(record=replace(second, order=-5, config={"a": [1]}), entry=None),
                Edited(record=replace(third, deleted=True, enabled=False), entry=None),
            ],
        )

    await stores.pipelines.write_all(DEFAULT_PROJECT, decide, created, LATER)
    second, first, app, made = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert first == replace(numbered(101, 1), name="First", updated_at=LATER)
    assert second == replace(numbered(102, -5), config={"a": [1]}, updated_at=LATER)
    expected = replace(NEW, id=made.id, order=9, created_at=LATER, updated_at=LATER)
    assert (made, made.id not in (0, 101, 102, 103)) == (expected, True)
    assert (app.family, app.order) == (Family.IMPORT_APP, 7)
    gone = await stores.pipelines.record(place_of(numbered(103)))
    assert gone is not None
    assert (gone.deleted, gone.enabled) == (True, False)
    assert await told(stores) == [
        ("updated", "101", "First"),
        ("created", str(made.id), "None -> 9"),
        ("created", str(app.id), "None -> 7"),
    ]
    assert await stores.pipelines.generation(DEFAULT_PROJECT) > before


async def test_orders_may_change_places(stores: Stores) -> None:
    await add(stores, numbered(1, 1), numbered(2, 2))

    def swap(present: Sequence[Record]) -> Batch:
        one, two = present
        moved = [replace(one, order=2), replace(two, order=1)]
        return Batch(added=[], edited=[Edited(record=record, entry=None) for record in moved])

    await stores.pipelines.write_all(DEFAULT_PROJECT, swap, created, LATER)
    assert await orders(stores) == {2: 1, 1: 2}


async def test_a_decision_that_fails_leaves_everything_as_it_was(stores: Stores) -> None:
    await add(stores, numbered(1, 1))
    before = await everything(stores)

    def refuse(_: object) -> Batch:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await stores.pipelines.write_all(DEFAULT_PROJECT, refuse, created, LATER)
    assert await everything(stores) == before


async def test_a_batch_that_fails_half_way_leaves_everything_as_it_was(stores: Stores) -> None:
    await add(stores, numbered(101, 1))
    before = await everything(stores)

    def decide(present: Sequence[Record]) -> Batch:
        return Batch(
            added=[replace(NEW, order=2), replace(NEW, order=3, name="Bad")],
            edited=[renamed(present[0], "Changed")],
        )

    def refuse_the_second(record: Record) -> Entry:
        if record.name == "Bad":
            raise NotFound("half way")
        return created(record)

    with pytest.raises(NotFound, match="half way"):
        await stores.pipelines.write_all(DEFAULT_PROJECT, decide, refuse_the_second, LATER)
    assert await everything(stores) == before


async def test_batches_and_other_changes_at_once_do_not_lose_each_other(stores: Stores) -> None:
    record = await stores.new_record(name="")

    def append(present: Sequence[Record]) -> Batch:
        [mine] = [each for each in present if each.id == record.id]
        last = max(each.order for each in present)
        return Batch(added=[replace(NEW, order=last + 1)], edited=[renamed(mine, mine.name + "b")])

    await asyncio.gather(
        *(
            change
            for _ in range(8)
            for change in (
                stores.pipelines.write_all(DEFAULT_PROJECT, append, created, LATER),
                stores.new_record(),
                edited(stores, record, name=lambda r: r.name + "e"),
            )
        )
    )
    [mine, *others] = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert (mine.id, sorted(mine.name)) == (record.id, ["b"] * 8 + ["e"] * 8)
    assert [each.order for each in others] == list(range(2, 18))


@pytest.fixture
def as_code(stores: Stores) -> AsCode:
    return AsCode(stores.pipelines, CATALOGUE, SEALER)


def document(*names: str, **settings: Any) -> dict[str, Any]:
    given = {"url": "https://x"} | settings
    items = [{"name": name, "component": WEBHOOK.key, "settings": given} for name in names]
    return {"version": 1, "destinations": items}


async def planned(
    as_code: AsCode,
    wanted: dict[str, Any],
    *,
    environment: Mapping[str, str] = SECRETS,
    prune: bool = False,
) -> Plan:
    return await as_code.plan(
        DEFAULT_PROJECT, wanted, environment=environment, prune=prune, now=NOW
    )


async def test_an_applied_document_is_there_and_comes_out_again(
    stores: Stores, as_code: AsCode
) -> None:
    wanted = document("a", "b", secret=FromEnv("T"))
    await as_code.apply(await planned(as_code, wanted), TERMINAL, LATER)
    records = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert [(record.name, record.order) for record in records] == [("a", 1), ("b", 2)]
    assert unsealed(WEBHOOK, records[0].config, SEALER)["secret"] == "hunter2"
    assert (await planned(as_code, wanted)).is_empty
    out, missing = await as_code.document(DEFAULT_PROJECT)
    assert (await planned(as_code, out, environment={}, prune=True)).is_empty
    assert missing == []


async def test_the_trail_tells_who_applied_what_without_secrets(
    stores: Stores, as_code: AsCode
) -> None:
    await as_code.apply(
        await planned(as_code, document("a", "b", secret=FromEnv("T"))), TERMINAL, NOW
    )
    await as_code.apply(
        await planned(as_code, document("b", batch_size=7), prune=True), SOMEBODY, LATER
    )
    entries = [recorded.entry for recorded in await stores.entries(scope="PluginConfig")]
    assert [(each.activity, each.item_name, each.actor.kind) for each in entries[::-1]] == [
        ("created", "a", "cli"),
        ("created", "b", "cli"),
        ("config_updated", "b", "key"),
        ("deleted", "a", "key"),
    ]
    assert "hunter2" not in str(entries)
    assert "$sealed" not in str(entries)


@pytest.mark.parametrize("change", ["new", "edited", "moved", "deleted", "other family"])
async def test_a_plan_is_refused_once_somebody_changed_a_record(
    stores: Stores, as_code: AsCode, change: str
) -> None:
    await as_code.apply(await planned(as_code, document("a", "b")), TERMINAL, NOW)
    plan = await planned(as_code, document("b", "a", "c"))
    record = plan.seen[0]
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "new": lambda: stores.new_record(),
        "edited": lambda: edited(stores, record, description="mine"),
        "moved": lambda: rearranged(stores, {record.id: 2}),
        "deleted": lambda: edited(stores, record, deleted=True),
        "other family": lambda: stores.new_record(family=Family.IMPORT_APP),
    }
    await changes[change]()
    before = await everything(stores)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await as_code.apply(plan, TERMINAL, LATER)
    assert await everything(stores) == before


async def test_of_two_plans_at_once_one_is_applied(stores: Stores, as_code: AsCode) -> None:
    plans = [await planned(as_code, document(name)) for name in ("a", "b", "c")]
    outcomes = await asyncio.gather(
        *(as_code.apply(plan, TERMINAL, LATER) for plan in plans), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Conflict",
        "Conflict",
        "NoneType",
    ]
    assert len(await stores.pipelines.all_records(DEFAULT_PROJECT)) == 1


async def test_records_whose_component_is_gone_are_named_and_not_written_down(
    stores: Stores, as_code: AsCode
) -> None:
    lost = await stores.new_record(component_id=4711, name="Lost")
    out, missing = await as_code.document(DEFAULT_PROJECT)
    assert (out["destinations"], [record.id for record in missing]) == ([], [lost.id])


async def test_what_was_left_out_of_the_document_is_not_pruned_by_it(
    stores: Stores, as_code: AsCode
) -> None:
    await stores.new_record(component_id=4711, name="Its package is not installed here")
    out, _ = await as_code.document(DEFAULT_PROJECT)
    assert (await planned(as_code, out, prune=True)).is_empty
