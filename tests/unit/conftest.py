"""Unit tests use no network, do not sleep and leave no files."""

import asyncio
from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket

from tests.unit.fake_time import FakeTime


@pytest.fixture(autouse=True, scope="module")
def _no_sockets() -> Iterator[None]:
    """Allow only the pair of Unix sockets with which an event loop wakes itself."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace asyncio.sleep: sleeping advances this clock and returns immediately."""
    time = FakeTime()
    monkeypatch.setattr(asyncio, "sleep", time.sleep)
    return time
