"""A new installation for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Installation


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """An installation without contents. Tests that use it run on both engines."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_migrated_database()
    yield Installation(data=tmp_path / "data", settings=settings)
    if url := settings.get("database_url"):
        request.getfixturevalue("postgres").drop_database(url)
