"""A fresh place for each test that breaks something."""

from pathlib import Path

import pytest

from tests.live import Installation


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """Nothing is in it yet. Everything that asks for it runs on both engines."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").new_database()
    return Installation(data=tmp_path / "data", settings=settings)
