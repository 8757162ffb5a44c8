"""The rules by which a request tells the address of its user. All callers have public addresses."""

from ipaddress import ip_network
from typing import Any

import pytest

from hedgerow.http.sdk.user_address import find_user_address
from hedgerow.http.server.proxies import Origins
from tests.unit.http.asgi import http_scope

CALLER, PROXY = ("8.8.8.8", 40000), ("10.0.0.7", 40000)
USER = "81.2.69.142"
ORIGINS = Origins([ip_network("10.0.0.0/8")], "")
BROWSER = {"user-agent": "Mozilla/5.0 (X11)", "origin": "https://example.com"}
SERVER_SDK = {"user-agent": "posthog-python/7.1.0"}
GO = {"user-agent": "Go-http-client/2.0"}
REPORTED, FORWARDED = "http_x_forwarded_for", "x-forwarded-for"


def find(
    headers: dict[str, str], client: tuple[str, int] | None = CALLER, **body: Any
) -> str | None:
    found = find_user_address(http_scope(headers=headers, client=client), body, ORIGINS)
    return None if found is None else str(found)


@pytest.mark.parametrize("caller", [BROWSER, SERVER_SDK, GO, {}])
@pytest.mark.parametrize("client", [CALLER, PROXY])
def test_the_header_of_the_specification_is_the_users_address(
    caller: dict[str, str], client: tuple[str, int]
) -> None:
    assert find({**caller, REPORTED: USER, FORWARDED: "1.1.1.1"}, client) == USER
    assert find({**caller, REPORTED: "nonsense"}, client) is None


@pytest.mark.parametrize(
    "caller",
    [
        BROWSER,
        {"user-agent": "Mozilla/5.0"},
        {"referer": "https://example.com/"},
        {"sec-fetch-mode": "cors"},
        {"user-agent": "posthog-ios/3.2"},
        {"user-agent": "posthog-android/3.2"},
    ],
)
def test_a_browser_or_client_sdk_is_at_its_users_address(caller: dict[str, str]) -> None:
    assert find(caller) == "8.8.8.8"
    assert find({**caller, FORWARDED: USER}) == USER
    assert find({**caller, FORWARDED: "nonsense"}) == "8.8.8.8"
    assert find({**caller, FORWARDED: USER}, PROXY) == USER
    assert find({**caller, FORWARDED: f"1.1.1.1, {USER}"}, PROXY) == USER


@pytest.mark.parametrize("agent", ["posthog-python/7", "posthog-node/5", "posthog-ruby2.0"])
def test_a_server_sdk_is_not_at_its_users_address(agent: str) -> None:
    caller = {"user-agent": agent}
    assert find(caller) is None
    assert find({**caller, FORWARDED: USER}) is None
    assert find({**caller, FORWARDED: "8.8.8.8"}, PROXY) is None
    assert find({**caller, FORWARDED: f"{USER}, 8.8.8.8"}, PROXY) == USER
    assert find({**caller, FORWARDED: f"{USER}, 8.8.8.8, 10.0.0.9"}, PROXY) == USER


@pytest.mark.parametrize("caller", [GO, {}, {"user-agent": "curl/8"}, {"user-agent": "axios/1"}])
def test_an_unknown_caller_is_a_server_unless_it_sends_an_address(
    caller: dict[str, str],
) -> None:
    assert find(caller) is None
    assert find({**caller, FORWARDED: f"{USER}, 1.1.1.1"}) == USER
    assert find({**caller, FORWARDED: f"{USER}:4711"}) == USER
    assert find({**caller, FORWARDED: "nonsense"}) is None
    assert find(caller, PROXY) is None
    # The proxy adds the address of the caller.
    assert find({**caller, FORWARDED: "8.8.8.8"}, PROXY) is None
    assert find({**caller, FORWARDED: f"{USER}, 8.8.8.8"}, PROXY) == USER


def test_a_caller_can_declare_where_it_runs() -> None:
    assert find(GO, evaluation_runtime="client") == "8.8.8.8"
    assert find({**GO, FORWARDED: USER}, PROXY, evaluation_runtime="server") is None


def test_a_caller_without_an_address_has_none() -> None:
    assert find(BROWSER, None) is None
    assert find({}, None) is None
