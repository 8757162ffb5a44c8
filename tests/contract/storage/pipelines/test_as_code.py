"""Pipelines as code on a real database: atomic, audited, and rejected if records changed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import decrypt_settings
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.records.as_code import RecordsAsCode
from hedgerow.pipelines.records.plan import RecordPlan
from hedgerow.pipelines.store import RecordChanges, RecordEdit
from hedgerow.plugin.component import Family
from hedgerow.projects.activity import COMMAND_LINE, ActivityEntry
from hedgerow.projects.model import ProjectId
from tests.contract.storage.conftest import (
    ACTOR,
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
    rearrange_records,
)

NEW = replace(PLAIN, id=RecordId(0), name="New", config={"url": "ü"}, web_token="new")
CATALOGUE = Catalogue()
WEBHOOK = CATALOGUE.list_components(Family.DESTINATION)[0].component
SECRETS = {"T": "hunter2"}
CIPHER = EncryptionKeys([generate_encryption_key()])


def build_created_entry(record: Record) -> ActivityEntry:
    return build_record_entry(None, record)


def build_rename(record: Record, name: str) -> RecordEdit:
    entry = replace(build_record_entry(record, record), activity="updated", item_name=name)
    return RecordEdit(record=replace(record, name=name), entry=entry)


async def snapshot_all(stores: Stores) -> tuple[Any, ...]:
    return (
        await stores.pipelines.all_records(DEFAULT_PROJECT),
        await list_record_entries(stores),
        await stores.pipelines.generation(DEFAULT_PROJECT),
    )


async def test_all_records_returns_undeleted_records_of_every_family(stores: Stores) -> None:
    other = await stores.new_project()
    await insert_records(
        stores,
        build_record(1, 3),
        build_record(2, 1, family=Family.IMPORT_APP),
        build_record(3, 1, family=Family.FRONTEND_APP, enabled=False),
        build_record(4, 2, deleted=True),
        build_record(5, 0, project_id=other.id),
    )
    found = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert [record.id for record in found] == [2, 3, 1]
    assert found[-1] == build_record(1, 3)
    assert await stores.pipelines.all_records(ProjectId(999)) == []


async def test_batch_writes_and_audits_in_one_transaction(stores: Stores) -> None:
    await insert_records(stores, build_record(101, 1), build_record(102, 2), build_record(103, 3))
    before = await stores.pipelines.generation(DEFAULT_PROJECT)

    def decide(present: Sequence[Record]) -> RecordChanges:
        first, second, third = present
        return RecordChanges(
            added=[replace(NEW, order=9), replace(NEW, order=7, family=Family.IMPORT_APP)],
            edited=[
                build_rename(first, "First"),
                RecordEdit(record=replace(second, order=-5, config={"a": [1]}), entry=None),
                RecordEdit(record=replace(third, deleted=True, enabled=False), entry=None),
            ],
        )

    await stores.pipelines.write_all(DEFAULT_PROJECT, decide, build_created_entry, LATER)
    second, first, app, created = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert first == replace(build_record(101, 1), name="First", updated_at=LATER)
    assert second == replace(build_record(102, -5), config={"a": [1]}, updated_at=LATER)
    expected = replace(NEW, id=created.id, order=9, created_at=LATER, updated_at=LATER)
    assert (created, created.id not in (0, 101, 102, 103)) == (expected, True)
    assert (app.family, app.order) == (Family.IMPORT_APP, 7)
    gone = await stores.pipelines.record(get_record_key(build_record(103)))
    assert gone is not None
    assert (gone.deleted, gone.enabled) == (True, False)
    assert await list_record_entries(stores) == [
        ("updated", "101", "First"),
        ("created", str(created.id), "None -> 9"),
        ("created", str(app.id), "None -> 7"),
    ]
    assert await stores.pipelines.generation(DEFAULT_PROJECT) > before


async def test_orders_can_be_swapped(stores: Stores) -> None:
    await insert_records(stores, build_record(1, 1), build_record(2, 2))

    def swap(present: Sequence[Record]) -> RecordChanges:
        one, two = present
        moved = [replace(one, order=2), replace(two, order=1)]
        return RecordChanges(
            added=[], edited=[RecordEdit(record=record, entry=None) for record in moved]
        )

    await stores.pipelines.write_all(DEFAULT_PROJECT, swap, build_created_entry, LATER)
    assert await list_orders(stores) == {2: 1, 1: 2}


async def test_failed_decision_changes_nothing(stores: Stores) -> None:
    await insert_records(stores, build_record(1, 1))
    before = await snapshot_all(stores)

    def reject(_: object) -> RecordChanges:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await stores.pipelines.write_all(DEFAULT_PROJECT, reject, build_created_entry, LATER)
    assert await snapshot_all(stores) == before


async def test_batch_that_fails_halfway_changes_nothing(stores: Stores) -> None:
    await insert_records(stores, build_record(101, 1))
    before = await snapshot_all(stores)

    def decide(present: Sequence[Record]) -> RecordChanges:
        return RecordChanges(
            added=[replace(NEW, order=2), replace(NEW, order=3, name="Bad")],
            edited=[build_rename(present[0], "Changed")],
        )

    def reject_the_second(record: Record) -> ActivityEntry:
        if record.name == "Bad":
            raise NotFound("half way")
        return build_created_entry(record)

    with pytest.raises(NotFound, match="half way"):
        await stores.pipelines.write_all(DEFAULT_PROJECT, decide, reject_the_second, LATER)
    assert await snapshot_all(stores) == before


async def test_concurrent_batches_and_edits_lose_no_update(stores: Stores) -> None:
    record = await stores.new_record(name="")

    def append(present: Sequence[Record]) -> RecordChanges:
        [mine] = [each for each in present if each.id == record.id]
        last = max(each.order for each in present)
        return RecordChanges(
            added=[replace(NEW, order=last + 1)], edited=[build_rename(mine, mine.name + "b")]
        )

    await asyncio.gather(
        *(
            change
            for _ in range(8)
            for change in (
                stores.pipelines.write_all(DEFAULT_PROJECT, append, build_created_entry, LATER),
                stores.new_record(),
                edit_record(stores, record, name=lambda r: r.name + "e"),
            )
        )
    )
    [mine, *others] = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert (mine.id, sorted(mine.name)) == (record.id, ["b"] * 8 + ["e"] * 8)
    assert [each.order for each in others] == list(range(2, 18))


@pytest.fixture
def as_code(stores: Stores) -> RecordsAsCode:
    return RecordsAsCode(stores.pipelines, CATALOGUE, CIPHER)


def document(*names: str, **settings: Any) -> dict[str, Any]:
    given = {"url": "https://x"} | settings
    items = [{"name": name, "component": WEBHOOK.key, "settings": given} for name in names]
    return {"version": 1, "destinations": items}


async def plan_document(
    as_code: RecordsAsCode,
    applied: dict[str, Any],
    *,
    environment: Mapping[str, str] = SECRETS,
    prune: bool = False,
) -> RecordPlan:
    return await as_code.plan(
        DEFAULT_PROJECT, applied, environment=environment, prune=prune, now=NOW
    )


async def test_applied_document_can_be_exported_again(
    stores: Stores, as_code: RecordsAsCode
) -> None:
    applied = document("a", "b", secret=FromEnv("T"))
    await as_code.apply(await plan_document(as_code, applied), COMMAND_LINE, LATER)
    records = await stores.pipelines.all_records(DEFAULT_PROJECT)
    assert [(record.name, record.order) for record in records] == [("a", 1), ("b", 2)]
    assert decrypt_settings(WEBHOOK, records[0].config, CIPHER)["secret"] == "hunter2"
    assert (await plan_document(as_code, applied)).is_empty
    out, missing = await as_code.document(DEFAULT_PROJECT)
    assert (await plan_document(as_code, out, environment={}, prune=True)).is_empty
    assert missing == []


def draw_document(chance: random.Random) -> dict[str, Any]:
    """Draw a document of three families. Names repeat, are missing, and change their component."""
    settings: dict[str, Callable[[], dict[str, Any]]] = {
        "hedgerow/webhook": lambda: {
            "url": chance.choice(["https://a.example", "https://b.example"]),
            **chance.choice([{}, {"secret": FromEnv("T")}, {"secret": FromEnv("UNSET")}]),
            **chance.choice([{}, {"events": ["bought"]}, {"batch_size": FromEnv("SIZE")}]),
        },
        "hedgerow/local-files": lambda: {"folder": chance.choice(["a", "b"])},
        "hedgerow/custom-script": lambda: {"code": chance.choice(["1", "2"])},
        "hedgerow/drop-events": lambda: {"events": [chance.choice("xy")]},
    }
    sections = {
        "destinations": ("hedgerow/webhook", "hedgerow/local-files"),
        "frontend_apps": ("hedgerow/custom-script",),
        "transformations": ("hedgerow/drop-events",),
    }
    drawn: dict[str, Any] = {"version": 1}
    for section in chance.sample(sorted(sections), chance.randint(1, len(sections))):
        drawn[section] = [
            {
                **chance.choice([{}, *({"name": name} for name in "aabc")]),
                **chance.choice([{}, {"enabled": True}, {"description": "d"}]),
                "component": component,
                "settings": settings[component](),
            }
            for component in chance.choices(sections[section], k=chance.randint(0, 4))
        ]
    return drawn


def without_history(record: Record) -> Record:
    """Return what a plan decides about a record: not its times and switches."""
    return replace(record, created_at=NOW, updated_at=NOW, switches=())


def describe_new(records: Sequence[Record]) -> list[Record]:
    """Return new records as they are compared: the database gives them an id."""
    new = [replace(without_history(record), id=RecordId(0)) for record in records]
    return sorted(new, key=lambda record: (record.family, record.order))


@pytest.mark.parametrize("seed", range(2))
async def test_plan_says_exactly_what_apply_does(
    stores: Stores, as_code: RecordsAsCode, seed: int
) -> None:
    chance = random.Random(seed)
    applied = 0
    for _ in range(10):
        drawn, prune = draw_document(chance), chance.random() < 0.5
        environment = {"T": chance.choice(["hunter1", "hunter2"]), "SIZE": "7"}
        before = await stores.pipelines.all_records(DEFAULT_PROJECT)
        entries = len(await list_record_entries(stores))
        try:
            plan = await plan_document(as_code, drawn, environment=environment, prune=prune)
        except Invalid:  # such as a new address for a secret that the environment does not have
            continue
        await as_code.apply(plan, COMMAND_LINE, LATER)
        after = {
            record.id: without_history(record)
            for record in await stores.pipelines.all_records(DEFAULT_PROJECT)
        }
        expected = {record.id: record for record in before}
        for family in plan.families:
            expected |= {new.id: new for _, new in family.changed}
            for record in family.deleted:
                del expected[record.id]
        kept = {id: without_history(record) for id, record in expected.items()}
        created = [record for family in plan.families for record in family.created]
        added = [record for id, record in after.items() if id not in expected]
        assert {id: after.get(id) for id in expected} == kept
        assert describe_new(added) == describe_new(created)
        assert (len(await list_record_entries(stores)) == entries) == plan.is_empty
        again = await plan_document(as_code, drawn, environment=environment, prune=prune)
        assert again.is_empty
        applied += not plan.is_empty
    assert applied >= 3


async def test_audit_trail_of_apply_contains_no_secrets(
    stores: Stores, as_code: RecordsAsCode
) -> None:
    await as_code.apply(
        await plan_document(as_code, document("a", "b", secret=FromEnv("T"))), COMMAND_LINE, NOW
    )
    await as_code.apply(
        await plan_document(as_code, document("b", batch_size=7), prune=True), ACTOR, LATER
    )
    entries = [recorded.entry for recorded in await stores.list_entries(scope="PluginConfig")]
    assert [(each.activity, each.item_name, each.actor.kind) for each in entries[::-1]] == [
        ("created", "a", "cli"),
        ("created", "b", "cli"),
        ("config_updated", "b", "key"),
        ("deleted", "a", "key"),
    ]
    assert "hunter2" not in str(entries)
    assert "$sealed" not in str(entries)


@pytest.mark.parametrize("change", ["new", "edited", "moved", "deleted", "other family"])
async def test_outdated_plan_is_rejected(
    stores: Stores, as_code: RecordsAsCode, change: str
) -> None:
    await as_code.apply(await plan_document(as_code, document("a", "b")), COMMAND_LINE, NOW)
    plan = await plan_document(as_code, document("b", "a", "c"))
    record = plan.records[0]
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "new": lambda: stores.new_record(),
        "edited": lambda: edit_record(stores, record, description="mine"),
        "moved": lambda: rearrange_records(stores, {record.id: 2}),
        "deleted": lambda: edit_record(stores, record, deleted=True),
        "other family": lambda: stores.new_record(family=Family.IMPORT_APP),
    }
    await changes[change]()
    before = await snapshot_all(stores)
    with pytest.raises(Conflict, match="have changed since the plan"):
        await as_code.apply(plan, COMMAND_LINE, LATER)
    assert await snapshot_all(stores) == before


async def test_of_two_concurrent_plans_one_is_applied(
    stores: Stores, as_code: RecordsAsCode
) -> None:
    plans = [await plan_document(as_code, document(name)) for name in ("a", "b", "c")]
    outcomes = await asyncio.gather(
        *(as_code.apply(plan, COMMAND_LINE, LATER) for plan in plans), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Conflict",
        "Conflict",
        "NoneType",
    ]
    assert len(await stores.pipelines.all_records(DEFAULT_PROJECT)) == 1


async def test_export_names_and_skips_records_without_component(
    stores: Stores, as_code: RecordsAsCode
) -> None:
    lost = await stores.new_record(component_id=4711, name="Lost")
    out, missing = await as_code.document(DEFAULT_PROJECT)
    assert (out["destinations"], [record.id for record in missing]) == ([], [lost.id])


async def test_skipped_records_are_not_pruned(stores: Stores, as_code: RecordsAsCode) -> None:
    await stores.new_record(component_id=4711, name="Its package is not installed here")
    out, _ = await as_code.document(DEFAULT_PROJECT)
    assert (await plan_document(as_code, out, prune=True)).is_empty
