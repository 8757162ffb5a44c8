"""The HTTP client with a real resolver and real sockets."""

import asyncio
import os
import threading
from contextlib import ExitStack

import pytest

from hedgerow.lib.workers.sender import work_for
from hedgerow.outbound.http_client import MAX_BODY_BYTES, GuardedHttpClient
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.plugin.http import Request, TransportError
from tests.support.receiver import CUTS, DRIPS, DROPS, HANGS, POURS, PlannedResponse, Receiver


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "::1", "::ffff:127.0.0.1"],
)
async def test_unusual_host_spellings_are_rejected(host: str) -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=False))
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", f"[{host}]" if ":" in host else host)
        with pytest.raises(TransportError):
            await http.send(to(url))
        assert receiver.received == []
    await http.close()


def to(url: str, timeout_s: float = 10) -> Request:
    headers = {"x-odd": "ü"}
    return Request(method="POST", url=url, headers=headers, body=b"{}", timeout_s=timeout_s)


async def test_response_is_bounded_and_redirects_are_not_followed() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: PlannedResponse(
            status=302,
            headers={"Location": "http://169.254.169.254/"},
            body=b"x" * 10 * MAX_BODY_BYTES,
        )
        response = await http.send(to(receiver.url))
    assert (response.status, len(response.body)) == (302, MAX_BODY_BYTES)
    assert response.headers["location"] == "http://169.254.169.254/"
    await http.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "http://", "nonsense", "http://[::1"]
)
async def test_invalid_request_is_an_error(url: str) -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True))
    with pytest.raises(TransportError):
        await http.send(to(url))
    await http.close()


async def test_requests_beyond_the_share_of_a_sender_wait_without_a_timeout() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True), max_requests=4)
    is_released = threading.Event()
    with Receiver() as receiver:

        def hold(_: object) -> PlannedResponse:
            is_released.wait(60)
            return PlannedResponse()

        receiver.decide = hold
        held = [asyncio.create_task(http.send(to(receiver.url, timeout_s=90))) for _ in range(2)]
        while len(receiver.received) < 2:
            await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(http.send(to(receiver.url, timeout_s=5))) for _ in range(3)]
        await asyncio.sleep(6)  # longer than their timeout
        assert len(receiver.received) == 2
        with Receiver() as other, work_for("another sender"):
            assert (await http.send(to(other.url))).status == 200
        is_released.set()
        answers = await asyncio.gather(*held, *waiting)
        assert [answer.status for answer in answers] == [200] * 5
    await http.close()


async def test_few_connections_are_kept() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True), max_requests=2)
    with ExitStack() as stack:
        receivers = [stack.enter_context(Receiver()) for _ in range(12)]
        before = _count_files()
        for receiver in receivers:
            assert (await http.send(to(receiver.url))).status == 200
        for _ in range(1000):  # both ends of a connection are in this process
            if _count_files() - before <= len(receivers):
                break
            await asyncio.sleep(0.01)
        assert _count_files() - before <= len(receivers)
    await http.close()


def _count_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("how", [HANGS, DROPS, CUTS, DRIPS])
async def test_partial_response_is_an_error_and_the_next_request_works(how: int) -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: PlannedResponse(status=how)
        with pytest.raises(TransportError):
            await http.send(to(receiver.url, timeout_s=0.5))
        receiver.decide = lambda _: PlannedResponse(status=204, body=b"")
        assert (await http.send(to(receiver.url))).status == 204
    await http.close()


async def test_endless_response_is_truncated() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: PlannedResponse(status=POURS)
        response = await http.send(to(receiver.url))
    assert (response.status, len(response.body)) == (200, MAX_BODY_BYTES)
    await http.close()


async def test_error_does_not_contain_the_url() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=True))
    with Receiver() as receiver:
        for how in (HANGS, DROPS, CUTS):
            receiver.decide = lambda _, how=how: PlannedResponse(status=how)  # type: ignore[misc]
            with pytest.raises(TransportError) as caught:
                await http.send(to(receiver.url + "/hidden-token", timeout_s=0.5))
            assert "hidden-token" not in str(caught.value)
    for url in ("http://127.0.0.1:1/hidden-token", "nonsense/hidden-token", "http:///hidden-token"):
        with pytest.raises(TransportError) as caught:
            await http.send(to(url))
        assert "hidden-token" not in str(caught.value)
    await http.close()


async def test_private_address_is_rejected_by_default() -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=False))
    with Receiver() as receiver:
        with pytest.raises(TransportError, match="private network"):
            await http.send(to(receiver.url))
        assert receiver.received == []
    await http.close()
