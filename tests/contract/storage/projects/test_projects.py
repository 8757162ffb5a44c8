"""Projects and their public keys, also under concurrent changes."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import NotFound
from hedgerow.projects.model import Project, ProjectId, SecretKey
from hedgerow.storage.tables import project_tokens
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores

LATER = NOW + timedelta(hours=1)


async def rotate(stores: Stores, id: ProjectId, token: str, grace: timedelta) -> Project:
    return await stores.projects.rotate_token(id, token, NOW + grace, ACTOR, NOW)


async def test_new_project_round_trips(stores: Stores) -> None:
    created = await stores.new_project("Ünïcödé 🦔 \u2028 名前", token="phc_made")
    assert created.id != DEFAULT_PROJECT
    assert (created.name, created.timezone, created.api_token) == (
        "Ünïcödé 🦔 \u2028 名前",
        "UTC",
        "phc_made",
    )
    assert created.created_at == created.updated_at == NOW
    seen = await stores.directory.snapshot()
    assert seen.projects[created.id] == created
    assert list(seen.projects) == [DEFAULT_PROJECT, created.id]


async def test_project_ids_and_uuids_are_unique(stores: Stores) -> None:
    created = await asyncio.gather(*(stores.new_project(f"P{n}") for n in range(20)))
    assert len({project.id for project in created}) == 20
    assert len({project.uuid for project in created}) == 20


async def test_edit_changes_only_the_given_fields_and_updated_at(stores: Stores) -> None:
    before = await stores.new_project()
    after = await stores.projects.edit_project(
        before.id, lambda project: replace(project, name="Renamed"), ACTOR, LATER
    )
    assert after == replace(before, name="Renamed", updated_at=LATER)
    assert (await stores.directory.snapshot()).projects[before.id] == after


async def test_editing_an_unknown_project_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound, match="Project not found"):
        await stores.projects.edit_project(ProjectId(999), lambda p: p, ACTOR, NOW)
    with pytest.raises(NotFound, match="Project not found"):
        await rotate(stores, ProjectId(999), "phc_x", timedelta(0))


async def test_concurrent_edits_lose_no_update(stores: Stores) -> None:
    project = await stores.new_project()

    def rename(project: Project) -> Project:
        return replace(project, name=project.name + "n")

    def change_time_zone(project: Project) -> Project:
        return replace(project, timezone=project.timezone + "z")

    edits = [rename, change_time_zone] * 25
    await asyncio.gather(
        *(stores.projects.edit_project(project.id, edit, ACTOR, NOW) for edit in edits)
    )
    after = (await stores.directory.snapshot()).projects[project.id]
    assert (after.name, after.timezone) == ("A project" + "n" * 25, "UTC" + "z" * 25)


async def test_each_concurrent_edit_audits_its_own_change(stores: Stores) -> None:
    project = await stores.new_project()
    await asyncio.gather(
        *(
            stores.projects.edit_project(
                project.id, lambda p: replace(p, name=p.name + "n"), ACTOR, NOW
            )
            for _ in range(20)
        )
    )
    entries = await stores.list_entries(scope="Project", item_id=str(project.id))
    steps = [
        entry.entry.changes for entry in reversed(entries) if entry.entry.activity != "created"
    ]
    assert [(change.before, change.after) for [change] in steps] == [
        ("A project" + "n" * n, "A project" + "n" * (n + 1)) for n in range(20)
    ]


async def test_rotated_token_works_during_its_grace_period(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    rotated = await rotate(stores, project.id, "phc_new", timedelta(minutes=5))
    assert rotated == replace(project, api_token="phc_new", updated_at=NOW)
    tokens = (await stores.directory.snapshot()).tokens
    assert tokens["phc_new"].expires_at is None
    assert tokens["phc_old"].project_id == project.id
    assert tokens["phc_old"].is_valid(NOW + timedelta(minutes=5) - timedelta(microseconds=1))
    assert not tokens["phc_old"].is_valid(NOW + timedelta(minutes=5))


async def test_old_token_ends_at_once_without_grace_period(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    await rotate(stores, project.id, "phc_new", timedelta(0))
    assert not (await stores.directory.snapshot()).tokens["phc_old"].is_valid(NOW)


async def test_expired_tokens_are_deleted(stores: Stores) -> None:
    project = await stores.new_project(token="phc_first")
    await rotate(stores, project.id, "phc_second", timedelta(minutes=5))
    await rotate(stores, project.id, "phc_third", timedelta(days=5))
    await stores.projects.delete_expired_tokens(NOW + timedelta(hours=1))
    tokens = (await stores.directory.snapshot()).tokens
    assert {value for value in tokens if tokens[value].project_id == project.id} == {
        "phc_second",
        "phc_third",
    }


async def test_token_of_another_project_is_rejected(stores: Stores) -> None:
    await stores.new_project("Owner", token="phc_taken")
    other = await stores.new_project("Other", token="phc_other")
    before = await stores.directory.snapshot(), await stores.count_entries()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await rotate(stores, other.id, "phc_taken", timedelta(minutes=5))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stores.new_project("Third", token="phc_taken")
    assert (await stores.directory.snapshot(), await stores.count_entries()) == before


async def test_concurrent_rotations_leave_one_current_token(stores: Stores) -> None:
    project = await stores.new_project(token="phc_0")
    await asyncio.gather(
        *(rotate(stores, project.id, f"phc_{n}", timedelta(minutes=5)) for n in range(1, 9))
    )
    mine = project_tokens.c.project_id == project.id
    current = select(func.count()).where(mine, project_tokens.c.expires_at.is_(None))
    assert await stores.fetch_scalar(current) == 1
    assert await stores.fetch_scalar(select(func.count()).where(mine)) == 9


async def test_edit_during_a_rotation_audits_only_its_change(stores: Stores) -> None:
    project = await stores.new_project(token="phc_0")
    changes = []
    for n in range(1, 9):
        changes.append(rotate(stores, project.id, f"phc_{n}", timedelta(minutes=5)))
        changes.append(
            stores.projects.edit_project(
                project.id, lambda p: replace(p, name=p.name + "n"), ACTOR, NOW
            )
        )
    await asyncio.gather(*changes, return_exceptions=True)
    entries = await stores.list_entries(scope="Project", item_id=str(project.id))
    audited = {(e.entry.activity, change.field) for e in entries for change in e.entry.changes}
    later = {(activity, field) for activity, field in audited if activity != "created"}
    assert later == {("updated", "name"), ("token_rotated", "api_token")}


async def test_edit_without_change_is_not_audited(stores: Stores) -> None:
    before = await stores.directory.snapshot()
    entries = await stores.list_entries()
    await stores.projects.edit_project(DEFAULT_PROJECT, lambda p: p, ACTOR, LATER)
    assert await stores.directory.snapshot() == before
    assert await stores.list_entries() == entries


async def test_secret_key_survives_one_rotation_unless_dropped(stores: Stores) -> None:
    project = await stores.new_project()

    async def rotate_secret(name: str) -> Project:
        secret = SecretKey(hash=f"hash of {name}", mask=f"phs_...{name}")
        return await stores.projects.rotate_secret(project.id, secret, ACTOR, NOW)

    async def list_secret_hashes() -> dict[str, ProjectId]:
        return dict((await stores.directory.snapshot()).secrets_by_hash)

    assert (await rotate_secret("one")).secret_mask == "phs_...one"
    two = await rotate_secret("two")
    assert (two.secret_mask, two.backup_secret_mask) == ("phs_...two", "phs_...one")
    assert await list_secret_hashes() == {"hash of one": project.id, "hash of two": project.id}
    await rotate_secret("six")
    assert await list_secret_hashes() == {"hash of two": project.id, "hash of six": project.id}
    left = await stores.projects.drop_backup_secret(project.id, ACTOR, NOW)
    assert (left.secret_mask, left.backup_secret_mask) == ("phs_...six", "")
    assert await list_secret_hashes() == {"hash of six": project.id}
    before = await stores.count_entries()
    assert await stores.projects.drop_backup_secret(project.id, ACTOR, NOW) == left
    assert await stores.count_entries() == before
    entries = await stores.list_entries(scope="Project", item_id=str(project.id))
    assert [entry.entry.activity for entry in entries] == [
        "secret_backup_deleted",
        *["secret_rotated"] * 3,
        "created",
    ]
    assert "hash" not in str(entries)


async def test_secret_keys_are_per_project(stores: Stores) -> None:
    one, other = await stores.new_project("One"), await stores.new_project("Other")
    for project in (one, other, one):
        secret = SecretKey(hash=f"{project.id} {await stores.count_entries()}", mask="phs_...abcd")
        await stores.projects.rotate_secret(project.id, secret, ACTOR, NOW)
    await stores.projects.drop_backup_secret(one.id, ACTOR, NOW)
    owners = (await stores.directory.snapshot()).secrets_by_hash.values()
    assert sorted(owners) == [one.id, other.id]
    with pytest.raises(NotFound, match="Project not found"):
        await stores.projects.drop_backup_secret(ProjectId(999), ACTOR, NOW)
