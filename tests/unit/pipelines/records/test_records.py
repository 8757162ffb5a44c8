import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import merge_settings
from hedgerow.pipelines.model import ComponentId, Record, RecordDraft, RecordId
from hedgerow.pipelines.records.records import RecordFields, Records
from hedgerow.pipelines.store import BuildEntry, RecordChanges, RecordEdit, RecordKey, RecordQuery
from hedgerow.plugin.component import Component, Family, SettingField, Settings, SettingsOrigin
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START
from tests.unit.pipelines.sample_components import (
    ACTOR,
    BAR,
    CIPHER,
    HOOK,
    OTHER_CIPHER,
    PROJECT,
    RECORD,
    build_record,
    encrypted,
)

HOOK_ID, NEXT_ID, BAR_ID, GONE_ID = (ComponentId(n) for n in (1000, 1001, 1002, 1003))
HERE = RecordKey(project_id=PROJECT, family=Family.DESTINATION, id=RecordId(1))


class SingleRecordStore:
    """A store with one record. `entries` are the activity entries."""

    def __init__(self, record: Record) -> None:
        self.now = record
        self.entries: list[ActivityEntry] = []

    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        return [self.now], 1

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        return [self.now]

    async def generation(self, project_id: ProjectId) -> int:
        return 0

    async def record(self, place: RecordKey) -> Record | None:
        return self.now if place.id == self.now.id else None

    async def add(
        self,
        draft: RecordDraft,
        build_entry: BuildEntry,
        idempotency_key: str | None,
        now: datetime,
    ) -> Record:
        raise AssertionError("unexpected call of add")

    async def edit(
        self,
        place: RecordKey,
        edit: Callable[[Record], RecordEdit],
        build_entry: BuildEntry,
        now: datetime,
    ) -> Record:
        edited = edit(self.now)
        self.now = edited.record
        self.entries += [edited.entry] if edited.entry else []
        return self.now

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        build_entry: BuildEntry,
        now: datetime,
    ) -> list[Record]:
        self.now = replace(self.now, order=plan({self.now.id: self.now.order})[self.now.id])
        return [self.now]

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], RecordChanges],
        created: Callable[[Record], ActivityEntry],
        now: datetime,
    ) -> None:
        raise AssertionError("unexpected call of write_all")


def build_records(
    record: Record, target: Component = HOOK, source: Component | None = HOOK
) -> tuple[Records, SingleRecordStore]:
    """`source` has the id 1000, the component of the record; `target` has 1001."""
    catalogue = Catalogue()
    ids = {"a": HOOK_ID, "b": NEXT_ID, "c": BAR_ID}
    parts = {"a": source, "b": target, "c": BAR}
    installed = [replace(part, key=key) for key, part in parts.items() if part]
    catalogue.add(ids, installed, [])
    store = SingleRecordStore(record)
    return Records(store, catalogue, CIPHER), store


async def migrate(
    record: Record, target: Component, source: Component | None = HOOK
) -> tuple[Record, SingleRecordStore]:
    records, store = build_records(record, target, source)
    return await records.migrate(HERE, NEXT_ID, ACTOR, START), store


def with_migration(rule: Callable[[Settings], Settings]) -> Component:
    return replace(HOOK, migrate_settings=lambda _origin, settings: rule(settings))


def stored(**settings: Any) -> Record:
    return build_record(config=merge_settings(HOOK, {}, settings, CIPHER))


async def test_component_without_migration_refuses_other_settings() -> None:
    with pytest.raises(Invalid, match=r"No migration available.*Hook cannot migrate.*Hook"):
        await migrate(stored(url="u"), HOOK)


async def test_refused_migration_has_a_reason() -> None:
    def decline(_: Settings) -> Settings:
        raise ValueError("only a cat can")

    with pytest.raises(Invalid, match=r"No migration available for this plugin: only a cat can"):
        await migrate(stored(url="u"), with_migration(decline))


async def test_migration_sees_decrypted_settings_and_their_origin() -> None:
    seen: list[tuple[SettingsOrigin, Settings]] = []

    def migrate_settings(origin: SettingsOrigin, settings: Settings) -> Settings:
        seen.append((origin, settings))
        return {"url": settings["url"], "token": settings["token"], "note": None}

    after, store = await migrate(
        stored(url="u", token="hunter2"), replace(HOOK, migrate_settings=migrate_settings)
    )
    [(origin, settings)] = seen
    assert origin == SettingsOrigin(key="a", version="1.0.0")
    assert (settings["url"], settings["token"], settings["size"]) == ("u", "hunter2", 5)
    assert after.component_id == NEXT_ID
    assert sorted(after.config) == ["token", "url"]
    assert CIPHER.decrypt(after.config["token"]["$sealed"]) == "hunter2"
    assert [entry.activity for entry in store.entries] == ["migrated"]
    assert "hunter2" not in json.dumps([change.after for change in store.entries[0].changes])


async def test_migration_is_not_repeated() -> None:
    records, store = build_records(
        stored(url="u"), with_migration(lambda settings: {"url": settings["url"]})
    )
    first = await records.migrate(HERE, NEXT_ID, ACTOR, START)
    assert await records.migrate(HERE, NEXT_ID, ACTOR, START) == first
    assert await records.migrate(HERE, None, ACTOR, START) == first
    assert len(store.entries) == 1


@pytest.mark.parametrize(
    "leak",
    [
        lambda settings: {"url": settings["token"]},
        lambda settings: {"url": "https://x/?key=" + settings["token"]},
        lambda settings: {"body": {"inside": [settings["token"]]}},
        lambda settings: {"url": settings["headers"]["X-Key"]},
        lambda settings: {"body": settings["headers"]},
    ],
    ids=["value", "in text", "in an object", "part of an object", "object"],
)
async def test_migration_never_exposes_a_secret(
    leak: Callable[[Settings], Settings],
) -> None:
    before = stored(url="u", token="hunter2-long", headers={"X-Key": "hunter3-long"})
    records, store = build_records(before, with_migration(leak))
    with pytest.raises(Invalid, match="would expose a secret"):
        await records.migrate(HERE, NEXT_ID, ACTOR, START)
    assert store.now == before


async def test_result_of_a_migration_must_match_the_schema() -> None:
    with pytest.raises(Invalid) as raised:
        await migrate(stored(url="u"), with_migration(lambda _: {"size": "many"}))
    assert raised.value.attr == "config__size"


async def test_settings_of_a_missing_component_need_a_migration() -> None:
    with pytest.raises(Invalid, match="not installed"):
        await migrate(stored(url="u"), HOOK, source=None)


async def test_migration_without_the_right_key_changes_nothing() -> None:
    before = build_record(config={"token": {"$sealed": OTHER_CIPHER.encrypt("hunter2")}})
    records, store = build_records(
        before, with_migration(lambda settings: {"token": settings["token"]})
    )
    with pytest.raises(Conflict, match="Restore the key"):
        await records.migrate(HERE, NEXT_ID, ACTOR, START)
    assert store.now == before


NEWER = replace(
    HOOK,
    version="2.0.0",
    settings=(
        SettingField(key="url", name="Address", required=True),
        SettingField(key="fresh", name="Fresh", default="new"),
        SettingField(key="token", name="Token", secret=True),
    ),
)


async def test_newer_version_keeps_matching_settings() -> None:
    """The schema changed under stored settings: some are gone, some are new."""
    records, store = build_records(stored(url="u", size=9, token="hunter2"), source=NEWER)
    after = await records.migrate(HERE, None, ACTOR, START)
    assert after.component_version == "2.0.0"
    assert sorted(after.config) == ["token", "url"]
    assert records.settings(after) == {"url": "u", "fresh": "new", "token": "hunter2"}
    assert store.entries[0].activity == "migrated"


async def test_settings_for_an_older_schema_can_be_read_and_changed_before_a_migration() -> None:
    records, _ = build_records(stored(url="u", size=9, token="hunter2"), source=NEWER)
    after = await records.set_config(HERE, {"fresh": "f"}, whole=False, actor=ACTOR, now=START)
    assert records.settings(after) == {"url": "u", "fresh": "f", "token": "hunter2"}


async def test_relinking_keeps_matching_settings_and_no_secret_in_a_plain_one() -> None:
    plain = replace(
        HOOK,
        settings=(SettingField(key="url", name="Address"), SettingField(key="token", name="T")),
    )
    records, _ = build_records(stored(url="u", size=9, token="hunter2"), plain)
    fields = RecordFields(component_id=NEXT_ID)
    after = await records.change(HERE, fields, ACTOR, START)
    assert (after.component_id, after.config) == (NEXT_ID, {"url": "u"})


@pytest.mark.parametrize(
    ("id", "says"), [(BAR_ID, "is not a component for destinations"), (GONE_ID, "does not exist")]
)
async def test_component_of_another_family_or_none_is_refused(id: ComponentId, says: str) -> None:
    records, store = build_records(RECORD)
    with pytest.raises(Invalid, match=says) as relinked:
        await records.change(HERE, RecordFields(component_id=id), ACTOR, START)
    with pytest.raises(Invalid, match=says):
        await records.migrate(HERE, id, ACTOR, START)
    assert relinked.value.attr == "plugin"
    assert store.now == RECORD


async def test_deleted_record_is_disabled_and_can_only_be_restored() -> None:
    records, store = build_records(RECORD)
    await records.delete(HERE, ACTOR, START)
    assert (store.now.deleted, store.now.enabled) == (True, False)
    with pytest.raises(NotFound):
        await records.delete(HERE, ACTOR, START)
    with pytest.raises(NotFound):
        await records.change(HERE, RecordFields(name="x"), ACTOR, START)
    with pytest.raises(NotFound):
        await records.find(HERE)
    await records.change(HERE, RecordFields(deleted=False), ACTOR, START)
    assert [entry.activity for entry in store.entries] == ["deleted", "restored"]


async def test_deleted_records_settings_cannot_be_changed() -> None:
    records, store = build_records(build_record(deleted=True))
    with pytest.raises(NotFound):
        await records.set_config(HERE, {"url": "u"}, whole=True, actor=ACTOR, now=START)
    with pytest.raises(NotFound):
        await records.migrate(HERE, None, ACTOR, START)
    assert store.entries == []


async def test_change_without_effect_is_not_logged() -> None:
    records, store = build_records(RECORD)
    await records.change(HERE, RecordFields(name=RECORD.name), ACTOR, START)
    assert store.entries == []


async def test_activity_log_contains_no_secret() -> None:
    records, store = build_records(build_record(config={"token": encrypted("hunter2")}))
    settings = {"url": "u", "token": "hunter3", "headers": {"a": "hunter4"}}
    await records.set_config(HERE, settings, whole=True, actor=ACTOR, now=START)
    [entry] = store.entries
    shown = {change.field: (change.before, change.after) for change in entry.changes}
    assert shown == {
        "config.url": (None, "u"),
        "config.token": ("***", "***"),
        "config.headers": (None, "***"),
    }


async def test_rearrange_of_an_unknown_record_is_refused() -> None:
    records, store = build_records(RECORD)
    orders = {RECORD.id: 5, RecordId(77): 1}
    with pytest.raises(Invalid, match='"77"') as raised:
        await records.rearrange(PROJECT, Family.DESTINATION, orders, ACTOR, START)
    assert raised.value.attr == "orders"
    assert store.now == RECORD
