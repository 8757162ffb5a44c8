"""An OpenID Connect provider that tells the truth unless a test makes it lie."""

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver

CLIENT_ID, CLIENT_SECRET = "hedgerow", "a secret + with signs"
KEY_ID = "key 1"


def generate_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def to_jwk(key: rsa.RSAPrivateKey, id: str) -> dict[str, Any]:
    jwk: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**jwk, "kid": id, "use": "sig", "alg": "RS256"}


class ScriptedProvider:
    """`metadata` replaces fields of the discovery document, `plans` whole responses by path."""

    def __init__(self) -> None:
        self.key = generate_key()
        self.keys = [to_jwk(self.key, KEY_ID)]
        self.metadata: dict[str, Any] = {}
        self.plans: dict[str, PlannedResponse] = {}
        self.user_info: dict[str, Any] = {}
        self._codes: dict[str, tuple[str, str]] = {}
        self.receiver = Receiver(self._decide)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    def build_claims(self, query: Mapping[str, str], **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        truth = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "subject",
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
            "email": "ann@example.com",
            "email_verified": True,
            "given_name": "Ann",
        }
        found = {**truth, **claims}
        return {name: value for name, value in found.items() if value is not ...}

    def sign(self, claims: Mapping[str, Any], key_id: str | None = KEY_ID) -> str:
        headers = {} if key_id is None else {"kid": key_id}
        return jwt.encode(dict(claims), self.key, algorithm="RS256", headers=headers)

    def issue(self, query: Mapping[str, str], token: str) -> str:
        """Return a code for this ID token."""
        code = f"code {len(self._codes)}"
        self._codes[code] = (token, query["code_challenge"])
        return code

    def count(self, path: str) -> int:
        return sum(each.path == path for each in self.receiver.received)

    def _decide(self, request: ReceivedRequest) -> PlannedResponse:
        planned = self.plans.get(request.path)
        if planned is not None:
            return planned
        if request.path == "/.well-known/openid-configuration":
            return _respond({**self._build_metadata(), **self.metadata})
        if request.path == "/keys":
            return _respond({"keys": self.keys})
        if request.path == "/userinfo":
            return _respond(self.user_info)
        return self._exchange(request)

    def _build_metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
        }

    def _exchange(self, request: ReceivedRequest) -> PlannedResponse:
        """A code can be replayed here: the service itself must refuse it."""
        fields = {name: value for name, [value] in parse_qs(request.body.decode()).items()}
        pair = base64.b64encode(b"hedgerow:a+secret+%2B+with+signs").decode()
        token, challenge = self._codes.get(fields["code"], ("", ""))
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        is_right = challenge == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if not is_right or request.headers.get("authorization") != f"Basic {pair}":
            return PlannedResponse(status=400, body=b'{"error": "invalid_grant"}')
        return _respond({"id_token": token, "access_token": "access", "token_type": "Bearer"})

    def __enter__(self) -> Self:
        self.receiver.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.receiver.__exit__(kind, error, trace)


def read_query(url: str) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}


def _respond(document: Any) -> PlannedResponse:
    return PlannedResponse(
        headers={"content-type": "application/json"}, body=json.dumps(document).encode()
    )
