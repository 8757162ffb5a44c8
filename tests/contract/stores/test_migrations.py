"""From an empty database to the present one, and never back, on both engines."""

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from hedgerow.errors import Unavailable, Unready
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.storage.connect import Place, open_database, plain_engine
from hedgerow.storage.directory import DirectoryRecords
from hedgerow.storage.migrate import migrate, prepare
from hedgerow.storage.schema import MIGRATIONS, schema_state
from hedgerow.storage.tables import metadata
from tests.contract.stores.conftest import FIRST, NOW, run_sql
from tests.live import side_by_side


def alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def migrate_only_to(place: Place, step: str) -> None:
    config = alembic()
    with plain_engine(place).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, step)


def tables_in(place: Place) -> dict[str, set[str]]:
    with plain_engine(place).connect() as connection:
        found = inspect(connection)
        return {
            name: {column["name"] for column in found.get_columns(name)}
            for name in found.get_table_names()
            if name != "alembic_version"
        }


def test_an_empty_place_has_every_step_before_it(place: Place) -> None:
    state = schema_state(place)
    assert state.at is None
    assert state.pending[0] == "0001"
    assert state.pending[-1] == state.newest
    assert not state.is_current


def test_the_steps_are_those_that_alembic_knows_in_the_same_order(tmp_path: Path) -> None:
    place = Place(url="", path=tmp_path / "hedgerow.db", timeout_s=2)
    steps = ScriptDirectory.from_config(alembic()).walk_revisions()
    assert [step.revision for step in steps][::-1] == list(schema_state(place).pending)


def test_looking_at_a_missing_sqlite_file_does_not_make_one(tmp_path: Path) -> None:
    place = Place(url="", path=tmp_path / "hedgerow.db", timeout_s=2)
    assert not schema_state(place).is_current
    assert not place.path.exists()


def test_migrating_an_empty_place_makes_exactly_the_tables_that_the_stores_use(
    place: Place,
) -> None:
    before = migrate(place)
    assert before.at is None
    assert tables_in(place) == {
        name: set(table.columns.keys()) for name, table in metadata.tables.items()
    }
    after = schema_state(place)
    assert (after.at, after.pending, after.is_current) == (after.newest, (), True)


def test_migrating_again_changes_nothing(place: Place) -> None:
    prepare(place, FIRST, NOW)
    before = run_sql(place, "SELECT * FROM projects"), tables_in(place)
    assert migrate(place).is_current
    assert (run_sql(place, "SELECT * FROM projects"), tables_in(place)) == before


def test_an_older_database_names_the_steps_that_are_missing(place: Place) -> None:
    migrate_only_to(place, "0001")
    state = schema_state(place)
    assert state.at == "0001"
    assert state.pending[0] == "0002"


def test_data_of_an_older_version_survives_the_steps_after_it(place: Place) -> None:
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


def test_who_is_there_already_is_queued_for_copying(place: Place) -> None:
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


def test_a_database_of_a_newer_version_is_refused_and_left_alone(place: Place) -> None:
    prepare(place, FIRST, NOW)
    run_sql(place, "UPDATE alembic_version SET version_num = '9999'")
    newer = r"at step 9999.*newer version"
    with pytest.raises(Unready, match=newer):
        schema_state(place)
    with pytest.raises(Unready, match=newer):
        migrate(place)
    with pytest.raises(Unready, match=newer):
        prepare(place, FIRST, NOW)
    assert run_sql(place, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_the_first_keys_are_put_in_force_once(place: Place) -> None:
    others = FirstKeys(project_key="phc_another-first-key", personal_key="phx_another-first-key")
    assert prepare(place, FIRST, NOW)
    assert not prepare(place, others, NOW)
    assert run_sql(place, "SELECT value FROM project_tokens") == [(FIRST.project_key,)]
    assert run_sql(place, "SELECT mask FROM personal_keys") == [("phx_...-key",)]


async def test_the_first_installation_is_one_project_and_one_all_access_key(place: Place) -> None:
    prepare(place, FIRST, NOW)
    database = open_database(place)
    seen = await DirectoryRecords(database).snapshot()
    await database.close()
    [project], [key] = seen.projects.values(), seen.keys_by_hash.values()
    assert (project.id, project.name, project.timezone) == (1, "Default project", "UTC")
    assert project.api_token == FIRST.project_key
    assert (key.scopes, key.project_ids) == (("*",), ())
    assert FIRST.personal_key not in str(seen)


def prepare_patiently(place: Place) -> bool:
    while True:
        try:
            return prepare(place, FIRST, NOW)
        except Unavailable:  # somebody else is at it
            continue


def test_many_who_start_at_once_make_one_installation(place: Place) -> None:
    made = side_by_side([lambda: prepare_patiently(place)] * 6)
    assert sorted(made) == [False] * 5 + [True]
    assert run_sql(place, "SELECT count(*) FROM projects") == [(1,)]
