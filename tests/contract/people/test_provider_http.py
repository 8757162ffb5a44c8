"""Requests to a provider: bounded in time and size, without redirects, and guarded."""

from dataclasses import replace

import pytest

from hedgerow.outbound import provider_http
from hedgerow.outbound.http_client import GuardedHttpClient
from hedgerow.outbound.provider_http import GuardedProviderHttp
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.people.oidc.model import ProviderError, ProviderRequest
from tests.support.receiver import DRIPS, HANGS, POURS, PlannedResponse, Receiver

LARGE = PlannedResponse(body=b"[" * 200_000)
REDIRECT = PlannedResponse(status=302, headers={"location": "http://127.0.0.1:1/"})


async def fetch(planned: PlannedResponse, *, is_own: bool = True) -> tuple[int, bytes]:
    own = GuardedHttpClient(SsrfGuard(allow_private=True))
    guarded = GuardedHttpClient(SsrfGuard(allow_private=False))
    try:
        with Receiver(lambda _: planned) as receiver:
            issuer = receiver.url if is_own else "https://login.example.com"
            http = GuardedProviderHttp(issuer, own, guarded)
            request = ProviderRequest(method="GET", url=receiver.url, headers={})
            try:
                return await http.fetch(request)
            finally:
                assert is_own == bool(receiver.received)
    finally:
        await own.close()
        await guarded.close()


async def test_issuer_may_be_in_a_private_network() -> None:
    assert await fetch(PlannedResponse()) == (200, b"ok")


async def test_other_private_addresses_are_refused() -> None:
    with pytest.raises(ProviderError, match="private network"):
        await fetch(PlannedResponse(), is_own=False)


async def test_redirect_is_not_followed() -> None:
    assert (await fetch(replace(REDIRECT, body=b"")))[0] == 302


@pytest.mark.parametrize("planned", [LARGE, PlannedResponse(status=POURS)])
async def test_large_response_is_refused(planned: PlannedResponse) -> None:
    with pytest.raises(ProviderError, match="64 KiB"):
        await fetch(planned)


@pytest.mark.parametrize("how", [HANGS, DRIPS])
async def test_slow_response_is_refused(how: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_http, "TIMEOUT_S", 0.5)
    with pytest.raises(ProviderError, match="No response within"):
        await fetch(PlannedResponse(status=how))
