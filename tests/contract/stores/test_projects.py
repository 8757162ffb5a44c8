"""Projects and their public keys: what is stored, what is read back, who wins a race."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import NotFound
from hedgerow.projects.model import Project, ProjectId, SecretKey
from hedgerow.storage.tables import project_tokens
from tests.contract.stores.conftest import DEFAULT_PROJECT, NOW, SOMEBODY, Stores

LATER = NOW + timedelta(hours=1)


async def rotate(stores: Stores, id: ProjectId, token: str, grace: timedelta) -> Project:
    return await stores.projects.rotate_token(id, token, NOW + grace, SOMEBODY, NOW)


async def test_a_new_project_reads_back_as_it_was_made(stores: Stores) -> None:
    made = await stores.new_project("Ünïcödé 🦔 \u2028 名前", token="phc_made")
    assert made.id != DEFAULT_PROJECT
    assert (made.name, made.timezone, made.api_token) == (
        "Ünïcödé 🦔 \u2028 名前",
        "UTC",
        "phc_made",
    )
    assert made.created_at == made.updated_at == NOW
    seen = await stores.directory.snapshot()
    assert seen.projects[made.id] == made
    assert list(seen.projects) == [DEFAULT_PROJECT, made.id]


async def test_every_project_has_its_own_id_and_uuid(stores: Stores) -> None:
    made = await asyncio.gather(*(stores.new_project(f"P{n}") for n in range(20)))
    assert len({project.id for project in made}) == 20
    assert len({project.uuid for project in made}) == 20


async def test_an_edit_changes_the_fields_it_names_and_the_time_of_change(stores: Stores) -> None:
    before = await stores.new_project()
    after = await stores.projects.edit_project(
        before.id, lambda project: replace(project, name="Renamed"), SOMEBODY, LATER
    )
    assert after == replace(before, name="Renamed", updated_at=LATER)
    assert (await stores.directory.snapshot()).projects[before.id] == after


async def test_editing_an_unknown_project_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound, match="Project not found"):
        await stores.projects.edit_project(ProjectId(999), lambda p: p, SOMEBODY, NOW)
    with pytest.raises(NotFound, match="Project not found"):
        await rotate(stores, ProjectId(999), "phc_x", timedelta(0))


async def test_edits_of_different_fields_at_once_do_not_lose_each_other(stores: Stores) -> None:
    project = await stores.new_project()

    def rename(project: Project) -> Project:
        return replace(project, name=project.name + "n")

    def move(project: Project) -> Project:
        return replace(project, timezone=project.timezone + "z")

    edits = [rename, move] * 25
    await asyncio.gather(
        *(stores.projects.edit_project(project.id, edit, SOMEBODY, NOW) for edit in edits)
    )
    after = (await stores.directory.snapshot()).projects[project.id]
    assert (after.name, after.timezone) == ("A project" + "n" * 25, "UTC" + "z" * 25)


async def test_each_of_many_edits_at_once_tells_of_its_own_step(stores: Stores) -> None:
    project = await stores.new_project()
    await asyncio.gather(
        *(
            stores.projects.edit_project(
                project.id, lambda p: replace(p, name=p.name + "n"), SOMEBODY, NOW
            )
            for _ in range(20)
        )
    )
    entries = await stores.entries(scope="Project", item_id=str(project.id))
    steps = [
        entry.entry.changes for entry in reversed(entries) if entry.entry.activity != "created"
    ]
    assert [(change.before, change.after) for [change] in steps] == [
        ("A project" + "n" * n, "A project" + "n" * (n + 1)) for n in range(20)
    ]


async def test_a_rotated_token_works_until_its_grace_time_is_over(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    rotated = await rotate(stores, project.id, "phc_new", timedelta(minutes=5))
    assert rotated == replace(project, api_token="phc_new", updated_at=NOW)
    tokens = (await stores.directory.snapshot()).tokens
    assert tokens["phc_new"].expires_at is None
    assert tokens["phc_old"].project_id == project.id
    assert tokens["phc_old"].is_valid(NOW + timedelta(minutes=5) - timedelta(microseconds=1))
    assert not tokens["phc_old"].is_valid(NOW + timedelta(minutes=5))


async def test_without_grace_the_old_token_ends_at_once(stores: Stores) -> None:
    project = await stores.new_project(token="phc_old")
    await rotate(stores, project.id, "phc_new", timedelta(0))
    assert not (await stores.directory.snapshot()).tokens["phc_old"].is_valid(NOW)


async def test_tokens_in_grace_are_kept_and_expired_ones_forgotten(stores: Stores) -> None:
    project = await stores.new_project(token="phc_first")
    await rotate(stores, project.id, "phc_second", timedelta(minutes=5))
    await rotate(stores, project.id, "phc_third", timedelta(days=5))
    await stores.projects.forget_expired_tokens(NOW + timedelta(hours=1))
    tokens = (await stores.directory.snapshot()).tokens
    assert {value for value in tokens if tokens[value].project_id == project.id} == {
        "phc_second",
        "phc_third",
    }


async def test_a_token_that_another_project_has_is_refused_whole(stores: Stores) -> None:
    await stores.new_project("Owner", token="phc_taken")
    other = await stores.new_project("Other", token="phc_other")
    before = await stores.directory.snapshot(), await stores.entry_count()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await rotate(stores, other.id, "phc_taken", timedelta(minutes=5))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stores.new_project("Third", token="phc_taken")
    assert (await stores.directory.snapshot(), await stores.entry_count()) == before


async def test_rotations_at_once_all_succeed_and_leave_one_current_token(stores: Stores) -> None:
    project = await stores.new_project(token="phc_0")
    await asyncio.gather(
        *(rotate(stores, project.id, f"phc_{n}", timedelta(minutes=5)) for n in range(1, 9))
    )
    mine = project_tokens.c.project_id == project.id
    current = select(func.count()).where(mine, project_tokens.c.expires_at.is_(None))
    assert await stores.scalar(current) == 1
    assert await stores.scalar(select(func.count()).where(mine)) == 9


async def test_an_edit_beside_a_rotation_tells_only_of_what_it_changed(stores: Stores) -> None:
    project = await stores.new_project(token="phc_0")
    changes = []
    for n in range(1, 9):
        changes.append(rotate(stores, project.id, f"phc_{n}", timedelta(minutes=5)))
        changes.append(
            stores.projects.edit_project(
                project.id, lambda p: replace(p, name=p.name + "n"), SOMEBODY, NOW
            )
        )
    await asyncio.gather(*changes, return_exceptions=True)
    entries = await stores.entries(scope="Project", item_id=str(project.id))
    told = {(e.entry.activity, change.field) for e in entries for change in e.entry.changes}
    assert told - {("created", field) for field in ("name", "timezone", "api_token")} == {
        ("updated", "name"),
        ("token_rotated", "api_token"),
    }


async def test_an_edit_that_changes_nothing_leaves_no_trace(stores: Stores) -> None:
    before = await stores.directory.snapshot()
    entries = await stores.entries()
    await stores.projects.edit_project(DEFAULT_PROJECT, lambda p: p, SOMEBODY, LATER)
    assert await stores.directory.snapshot() == before
    assert await stores.entries() == entries


async def test_a_secret_key_outlives_one_rotation_unless_it_is_dropped(stores: Stores) -> None:
    project = await stores.new_project()

    async def rotated(name: str) -> Project:
        secret = SecretKey(hash=f"hash of {name}", mask=f"phs_...{name}")
        return await stores.projects.rotate_secret(project.id, secret, SOMEBODY, NOW)

    async def good() -> dict[str, ProjectId]:
        return dict((await stores.directory.snapshot()).secrets_by_hash)

    assert (await rotated("one")).secret_mask == "phs_...one"
    two = await rotated("two")
    assert (two.secret_mask, two.backup_secret_mask) == ("phs_...two", "phs_...one")
    assert await good() == {"hash of one": project.id, "hash of two": project.id}
    await rotated("six")
    assert await good() == {"hash of two": project.id, "hash of six": project.id}
    left = await stores.projects.drop_backup_secret(project.id, SOMEBODY, NOW)
    assert (left.secret_mask, left.backup_secret_mask) == ("phs_...six", "")
    assert await good() == {"hash of six": project.id}
    before = await stores.entry_count()
    assert await stores.projects.drop_backup_secret(project.id, SOMEBODY, NOW) == left
    assert await stores.entry_count() == before
    entries = await stores.entries(scope="Project", item_id=str(project.id))
    assert [entry.entry.activity for entry in entries] == [
        "secret_backup_deleted",
        *["secret_rotated"] * 3,
        "created",
    ]
    assert "hash" not in str(entries)


async def test_secret_keys_of_two_projects_are_apart(stores: Stores) -> None:
    one, other = await stores.new_project("One"), await stores.new_project("Other")
    for project in (one, other, one):
        secret = SecretKey(hash=f"{project.id} {await stores.entry_count()}", mask="phs_...abcd")
        await stores.projects.rotate_secret(project.id, secret, SOMEBODY, NOW)
    await stores.projects.drop_backup_secret(one.id, SOMEBODY, NOW)
    owners = (await stores.directory.snapshot()).secrets_by_hash.values()
    assert sorted(owners) == [one.id, other.id]
    with pytest.raises(NotFound, match="Project not found"):
        await stores.projects.drop_backup_secret(ProjectId(999), SOMEBODY, NOW)
