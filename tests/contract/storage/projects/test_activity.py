"""The audit trail is written in the transaction of the change."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from hedgerow.projects.activity import COMMAND_LINE, SYSTEM, ActivityEntry, Actor, FieldChange
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.store import ActivityQuery
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import generations
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores


def build_entry(**fields: Any) -> ActivityEntry:
    return replace(
        ActivityEntry(
            scope="Thing",
            item_id="1",
            item_name="A thing",
            activity="updated",
            actor=ACTOR,
            project_id=DEFAULT_PROJECT,
        ),
        **fields,
    )


def build_change(field: str, before: Any, after: Any, kind: str = "Project") -> FieldChange:
    return FieldChange(type=kind, action="changed", field=field, before=before, after=after)


async def test_entry_round_trips(stores: Stores) -> None:
    entry = build_entry(
        item_name="Ding 🔔",
        actor=Actor(kind="cli", id=None, name="hedgerow command line"),
        changes=(
            build_change("deep", {"a": [1, 2.5, None, "ü"]}, [], "Thing"),
            FieldChange(type="Thing", action="deleted", field="gone", before=True, after=None),
        ),
        detail={"trigger": {"job_type": "replay", "payload": {"n": 1}}},
    )
    await stores.activity.record(entry, NOW)
    [recorded] = await stores.list_entries(scope="Thing")
    assert (recorded.entry, recorded.created_at) == (entry, NOW)


async def test_project_edit_is_audited_with_actor_time_and_fields(
    stores: Stores,
) -> None:
    await stores.projects.edit_project(
        DEFAULT_PROJECT,
        lambda project: replace(project, name="New", timezone="Europe/Paris"),
        ACTOR,
        NOW,
    )
    newest = (await stores.list_entries(scope="Project"))[0]
    assert newest.created_at == NOW
    assert newest.entry == ActivityEntry(
        scope="Project",
        item_id="1",
        item_name="New",
        activity="updated",
        actor=ACTOR,
        project_id=DEFAULT_PROJECT,
        changes=(
            build_change("name", "Default project", "New"),
            build_change("timezone", "UTC", "Europe/Paris"),
        ),
    )


async def test_token_rotation_is_audited_with_both_tokens(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    await stores.projects.rotate_token(project.id, "phc_new", NOW, ACTOR, NOW)
    newest = (await stores.list_entries(project_id=project.id))[0].entry
    assert newest.activity == "token_rotated"
    assert newest.changes == (build_change("api_token", "phc_old", "phc_new"),)


async def test_key_changes_are_audited_without_value_or_hash(stores: Stores) -> None:
    key = await stores.new_key("Mine", value="phx_one-secret-value")
    await stores.keys.edit_key(
        key.id, lambda k: replace(k, hash="h" * 64, mask="phx_...2222"), "rolled", ACTOR, NOW
    )
    await stores.keys.remove_key(key.id, ACTOR, NOW)
    entries = [recorded.entry for recorded in await stores.list_entries(item_id=key.id)]
    assert [entry.activity for entry in entries] == ["revoked", "rolled", "created"]
    assert entries[1].changes == (
        build_change("mask_value", key.mask, "phx_...2222", "PersonalAPIKey"),
    )
    assert {change.action for change in entries[0].changes} == {"deleted"}
    assert {change.action for change in entries[2].changes} == {"created"}
    assert all(secret not in str(entries) for secret in ("one-secret", key.hash, "h" * 64))


async def test_first_start_is_audited_as_system(stores: Stores) -> None:
    entries = [recorded.entry for recorded in await stores.list_entries()]
    assert {entry.actor for entry in entries} == {SYSTEM}
    assert {(entry.scope, entry.activity) for entry in entries} == {
        ("Project", "created"),
        ("PersonalAPIKey", "created"),
    }


async def test_failed_change_leaves_no_entry(stores: Stores) -> None:
    key = await stores.new_key()
    before = await stores.directory.snapshot(), await stores.count_entries()

    def fail(_: Project) -> Project:
        raise RuntimeError("the edit fails")

    def clear_name(project: Project) -> Project:
        return replace(project, name=None)  # type: ignore[arg-type]

    def clear_label(found: PersonalKey) -> PersonalKey:
        return replace(found, label=None)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="the edit fails"):
        await stores.projects.edit_project(DEFAULT_PROJECT, fail, ACTOR, NOW)
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.projects.edit_project(DEFAULT_PROJECT, clear_name, ACTOR, NOW)
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.keys.edit_key(key.id, clear_label, "updated", ACTOR, NOW)
    assert (await stores.directory.snapshot(), await stores.count_entries()) == before


async def test_failed_entry_rolls_back_its_change(stores: Stores) -> None:
    def change(connection: Connection) -> None:
        connection.execute(insert(generations), {"topic": "audited", "number": 1})
        activity.record(connection, build_entry(item_name=None), NOW)

    before = await stores.count_entries()
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await stores.database.write(change)
    assert (
        await stores.fetch_scalar(generations.select().where(generations.c.topic == "audited"))
        is None
    )
    assert await stores.count_entries() == before


async def test_entries_are_listed_newest_first_in_pages(stores: Stores) -> None:
    for n in range(7):
        await stores.activity.record(build_entry(item_id=str(n)), NOW)
    page, total = await stores.activity.list_activity(
        ActivityQuery(scope="Thing", limit=3, offset=2)
    )
    assert [recorded.entry.item_id for recorded in page] == ["4", "3", "2"]
    assert total == 7
    page, total = await stores.activity.list_activity(ActivityQuery(scope="Thing", offset=2**62))
    assert (page, total) == ([], 7)


async def test_entries_are_found_by_project_scope_and_item(stores: Stores) -> None:
    other = await stores.new_project()
    expected = {"mine": DEFAULT_PROJECT, "other": other.id, "none": None}
    for item_id, project_id in expected.items():
        await stores.activity.record(build_entry(item_id=item_id, project_id=project_id), NOW)

    async def found(**query: Any) -> list[str]:
        return [recorded.entry.item_id for recorded in await stores.list_entries(**query)]

    assert await found(scope="Thing") == ["none", "other", "mine"]
    assert await found(scope="Thing", project_id=other.id) == ["other"]
    assert await found(item_id="mine") == ["mine"]
    assert await found(scope="Other", item_id="mine") == []
    assert await found(project_id=ProjectId(999)) == []


async def test_entries_are_found_by_author_activity_text_and_time(stores: Stores) -> None:
    ann = Actor(kind="user", id="1", name="Ann", email="ann@example.com")
    key = Actor(kind="key", id="k", name="Deploy 100%", email="ann@example.com")
    day = timedelta(days=1)
    for item_id, fields, at in (
        ("old", {"actor": ann}, NOW - day),
        ("key", {"actor": key, "activity": "deleted"}, NOW),
        ("cli", {"actor": COMMAND_LINE, "item_name": "Ann's_flag"}, NOW + day),
    ):
        await stores.activity.record(build_entry(item_id=item_id, **fields), at)

    async def found(**query: Any) -> list[str]:
        entries = await stores.list_entries(scope="Thing", **query)
        return [recorded.entry.item_id for recorded in entries]

    assert await found(user="ann@example.com") == ["key", "old"]
    assert await found(user="Deploy 100%") == ["key"]
    assert await found(user="ann") == []
    assert await found(activity="deleted") == ["key"]
    assert await found(search="ANN") == ["cli", "key", "old"]
    assert await found(search="0%") == ["key"]
    assert await found(search="s_f") == ["cli"]
    assert await found(since=NOW) == ["cli", "key"]
    assert await found(until=NOW) == ["old"]
    assert await found(since=NOW, until=NOW + day, user="ann@example.com") == ["key"]
