"""Databases of unreleased versions that lack a part of a migration.

On branches, migrations had other predecessors, and some were changed after they had run. Such a
database is at a migration without everything that the earlier ones create.
"""

from typing import Any

import structlog
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection

from hedgerow.storage.migrations.schema_check import (
    SchemaObject,
    build_alembic_config,
    read_schema,
)

_log = structlog.get_logger("hedgerow")


class _MissingOnly:
    """Alembic's operations in a migration, except for those whose result exists."""

    def __init__(self, connection: Connection) -> None:
        self._operations = Operations(MigrationContext.configure(connection))
        existing = read_schema(connection)
        self._tables = {each.table for each in existing if each.kind == "table"}
        self._columns = {each for each in existing if each.kind == "column"}
        self._indexes = {each.name for each in existing if each.kind.endswith("index")}
        self.added: list[str] = []

    def create_table(self, name: str, *columns: Column[Any], **options: Any) -> None:
        if name not in self._tables:
            self._operations.create_table(name, *columns, **options)
            self.added.append(f"table {name}")

    def add_column(self, table: str, column: Column[Any]) -> None:
        if SchemaObject("column", table, column.name) not in self._columns:
            self._operations.add_column(table, column)
            self.added.append(f"column {table}.{column.name}")

    def create_index(self, name: str, table: str, columns: list[str], **options: Any) -> None:
        if name not in self._indexes:
            self._operations.create_index(name, table, columns, **options)
            self.added.append(f"index {name}")

    def get_bind(self) -> Connection:
        return self._operations.get_bind()

    def execute(self, statement: str) -> None:
        """Triggers were never skipped. With this index, migration 7 queued all existing rows."""
        if "index mirror_queue_walks" in self.added and "SELECT 'all'" in statement:
            self._operations.execute(statement)


def add_skipped_parts(connection: Connection, at: str) -> None:
    """Add what the migrations up to `at` create and the database lacks, because an unreleased
    version left it out."""
    missing = _MissingOnly(connection)
    scripts = ScriptDirectory.from_config(build_alembic_config())
    for script in reversed(list(scripts.iterate_revisions(at, "base"))):
        migration: Any = script.module
        migration.op = missing
        migration.upgrade()
    if missing.added:
        _log.warning("an unreleased version left out parts of the schema", added=missing.added)
