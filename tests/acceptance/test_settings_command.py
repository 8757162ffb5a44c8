"""`hedgerow settings` shows every setting with its source, and no secret."""

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import PERSONAL_KEY, run_in_process

GIVEN = {
    "port": "9000",
    "log_level": "warning",
    "trusted_proxies": "10.0.0.0/8,127.0.0.1",
    "database_url": "postgresql://someone:hunter2@db.example/flags?password=hunter3",
}


@pytest.fixture(scope="module")
def outcomes() -> list[subprocess.CompletedProcess[str]]:
    """The table and the JSON."""
    call = partial(run_in_process, "settings", data=Path("/srv/flags"), **GIVEN)
    return [call(), call("--json")]


@pytest.fixture(scope="module")
def facts(outcomes: list[subprocess.CompletedProcess[str]]) -> dict[str, Any]:
    return {entry["variable"]: entry for entry in json.loads(outcomes[1].stdout)}


def test_json_has_values_and_sources(facts: dict[str, Any]) -> None:
    shown = {name: (entry["shown"], entry["source"]) for name, entry in facts.items()}
    assert shown["HEDGEROW_HOST"] == ("127.0.0.1", "default")
    assert shown["HEDGEROW_PORT"] == ("9000", "environment")
    assert shown["HEDGEROW_DATA_DIR"] == ("/srv/flags", "command line")
    assert shown["HEDGEROW_TRUSTED_PROXIES"] == ("10.0.0.0/8,127.0.0.1/32", "environment")
    assert shown["HEDGEROW_RATE_LIMITS_ENABLED"] == ("false", "default")


def test_every_setting_has_a_description(facts: dict[str, Any]) -> None:
    assert len(facts) >= 16
    assert all(entry["help"].endswith(".") for entry in facts.values())


def test_the_table_cuts_no_name_or_value(
    outcomes: list[subprocess.CompletedProcess[str]], facts: dict[str, Any]
) -> None:
    words = set(outcomes[0].stdout.split())
    assert [name for name in facts if name not in words] == []
    assert {"9000", "10.0.0.0/8,127.0.0.1/32", "/srv/flags"} <= words


def test_neither_form_shows_a_secret(outcomes: list[subprocess.CompletedProcess[str]]) -> None:
    for done in outcomes:
        assert (done.returncode, done.stderr) == (0, "")
        assert PERSONAL_KEY not in done.stdout
        assert "hunter2" not in done.stdout
        assert "hunter3" not in done.stdout
    assert "someone:***@db.example/flags" in outcomes[1].stdout
