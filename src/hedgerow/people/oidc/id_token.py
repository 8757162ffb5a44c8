"""Validation of ID tokens (OpenID Connect Core, section 3.1.3.7)."""

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from hedgerow.lib.text import explain_unstorable
from hedgerow.people.oidc.model import MAX_SUBJECT_CHARS, ProviderError

# Never `none`, and no HMAC: a public key must not become a shared secret.
SECURE_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
DEFAULT_ALGORITHMS = ("RS256",)
# Clocks of the provider and of this machine differ.
LEEWAY_S = 60
MAX_KEYS = 100
# 8192 bits, as base64. Larger keys take long to verify.
MAX_MODULUS_CHARS = 1366
MAX_EXPONENT_CHARS = 8
_REQUIRED_CLAIMS = ["iss", "sub", "aud", "exp", "iat", "nonce"]
# What PyJWT raises for hostile input, besides its own errors.
_PARSE_ERRORS = (
    jwt.PyJWTError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

Jwk = Mapping[str, Any]


def choose_algorithms(supported: object) -> Sequence[str]:
    """Return the algorithms that the provider announces and that are secure."""
    if supported is None:
        return DEFAULT_ALGORITHMS
    names = supported if isinstance(supported, list) else []
    found = [each for each in names if isinstance(each, str) and each in SECURE_ALGORITHMS]
    if not found:
        raise ProviderError("The provider announces no algorithm for signatures that is secure.")
    return found


def parse_keys(document: object) -> list[Jwk]:
    """Return the keys for signatures of a JWKS document."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise ProviderError("The keys of the provider are not a JWKS document.")
    return [
        each
        for each in keys
        if isinstance(each, dict)
        and each.get("kty") in ("RSA", "EC", "OKP")
        and each.get("use", "sig") == "sig"
        and len(str(each.get("n", ""))) <= MAX_MODULUS_CHARS
        and len(str(each.get("e", ""))) <= MAX_EXPONENT_CHARS
    ]


def read_header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the id of the key that the token names. Nothing is verified."""
    try:
        header = jwt.get_unverified_header(token)
    except _PARSE_ERRORS:
        raise ProviderError("The ID token is not a JWT.") from None
    id = header.get("kid")
    return str(header.get("alg")), id if isinstance(id, str) else None


def find_key(keys: Sequence[Jwk], algorithm: str, id: str | None) -> Jwk | None:
    """Return the key with this id. A token may omit the id if there is only one key for it."""
    fitting = [
        each
        for each in keys
        if each.get("kty") == _get_key_type(algorithm) and each.get("alg", algorithm) == algorithm
    ]
    if id is None:
        return fitting[0] if len(fitting) == 1 else None
    return next((each for each in fitting if each.get("kid") == id), None)


def _get_key_type(algorithm: str) -> str:
    return {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}.get(algorithm[:2], "")


def verify_id_token(
    token: str, key: Jwk, algorithm: str, *, issuer: str, client_id: str, nonce: str
) -> dict[str, Any]:
    """Return the claims. Raises ProviderError."""
    try:
        claims = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm),
            algorithms=[algorithm],
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_S,
            options={"require": _REQUIRED_CLAIMS, "enforce_minimum_key_length": True},
        )
    except _PARSE_ERRORS as error:
        raise ProviderError(f"The ID token is not valid: {type(error).__name__}.") from None
    _check_party(claims, client_id)
    if not isinstance(claims["nonce"], str) or not hmac.compare_digest(
        claims["nonce"].encode("utf-8", "replace"), nonce.encode()
    ):
        raise ProviderError("The ID token is of another login: its nonce differs.")
    subject = claims["sub"]
    is_text = isinstance(subject, str) and not explain_unstorable(subject)
    if not is_text or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        raise ProviderError("The ID token has no valid subject.")
    return dict(claims)


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several audiences names the client that it was issued to."""
    party = claims.get("azp")
    has_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (has_several or party is not None) and party != client_id:
        raise ProviderError("The ID token was issued to another client.")
