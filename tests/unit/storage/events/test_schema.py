import re

import pytest

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.storage.events.schema import (
    COLUMNS,
    build_cluster_ddl,
    build_server_ddl,
    build_typed_server_ddl,
)


def test_columns_match_the_fields_of_an_event() -> None:
    assert Event.__struct_fields__ == COLUMNS


def test_one_server_and_a_cluster_have_the_same_columns() -> None:
    (alone,), (shard, _) = build_server_ddl(), build_cluster_ddl("main")
    body = re.compile(r"\(\n.*\n\)(?=\nENGINE)", re.DOTALL)
    of_alone, of_shard = body.search(alone), body.search(shard)
    assert of_alone is not None
    assert of_shard is not None
    assert of_alone[0] == of_shard[0]


def test_cluster_replicates_shards_and_distributes_events_by_uuid() -> None:
    shard, spread = build_cluster_ddl("main")
    assert shard.startswith("CREATE TABLE IF NOT EXISTS events_on_shard ON CLUSTER 'main' (")
    assert (
        "ENGINE = ReplicatedMergeTree("
        "'/clickhouse/tables/{shard}/{database}/events_on_shard', '{replica}')"
    ) in shard
    assert "ORDER BY (project_id, timestamp, uuid)" in shard
    assert spread == (
        "CREATE TABLE IF NOT EXISTS events ON CLUSTER 'main' AS events_on_shard\n"
        "ENGINE = Distributed('main', currentDatabase(), 'events_on_shard', sipHash64(uuid))"
    )


def test_every_statement_is_idempotent() -> None:
    for statement in [*build_server_ddl(), build_typed_server_ddl(), *build_cluster_ddl("main")]:
        assert "IF NOT EXISTS" in statement


@pytest.mark.parametrize("name", ["", "a'b", "a b", "a;b", "a\n"])
def test_invalid_cluster_name_is_rejected(name: str) -> None:
    with pytest.raises(Invalid):
        build_cluster_ddl(name)
