"""The guarded way out, with a resolver and sockets that are real."""

import pytest

from hedgerow.pipelines.sending import CannotSend, Request
from hedgerow.storage.guard import Guard
from hedgerow.storage.outbound import BODY_BYTES, HttpOutbound
from tests.receiver import CUTS, DRIPS, DROPS, HANGS, POURS, Answer, Receiver


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "::1", "::ffff:127.0.0.1"],
)
async def test_odd_spellings_lead_nowhere(host: str) -> None:
    http = HttpOutbound(Guard(allow_private=False))
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", f"[{host}]" if ":" in host else host)
        with pytest.raises(CannotSend):
            await http.send(to(url))
        assert receiver.received == []
    await http.close()


def to(url: str, timeout_s: float = 10) -> Request:
    headers = {"x-odd": "ü"}
    return Request(method="POST", url=url, headers=headers, body=b"{}", timeout_s=timeout_s)


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


@pytest.mark.parametrize("how", [HANGS, DROPS, CUTS, DRIPS])
async def test_half_an_answer_is_none_and_the_next_request_works(how: int) -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(status=how)
        with pytest.raises(CannotSend):
            await http.send(to(receiver.url, timeout_s=0.5))
        receiver.decide = lambda _: Answer(status=204, body=b"")
        assert (await http.send(to(receiver.url))).status == 204
    await http.close()


async def test_an_answer_without_end_is_read_as_far_as_it_is_shown() -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(status=POURS)
        answer = await http.send(to(receiver.url))
    assert (answer.status, len(answer.body)) == (200, BODY_BYTES)
    await http.close()


async def test_an_error_does_not_tell_the_address() -> None:
    http = HttpOutbound(Guard(allow_private=True))
    with Receiver() as receiver:
        for how in (HANGS, DROPS, CUTS):
            receiver.decide = lambda _, how=how: Answer(status=how)  # type: ignore[misc]
            with pytest.raises(CannotSend) as caught:
                await http.send(to(receiver.url + "/hidden-token", timeout_s=0.5))
            assert "hidden-token" not in str(caught.value)
    for url in ("http://127.0.0.1:1/hidden-token", "nonsense/hidden-token", "http:///hidden-token"):
        with pytest.raises(CannotSend) as caught:
            await http.send(to(url))
        assert "hidden-token" not in str(caught.value)
    await http.close()


async def test_a_private_address_is_refused_by_default() -> None:
    http = HttpOutbound(Guard(allow_private=False))
    with Receiver() as receiver:
        with pytest.raises(CannotSend, match="private network"):
            await http.send(to(receiver.url))
        assert receiver.received == []
    await http.close()
