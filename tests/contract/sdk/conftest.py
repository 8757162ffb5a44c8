"""A project for the tests of a file, on the shared server."""

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.sdk.projects import Project, new_project
from tests.support.live import LiveServer


@pytest.fixture(scope="module")
def live_admin(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client


@pytest.fixture(scope="module")
def project(live_admin: httpx.Client) -> Project:
    return new_project(live_admin)
