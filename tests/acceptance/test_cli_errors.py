"""Commands on a missing, incomplete or unreachable installation print one line that helps."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hedgerow.storage import migrations
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, Installation
from tests.support.postgres import PostgresTestServer

STEPS = sorted(file.name[:4] for file in Path(migrations.__path__[0]).glob("versions/0*.py"))
NOWHERE = "postgresql://someone:hunter2@127.0.0.1:1/nothing"


def _assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert done.stderr.startswith("hedgerow: ")
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def _outcomes(
    installation: Installation, commands: Sequence[Sequence[str]]
) -> list[subprocess.CompletedProcess[str]]:
    return [installation.run_in_process(*command) for command in commands]


def test_commands_before_init_say_how_to_create_an_installation(tmp_path: Path) -> None:
    missing = Installation(data=tmp_path / "data", settings={})
    for done in _outcomes(missing, (("keys", "list"), ("projects", "create", "x"))):
        _assert_one_line(done, f"There is no installation in {missing.data}", "hedgerow init ")
    assert not missing.data.exists()


def test_commands_on_an_empty_postgresql_database_say_what_to_run(
    tmp_path: Path, postgres: PostgresTestServer
) -> None:
    empty = Installation(data=tmp_path, settings={"database_url": postgres.create_database()})
    _assert_one_line(empty.run_in_process("keys", "list"), "hedgerow migrate")


def test_an_unreachable_postgresql_is_one_line_without_its_password(tmp_path: Path) -> None:
    away = Installation(data=tmp_path, settings={"database_url": NOWHERE})
    for done in _outcomes(away, (("keys", "list"), ("init",), ("migrate", "--check"))):
        _assert_one_line(done, "database")
        assert "hunter2" not in done.stderr


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return an installation after `init`."""
    fresh = Installation(data=tmp_path_factory.mktemp("fresh") / "data", settings={})
    assert fresh.run_in_process("init").returncode == 0
    return fresh


def test_invalid_arguments_are_one_line(fresh: Installation) -> None:
    complaints = {
        ("keys", "create", "--label", "x", "--scope", "tea:drink"): "Invalid scope: tea:drink",
        ("keys", "create", "--label", "x", "--scope", "flags:read"): "mean feature_flag:read?",
        ("keys", "create", "--label", "x", "--project", "9"): "There is no project 9. Expected one",
        ("keys", "create", "--label", "x" * 41): "40",
        ("projects", "create", ""): "blank",
    }
    done = _outcomes(fresh, list(complaints))
    for outcome, complaint in zip(done, complaints.values(), strict=True):
        _assert_one_line(outcome, complaint)


def test_tables_mask_secrets_and_show_public_keys(fresh: Installation) -> None:
    keys, projects = _outcomes(fresh, (("keys", "list"), ("projects", "list")))
    assert (keys.returncode, projects.returncode) == (0, 0)
    assert re.search(rf"First key +phx_\.\.\.{PERSONAL_KEY[-4:]} +\* +all", keys.stdout)
    assert PERSONAL_KEY not in keys.stdout
    assert re.search(rf"1 +Default project +{PROJECT_KEY} +UTC", projects.stdout)


@pytest.fixture(scope="module")
def migrated(installation: Installation) -> subprocess.CompletedProcess[str]:
    """Run the first `migrate`, after a `migrate --check` that lists all migrations."""
    check = installation.run_in_process("migrate", "--check")
    assert (check.returncode, check.stdout) == (
        1,
        f"{len(STEPS)} migration(s) pending: {', '.join(STEPS)}.\n",
    )
    assert not installation.data.exists()
    return installation.run_in_process("migrate")


def test_migrate_lists_the_applied_migrations(migrated: subprocess.CompletedProcess[str]) -> None:
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert migrated.stdout == (f"Applied {', '.join(STEPS)}: now at migration {STEPS[-1]}.\n")


def test_commands_between_migrate_and_init_say_what_to_run(
    installation: Installation, migrated: subprocess.CompletedProcess[str]
) -> None:
    _assert_one_line(installation.run_in_process("keys", "create", "--label", "x"), "hedgerow init")
