"""Migrations on both engines."""

from hashlib import sha256
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine, open_database
from hedgerow.storage.deliveries.batches import decode_ids
from hedgerow.storage.migrations import apply
from hedgerow.storage.migrations.apply import migrate, prepare_database
from hedgerow.storage.migrations.schema_check import (
    ONLY_ON_POSTGRES,
    ONLY_ON_SQLITE,
    build_expected_schema,
    find_missing_objects,
    read_schema,
)
from hedgerow.storage.migrations.state import MIGRATIONS_DIR, inspect_schema
from hedgerow.storage.projects.directory import SqlDirectoryStore
from hedgerow.storage.tables import metadata
from tests.contract.storage.conftest import FIRST, NOW, run_sql
from tests.support.live import run_concurrently

HASHES_FILE = Path(__file__).with_name("migrations.sha256")
REPOSITORY = Path(__file__).parents[4]
JOBS: tuple[str, ...] = (
    "column pipeline_jobs.cursor",
    "column pipeline_jobs.done",
    "column pipeline_jobs.total",
)
JOBS += ("column pipeline_jobs.rate", "column pipeline_jobs.details", "index pipeline_jobs_open")
JOBS += ("column pipeline_jobs.started_at", "column pipeline_jobs.ended_at")
JOBS += ("column pipeline_jobs.holder", "column pipeline_jobs.expires_at", "index deliveries_dead")
JOBS += ("table delivered_events", "table import_states", "table imported_files")
DELIVERIES = ("index deliveries_retried", "index delivery_counts_hour", "table notifications")
QUEUE = ("index mirror_queue_walked", "index mirror_queue_walks")
TRANSFORMATIONS, EARLY_ACCESS = "table transformation_counts", "table early_access_features"
# What databases of unreleased versions lack, by the migration they are at: the extremes of what was
# found by creating one with each commit.
INCOMPLETE = [
    ("0007", QUEUE),
    ("0011", (*JOBS, *DELIVERIES)),
    ("0012", (*JOBS, *DELIVERIES, TRANSFORMATIONS, EARLY_ACCESS)),
    ("0014", ("table surveys",)),
    ("0015", ("index set_aside_events_number",)),
    ("0017", ("table cookieless_salts", "table cookieless_visitors")),
    ("0017", (*JOBS, *DELIVERIES, *QUEUE, TRANSFORMATIONS, EARLY_ACCESS, "table surveys")),
]


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
    prepare_database(place, FIRST, lambda: NOW)
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
    add_person(place)
    migrate(place)
    queued = run_sql(place, "SELECT kind, number, name FROM mirror_queue")
    assert queued == [("all", 0, "[0]")]


def test_existing_deliveries_are_put_into_batches(place: DatabaseLocation) -> None:
    migrate_only_to(place, "0041")
    add_person(place)
    add_deliveries(place)
    migrate(place)
    batches = run_sql(
        place,
        "SELECT record_id, segment, event_ids, number, created_ms FROM delivery_batches"
        " ORDER BY record_id, segment",
    )
    ids = {(row[0], row[1]): decode_ids(row[2]) for row in batches}
    # Those of the first destination have odd ids, the last two are not waiting.
    odd = list(range(1, 4999, 2))
    assert ids == {
        (1, 1): odd[:1000],
        (1, 2001): odd[1000:2000],
        (1, 4001): odd[2000:],
        (2, 2): [2, 4],
    }
    assert [row[3] for row in batches] == [1000, 1000, len(odd) - 2000, 2]
    assert [row[4] for row in batches] == [1, 2001, 4001, 2]
    failed = run_sql(
        place,
        "SELECT record_id, event_id, project_id, uuid, distinct_id, status, attempts, due_ms,"
        " error, created_ms FROM deliveries ORDER BY event_id",
    )
    assert [tuple(row) for row in failed] == [
        (1, 4999, 7, "u4999", "by ü 4999", "retrying", 3, 9, "HTTP 500", 4999),
        (1, 5001, 7, "u5001", "by ü 5001", "dead", 25, 9, "HTTP 400", 5001),
    ]
    events = run_sql(
        place, "SELECT id, segment, project_id, uuid, event FROM delivery_events ORDER BY id"
    )
    expected = {*odd, 2, 4, 4999, 5001}
    assert {row[0] for row in events} == expected
    assert len(events) == len(expected)
    segments = {id: segment for (_, segment), some in ids.items() for id in some}
    for id, segment, project_id, uuid, packed in events:
        assert (segment, project_id, uuid) == (segments.get(id, id), 7, f"u{id}")
        assert bytes(packed) == b"event"
    # New ids follow.
    run_sql(
        place,
        "INSERT INTO delivery_events (segment, project_id, uuid, distinct_id, event)"
        " VALUES (1, 7, 'new', 'ann', '')",
    )
    assert run_sql(place, "SELECT id FROM delivery_events WHERE uuid = 'new'") == [(5002,)]


def add_deliveries(place: DatabaseLocation) -> None:
    """Add deliveries of two destinations: by far the most wait for the first one."""
    for id in (1, 2):
        run_sql(
            place,
            "INSERT INTO pipeline_records (id, project_id, family, component_id,"
            ' component_version, enabled, "order", name, description, deleted, config, web_token,'
            " created_at, updated_at) VALUES"
            f" ({id}, 7, 'destination', 1, '1', TRUE, 1, '', '', FALSE, '{{}}', '',"
            " '2026-01-02 03:04:05', '2026-01-02 03:04:05')",
        )
    rows = [(id, 1, "waiting", 0, 0, "") for id in range(1, 4999, 2)]
    rows += [(id, 2, "waiting", 0, 0, "") for id in (2, 4)]
    rows += [(4999, 1, "retrying", 3, 9, "HTTP 500"), (5001, 1, "dead", 25, 9, "HTTP 400")]
    packed = "X'6576656e74'" if place.is_sqlite else r"'\x6576656e74'"
    values = ", ".join(
        f"({id}, 7, {record}, 'u{id}', 'by ü {id}', {packed}, '{status}', {attempts}, {due_ms},"
        f" '{error}', {id})"
        for id, record, status, attempts, due_ms, error in rows
    )
    run_sql(
        place,
        "INSERT INTO deliveries (id, project_id, record_id, uuid, distinct_id, event, status,"
        f" attempts, due_ms, error, created_ms) VALUES {values}",
    )


def test_no_migration_is_changed_after_it_has_landed() -> None:
    pinned = dict(line.split()[::-1] for line in HASHES_FILE.read_text().splitlines())
    files = sorted((MIGRATIONS_DIR / "versions").glob("[0-9]*.py"))
    actual = {
        str(file.relative_to(REPOSITORY)): sha256(file.read_bytes()).hexdigest() for file in files
    }
    changed = [name for name in pinned if actual.get(name) != pinned[name]]
    assert changed == [], "never edit a migration: write another one"
    hint = f"sha256sum {next(iter(actual))[: -len(files[0].name)]}0*.py > {HASHES_FILE}"
    assert set(actual) == set(pinned), f"pin the new migration with `{hint}`"


def drop(place: DatabaseLocation, part: str) -> None:
    kind, name = part.split()
    table, _, column = name.partition(".")
    alter = f"ALTER TABLE {table} DROP COLUMN {column}"
    run_sql(place, alter if kind == "column" else f"DROP {kind} {name}")


def missing_in(place: DatabaseLocation) -> list[str]:
    with create_sync_engine(place).connect() as connection:
        return find_missing_objects(connection)


def add_person(place: DatabaseLocation) -> None:
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


@pytest.mark.parametrize(("at", "lacks"), INCOMPLETE)
def test_databases_of_unreleased_versions_are_completed(
    place: DatabaseLocation, at: str, lacks: tuple[str, ...]
) -> None:
    migrate_only_to(place, at)
    for part in sorted(lacks, key=lambda part: part.startswith("column")):
        drop(place, part)
    add_person(place)
    run_sql(place, "DELETE FROM mirror_queue")
    migrate(place)
    assert missing_in(place) == []
    queued = run_sql(place, "SELECT kind FROM mirror_queue")
    assert queued == ([("all",)] if QUEUE[0] in lacks else [])


def test_the_expected_schema_is_that_of_both_engines(place: DatabaseLocation) -> None:
    prepare_database(place, FIRST, lambda: NOW)
    assert missing_in(place) == []
    with create_sync_engine(place).connect() as connection:
        unexpected = read_schema(connection) - build_expected_schema()
    known = ONLY_ON_POSTGRES | ONLY_ON_SQLITE
    unexpected = {each for each in unexpected if each.name not in known}
    assert unexpected == set(), "name what only one engine has in schema_check.py"


def test_a_missing_part_of_the_schema_is_named(
    place: DatabaseLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "LAST_CHANGED_MIGRATION", "0000")
    prepare_database(place, FIRST, lambda: NOW)
    run_sql(place, "DROP INDEX inbox_by_bucket")
    run_sql(place, "DROP INDEX flags_by_key")
    run_sql(place, "CREATE UNIQUE INDEX flags_by_key ON flags (id)")
    run_sql(place, f"DROP TRIGGER mirror_ending{'' if place.is_sqlite else ' ON persons'}")
    assert missing_in(place) == [
        "index inbox_by_bucket on inbox (bucket, id)",
        "trigger mirror_ending on persons",
        "unique index flags_by_key on flags (project_id, key)",
    ]
    prepare_database(place, FIRST, lambda: NOW)
    run_sql(place, "ALTER TABLE surveys DROP COLUMN archived")
    run_sql(place, "DROP TABLE cookieless_salts")
    expected = r"lacks column surveys.archived, table cookieless_salts, although all migrations"
    with pytest.raises(OperatorError, match=expected):
        prepare_database(place, FIRST, lambda: NOW)


def test_a_database_of_other_migrations_is_rejected_and_unchanged(
    place: DatabaseLocation,
) -> None:
    """As of an unreleased version whose migration 0040 was another one."""
    migrate_only_to(place, "0040")
    run_sql(place, "CREATE TABLE inbox_positions (id INTEGER)")
    with pytest.raises(OperatorError, match=r"at migration 0040.*inbox_positions.*unreleased"):
        migrate(place)
    assert inspect_schema(place).at == "0040"


def test_newer_database_is_rejected_and_unchanged(place: DatabaseLocation) -> None:
    prepare_database(place, FIRST, lambda: NOW)
    run_sql(place, "UPDATE alembic_version SET version_num = '9999'")
    newer = r"at migration 9999.*newer version"
    with pytest.raises(OperatorError, match=newer):
        inspect_schema(place)
    with pytest.raises(OperatorError, match=newer):
        migrate(place)
    with pytest.raises(OperatorError, match=newer):
        prepare_database(place, FIRST, lambda: NOW)
    assert run_sql(place, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_initial_keys_are_stored_once(place: DatabaseLocation) -> None:
    others = InitialKeys(project_key="phc_another-first-key", personal_key="phx_another-first-key")
    assert prepare_database(place, FIRST, lambda: NOW)
    assert not prepare_database(place, others, lambda: NOW)
    assert run_sql(place, "SELECT value FROM project_tokens") == [(FIRST.project_key,)]
    assert run_sql(place, "SELECT mask FROM personal_keys") == [("phx_...-key",)]


async def test_new_installation_has_one_project_and_one_all_access_key(
    place: DatabaseLocation,
) -> None:
    prepare_database(place, FIRST, lambda: NOW)
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
            return prepare_database(place, FIRST, lambda: NOW)
        except Unavailable:  # another process is migrating
            continue


def test_concurrent_starts_create_one_installation(place: DatabaseLocation) -> None:
    created = run_concurrently([lambda: prepare_with_retries(place)] * 6)
    assert sorted(created) == [False] * 5 + [True]
    assert run_sql(place, "SELECT count(*) FROM projects") == [(1,)]
