"""Verbs on an installation that is missing, unfinished or out of reach: one line that helps."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hedgerow.storage import migrations
from tests.live import PERSONAL_KEY, PROJECT_KEY, Installation
from tests.postgres import OwnPostgres

STEPS = sorted(file.name[:4] for file in Path(migrations.__path__[0]).glob("versions/0*.py"))
NOWHERE = "postgresql://someone:hunter2@127.0.0.1:1/nothing"


def _assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert done.stderr.startswith("hedgerow: ")
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def _outcomes(
    installation: Installation, verbs: Sequence[Sequence[str]]
) -> list[subprocess.CompletedProcess[str]]:
    return [installation.here(*verb) for verb in verbs]


def test_verbs_before_init_say_how_to_make_an_installation(tmp_path: Path) -> None:
    missing = Installation(data=tmp_path / "data", settings={})
    for done in _outcomes(missing, (("keys", "list"), ("projects", "create", "x"))):
        _assert_one_line(done, f"There is no Hedgerow in {missing.data} yet", "hedgerow init ")
    assert not missing.data.exists()


def test_verbs_on_an_empty_postgresql_database_say_what_to_run(
    tmp_path: Path, postgres: OwnPostgres
) -> None:
    empty = Installation(data=tmp_path, settings={"database_url": postgres.new_database()})
    _assert_one_line(empty.here("keys", "list"), "hedgerow migrate")


def test_verbs_without_their_postgresql_are_one_line_without_its_password(tmp_path: Path) -> None:
    away = Installation(data=tmp_path, settings={"database_url": NOWHERE})
    for done in _outcomes(away, (("keys", "list"), ("init",), ("migrate", "--check"))):
        _assert_one_line(done, "database")
        assert "hunter2" not in done.stderr


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """As `init` leaves it."""
    fresh = Installation(data=tmp_path_factory.mktemp("fresh") / "data", settings={})
    assert fresh.here("init").returncode == 0
    return fresh


def test_wishes_that_cannot_be_met_are_one_line(fresh: Installation) -> None:
    complaints = {
        ("keys", "revoke", "nobody"): "No key has the id or label 'nobody'",
        ("keys", "create", "--label", "x", "--scope", "tea:drink"): "Invalid scope: tea:drink",
        ("keys", "create", "--label", "x" * 41): "40",
        ("projects", "create", ""): "blank",
    }
    done = _outcomes(fresh, list(complaints))
    for outcome, complaint in zip(done, complaints.values(), strict=True):
        _assert_one_line(outcome, complaint)


def test_lists_for_people_show_masks_of_secrets_and_public_keys_whole(fresh: Installation) -> None:
    keys, projects = _outcomes(fresh, (("keys", "list"), ("projects", "list")))
    assert (keys.returncode, projects.returncode) == (0, 0)
    assert re.search(rf"First key +phx_\.\.\.{PERSONAL_KEY[-4:]} +\* +all", keys.stdout)
    assert PERSONAL_KEY not in keys.stdout
    assert re.search(rf"1 +Default project +{PROJECT_KEY} +UTC", projects.stdout)


@pytest.fixture(scope="module")
def migrated(installation: Installation) -> subprocess.CompletedProcess[str]:
    """The first `migrate` of an empty place, after a `migrate --check` that said so."""
    check = installation.here("migrate", "--check")
    assert (check.returncode, check.stdout) == (
        1,
        f"{len(STEPS)} step(s) to apply: {', '.join(STEPS)}.\n",
    )
    assert not installation.data.exists()
    return installation.here("migrate")


def test_migrate_says_what_it_did(migrated: subprocess.CompletedProcess[str]) -> None:
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert migrated.stdout == (f"Applied {', '.join(STEPS)}: now at step {STEPS[-1]}.\n")


def test_verbs_after_migrate_and_before_init_say_what_to_run(
    installation: Installation, migrated: subprocess.CompletedProcess[str]
) -> None:
    _assert_one_line(installation.here("keys", "create", "--label", "x"), "hedgerow init")
