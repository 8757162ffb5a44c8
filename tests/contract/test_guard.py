"""Nobody gets into our own network, by HTTP, by S3 or by PostgreSQL, however it is spelled and
whatever the name answers the next time.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.database_address import database_address
from hedgerow.pipelines.s3 import Bucket, S3Access, S3Refused
from hedgerow.pipelines.sending import CannotSend, Request, TablePlace
from hedgerow.storage.event_tables import EventTables
from hedgerow.storage.guard import Guard
from hedgerow.storage.guarded_postgres import GuardedPostgres
from hedgerow.storage.outbound import HttpOutbound
from tests.postgres import OwnPostgres
from tests.receiver import Answer, Receiver
from tests.sent_events import sent_event

PUBLIC = "93.184.216.34"
NAME = "rebinding.example"

INWARDS = [
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

# Sends something to a host and a port by one of the ways out.
Try = Callable[[Guard, str, int], Awaitable[None]]


async def by_http(guard: Guard, host: str, port: int) -> None:
    async with http(guard) as opened:
        await opened.send(Request(method="POST", url=url_of(host, port), headers={}, body=b"x"))


async def by_stream(guard: Guard, host: str, port: int) -> None:
    asked = Request(method="GET", url=url_of(host, port), headers={}, body=b"")
    async with http(guard) as opened, opened.stream(asked):
        pass


async def by_s3(guard: Guard, host: str, port: int) -> None:
    async with http(guard) as opened:
        await bucket_at(opened, url_of(host, port)).put("key", b"x", {})


async def by_postgres(guard: Guard, host: str, port: int) -> None:
    databases = GuardedPostgres(guard)
    address = replace(database_address("postgresql://postgres@h/postgres"), host=host, port=port)
    place = TablePlace(address=address, schema="public", table="guarded")
    try:
        await EventTables(databases).insert(place, [sent_event()])
    finally:
        await databases.close()


@asynccontextmanager
async def http(guard: Guard) -> AsyncIterator[HttpOutbound]:
    opened = HttpOutbound(guard)
    try:
        yield opened
    finally:
        await opened.close()


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bucket_at(opened: HttpOutbound, endpoint: str) -> Bucket:
    access = S3Access(
        endpoint=endpoint, region="us-east-1", access_key_id="id", secret_access_key="secret"
    )
    return Bucket(access, "events", opened, utc_now)


WAYS = [by_http, by_stream, by_s3, by_postgres]


@pytest.mark.parametrize("way", WAYS)
async def test_no_spelling_leads_inwards(way: Try) -> None:
    guard = Guard(allow_private=False)
    for host in INWARDS:
        with pytest.raises(CannotSend, match=r"private network|cannot be found|and a host"):
            await way(guard, host, 80)


class Names:
    """A resolver whose answers for one name change from one question to the next."""

    def __init__(self, *answers: list[str]) -> None:
        self.asked = 0
        self._answers = answers
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return self._real(host, port, *more, **named)
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, socket.IPPROTO_TCP, "", (each, port)) for each in answer]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Names]:
    def answering(*answers: list[str]) -> Names:
        resolver = Names(*answers)
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        return resolver

    return answering


async def test_every_try_asks_again_and_judges_the_answer(names: Callable[..., Names]) -> None:
    names([PUBLIC], ["127.0.0.1"], ["127.0.0.1", PUBLIC])
    guard = Guard(allow_private=False)
    assert await guard.addresses(NAME, 80) == [PUBLIC]
    with pytest.raises(CannotSend, match="private network"):
        await guard.addresses(NAME, 80)
    assert await guard.addresses(NAME, 80) == [PUBLIC]


@pytest.fixture
def judged(postgres: OwnPostgres) -> Iterator[tuple[int, list[str]]]:
    """A port where two machines listen: at 127.0.0.2 what was judged, at 127.0.0.1 what the name
    says afterwards. And the addresses at which a connection came."""
    came: list[str] = []
    with postgres.door("127.0.0.2", came) as port, socket.create_server(("127.0.0.1", port)) as own:
        own.setblocking(False)
        yield port, came
        with pytest.raises(BlockingIOError):  # nobody came
            own.accept()


async def test_postgresql_connects_to_the_address_that_was_judged(
    judged: tuple[int, list[str]], names: Callable[..., Names]
) -> None:
    port, came = judged
    resolver = names(["127.0.0.2"], ["127.0.0.1"])
    await by_postgres(Guard(allow_private=True), NAME, port)
    assert (came, resolver.asked) == (["127.0.0.2"], 1)


async def test_http_connects_to_the_address_that_was_judged(names: Callable[..., Names]) -> None:
    with Receiver() as other, Receiver(at="127.0.0.2", port=other.port) as right:
        for number, way in enumerate([by_http, by_stream, by_s3], start=1):
            resolver = names(["127.0.0.2"], ["127.0.0.1"])
            await way(Guard(allow_private=True), NAME, other.port)
            assert resolver.asked == 1
            assert len(right.received) == number
        assert {each.headers["host"] for each in right.received} == {f"{NAME}:{other.port}"}
        assert other.received == []


async def test_storage_cannot_send_us_elsewhere() -> None:
    moved = Answer()
    with Receiver() as inner, Receiver(lambda _: moved) as receiver:
        for status in (301, 302, 307, 308):
            for where in (inner.url, "http://169.254.169.254/latest/meta-data/"):
                moved = Answer(status=status, headers={"location": where})
                async with http(Guard(allow_private=True)) as opened:
                    bucket = bucket_at(opened, receiver.url)
                    with pytest.raises(S3Refused, match=str(status)):
                        await bucket.put("key", b"x", {})
                    with pytest.raises(S3Refused, match=str(status)):
                        async with bucket.reading("key"):
                            pass
        assert inner.received == []
        assert len(receiver.received) == 16


@pytest.mark.parametrize("url", ["unix:/tmp/x", "http+unix://%2Ftmp%2Fx/", "file:///etc/passwd"])
async def test_no_socket_and_no_file_is_an_address(url: str) -> None:
    async with http(Guard(allow_private=True)) as opened:
        asked = Request(method="GET", url=url, headers={}, body=b"")
        with pytest.raises(CannotSend):
            await opened.send(asked)
        with pytest.raises(CannotSend):
            async with opened.stream(asked):
                pass
