"""What has changed of persons, distinct ids, groups and members of cohorts, queued by triggers for
the copies of them that stand beside the events.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

INTO = "INSERT INTO mirror_queue (kind, project_id, number, name)"
# What is queued of a changed row. Keys never change, so the row after an update says enough.
QUEUED = {
    "persons": "'person', {row}.project_id, 0, {row}.uuid",
    "person_distinct_ids": "'distinct_id', {row}.project_id, 0, {row}.distinct_id",
    "groups": "'group', {row}.project_id, {row}.type_index, {row}.key",
    "cohort_people": "'member', p.project_id, {row}.cohort_id, p.uuid",
}
# Whose members they are is said by the person alone.
MORE = {"cohort_people": "persons AS p WHERE p.id = {row}.person_id"}
# Who is there already is gone through: where to begin in each table.
WALKS = {
    "persons": "[0]",
    "person_distinct_ids": '[0,""]',
    "groups": '[0,0,""]',
    "cohort_people": "[0,0]",
}
EVENTS = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}
# When a membership ends with the person, it is too late to ask who that was.
ENDING = (
    "SELECT 'member', OLD.project_id, m.cohort_id, OLD.uuid"
    " FROM cohort_people AS m WHERE m.person_id = OLD.id"
)


def upgrade() -> None:
    op.create_table(
        "mirror_queue",
        sa.Column("id", Id, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("project_id", Id, nullable=False),
        sa.Column("number", Id, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=True),
    )
    # Of the few rows that are no changes; changes are not in these, and take no longer for them.
    _index("mirror_queue_walks", "id", "kind = 'all'")
    _index("mirror_queue_walked", "version", "version IS NOT NULL")
    if op.get_bind().dialect.name == "postgresql":
        _once_for_each_statement()
    else:
        _once_for_each_row()
    for number, (table, start) in enumerate(WALKS.items()):
        somebody = f"EXISTS (SELECT 1 FROM {table})"  # noqa: S608 - a name of ours
        op.execute(f"{INTO} SELECT 'all', 0, {number}, '{start}' WHERE {somebody}")


def _index(name: str, column: str, where: str) -> None:
    rows = sa.text(where)
    op.create_index(name, "mirror_queue", [column], sqlite_where=rows, postgresql_where=rows)


def _once_for_each_row() -> None:
    for table, queued in QUEUED.items():
        for event, row in EVENTS.items():
            more = f" FROM {MORE[table].format(row=row)}" if table in MORE else ""
            op.execute(
                f"CREATE TRIGGER mirror_{table}_{event.lower()} AFTER {event} ON {table}"
                f" BEGIN {INTO} SELECT {queued.format(row=row)}{more}; END"
            )
    op.execute(f"CREATE TRIGGER mirror_ending BEFORE DELETE ON persons BEGIN {INTO} {ENDING}; END")


def _once_for_each_statement() -> None:
    for table, queued in QUEUED.items():
        more = f" JOIN {MORE[table].format(row='c')}" if table in MORE else ""
        rows = f"FROM changed AS c{more.replace('WHERE', 'ON')}"
        op.execute(
            f"CREATE FUNCTION mirror_{table}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {INTO} SELECT {queued.format(row='c')} {rows}; RETURN NULL; END $$"
        )
        for event, rows in EVENTS.items():
            op.execute(
                f"CREATE TRIGGER mirror_{table}_{event.lower()} AFTER {event} ON {table}"
                f" REFERENCING {rows} TABLE AS changed"
                f" FOR EACH STATEMENT EXECUTE FUNCTION mirror_{table}()"
            )
    op.execute(
        "CREATE FUNCTION mirror_ending() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {INTO} {ENDING}; RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER mirror_ending BEFORE DELETE ON persons"
        " FOR EACH ROW EXECUTE FUNCTION mirror_ending()"
    )
