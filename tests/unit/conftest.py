"""Unit tests use no network, do not sleep and leave no files."""

import asyncio
import gc
from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket

from tests.unit.fake_time import FakeTime

# Thousands of collected tests stay in memory: frequent collections would cost a tenth of the time.
gc.set_threshold(100_000, 20, 20)


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
