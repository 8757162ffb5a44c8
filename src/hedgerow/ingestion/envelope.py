"""What is around the events of a request: the shape that they come in, and the project's key."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hedgerow.errors import AppError, Invalid
from hedgerow.projects.token_places import token_in

MAX_TOKEN_BYTES = 64


class TokenRefused(AppError):
    """The project's key is missing, or cannot be one."""

    status, type, code = 401, "authentication_error", "missing_api_key"
    default_detail = (
        "API key not provided: send the project's key as api_key. "
        "`hedgerow projects list` shows it."
    )


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`sent_at` is what the body says of when it was sent, whatever that is."""

    token: str
    items: Sequence[Any]
    sent_at: Any = None
    historical_migration: bool = False


def opened(payload: Any) -> Envelope:
    """A list of events, an object with a `batch` of them, or one event."""
    if not payload:
        raise Invalid("No data found: the request holds no event.", code="no_data")
    if isinstance(payload, list):
        return Envelope(token=_checked(_common_token(payload)), items=payload)
    if not isinstance(payload, dict):
        raise Invalid("A JSON object or a list of them is required.", code="malformed_data")
    items = payload.get("batch")
    if isinstance(items, list):
        if not items:
            raise Invalid("No data found: the batch holds no event.", attr="batch", code="no_data")
        token = token_in(payload)
        return Envelope(
            token=_checked(_common_token(items) if token is None else token),
            items=items,
            sent_at=payload.get("sent_at"),
            historical_migration=payload.get("historical_migration") is True,
        )
    if items is not None and "event" not in payload:
        raise Invalid("A list of events is required.", attr="batch", code="malformed_data")
    return Envelope(token=_checked(token_in(payload)), items=(payload,))


def _common_token(items: Iterable[Any]) -> Any:
    common = None
    for item in items:
        token = token_in(item) if isinstance(item, dict) else None
        if token is None or token == common:
            continue
        if common is not None:
            raise TokenRefused(
                "The events of the batch carry different API keys.", code="inconsistent_api_keys"
            )
        common = token
    return common


def _checked(token: Any) -> str:
    if token is None:
        raise TokenRefused
    if not isinstance(token, str):
        raise _misshapen("not_string")
    trimmed: str = token.strip()
    if reason := _why_no_token(trimmed):
        raise _misshapen(reason)
    return trimmed


def _why_no_token(token: str) -> str | None:
    if not token:
        return "empty"
    if len(token.encode("utf-8", "surrogatepass")) > MAX_TOKEN_BYTES:
        return "too_long"
    if not token.isascii():
        return "not_ascii"
    if token.startswith("phx_"):
        return "personal_api_key"
    return "null_byte" if "\x00" in token else None


def _misshapen(reason: str) -> TokenRefused:
    return TokenRefused(f"Provided API key is not valid: {reason}", code=reason)
