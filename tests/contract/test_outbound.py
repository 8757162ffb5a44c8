"""The guarded way out, with a resolver and sockets that are real."""

import pytest

from hedgerow.pipelines.sending import CannotSend, Request
from hedgerow.storage.guard import Guard
from hedgerow.storage.outbound import BODY_BYTES, GuardedBackend, HttpOutbound
from tests.receiver import DROPS, Answer, Receiver


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "::1", "::ffff:127.0.0.1"])
async def test_odd_spellings_lead_nowhere(host: str) -> None:
    with pytest.raises(CannotSend):
        await GuardedBackend(Guard(allow_private=False)).connect_tcp(host, 80)


def to(url: str) -> Request:
    return Request(method="POST", url=url, headers={"x-odd": "ü"}, body=b"{}")


async def test_an_answer_is_bounded_and_a_redirect_is_one() -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(
            status=302, headers={"Location": "http://169.254.169.254/"}, body=b"x" * 10 * BODY_BYTES
        )
        answer = await http.send(to(receiver.url))
    assert (answer.status, len(answer.body)) == (302, BODY_BYTES)
    assert answer.headers["location"] == "http://169.254.169.254/"
    await http.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "http://", "nonsense", "http://[::1"]
)
async def test_what_cannot_be_sent_is_said(url: str) -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with pytest.raises(CannotSend):
        await http.send(to(url))
    await http.close()


async def test_a_dropped_connection_is_said_and_the_next_one_works() -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(status=DROPS)
        with pytest.raises(CannotSend):
            await http.send(to(receiver.url))
        receiver.decide = lambda _: Answer(status=204, body=b"")
        assert (await http.send(to(receiver.url))).status == 204
    await http.close()


async def test_a_private_address_is_refused_by_default() -> None:
    http = HttpOutbound(Guard(allow_private=False))
    with Receiver() as receiver:
        with pytest.raises(CannotSend, match="private network"):
            await http.send(to(receiver.url))
        assert receiver.received == []
    await http.close()
