import re

import pytest

from hedgerow.persons.mirrored import Copy
from hedgerow.storage.mirror_schema import KEYS, TABLES, cluster_ddl, single_ddl
from hedgerow.storage.person_mirror import TABLE_OF

BODY = re.compile(r"\(\n.*\n\)(?=\nENGINE)", re.DOTALL)


def columns_of(statement: str) -> tuple[str, ...]:
    body = BODY.search(statement)
    assert body is not None
    return tuple(line.split()[0] for line in body[0].splitlines()[1:-1])


@pytest.mark.parametrize(("kind", "table"), TABLE_OF.items())
def test_the_columns_are_the_fields_of_a_copy(kind: type[Copy], table: str) -> None:
    alone = single_ddl()[TABLES.index(table)]
    assert alone.startswith(f"CREATE TABLE IF NOT EXISTS {table} (")
    assert columns_of(alone) == kind.__struct_fields__
    assert columns_of(alone)[: len(KEYS[table])] == KEYS[table]


def test_every_server_of_a_cluster_has_all_of_it() -> None:
    for alone, everywhere in zip(single_ddl(), cluster_ddl("main"), strict=True):
        assert columns_of(alone) == columns_of(everywhere)
        assert "ON CLUSTER 'main'" in everywhere
        assert "/{shard}/" not in everywhere
        assert "'{shard}-{replica}', version, is_deleted)" in everywhere
