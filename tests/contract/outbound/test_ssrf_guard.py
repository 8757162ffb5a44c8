"""No client reaches the private network, by HTTP, S3 or PostgreSQL, whatever the host spelling and
whatever DNS returns.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.lib.clock import utc_now
from hedgerow.lib.workers.sender import work_for
from hedgerow.lib.workers.sender_places import limit_time
from hedgerow.outbound.http_client import GuardedHttpClient
from hedgerow.outbound.postgres import PostgresClient
from hedgerow.outbound.postgres_tables import PostgresTables
from hedgerow.outbound.ssrf_guard import MAX_LOOKUP_THREADS, SsrfGuard
from hedgerow.pipelines.destinations.s3 import Bucket, S3Access, S3Error
from hedgerow.plugin.database_address import parse_database_address
from hedgerow.plugin.delivery import TableTarget
from hedgerow.plugin.http import Request, TransportError
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, Receiver
from tests.support.sent_events import build_event

PUBLIC = "93.184.216.34"
NAME = "rebinding.example"

PRIVATE_HOSTS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "017700000001",
    "0x7f.1",
    "0",
    "0.0.0.0",
    "localhost",
    "10.0.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "2852039166",
    "0251.0376.0251.0376",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "fe80::1",
    "fd00:ec2::254",
]

# Sends something to a host and a port with one of the clients.
Attempt = Callable[[SsrfGuard, str, int], Awaitable[None]]


async def by_http(guard: SsrfGuard, host: str, port: int) -> None:
    async with http(guard) as opened:
        await opened.send(Request(method="POST", url=build_url(host, port), headers={}, body=b"x"))


async def by_stream(guard: SsrfGuard, host: str, port: int) -> None:
    request = Request(method="GET", url=build_url(host, port), headers={}, body=b"")
    async with http(guard) as opened, opened.stream(request):
        pass


async def by_s3(guard: SsrfGuard, host: str, port: int) -> None:
    async with http(guard) as opened:
        await build_bucket(opened, build_url(host, port)).put("key", b"x", {})


async def by_postgres(guard: SsrfGuard, host: str, port: int) -> None:
    databases = PostgresClient(guard)
    address = replace(
        parse_database_address("postgresql://postgres@h/postgres"), host=host, port=port
    )
    place = TableTarget(address=address, schema="public", table="guarded")
    try:
        await PostgresTables(databases).insert(place, [build_event()])
    finally:
        await databases.close()


@asynccontextmanager
async def http(guard: SsrfGuard) -> AsyncIterator[GuardedHttpClient]:
    opened = GuardedHttpClient(guard)
    try:
        yield opened
    finally:
        await opened.close()


def build_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def build_bucket(opened: GuardedHttpClient, endpoint: str) -> Bucket:
    access = S3Access(
        endpoint=endpoint, region="us-east-1", access_key_id="id", secret_access_key="secret"
    )
    return Bucket(access, "events", opened, utc_now)


CLIENTS = [by_http, by_stream, by_s3, by_postgres]


@pytest.mark.parametrize("send_via", CLIENTS)
async def test_no_host_spelling_reaches_the_private_network(send_via: Attempt) -> None:
    guard = SsrfGuard(allow_private=False)
    for host in PRIVATE_HOSTS:
        with pytest.raises(TransportError, match=r"private network|Cannot resolve|and a host"):
            await send_via(guard, host, 80)


class ChangingResolver:
    """A resolver whose answers for one name change with each lookup."""

    def __init__(self, *answers: list[str]) -> None:
        self.lookups = 0
        self._answers = answers
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return self._real(host, port, *more, **named)
        answer = self._answers[min(self.lookups, len(self._answers) - 1)]
        self.lookups += 1
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, socket.IPPROTO_TCP, "", (each, port)) for each in answer]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ChangingResolver]:
    def install_resolver(*answers: list[str]) -> ChangingResolver:
        resolver = ChangingResolver(*answers)
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        return resolver

    return install_resolver


async def test_every_attempt_resolves_and_checks_again(
    names: Callable[..., ChangingResolver],
) -> None:
    names([PUBLIC], ["127.0.0.1"], ["127.0.0.1", PUBLIC])
    guard = SsrfGuard(allow_private=False)
    assert await guard.resolve(NAME, 80) == [PUBLIC]
    with pytest.raises(TransportError, match="private network"):
        await guard.resolve(NAME, 80)
    assert await guard.resolve(NAME, 80) == [PUBLIC]


async def test_names_without_an_answer_delay_no_other_sender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    can_end, asked = threading.Event(), set[str]()

    def hang(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        asked.add(host)
        if host != NAME:
            can_end.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (PUBLIC, port))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    guard = SsrfGuard(allow_private=False)

    async def resolve(host: str) -> list[str]:
        async with limit_time(30):
            return await guard.resolve(host, 80)

    with work_for("a"):
        hosts = (f"{number}.hangs.test" for number in range(2 * MAX_LOOKUP_THREADS))
        hanging = [asyncio.create_task(resolve(host)) for host in (*hosts, NAME)]
    while len(asked) < MAX_LOOKUP_THREADS // 2:
        await asyncio.sleep(0.01)
    with work_for("b"):
        # The same name, for which the other one waits.
        assert await resolve(NAME) == [PUBLIC]
    assert len(asked) == MAX_LOOKUP_THREADS // 2 + 1
    can_end.set()
    assert await asyncio.gather(*hanging) == [[PUBLIC]] * len(hanging)


@pytest.fixture
def two_listeners(postgres: PostgresTestServer) -> Iterator[tuple[int, list[str]]]:
    """Two listeners on one port: at 127.0.0.2 the checked address, at 127.0.0.1 the later one.
    Yields the port and the addresses that received a connection."""
    connected: list[str] = []
    with (
        postgres.forward_port("127.0.0.2", connected) as port,
        socket.create_server(("127.0.0.1", port)) as own,
    ):
        own.setblocking(False)
        yield port, connected
        with pytest.raises(BlockingIOError):  # no connection
            own.accept()


async def test_postgresql_connects_to_the_checked_address(
    two_listeners: tuple[int, list[str]], names: Callable[..., ChangingResolver]
) -> None:
    port, connected = two_listeners
    resolver = names(["127.0.0.2"], ["127.0.0.1"])
    await by_postgres(SsrfGuard(allow_private=True), NAME, port)
    assert (connected, resolver.lookups) == (["127.0.0.2"], 1)


async def test_http_connects_to_the_checked_address(names: Callable[..., ChangingResolver]) -> None:
    with Receiver() as other, Receiver(at="127.0.0.2", port=other.port) as right:
        for number, send_via in enumerate([by_http, by_stream, by_s3], start=1):
            resolver = names(["127.0.0.2"], ["127.0.0.1"])
            await send_via(SsrfGuard(allow_private=True), NAME, other.port)
            assert resolver.lookups == 1
            assert len(right.received) == number
        assert {each.headers["host"] for each in right.received} == {f"{NAME}:{other.port}"}
        assert other.received == []


async def test_s3_redirect_to_a_private_address_is_rejected() -> None:
    moved = PlannedResponse()
    with Receiver() as inner, Receiver(lambda _: moved) as receiver:
        for status in (301, 302, 307, 308):
            for where in (inner.url, "http://169.254.169.254/latest/meta-data/"):
                moved = PlannedResponse(status=status, headers={"location": where})
                async with http(SsrfGuard(allow_private=True)) as opened:
                    bucket = build_bucket(opened, receiver.url)
                    with pytest.raises(S3Error, match=str(status)):
                        await bucket.put("key", b"x", {})
                    with pytest.raises(S3Error, match=str(status)):
                        async with bucket.read("key"):
                            pass
        assert inner.received == []
        assert len(receiver.received) == 16


@pytest.mark.parametrize("url", ["unix:/tmp/x", "http+unix://%2Ftmp%2Fx/", "file:///etc/passwd"])
async def test_sockets_and_files_are_not_addresses(url: str) -> None:
    async with http(SsrfGuard(allow_private=True)) as opened:
        request = Request(method="GET", url=url, headers={}, body=b"")
        with pytest.raises(TransportError):
            await opened.send(request)
        with pytest.raises(TransportError):
            async with opened.stream(request):
                pass
