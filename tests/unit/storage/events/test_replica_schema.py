import re

import pytest

from hedgerow.persons.replicas import Replica
from hedgerow.storage.events.person_replicas import TABLES_BY_KIND
from hedgerow.storage.events.replica_schema import (
    KEY_COLUMNS,
    TABLES,
    build_cluster_ddl,
    build_server_ddl,
)

BODY = re.compile(r"\(\n.*\n\)(?=\nENGINE)", re.DOTALL)


def columns_of(statement: str) -> tuple[str, ...]:
    body = BODY.search(statement)
    assert body is not None
    return tuple(line.split()[0] for line in body[0].splitlines()[1:-1])


@pytest.mark.parametrize(("kind", "table"), TABLES_BY_KIND.items())
def test_columns_match_the_fields_of_a_replica(kind: type[Replica], table: str) -> None:
    alone = build_server_ddl()[TABLES.index(table)]
    assert alone.startswith(f"CREATE TABLE IF NOT EXISTS {table} (")
    assert columns_of(alone) == kind.__struct_fields__
    assert columns_of(alone)[: len(KEY_COLUMNS[table])] == KEY_COLUMNS[table]


def test_every_server_of_a_cluster_holds_all_rows() -> None:
    for alone, everywhere in zip(build_server_ddl(), build_cluster_ddl("main"), strict=True):
        assert columns_of(alone) == columns_of(everywhere)
        assert "ON CLUSTER 'main'" in everywhere
        assert "/{shard}/" not in everywhere
        assert "'{shard}-{replica}', version, is_deleted)" in everywhere
