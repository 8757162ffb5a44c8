"""Migrations on both engines."""

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine, open_database
from hedgerow.storage.migrations.apply import migrate, prepare_database
from hedgerow.storage.migrations.state import MIGRATIONS_DIR, inspect_schema
from hedgerow.storage.projects.directory import SqlDirectoryStore
from hedgerow.storage.tables import metadata
from tests.contract.storage.conftest import FIRST, NOW, run_sql
from tests.support.live import run_concurrently


def alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_DIR))
    return config


def migrate_only_to(place: DatabaseLocation, step: str) -> None:
    config = alembic()
    with create_sync_engine(place).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, step)


def tables_in(place: DatabaseLocation) -> dict[str, set[str]]:
    with create_sync_engine(place).connect() as connection:
        found = inspect(connection)
        return {
            name: {column["name"] for column in found.get_columns(name)}
            for name in found.get_table_names()
            if name != "alembic_version"
        }


def test_all_migrations_are_pending_for_an_empty_database(place: DatabaseLocation) -> None:
    state = inspect_schema(place)
    assert state.at is None
    assert state.pending[0] == "0001"
    assert state.pending[-1] == state.newest
    assert not state.is_current


def test_migrations_match_those_of_alembic_in_order(tmp_path: Path) -> None:
    place = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=2)
    steps = ScriptDirectory.from_config(alembic()).walk_revisions()
    assert [step.revision for step in steps][::-1] == list(inspect_schema(place).pending)


def test_inspecting_a_missing_sqlite_file_does_not_create_it(tmp_path: Path) -> None:
    place = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=2)
    assert not inspect_schema(place).is_current
    assert not place.path.exists()


def test_migrations_create_exactly_the_tables_in_use(
    place: DatabaseLocation,
) -> None:
    before = migrate(place)
    assert before.at is None
    assert tables_in(place) == {
        name: set(table.columns.keys()) for name, table in metadata.tables.items()
    }
    after = inspect_schema(place)
    assert (after.at, after.pending, after.is_current) == (after.newest, (), True)


def test_migrating_again_is_a_no_op(place: DatabaseLocation) -> None:
    prepare_database(place, FIRST, NOW)
    before = run_sql(place, "SELECT * FROM projects"), tables_in(place)
    assert migrate(place).is_current
    assert (run_sql(place, "SELECT * FROM projects"), tables_in(place)) == before


def test_older_database_lists_its_pending_migrations(place: DatabaseLocation) -> None:
    migrate_only_to(place, "0001")
    state = inspect_schema(place)
    assert state.at == "0001"
    assert state.pending[0] == "0002"


def test_data_of_an_older_version_survives_migration(place: DatabaseLocation) -> None:
    migrate_only_to(place, "0001")
    run_sql(place, "INSERT INTO organizations VALUES ('o', 'Käse 🧀', '2026-01-02 03:04:05')")
    run_sql(
        place,
        "INSERT INTO projects (id, uuid, organization_id, name, timezone, created_at, updated_at)"
        " VALUES (7, 'u', 'o', 'Old', 'UTC', '2026-01-02 03:04:05', '2026-01-02 03:04:05')",
    )
    assert migrate(place).pending
    assert run_sql(place, "SELECT name FROM organizations") == [("Käse 🧀",)]
    assert run_sql(place, "SELECT id, name FROM projects") == [(7, "Old")]


def test_existing_persons_are_queued_for_replication(place: DatabaseLocation) -> None:
    migrate_only_to(place, "0006")
    run_sql(place, "INSERT INTO organizations VALUES ('o', 'Old', '2026-01-02 03:04:05')")
    run_sql(
        place,
        "INSERT INTO projects (id, uuid, organization_id, name, timezone, created_at, updated_at)"
        " VALUES (7, 'u', 'o', 'Old', 'UTC', '2026-01-02 03:04:05', '2026-01-02 03:04:05')",
    )
    run_sql(
        place,
        "INSERT INTO persons (project_id, uuid, properties, created_at, updated_at)"
        " VALUES (7, 'p', '{}', '2026-01-02 03:04:05', '2026-01-02 03:04:05')",
    )
    migrate(place)
    queued = run_sql(place, "SELECT kind, number, name FROM mirror_queue")
    assert queued == [("all", 0, "[0]")]


def test_newer_database_is_rejected_and_unchanged(place: DatabaseLocation) -> None:
    prepare_database(place, FIRST, NOW)
    run_sql(place, "UPDATE alembic_version SET version_num = '9999'")
    newer = r"at migration 9999.*newer version"
    with pytest.raises(OperatorError, match=newer):
        inspect_schema(place)
    with pytest.raises(OperatorError, match=newer):
        migrate(place)
    with pytest.raises(OperatorError, match=newer):
        prepare_database(place, FIRST, NOW)
    assert run_sql(place, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_initial_keys_are_stored_once(place: DatabaseLocation) -> None:
    others = InitialKeys(project_key="phc_another-first-key", personal_key="phx_another-first-key")
    assert prepare_database(place, FIRST, NOW)
    assert not prepare_database(place, others, NOW)
    assert run_sql(place, "SELECT value FROM project_tokens") == [(FIRST.project_key,)]
    assert run_sql(place, "SELECT mask FROM personal_keys") == [("phx_...-key",)]


async def test_new_installation_has_one_project_and_one_all_access_key(
    place: DatabaseLocation,
) -> None:
    prepare_database(place, FIRST, NOW)
    database = open_database(place)
    seen = await SqlDirectoryStore(database).snapshot()
    await database.close()
    [project], [key] = seen.projects.values(), seen.keys_by_hash.values()
    assert (project.id, project.name, project.timezone) == (1, "Default project", "UTC")
    assert project.api_token == FIRST.project_key
    assert (key.scopes, key.project_ids) == (("*",), ())
    assert FIRST.personal_key not in str(seen)


def prepare_with_retries(place: DatabaseLocation) -> bool:
    while True:
        try:
            return prepare_database(place, FIRST, NOW)
        except Unavailable:  # another process is migrating
            continue


def test_concurrent_starts_create_one_installation(place: DatabaseLocation) -> None:
    created = run_concurrently([lambda: prepare_with_retries(place)] * 6)
    assert sorted(created) == [False] * 5 + [True]
    assert run_sql(place, "SELECT count(*) FROM projects") == [(1,)]
