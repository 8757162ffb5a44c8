from collections.abc import Iterator

import pytest

from tests.contract.api import world
from tests.support.live import LiveServer


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, live: LiveServer) -> Iterator[world.Servers]:
    """The servers that the vectors of a folder share."""
    opened = world.Servers(tmp_path_factory.mktemp("vectors"), live)
    yield opened
    opened.close()
