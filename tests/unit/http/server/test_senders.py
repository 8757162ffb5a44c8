"""Who sends a request, found in its bytes."""

from ipaddress import ip_network

import pytest

from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.senders import UNKNOWN, Senders
from hedgerow.projects.model import ProjectId

KEYS = {"phc_one": ProjectId(1), "phc_two": ProjectId(2)}
HEAD = b"POST /e/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
FILLING = b'"x": "' + b"x" * 5000 + b'"'


@pytest.fixture
def senders() -> Senders:
    return Senders(Origins([ip_network("10.0.0.0/8")], ""), KEYS.get)


@pytest.mark.parametrize(
    ("data", "sender"),
    [
        (HEAD + b'\r\n{"api_key": "phc_one", "distinct_id": "ann"}', 1),
        (HEAD + b'\r\n{"token":"phc_two"}', 2),
        (b"GET /decide/?v=3&token=phc_one HTTP/1.1\r\nHost: x\r\n\r\n", 1),
        (b"GET /e/?api_key=phc_two&x=1 HTTP/1.1\r\n\r\n", 2),
        (HEAD + b"\r\napi_key=phc_two&data=e30", 2),
        (HEAD + b'\r\n{"token": "a property", "other": {"token": "phc_one"}}', 1),
        (HEAD + b"\r\n{" + FILLING + b', "api_key": "phc_two"}', 2),
        (HEAD + b'\r\n{"api_key": "phc_none"}', UNKNOWN),
        (HEAD + b"\r\n{" + FILLING + b"}", "192.0.2.1"),
        (HEAD + b"X-Forwarded-For: 198.51.100.1\r\n\r\n", "192.0.2.1"),
        (b"", "192.0.2.1"),
    ],
)
def test_sender_is_the_project_or_else_the_address(
    senders: Senders, data: bytes, sender: object
) -> None:
    assert senders.find("192.0.2.1", data)[0] == sender


def test_address_behind_a_trusted_proxy_is_the_last_one_that_it_did_not_add(
    senders: Senders,
) -> None:
    data = HEAD + b"x-forwarded-for: 192.0.2.9, 198.51.100.1, 10.0.0.2\r\n\r\n"
    assert senders.find("10.0.0.1", data) == ("198.51.100.1", b"")


def test_token_is_returned_to_recognize_the_next_request(senders: Senders) -> None:
    assert senders.find("192.0.2.1", b'{"api_key":"phc_one"}') == (1, b"phc_one")
    assert senders.find("192.0.2.1", b'{"api_key":"phc_none"}')[1] == b""
