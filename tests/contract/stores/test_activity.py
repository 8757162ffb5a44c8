"""The audit trail: written with the change it tells of, or not at all."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from hedgerow.projects.activity import SYSTEM, Actor, Change, Entry
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.store import ActivityQuery
from hedgerow.storage import activity
from hedgerow.storage.tables import generations
from tests.contract.stores.conftest import DEFAULT_PROJECT, NOW, SOMEBODY, Stores


def an_entry(**fields: Any) -> Entry:
    return replace(
        Entry(
            scope="Thing",
            item_id="1",
            item_name="A thing",
            activity="updated",
            actor=SOMEBODY,
            project_id=DEFAULT_PROJECT,
        ),
        **fields,
    )


def changed(field: str, before: Any, after: Any, kind: str = "Project") -> Change:
    return Change(type=kind, action="changed", field=field, before=before, after=after)


async def test_an_entry_reads_back_as_it_was_written(stores: Stores) -> None:
    entry = an_entry(
        item_name="Ding 🔔",
        actor=Actor(kind="cli", id=None, name="hedgerow command line"),
        changes=(
            changed("deep", {"a": [1, 2.5, None, "ü"]}, [], "Thing"),
            Change(type="Thing", action="deleted", field="gone", before=True, after=None),
        ),
        detail={"trigger": {"job_type": "replay", "payload": {"n": 1}}},
    )
    await stores.activity.record(entry, NOW)
    [recorded] = await stores.entries(scope="Thing")
    assert (recorded.entry, recorded.created_at) == (entry, NOW)


async def test_an_edited_project_tells_who_when_and_each_field_before_and_after(
    stores: Stores,
) -> None:
    await stores.projects.edit_project(
        DEFAULT_PROJECT,
        lambda project: replace(project, name="New", timezone="Europe/Paris"),
        SOMEBODY,
        NOW,
    )
    newest = (await stores.entries(scope="Project"))[0]
    assert newest.created_at == NOW
    assert newest.entry == Entry(
        scope="Project",
        item_id="1",
        item_name="New",
        activity="updated",
        actor=SOMEBODY,
        project_id=DEFAULT_PROJECT,
        changes=(
            changed("name", "Default project", "New"),
            changed("timezone", "UTC", "Europe/Paris"),
        ),
    )


async def test_a_rotation_tells_both_tokens(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    await stores.projects.rotate_token(project.id, "phc_new", NOW, SOMEBODY, NOW)
    newest = (await stores.entries(project_id=project.id))[0].entry
    assert newest.activity == "token_rotated"
    assert newest.changes == (changed("api_token", "phc_old", "phc_new"),)


async def test_a_key_tells_its_life_and_never_its_value_or_hash(stores: Stores) -> None:
    key = await stores.new_key("Mine", value="phx_one-secret-value")
    await stores.keys.edit_key(
        key.id, lambda k: replace(k, hash="h" * 64, mask="phx_...2222"), "rolled", SOMEBODY, NOW
    )
    await stores.keys.remove_key(key.id, SOMEBODY, NOW)
    entries = [recorded.entry for recorded in await stores.entries(item_id=key.id)]
    assert [entry.activity for entry in entries] == ["revoked", "rolled", "created"]
    assert entries[1].changes == (changed("mask_value", key.mask, "phx_...2222", "PersonalAPIKey"),)
    assert {change.action for change in entries[0].changes} == {"deleted"}
    assert {change.action for change in entries[2].changes} == {"created"}
    assert all(secret not in str(entries) for secret in ("one-secret", key.hash, "h" * 64))


async def test_the_first_start_is_told_as_the_systems_own(stores: Stores) -> None:
    entries = [recorded.entry for recorded in await stores.entries()]
    assert {entry.actor for entry in entries} == {SYSTEM}
    assert {(entry.scope, entry.activity) for entry in entries} == {
        ("Project", "created"),
        ("PersonalAPIKey", "created"),
    }


async def test_a_change_that_fails_leaves_neither_itself_nor_an_entry(stores: Stores) -> None:
    key = await stores.new_key()
    before = await stores.directory.snapshot(), await stores.entry_count()

    def broken_project(_: Project) -> Project:
        raise RuntimeError("the edit fails")

    def nameless(project: Project) -> Project:
        return replace(project, name=None)  # type: ignore[arg-type]

    def labelless(found: PersonalKey) -> PersonalKey:
        return replace(found, label=None)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="the edit fails"):
        await stores.projects.edit_project(DEFAULT_PROJECT, broken_project, SOMEBODY, NOW)
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.projects.edit_project(DEFAULT_PROJECT, nameless, SOMEBODY, NOW)
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.keys.edit_key(key.id, labelless, "updated", SOMEBODY, NOW)
    assert (await stores.directory.snapshot(), await stores.entry_count()) == before


async def test_an_entry_that_cannot_be_written_takes_its_change_with_it(stores: Stores) -> None:
    def change(connection: Connection) -> None:
        connection.execute(insert(generations), {"topic": "told", "number": 1})
        activity.record(connection, an_entry(item_name=None), NOW)

    before = await stores.entry_count()
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.database.write(change)
    assert await stores.scalar(generations.select().where(generations.c.topic == "told")) is None
    assert await stores.entry_count() == before


async def test_entries_are_listed_newest_first_in_pages_with_their_total(stores: Stores) -> None:
    for n in range(7):
        await stores.activity.record(an_entry(item_id=str(n)), NOW)
    page, total = await stores.activity.activity(ActivityQuery(scope="Thing", limit=3, offset=2))
    assert [recorded.entry.item_id for recorded in page] == ["4", "3", "2"]
    assert total == 7
    page, total = await stores.activity.activity(ActivityQuery(scope="Thing", offset=2**62))
    assert (page, total) == ([], 7)


async def test_entries_are_found_by_project_scope_and_item(stores: Stores) -> None:
    other = await stores.new_project()
    wanted = {"mine": DEFAULT_PROJECT, "other": other.id, "none": None}
    for item_id, project_id in wanted.items():
        await stores.activity.record(an_entry(item_id=item_id, project_id=project_id), NOW)

    async def found(**query: Any) -> list[str]:
        return [recorded.entry.item_id for recorded in await stores.entries(**query)]

    assert await found(scope="Thing") == ["none", "other", "mine"]
    assert await found(scope="Thing", project_id=other.id) == ["other"]
    assert await found(item_id="mine") == ["mine"]
    assert await found(scope="Other", item_id="mine") == []
    assert await found(project_id=ProjectId(999)) == []
