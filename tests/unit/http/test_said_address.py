"""Whose address counts for GeoIP: PostHog's own header first, else the client's."""

from ipaddress import ip_network

import pytest

from hedgerow.http.origin import Origins
from tests.unit.http.asgi import http_scope

PROXY, STRANGER = ("10.0.0.1", 4000), ("192.0.2.1", 4000)
ORIGINS = Origins((ip_network("10.0.0.0/8"),), "")
SAID, FORWARDED = "HTTP_X_FORWARDED_FOR", "X-Forwarded-For"


def said(headers: dict[str, str], client: tuple[str, int] | None = STRANGER) -> str | None:
    address = ORIGINS.said_address(http_scope(headers=headers, client=client))
    return str(address) if address else None


@pytest.mark.parametrize("client", [PROXY, STRANGER, None])
def test_the_header_of_posthog_is_believed_of_anybody(client: tuple[str, int] | None) -> None:
    assert said({SAID: "81.2.69.142"}, client) == "81.2.69.142"
    assert said({SAID: "81.2.69.142", FORWARDED: "8.8.8.8"}, client) == "81.2.69.142"


def test_the_first_of_several_addresses_is_the_clients() -> None:
    assert said({SAID: " 81.2.69.142 , 10.0.0.7, 8.8.8.8"}) == "81.2.69.142"


def test_either_kind_of_address_is_taken() -> None:
    assert said({SAID: "2001:4860:4860::8888"}) == "2001:4860:4860::8888"
    assert said({SAID: "::ffff:81.2.69.142"}) == "81.2.69.142"


def test_a_trusted_proxy_is_believed_and_a_stranger_is_not() -> None:
    assert said({FORWARDED: "81.2.69.142"}, PROXY) == "81.2.69.142"
    assert said({FORWARDED: "81.2.69.142"}, STRANGER) == "192.0.2.1"
    assert said({}, STRANGER) == "192.0.2.1"
    assert said({}, None) is None


@pytest.mark.parametrize("text", ["unknown", "81.2.69", "999.1.1.1", "é", "x" * 5000, "1"])
def test_what_is_no_address_is_nowhere(text: str) -> None:
    assert said({SAID: text}) is None


def test_an_empty_header_says_nothing() -> None:
    assert said({SAID: ""}) == "192.0.2.1"
