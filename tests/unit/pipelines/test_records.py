import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component, Origin, SettingField, Settings
from hedgerow.pipelines.config import changed
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordDraft, RecordId
from hedgerow.pipelines.records import RecordFields, Records
from hedgerow.pipelines.store import Batch, Edited, Place, RecordQuery, Tell
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START
from tests.unit.pipelines.world import (
    BAR,
    HOOK,
    OTHER_SEALER,
    PROJECT,
    RECORD,
    SEALER,
    SOMEBODY,
    a_record,
    sealed,
)

HOOK_ID, NEXT_ID, BAR_ID, GONE_ID = (ComponentId(n) for n in (1000, 1001, 1002, 1003))
HERE = Place(project_id=PROJECT, family=Family.DESTINATION, id=RecordId(1))


class OneRecord:
    """A store with one record in it. `told` is what the audit trail heard."""

    def __init__(self, record: Record) -> None:
        self.now = record
        self.told: list[Entry] = []

    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        return [self.now], 1

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        return [self.now]

    async def generation(self, project_id: ProjectId) -> int:
        return 0

    async def record(self, place: Place) -> Record | None:
        return self.now if place.id == self.now.id else None

    async def add(
        self, draft: RecordDraft, tell: Tell, idempotency_key: str | None, now: datetime
    ) -> Record:
        raise AssertionError("nothing is made here")

    async def edit(
        self, place: Place, edit: Callable[[Record], Edited], tell: Tell, now: datetime
    ) -> Record:
        edited = edit(self.now)
        self.now = edited.record
        self.told += [edited.entry] if edited.entry else []
        return self.now

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        tell: Tell,
        now: datetime,
    ) -> list[Record]:
        self.now = replace(self.now, order=plan({self.now.id: self.now.order})[self.now.id])
        return [self.now]

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], Batch],
        created: Callable[[Record], Entry],
        now: datetime,
    ) -> None:
        raise AssertionError("nothing is written at once here")


def room(
    record: Record, target: Component = HOOK, source: Component | None = HOOK
) -> tuple[Records, OneRecord]:
    """`source` is number 1000, the record's own; `target` is 1001."""
    catalogue = Catalogue()
    ids = {"a": HOOK_ID, "b": NEXT_ID, "c": BAR_ID}
    parts = {"a": source, "b": target, "c": BAR}
    installed = [replace(part, key=key) for key, part in parts.items() if part]
    catalogue.add(ids, installed, [])
    store = OneRecord(record)
    return Records(store, catalogue, SEALER), store


async def migrated(
    record: Record, target: Component, source: Component | None = HOOK
) -> tuple[Record, OneRecord]:
    records, store = room(record, target, source)
    return await records.migrate(HERE, NEXT_ID, SOMEBODY, START), store


def adopting(rule: Callable[[Settings], Settings]) -> Component:
    return replace(HOOK, adopt=lambda _origin, given: rule(given))


def stored(**given: Any) -> Record:
    return a_record(config=changed(HOOK, {}, given, SEALER))


async def test_a_component_without_a_rule_takes_nobody_elses_settings() -> None:
    with pytest.raises(Invalid, match=r"No migration available.*Hook has no rule.*Hook"):
        await migrated(stored(url="u"), HOOK)


async def test_a_rule_that_declines_gives_its_reason() -> None:
    def decline(_: Settings) -> Settings:
        raise ValueError("only a cat can")

    with pytest.raises(Invalid, match=r"No migration available for this plugin: only a cat can"):
        await migrated(stored(url="u"), adopting(decline))


async def test_a_rule_sees_plain_settings_and_where_they_came_from() -> None:
    seen: list[tuple[Origin, Settings]] = []

    def adopt(origin: Origin, given: Settings) -> Settings:
        seen.append((origin, given))
        return {"url": given["url"], "token": given["token"], "note": None}

    after, store = await migrated(stored(url="u", token="hunter2"), replace(HOOK, adopt=adopt))
    [(origin, given)] = seen
    assert origin == Origin(key="a", version="1.0.0")
    assert (given["url"], given["token"], given["size"]) == ("u", "hunter2", 5)
    assert after.component_id == NEXT_ID
    assert sorted(after.config) == ["token", "url"]
    assert SEALER.unseal(after.config["token"]["$sealed"]) == "hunter2"
    assert [entry.activity for entry in store.told] == ["migrated"]
    assert "hunter2" not in json.dumps([change.after for change in store.told[0].changes])


async def test_a_migration_that_was_made_is_not_made_again() -> None:
    records, store = room(stored(url="u"), adopting(lambda given: {"url": given["url"]}))
    first = await records.migrate(HERE, NEXT_ID, SOMEBODY, START)
    assert await records.migrate(HERE, NEXT_ID, SOMEBODY, START) == first
    assert await records.migrate(HERE, None, SOMEBODY, START) == first
    assert len(store.told) == 1


@pytest.mark.parametrize(
    "leak",
    [
        lambda given: {"url": given["token"]},
        lambda given: {"url": "https://x/?key=" + given["token"]},
        lambda given: {"body": {"inside": [given["token"]]}},
        lambda given: {"url": given["headers"]["X-Key"]},
        lambda given: {"body": given["headers"]},
    ],
    ids=["as it is", "within a text", "within an object", "a part of it", "an object"],
)
async def test_a_secret_never_ends_in_a_setting_that_is_none(
    leak: Callable[[Settings], Settings],
) -> None:
    before = stored(url="u", token="hunter2-long", headers={"X-Key": "hunter3-long"})
    records, store = room(before, adopting(leak))
    with pytest.raises(Invalid, match="would be no secret"):
        await records.migrate(HERE, NEXT_ID, SOMEBODY, START)
    assert store.now == before


async def test_what_a_rule_gives_must_fit_the_schema() -> None:
    with pytest.raises(Invalid) as raised:
        await migrated(stored(url="u"), adopting(lambda _: {"size": "many"}))
    assert raised.value.attr == "config__size"


async def test_settings_of_a_component_that_is_gone_need_a_rule_too() -> None:
    with pytest.raises(Invalid, match="not installed"):
        await migrated(stored(url="u"), HOOK, source=None)


async def test_a_migration_without_the_right_key_changes_nothing() -> None:
    before = a_record(config={"token": {"$sealed": OTHER_SEALER.seal("hunter2")}})
    records, store = room(before, adopting(lambda given: {"token": given["token"]}))
    with pytest.raises(Conflict, match="Bring the key back"):
        await records.migrate(HERE, NEXT_ID, SOMEBODY, START)
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


async def test_to_a_newer_version_matching_settings_go_along() -> None:
    """The schema changed under stored settings: some are gone, some are new."""
    records, store = room(stored(url="u", size=9, token="hunter2"), source=NEWER)
    after = await records.migrate(HERE, None, SOMEBODY, START)
    assert after.component_version == "2.0.0"
    assert sorted(after.config) == ["token", "url"]
    assert records.settings(after) == {"url": "u", "fresh": "new", "token": "hunter2"}
    assert store.told[0].activity == "migrated"


async def test_settings_for_an_older_schema_can_be_read_and_changed_before_a_migration() -> None:
    records, _ = room(stored(url="u", size=9, token="hunter2"), source=NEWER)
    after = await records.set_config(HERE, {"fresh": "f"}, whole=False, actor=SOMEBODY, now=START)
    assert records.settings(after) == {"url": "u", "fresh": "f", "token": "hunter2"}


async def test_relinking_keeps_matching_settings_and_no_secret_in_a_plain_one() -> None:
    plain = replace(
        HOOK,
        settings=(SettingField(key="url", name="Address"), SettingField(key="token", name="T")),
    )
    records, _ = room(stored(url="u", size=9, token="hunter2"), plain)
    fields = RecordFields(component_id=NEXT_ID)
    after = await records.change(HERE, fields, SOMEBODY, START)
    assert (after.component_id, after.config) == (NEXT_ID, {"url": "u"})


@pytest.mark.parametrize(
    ("id", "says"), [(BAR_ID, "is no component for a destination"), (GONE_ID, "does not exist")]
)
async def test_a_component_of_another_family_or_none_is_refused(id: ComponentId, says: str) -> None:
    records, store = room(RECORD)
    with pytest.raises(Invalid, match=says) as relinked:
        await records.change(HERE, RecordFields(component_id=id), SOMEBODY, START)
    with pytest.raises(Invalid, match=says):
        await records.migrate(HERE, id, SOMEBODY, START)
    assert relinked.value.attr == "plugin"
    assert store.now == RECORD


async def test_a_deleted_record_is_disabled_and_can_only_be_restored() -> None:
    records, store = room(RECORD)
    await records.delete(HERE, SOMEBODY, START)
    assert (store.now.deleted, store.now.enabled) == (True, False)
    with pytest.raises(NotFound):
        await records.delete(HERE, SOMEBODY, START)
    with pytest.raises(NotFound):
        await records.change(HERE, RecordFields(name="x"), SOMEBODY, START)
    with pytest.raises(NotFound):
        await records.find(HERE)
    await records.change(HERE, RecordFields(deleted=False), SOMEBODY, START)
    assert [entry.activity for entry in store.told] == ["deleted", "restored"]


async def test_a_deleted_records_settings_cannot_be_changed() -> None:
    records, store = room(a_record(deleted=True))
    with pytest.raises(NotFound):
        await records.set_config(HERE, {"url": "u"}, whole=True, actor=SOMEBODY, now=START)
    with pytest.raises(NotFound):
        await records.migrate(HERE, None, SOMEBODY, START)
    assert store.told == []


async def test_a_change_that_changes_nothing_is_not_told() -> None:
    records, store = room(RECORD)
    await records.change(HERE, RecordFields(name=RECORD.name), SOMEBODY, START)
    assert store.told == []


async def test_the_audit_trail_never_hears_a_secret() -> None:
    records, store = room(a_record(config={"token": sealed("hunter2")}))
    given = {"url": "u", "token": "hunter3", "headers": {"a": "hunter4"}}
    await records.set_config(HERE, given, whole=True, actor=SOMEBODY, now=START)
    [entry] = store.told
    shown = {change.field: (change.before, change.after) for change in entry.changes}
    assert shown == {
        "config.url": (None, "u"),
        "config.token": ("***", "***"),
        "config.headers": (None, "***"),
    }


async def test_a_rearrange_that_names_a_stranger_is_refused_by_its_id() -> None:
    records, store = room(RECORD)
    wanted = {RECORD.id: 5, RecordId(77): 1}
    with pytest.raises(Invalid, match='"77"') as raised:
        await records.rearrange(PROJECT, Family.DESTINATION, wanted, SOMEBODY, START)
    assert raised.value.attr == "orders"
    assert store.now == RECORD
