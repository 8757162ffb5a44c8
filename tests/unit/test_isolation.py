import asyncio
import socket

import pytest
from pytest_socket import SocketBlockedError

from tests.unit.fake_time import FakeTime


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_unit_tests_cannot_open_network_sockets() -> None:
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET)


async def test_sleeping_advances_fake_time_without_waiting(fake_time: FakeTime) -> None:
    loop = asyncio.get_running_loop()
    before_s, started_s = fake_time.monotonic(), loop.time()
    await asyncio.sleep(3600)
    assert fake_time.monotonic() - before_s == pytest.approx(3600, abs=0.001)
    assert loop.time() - started_s < 60
