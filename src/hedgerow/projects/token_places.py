"""Where clients put a project's public key in what they send."""

from collections.abc import Mapping
from typing import Any

TOKEN_NAMES = ("$token", "token", "api_key")


def token_in(body: Mapping[str, Any]) -> Any:
    """The first that says anything, "" if there are only empty ones, None if there is none."""
    found = None
    for name in TOKEN_NAMES:
        token = body.get(name)
        if token:
            return token
        found = found if token is None else token
    properties = body.get("properties")
    token = properties.get("token") if isinstance(properties, dict) else None
    return found if token is None else token
