from collections.abc import Iterator

import pytest

from tests.clickhouse_http import OwnClickHouse
from tests.contract.hogql.world import Engine


@pytest.fixture(scope="session")
def engine(clickhouse: OwnClickHouse) -> Iterator[Engine]:
    """The small world, which nobody changes."""
    opened = Engine(clickhouse.new_database())
    yield opened
    opened.close()
