"""Connections are accepted in numbers, and examined before they are opened if there are many."""

import asyncio
import socket
from typing import Any

import pytest

from hedgerow.http.server import acceptor
from hedgerow.http.server.acceptor import CROWD, Acceptor


class FakeListener:
    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 0

    def __init__(self, number: int) -> None:
        self._waiting = list(range(number))

    def _accept(self) -> tuple[int, Any]:
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.pop(0), ("192.0.2.1", 1)


class FakeAcceptor(Acceptor):
    """Answers each connection that it examines."""

    opened = 0
    answered = 0

    def _open(self, connection: socket.socket, received: bytes) -> None:
        self.opened += 1

    def _examine(self, number: int, peer: Any) -> bytes | None:
        self.answered += 1
        return None


@pytest.mark.parametrize("is_refusing", [False, True])
async def test_connections_of_a_crowd_are_examined_before_they_are_opened(
    monkeypatch: pytest.MonkeyPatch, is_refusing: bool
) -> None:
    monkeypatch.setattr(acceptor, "perf_counter", lambda: 0.0)
    accepting = FakeAcceptor(
        FakeListener(CROWD + 5),  # type: ignore[arg-type]
        lambda _: asyncio.Protocol(),
        max_connections=1_000,
        is_refusing=lambda: is_refusing,
        find_early_answer=lambda _, __: None,
    )
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", lambda *_, fileno: fileno)
        accepting._accept()
    expected = (0, CROWD + 5) if is_refusing else (CROWD, 5)
    assert (accepting.opened, accepting.answered) == expected
