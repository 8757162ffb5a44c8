"""Signatures in the form of Standard Webhooks: https://www.standardwebhooks.com"""

import base64
import binascii
import hmac
from datetime import datetime

SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins


def signed_headers(id: str, now: datetime, body: bytes, secret: str) -> dict[str, str]:
    """What goes with a body so that its receiver can tell who sent it; unsigned without a
    secret."""
    headers = {"webhook-id": id, "webhook-timestamp": str(int(now.timestamp()))}
    if secret:
        signed = f"{id}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.digest(_key(secret), signed, "sha256")
        headers["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
    return headers


def _key(secret: str) -> bytes:
    """A secret that begins as theirs is base64."""
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()
