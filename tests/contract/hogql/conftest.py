from collections.abc import Iterator

import pytest

from tests.contract.hogql.engine import Engine
from tests.support.clickhouse_http import ClickHouseTestServer


@pytest.fixture(scope="session")
def engine(clickhouse: ClickHouseTestServer) -> Iterator[Engine]:
    """The event store with the sample rows. Tests do not change them."""
    opened = Engine(clickhouse.create_database())
    yield opened
    opened.close()
