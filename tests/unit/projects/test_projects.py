from dataclasses import replace
from datetime import timedelta

import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.directory import Directory
from hedgerow.projects.projects import (
    MAX_NAME_CHARS,
    ProjectFields,
    Projects,
    generate_project_token,
)
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.factories import ONE, TOKEN, FakeProjectStore, make_directory, make_project

BAD_ZONES = ["", "Mars/Olympus", "../../etc/passwd", "utc+2", "Europe/Oslo\x00", "/etc/localtime"]


@pytest.fixture
def store() -> FakeProjectStore:
    return FakeProjectStore()


@pytest.fixture
async def directory(store: FakeProjectStore, fake_time: FakeTime) -> Directory:
    return await make_directory(store, fake_time)


@pytest.fixture
def projects(store: FakeProjectStore, directory: Directory) -> Projects:
    return Projects(store, directory)


def test_tokens_are_random_in_posthogs_format() -> None:
    tokens = {generate_project_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("phc_") and len(token) >= 4 + 27 for token in tokens)


async def test_new_project_is_available_immediately_with_a_token(
    projects: Projects, directory: Directory
) -> None:
    made = await projects.create("Shop", "Europe/Oslo", COMMAND_LINE, START)
    assert (made.name, made.timezone) == ("Shop", "Europe/Oslo")
    assert made.api_token != TOKEN
    assert directory.find_token(made.api_token) == made
    assert directory.get_project(made.id) == made


@pytest.mark.parametrize("zone", BAD_ZONES)
async def test_unknown_time_zone_is_refused_before_any_store_call(
    projects: Projects, store: FakeProjectStore, zone: str
) -> None:
    with pytest.raises(Invalid) as created:
        await projects.create("Shop", zone, COMMAND_LINE, START)
    with pytest.raises(Invalid) as changed:
        await projects.change(ONE, ProjectFields(timezone=zone), COMMAND_LINE, START)
    for raised in (created, changed):
        assert raised.value.detail == f'"{zone}" is not a valid choice.'
        assert (raised.value.attr, raised.value.code) == ("timezone", "invalid_choice")
    assert store.calls == []


@pytest.mark.parametrize(
    ("name", "code"), [("", "blank"), ("x" * (MAX_NAME_CHARS + 1), "max_length")]
)
async def test_project_with_an_invalid_name_is_not_stored(
    projects: Projects, store: FakeProjectStore, name: str, code: str
) -> None:
    """The command line has the same rules as the API."""
    with pytest.raises(Invalid) as raised:
        await projects.create(name, "UTC", COMMAND_LINE, START)
    assert (raised.value.attr, raised.value.code) == ("name", code)
    assert store.calls == []


async def test_change_keeps_other_fields(projects: Projects, directory: Directory) -> None:
    renamed = await projects.change(ONE, ProjectFields(name="Shop"), COMMAND_LINE, START)
    assert renamed == replace(make_project(), name="Shop")
    moved = await projects.change(ONE, ProjectFields(timezone="Asia/Tokyo"), COMMAND_LINE, START)
    assert moved == replace(make_project(), name="Shop", timezone="Asia/Tokyo")
    assert directory.get_project(ONE) == moved
    short = await projects.change(ONE, ProjectFields(retention_days=7), COMMAND_LINE, START)
    assert short == replace(moved, retention_days=7)
    assert await projects.change(ONE, ProjectFields(), COMMAND_LINE, START) == short
    forever = await projects.change(ONE, ProjectFields(retention_days=None), COMMAND_LINE, START)
    assert forever == moved


@pytest.mark.parametrize("grace_s", [0, 60])
async def test_rotated_token_ends_with_the_grace_period(
    projects: Projects, directory: Directory, fake_time: FakeTime, grace_s: int
) -> None:
    rotated = await projects.rotate_token(
        ONE, timedelta(seconds=grace_s), COMMAND_LINE, fake_time.now()
    )
    assert rotated.api_token != TOKEN
    assert directory.find_token(rotated.api_token) == rotated
    assert (directory.find_token(TOKEN) == rotated) is (grace_s > 0)
    fake_time.advance(grace_s)
    assert directory.find_token(TOKEN) is None
    assert directory.find_token(rotated.api_token) == rotated


async def test_secret_key_works_until_it_is_dropped(
    projects: Projects, directory: Directory
) -> None:
    first = await projects.rotate_secret(ONE, COMMAND_LINE, START)
    assert first.value.startswith("phs_")
    assert len(first.value) >= 4 + 27
    assert first.value not in repr(first.project)
    second = await projects.rotate_secret(ONE, COMMAND_LINE, START)
    for value in (first.value, second.value):
        assert directory.find_secret(value) == make_project()
    await projects.drop_backup_secret(ONE, COMMAND_LINE, START)
    assert directory.find_secret(first.value) is None
    assert await directory.find_new_secret(first.value) is None
    assert directory.find_secret(second.value) == make_project()
