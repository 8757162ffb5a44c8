from dataclasses import replace
from datetime import timedelta

import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.directory import Directory
from hedgerow.projects.projects import NAME_MAX, ProjectFields, Projects, new_project_token
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.world import ONE, TOKEN, ListStore, a_directory, a_project

BAD_ZONES = ["", "Mars/Olympus", "../../etc/passwd", "utc+2", "Europe/Oslo\x00", "/etc/localtime"]


@pytest.fixture
def store() -> ListStore:
    return ListStore()


@pytest.fixture
async def directory(store: ListStore, fake_time: FakeTime) -> Directory:
    return await a_directory(store, fake_time)


@pytest.fixture
def projects(store: ListStore, directory: Directory) -> Projects:
    return Projects(store, directory)


def test_project_keys_are_random_and_of_posthogs_form() -> None:
    tokens = {new_project_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("phc_") and len(token) >= 4 + 27 for token in tokens)


async def test_a_new_project_is_there_at_once_with_a_key_of_its_own(
    projects: Projects, directory: Directory
) -> None:
    made = await projects.create("Shop", "Europe/Oslo", TERMINAL, START)
    assert (made.name, made.timezone) == ("Shop", "Europe/Oslo")
    assert made.api_token != TOKEN
    assert directory.find_token(made.api_token) == made
    assert directory.project(made.id) == made


@pytest.mark.parametrize("zone", BAD_ZONES)
async def test_an_unknown_time_zone_is_refused_before_the_store_is_asked(
    projects: Projects, store: ListStore, zone: str
) -> None:
    with pytest.raises(Invalid) as created:
        await projects.create("Shop", zone, TERMINAL, START)
    with pytest.raises(Invalid) as changed:
        await projects.change(ONE, ProjectFields(timezone=zone), TERMINAL, START)
    for raised in (created, changed):
        assert raised.value.detail == f'"{zone}" is not a valid choice.'
        assert (raised.value.attr, raised.value.code) == ("timezone", "invalid_choice")
    assert store.calls == []


@pytest.mark.parametrize(("name", "code"), [("", "blank"), ("x" * (NAME_MAX + 1), "max_length")])
async def test_a_project_without_a_fit_name_is_not_stored(
    projects: Projects, store: ListStore, name: str, code: str
) -> None:
    """Whoever asks: the terminal goes by the same rules as the API."""
    with pytest.raises(Invalid) as raised:
        await projects.create(name, "UTC", TERMINAL, START)
    assert (raised.value.attr, raised.value.code) == ("name", code)
    assert store.calls == []


async def test_a_change_leaves_alone_what_it_does_not_name(
    projects: Projects, directory: Directory
) -> None:
    renamed = await projects.change(ONE, ProjectFields(name="Shop"), TERMINAL, START)
    assert renamed == replace(a_project(), name="Shop")
    moved = await projects.change(ONE, ProjectFields(timezone="Asia/Tokyo"), TERMINAL, START)
    assert moved == replace(a_project(), name="Shop", timezone="Asia/Tokyo")
    assert directory.project(ONE) == moved
    short = await projects.change(ONE, ProjectFields(retention_days=7), TERMINAL, START)
    assert short == replace(moved, retention_days=7)
    assert await projects.change(ONE, ProjectFields(), TERMINAL, START) == short
    forever = await projects.change(ONE, ProjectFields(retention_days=None), TERMINAL, START)
    assert forever == moved


@pytest.mark.parametrize("grace_s", [0, 60])
async def test_a_rotated_key_ends_when_its_grace_does(
    projects: Projects, directory: Directory, fake_time: FakeTime, grace_s: int
) -> None:
    rotated = await projects.rotate_token(
        ONE, timedelta(seconds=grace_s), TERMINAL, fake_time.now()
    )
    assert rotated.api_token != TOKEN
    assert directory.find_token(rotated.api_token) == rotated
    assert (directory.find_token(TOKEN) == rotated) is (grace_s > 0)
    fake_time.advance(grace_s)
    assert directory.find_token(TOKEN) is None
    assert directory.find_token(rotated.api_token) == rotated


async def test_a_secret_key_opens_its_project_until_it_is_dropped(
    projects: Projects, directory: Directory
) -> None:
    first = await projects.rotate_secret(ONE, TERMINAL, START)
    assert first.value.startswith("phs_")
    assert len(first.value) >= 4 + 27
    assert first.value not in repr(first.project)
    second = await projects.rotate_secret(ONE, TERMINAL, START)
    for value in (first.value, second.value):
        assert directory.find_secret(value) == a_project()
    await projects.drop_backup_secret(ONE, TERMINAL, START)
    assert directory.find_secret(first.value) is None
    assert await directory.find_new_secret(first.value) is None
    assert directory.find_secret(second.value) == a_project()
