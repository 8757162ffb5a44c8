"""An installation of each engine for a whole file of tests: starting processes is what costs."""

from collections.abc import Iterator

import pytest

from tests.support.live import Installation


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Nothing is in it yet. Everything that asks for it runs on both engines."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_database()
    data = tmp_path_factory.mktemp("installation") / "data"
    yield Installation(data=data, settings=settings)
    if url := settings.get("database_url"):
        request.getfixturevalue("postgres").drop_database(url)
