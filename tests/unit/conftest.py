"""Unit tests reach no network, wait for nothing and leave nothing behind."""

import asyncio
import gc
from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket

from tests.unit.fake_time import FakeTime

# Thousands of tests keep what they were collected with: looking through it all again and again is
# a tenth of their time.
gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def _no_sockets() -> Iterator[None]:
    """An event loop wakes itself through a pair of Unix sockets; nothing else may open one."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Whoever sleeps moves this time on and wakes at once."""
    time = FakeTime()
    monkeypatch.setattr(asyncio, "sleep", time.sleep)
    return time
