"""Two-factor authentication: time-based codes (RFC 6238) and recovery codes."""

import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from urllib.parse import quote, urlencode

from hedgerow.lib.tokens import hash_token

STEP_S = 30
DIGITS = 6
SECRET_BYTES = 20
# Clocks of phones are late or early by up to a step.
TOLERATED_STEPS = 1
RECOVERY_CODES = 10
_RECOVERY_BYTES = 10


def generate_secret() -> str:
    """Generate a secret in base32, as authenticator apps read it."""
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()


def build_uri(secret: str, email: str, issuer: str) -> str:
    """Build the URI that authenticator apps read from a QR code."""
    label = f"{quote(issuer, safe='')}:{quote(email, safe='@')}"
    fields = {"secret": secret, "issuer": issuer, "digits": DIGITS, "period": STEP_S}
    return f"otpauth://totp/{label}?{urlencode(fields, quote_via=quote)}"


def compute_code(secret: str, step: int) -> str:
    """Return the code of a time step (RFC 4226, section 5.3)."""
    digest = hmac.new(base64.b32decode(secret), step.to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[-1] & 0xF
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def find_step(secret: str, code: str, now: datetime) -> int | None:
    """Return the time step of a code, None if it is not valid now."""
    current = int(now.timestamp()) // STEP_S
    found = None
    for step in range(current - TOLERATED_STEPS, current + TOLERATED_STEPS + 1):
        if hmac.compare_digest(
            compute_code(secret, step).encode(), code.encode("utf-8", "replace")
        ):
            found = step
    return found


def generate_recovery_codes() -> list[str]:
    """Generate codes such as `k3ov-x2na-77qd-p4hc`. 80 random bits need no stretched hash."""
    codes = []
    for _ in range(RECOVERY_CODES):
        text = base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
        codes.append("-".join(text[at : at + 4] for at in range(0, 16, 4)))
    return codes


def hash_recovery_code(code: str) -> str:
    return hash_token("".join(code.lower().replace("-", " ").split()))


def is_totp_code(text: str) -> bool:
    """Whether a text looks like a code of an authenticator, not like a recovery code."""
    return len(text) == DIGITS and text.isascii() and text.isdecimal()
