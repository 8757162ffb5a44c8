"""A rolling restart behind a balancer that only checks the readiness loses no request."""

import http.client
import signal
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx

from tests.support.live import PROJECT_KEY, LiveServer, wait_for

DRAIN_S = "5"
CHECK_INTERVAL_S = 0.1
BODY = b'{"api_key": "%s", "distinct_id": "ann"}' % PROJECT_KEY.encode()


class Backend:
    """A service behind the balancer. Like a balancer, it keeps one connection open."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.is_ready = True
        self.answers = 0
        self.connection = http.client.HTTPConnection(urlsplit(server.address).netloc, timeout=60)

    def check(self) -> None:
        self.is_ready = self.server.get_status("/_readiness") == 200

    def send(self) -> int:
        self.connection.request("POST", "/decide/?v=3", BODY)
        response = self.connection.getresponse()
        response.read()
        self.answers += 1
        return response.status


class Balancer:
    """Sends a steady load to the backends in turns, and checks them in between."""

    def __init__(self, *servers: LiveServer) -> None:
        self.backends = [Backend(server) for server in servers]
        self._replaced: list[Backend] = []
        self.failures: list[str] = []
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._check, self._send)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
        for backend in (*self.backends, *self._replaced):
            backend.connection.close()

    def replace(self, old: Backend, server: LiveServer) -> None:
        self.backends.remove(old)
        self._replaced.append(old)
        self.backends.append(Backend(server))

    def _check(self) -> None:
        while not self._is_over.wait(CHECK_INTERVAL_S):
            for backend in list(self.backends):
                backend.check()

    def _send(self) -> None:
        while not self._is_over.wait(0.02):
            for backend in [each for each in self.backends if each.is_ready]:
                try:
                    status = backend.send()
                except (OSError, http.client.HTTPException) as error:
                    self.failures.append(repr(error))
                    continue
                if status != 200:
                    self.failures.append(f"status {status}")


def test_a_rolling_restart_loses_no_request(tmp_path: Path) -> None:
    with ExitStack() as servers:

        def start(name: str) -> LiveServer:
            server = LiveServer(tmp_path / name, shutdown_drain_s=DRAIN_S)
            return servers.enter_context(server)

        first, second = start("a"), start("b")
        with Balancer(first, second) as balancer:
            for backend in list(balancer.backends):
                before = backend.answers
                wait_for(lambda: backend.answers > before, at_most_s=120)  # noqa: B023 - runs here
                backend.server.process.send_signal(signal.SIGTERM)
                wait_for(lambda: not backend.is_ready, at_most_s=120)  # noqa: B023 - runs here
                assert backend.server.process.wait(60) == 0
                balancer.replace(backend, start(f"{backend.server.data.name}2"))
            restarted = balancer.backends[-1]
            wait_for(lambda: restarted.answers > 10, at_most_s=120)
        assert balancer.failures == []


def test_a_draining_service_closes_kept_alive_connections_and_ends_on_a_second_signal(
    tmp_path: Path,
) -> None:
    with (
        LiveServer(tmp_path, shutdown_drain_s="600") as server,
        httpx.Client(base_url=server.address, timeout=60) as client,
    ):
        assert "connection" not in client.get("/_liveness").headers
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: client.get("/_readiness").status_code == 503, at_most_s=120)
        assert client.get("/_readiness").json() == {
            "status": "not ready",
            "missing": ["shutting down"],
        }
        response = client.post("/decide/?v=3", content=BODY)
        assert (response.status_code, response.headers["connection"]) == (200, "close")
        started = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - started < 60
        with suppress(httpx.TransportError):
            client.get("/_liveness")
