"""The provider: its metadata, its keys, and the exchange of a code for an ID token.

Metadata and keys are kept in memory. Whatever the provider sends is checked, and an endpoint must
be as secure as the issuer.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.people.oidc.id_token import (
    Jwk,
    choose_algorithms,
    find_key,
    parse_keys,
    read_header,
    verify_id_token,
)
from hedgerow.people.oidc.model import (
    ProviderConfig,
    ProviderError,
    ProviderHttp,
    ProviderRequest,
)

METADATA_TIME = timedelta(hours=1)
KEY_TIME = timedelta(hours=1)
# After a failure, and for keys that are not known: a stream of logins asks only as often.
RETRY_TIME = timedelta(seconds=5)
MAX_URL_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMetadata:
    """`issuer` is as tokens have it: perhaps with a slash at the end."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str
    jwks_uri: str
    algorithms: Sequence[str]
    secret_is_in_body: bool
    sends_issuer: bool


class Provider:
    def __init__(self, config: ProviderConfig, http: ProviderHttp, clock: Clock) -> None:
        self._config = config
        self._http = http
        self._clock = clock
        self._lock = asyncio.Lock()
        self._metadata: ProviderMetadata | None = None
        self._metadata_due: datetime | None = None
        self._failure = ""
        self._keys: list[Jwk] = []
        self._keys_at: datetime | None = None

    async def get_metadata(self) -> ProviderMetadata:
        """Return the metadata. An old one is better than none."""
        async with self._lock:
            now = self._clock()
            if self._metadata_due is None or now >= self._metadata_due:
                try:
                    self._metadata = await self._fetch_metadata()
                    self._metadata_due = now + METADATA_TIME
                except ProviderError as error:
                    self._failure = str(error)
                    self._metadata_due = self._clock() + RETRY_TIME
            if self._metadata is None:
                raise ProviderError(self._failure)
            return self._metadata

    async def fetch_claims(self, code: str, verifier: str, nonce: str) -> dict[str, Any]:
        """Exchange a code, and return the verified claims of the person."""
        metadata = await self.get_metadata()
        tokens = await self._exchange(metadata, code, verifier)
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("The response of the token endpoint has no ID token.")
        algorithm, key_id = read_header(token)
        if algorithm not in metadata.algorithms:
            raise ProviderError("The algorithm of the ID token is not one of the provider's.")
        claims = verify_id_token(
            token,
            await self._get_key(metadata, algorithm, key_id),
            algorithm,
            issuer=metadata.issuer,
            client_id=self._config.client_id,
            nonce=nonce,
        )
        if "email" not in claims and metadata.userinfo_endpoint:
            claims = await self._add_user_info(metadata, tokens, claims)
        return claims

    async def _exchange(
        self, metadata: ProviderMetadata, code: str, verifier: str
    ) -> Mapping[str, Any]:
        config = self._config
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": config.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if config.client_secret and not metadata.secret_is_in_body:
            pair = f"{quote_plus(config.client_id)}:{quote_plus(config.client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            fields["client_id"] = config.client_id
            if config.client_secret:
                fields["client_secret"] = config.client_secret
        return await self._fetch_json(
            ProviderRequest(
                method="POST",
                url=metadata.token_endpoint,
                headers=headers,
                body=urlencode(fields).encode(),
            ),
            "token endpoint",
        )

    async def _get_key(self, metadata: ProviderMetadata, algorithm: str, id: str | None) -> Jwk:
        """Return a key. One that is not known may be new, and an old one may be revoked: fetch all
        of them again."""
        async with self._lock:
            found = find_key(self._keys, algorithm, id)
            least = RETRY_TIME if found is None else KEY_TIME
            if self._keys_at is None or self._clock() >= self._keys_at + least:
                self._keys, self._keys_at = [], self._clock()
                request = ProviderRequest(method="GET", url=metadata.jwks_uri, headers={})
                self._keys = parse_keys(await self._fetch_json(request, "jwks_uri"))
                found = find_key(self._keys, algorithm, id)
            if found is None:
                raise ProviderError("The provider has no key with the id of the ID token.")
            return found

    async def _add_user_info(
        self, metadata: ProviderMetadata, tokens: Mapping[str, Any], claims: dict[str, Any]
    ) -> dict[str, Any]:
        access_token = tokens.get("access_token")
        if not isinstance(access_token, str) or not access_token.isascii():
            return claims
        request = ProviderRequest(
            method="GET",
            url=metadata.userinfo_endpoint,
            headers={"authorization": f"Bearer {access_token}"},
        )
        info = await self._fetch_json(request, "userinfo endpoint")
        if info.get("sub") != claims["sub"]:
            raise ProviderError("The userinfo endpoint describes another person.")
        return {**info, **claims}

    async def _fetch_metadata(self) -> ProviderMetadata:
        url = f"{self._config.issuer}/.well-known/openid-configuration"
        request = ProviderRequest(method="GET", url=url, headers={})
        document = await self._fetch_json(request, "discovery document")
        issuer = document.get("issuer")
        if not isinstance(issuer, str) or issuer.rstrip("/") != self._config.issuer:
            raise ProviderError("The discovery document is of another issuer.")
        methods = document.get("token_endpoint_auth_methods_supported")
        return ProviderMetadata(
            issuer=issuer,
            authorization_endpoint=self._read_url(document, "authorization_endpoint"),
            token_endpoint=self._read_url(document, "token_endpoint"),
            userinfo_endpoint=self._read_url(document, "userinfo_endpoint", is_required=False),
            jwks_uri=self._read_url(document, "jwks_uri"),
            algorithms=choose_algorithms(document.get("id_token_signing_alg_values_supported")),
            secret_is_in_body=isinstance(methods, list)
            and "client_secret_basic" not in methods
            and "client_secret_post" in methods,
            sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )

    def _read_url(self, document: Mapping[str, Any], name: str, *, is_required: bool = True) -> str:
        url = document.get(name)
        if url is None and not is_required:
            return ""
        if not isinstance(url, str) or not _is_secure(url, self._config.issuer):
            raise ProviderError(f"{name} of the provider is not an address with https.")
        return url

    async def _fetch_json(self, request: ProviderRequest, what: str) -> Mapping[str, Any]:
        headers = {**request.headers, "accept": "application/json"}
        status, body = await self._http.fetch(
            ProviderRequest(
                method=request.method, url=request.url, headers=headers, body=request.body
            )
        )
        if status != 200:
            raise ProviderError(f"The {what} of the provider answers {status}.")
        try:
            parsed = jsonio.parse(body)
        except jsonio.JsonError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ProviderError(f"The {what} of the provider is not a JSON object.")
        return parsed


def _is_secure(url: str, issuer: str) -> bool:
    """Whether an endpoint has https, or is on the host of an issuer that does not need it."""
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or "#" in url:
        return False
    try:
        parts, own = urlsplit(url), urlsplit(issuer)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
