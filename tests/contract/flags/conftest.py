"""A service with four people, and a project in which they have roles."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.approvals import Project, World
from tests.support.live import Installation, LiveServer


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("approvals")
    if request.param == "sqlite":
        with LiveServer(folder) as server, server.client() as client:
            own = Installation(data=folder, settings={})
            yield fill(World(one=client, two=client, installation=own))
        return
    settings = {
        "database_url": request.getfixturevalue("postgres").create_migrated_database(),
        "clickhouse_url": request.getfixturevalue("clickhouse").create_database(),
        "encryption_keys": generate_encryption_key(),
    }
    with (
        LiveServer(folder / "one", **settings) as one,
        LiveServer(folder / "two", "--no-worker", **settings) as two,
        one.client() as here,
        two.client() as there,
    ):
        own = Installation(data=folder / "one", settings=settings)
        yield fill(World(one=here, two=there, installation=own))


def fill(world: World) -> World:
    for name in ("ann", "bob", "carol", "adm"):
        world.join(name)
    return world


@pytest.fixture
def project(world: World) -> Project:
    return Project(world=world, id=world.make_project())
