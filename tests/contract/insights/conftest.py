from collections.abc import Iterator

import httpx
import pytest

from tests.contract.insights.world import EVENTS, send
from tests.support.live import LiveServer


@pytest.fixture(scope="package")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with LiveServer(tmp_path_factory.mktemp("insights")) as server, server.client() as opened:
        send(opened, *EVENTS)
        yield opened
