from collections.abc import Iterator

import pytest

from tests.contract.api import world


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.Servers]:
    """Services that the vectors of a folder share."""
    opened = world.Servers(tmp_path_factory.mktemp("vectors"))
    yield opened
    opened.close()
