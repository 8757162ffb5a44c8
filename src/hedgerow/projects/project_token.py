"""The project token in the body of an SDK request."""

from collections.abc import Mapping
from typing import Any

TOKEN_FIELDS = ("$token", "token", "api_key")


def find_project_token(body: Mapping[str, Any]) -> Any:
    """Return the first non-empty token, an empty string if there are only empty ones, None if there
    is none."""
    found = None
    for name in TOKEN_FIELDS:
        token = body.get(name)
        if token:
            return token
        found = found if token is None else token
    properties = body.get("properties")
    token = properties.get("token") if isinstance(properties, dict) else None
    return found if token is None else token
