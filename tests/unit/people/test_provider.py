"""The provider's metadata and keys: what is accepted, and how often they are fetched."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.people.oidc.id_token import choose_algorithms, find_key, parse_keys
from hedgerow.people.oidc.model import ProviderConfig, ProviderError, ProviderRequest
from hedgerow.people.oidc.provider import METADATA_TIME, RETRY_TIME, Provider

ISSUER = "https://login.example.com"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": "https://other.example.com/token",
    "jwks_uri": f"{ISSUER}/keys",
    "id_token_signing_alg_values_supported": ["RS256", "none", "HS256", "ES256"],
}


@dataclass
class Responses:
    """Answers every request with one document, and has a clock."""

    document: Any
    status: int = 200
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    asked: list[str] = field(default_factory=list)

    async def fetch(self, request: ProviderRequest) -> tuple[int, bytes]:
        self.asked.append(request.url)
        if self.status == 0:
            raise ProviderError("down")
        return self.status, json.dumps(self.document).encode()


def build_provider(responses: Responses) -> Provider:
    config = ProviderConfig(
        issuer=ISSUER,
        client_id="x",
        client_secret="",
        name="x",
        scopes="openid",
        redirect_uri="https://x",
        domains=(),
        new_member_roles=None,
        trusts_emails=False,
    )
    return Provider(config, responses, lambda: responses.now)


async def test_only_secure_algorithms_are_accepted() -> None:
    metadata = await build_provider(Responses(DOCUMENT)).get_metadata()
    assert metadata.algorithms == ["RS256", "ES256"]
    assert choose_algorithms(None) == ("RS256",)
    insecure: list[object] = [[], ["none", "HS256"], "RS256", {}, [5]]
    for supported in insecure:
        with pytest.raises(ProviderError):
            choose_algorithms(supported)


@pytest.mark.parametrize(
    "lie",
    [
        {"issuer": "https://evil.example"},
        {"issuer": f"{ISSUER}.evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://login.example.com/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": "https://user:password@login.example.com/keys"},
        {"jwks_uri": "//login.example.com/keys"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://login.example.com/\r\nX: y"},
        {"authorization_endpoint": ["https://login.example.com"]},
        {"userinfo_endpoint": "http://169.254.169.254/"},
    ],
)
async def test_metadata_that_lies_is_refused(lie: Mapping[str, Any]) -> None:
    with pytest.raises(ProviderError):
        await build_provider(Responses({**DOCUMENT, **lie})).get_metadata()


async def test_issuer_may_end_with_a_slash() -> None:
    document = {**DOCUMENT, "issuer": f"{ISSUER}/"}
    assert (await build_provider(Responses(document)).get_metadata()).issuer == f"{ISSUER}/"


@pytest.mark.parametrize("status", [0, 302, 404, 500])
async def test_failure_is_not_repeated_at_once(status: int) -> None:
    responses = Responses(DOCUMENT, status=status)
    provider = build_provider(responses)
    for _ in range(3):
        with pytest.raises(ProviderError):
            await provider.get_metadata()
    assert len(responses.asked) == 1
    responses.status, responses.now = 200, responses.now + RETRY_TIME
    await provider.get_metadata()
    # Later failures leave what is known.
    responses.status, responses.now = 500, responses.now + METADATA_TIME + timedelta(seconds=1)
    assert (await provider.get_metadata()).issuer == ISSUER


def test_keys_are_chosen_by_id_and_kind() -> None:
    rsa = {"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}
    curve = {"kty": "EC", "kid": "b"}
    huge = {"kty": "RSA", "kid": "c", "n": "A" * 9000, "e": "AQAB"}
    secret = {"kty": "oct", "kid": "d", "k": "AQAB"}
    encryption = {"kty": "RSA", "kid": "e", "use": "enc"}
    keys = parse_keys({"keys": [rsa, curve, huge, secret, encryption, 5, None]})
    assert keys == [rsa, curve]
    assert find_key(keys, "RS256", "a") == rsa
    assert find_key(keys, "RS256", None) == rsa
    assert find_key(keys, "ES256", "a") is None
    assert find_key(keys, "HS256", "a") is None
    assert find_key([rsa, rsa], "RS256", None) is None
    documents: list[object] = [[], {}, {"keys": {}}, {"keys": [rsa] * 101}]
    for document in documents:
        with pytest.raises(ProviderError):
            parse_keys(document)
