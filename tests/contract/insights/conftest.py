from collections.abc import Iterator

import httpx
import pytest

from tests.contract.insights.world import EVENTS, send
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import LiveServer
from tests.support.postgres import PostgresTestServer


@pytest.fixture(scope="package")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with LiveServer(tmp_path_factory.mktemp("insights")) as server, server.client() as opened:
        send(opened, *EVENTS)
        yield opened


@pytest.fixture(scope="package")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[httpx.Client]:
    """A service on PostgreSQL and ClickHouse."""
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
    }
    folder = tmp_path_factory.mktemp("insights-servers")
    with LiveServer(folder, **settings) as server, server.client() as opened:
        send(opened, *EVENTS)
        yield opened


@pytest.fixture(params=["client", "servers"])
def either(request: pytest.FixtureRequest) -> httpx.Client:
    """A service with its own files, and one with servers."""
    found: httpx.Client = request.getfixturevalue(request.param)
    return found
