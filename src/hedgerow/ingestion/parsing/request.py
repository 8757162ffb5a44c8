"""Parse a capture request: its project token, and its events one by one.

One invalid event does not affect the other events of its request.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.errors import AppError, Invalid
from hedgerow.ingestion.model import CaptureBatch, CapturedEvent, EventRejection, IngestionWarning
from hedgerow.ingestion.parsing.event import MAX_EVENT_BYTES, MAX_NAME_CHARS, EventParser
from hedgerow.lib.dates import parse_epoch_ms, parse_event_timestamp
from hedgerow.lib.ids import generate_uuid7s
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.project_token import find_project_token

MAX_TOKEN_BYTES = 64
# Every event of a request can cause a warning; the first ones are enough to find the mistake.
MAX_WARNINGS = 100
MORE_WARNINGS = "more_warnings"
# A `sent_at` in seconds that is read as milliseconds falls into 1970.
LAST_IMPLAUSIBLE_YEAR = 2020
# PostHog drops these silently.
DROPPED_EVENT = "$performance_event"


class InvalidToken(AppError):
    """The project token is missing or malformed."""

    status, type, code = 401, "authentication_error", "missing_api_key"
    default_detail = (
        "API key not provided: send the project's key as api_key. "
        "`hedgerow projects list` shows it."
    )


class AllEventsRejected(AppError):
    """No event of the request is valid. `batch` holds the warnings for the project's owner."""

    status, type, code = 400, "validation_error", "nothing_accepted"
    default_detail = "No event of the request could be accepted."

    def __init__(self, first: AppError, batch: CaptureBatch, sent: int) -> None:
        where = f"Event {batch.rejected[0].index}: " if sent > 1 else ""
        super().__init__(where + first.detail, attr=first.attr, code=first.code)
        self.batch = batch


class AllEventsTooLarge(AllEventsRejected):
    """No event of the request is valid, and the first one is too large."""

    status, type, code = 413, "invalid_request", "event_too_large"
    default_detail = f"An event may have at most {MAX_EVENT_BYTES} bytes."


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`sent_at` is the raw value from the body; it can be of any JSON type."""

    token: str
    items: Sequence[Any]
    sent_at: Any = None
    historical_migration: bool = False


def parse_batch(
    payload: Any,
    *,
    now: datetime,
    query_sent_at_ms: int | None,
    is_engage: bool,
    ip: str,
    randomness: bytes,
) -> CaptureBatch:
    """Parse the events of a request that arrived at `now`. Events without a uuid get one from
    `randomness`: UUID7_RANDOM_BYTES unique random bytes. Raises AllEventsRejected if no event is
    valid, and other AppErrors for a request without events or without a project token."""
    envelope = open_envelope(payload)
    batch = _BatchBuilder(envelope)
    sent_at = parse_sent_at(envelope.sent_at, query_sent_at_ms)
    parser = EventParser(
        now=now,
        sent_at=sent_at,
        default_name="$identify" if is_engage else "",
        # A migrated event was not sent by the person whom it is about.
        ip="" if envelope.historical_migration else ip,
        is_historical=envelope.historical_migration,
        uuids=generate_uuid7s(now, randomness),
    )
    for index, item in enumerate(envelope.items):
        if isinstance(item, dict) and item.get("event") == DROPPED_EVENT:
            continue
        try:
            event, warnings = parser.parse(item)
        except AppError as error:
            batch.reject(index, item, error)
        else:
            batch.add(event, item.get("uuid"), warnings)
    return batch.build()


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


def parse_sent_at(body_value: Any, query_ms: int | None) -> datetime | None:
    """Parse the time of sending from the body, or else from the query. None if neither is
    plausible."""
    for moment in (
        parse_event_timestamp(body_value),
        None if query_ms is None else parse_epoch_ms(query_ms),
    ):
        if moment is not None and moment.year > LAST_IMPLAUSIBLE_YEAR:
            return moment
    return None


class _BatchBuilder:
    """Collects the events of one request, its rejections and its warnings."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._events: list[CapturedEvent] = []
        self._rejected: list[EventRejection] = []
        self._warnings: list[IngestionWarning] = []
        self._omitted_warnings = 0
        self._original_uuids: dict[str, str] = {}
        self._first_error: AppError | None = None

    def add(
        self, event: CapturedEvent, original_uuid: Any, warnings: Iterable[IngestionWarning]
    ) -> None:
        self._events.append(event)
        if original_uuid and original_uuid != event.uuid:
            self._original_uuids[event.uuid] = original_uuid
        for warning in warnings:
            self._warn(warning)

    def reject(self, index: int, item: Any, error: AppError) -> None:
        if self._first_error is None:
            # The traceback would keep the whole request in memory until the next collection.
            self._first_error = error.with_traceback(None)
        fields = item if isinstance(item, dict) else {}
        uuid = _shorten(fields.get("uuid"))
        self._rejected.append(
            EventRejection(index=index, uuid=uuid or None, code=error.code, detail=error.detail)
        )
        self._warn(
            IngestionWarning(
                type=error.code,
                detail=error.detail,
                event=_shorten(fields.get("event")),
                uuid=uuid,
                distinct_id=_shorten(fields.get("distinct_id")),
            )
        )

    def _warn(self, warning: IngestionWarning) -> None:
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(warning)
        else:
            self._omitted_warnings += 1

    def build(self) -> CaptureBatch:
        if self._omitted_warnings:
            detail = f"{self._omitted_warnings} more warnings about the same request were left out."
            self._warnings.append(IngestionWarning(type=MORE_WARNINGS, detail=detail))
        batch = CaptureBatch(
            token=self._envelope.token,
            events=self._events,
            rejected=self._rejected,
            warnings=self._warnings,
            original_uuids=self._original_uuids,
        )
        if self._first_error is None or self._events:
            return batch
        is_too_large = self._first_error.code == AllEventsTooLarge.code
        error_type = AllEventsTooLarge if is_too_large else AllEventsRejected
        raise error_type(self._first_error, batch, len(self._envelope.items))


def _shorten(value: Any) -> str:
    """Return the part of a text field that can be stored and shown, "" for any other type."""
    return replace_unstorable_characters(value[:MAX_NAME_CHARS]) if isinstance(value, str) else ""
