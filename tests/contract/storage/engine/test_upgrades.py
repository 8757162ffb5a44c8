"""Every migration runs on a database with a row in each table of the earlier ones."""

from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    func,
    insert,
    inspect,
    select,
    table,
)

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.migrations.state import inspect_schema
from tests.contract.storage.conftest import FIRST, NOW
from tests.contract.storage.engine.test_migrations import migrate_only_to

STEPS = inspect_schema(DatabaseLocation(url="", path=Path("/nowhere"), timeout_s=1)).pending


def make_value(column: Any) -> Any:
    """Return a value that the type of a column allows. Ids and references are 1."""
    match column.type:
        case Boolean():
            return False
        case DateTime():
            return NOW
        case Float() | Numeric():
            return 1.0
        case Integer():
            return 1
        case LargeBinary():
            return b"1"
    references = [key.column for key in column.foreign_keys]
    if references:
        return make_value(references[0])
    return "{}" if "JSON" in str(column.type) else f"{column.name}-1"


def fill_tables(connection: Connection) -> dict[str, int]:
    """Insert a row into every empty table. Return the number of rows of each."""
    counts = count_rows(connection)
    empty = [name for name, count in counts.items() if count == 0]
    found = MetaData()
    found.reflect(connection, only=empty)  # and the tables to which they refer
    for each in found.sorted_tables:
        if each.name in empty:
            values = {column.name: make_value(column) for column in each.columns}
            connection.execute(insert(each), values)
    return count_rows(connection)


def count_rows(connection: Connection) -> dict[str, int]:
    names = set(inspect(connection).get_table_names()) - {"alembic_version"}
    return {
        name: connection.execute(select(func.count()).select_from(table(name))).scalar_one()
        for name in names
    }


def test_every_migration_keeps_the_rows_of_all_tables(tmp_path: Path) -> None:
    place = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=5)
    counts: dict[str, int] = {}
    for step in STEPS:
        migrate_only_to(place, step)
        with create_sync_engine(place).begin() as connection:
            kept = count_rows(connection)
            lost = {name for name, count in counts.items() if kept.get(name, 0) < count}
            assert lost == set(), f"migration {step} removes rows"
            counts = fill_tables(connection)
    assert len(counts) > 50
    assert prepare_database(place, FIRST, lambda: NOW) is False
    assert inspect_schema(place).is_current
