"""The outer shape of a capture request: its events and the project token."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hedgerow.errors import AppError, Invalid
from hedgerow.projects.project_token import find_project_token

MAX_TOKEN_BYTES = 64


class InvalidToken(AppError):
    """The project token is missing or malformed."""

    status, type, code = 401, "authentication_error", "missing_api_key"
    default_detail = (
        "API key not provided: send the project's key as api_key. "
        "`hedgerow projects list` shows it."
    )


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`sent_at` is the raw value from the body; it can be of any JSON type."""

    token: str
    items: Sequence[Any]
    sent_at: Any = None
    historical_migration: bool = False


def open_envelope(payload: Any) -> Envelope:
    """Accept a list of events, an object with a `batch` list, or a single event."""
    if not payload:
        raise Invalid("No data found: the request holds no event.", code="no_data")
    if isinstance(payload, list):
        return Envelope(token=_validate_token(_find_common_token(payload)), items=payload)
    if not isinstance(payload, dict):
        raise Invalid("A JSON object or a list of them is required.", code="malformed_data")
    items = payload.get("batch")
    token = find_project_token(payload)
    if not isinstance(items, list):
        if items is not None and "event" not in payload:
            raise Invalid("Expected a list of events.", attr="batch", code="malformed_data")
        return Envelope(token=_validate_token(token), items=(payload,))
    if not items:
        raise Invalid("No data found: the batch holds no event.", attr="batch", code="no_data")
    return Envelope(
        token=_validate_token(_find_common_token(items) if token is None else token),
        items=items,
        sent_at=payload.get("sent_at"),
        historical_migration=payload.get("historical_migration") is True,
    )


def _find_common_token(items: Iterable[Any]) -> Any:
    common = None
    for item in items:
        token = find_project_token(item) if isinstance(item, dict) else None
        if token is None or token == common:
            continue
        if common is not None:
            raise InvalidToken(
                "The events of the batch carry different API keys.", code="inconsistent_api_keys"
            )
        common = token
    return common


def _validate_token(token: Any) -> str:
    if token is None:
        raise InvalidToken
    stripped = token.strip() if isinstance(token, str) else ""
    if not isinstance(token, str):
        reason = "not_string"
    elif not stripped:
        reason = "empty"
    elif len(stripped.encode("utf-8", "surrogatepass")) > MAX_TOKEN_BYTES:
        reason = "too_long"
    elif not stripped.isascii():
        reason = "not_ascii"
    elif stripped.startswith("phx_"):
        reason = "personal_api_key"
    elif "\x00" in stripped:
        reason = "null_byte"
    else:
        return stripped
    raise InvalidToken(f"Provided API key is not valid: {reason}", code=reason)
