"""Parse a capture request: envelope, then for each event sanitize, fields, timestamp.

One invalid event does not affect the other events of its request.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from hedgerow.errors import AppError, Invalid
from hedgerow.ingestion.model import CaptureBatch, CapturedEvent, EventRejection
from hedgerow.ingestion.parsing.envelope import open_envelope
from hedgerow.ingestion.parsing.fields import json_type, read_fields
from hedgerow.ingestion.parsing.sanitize import MAX_EVENT_BYTES, sanitize_event
from hedgerow.ingestion.parsing.timestamps import (
    IN_FUTURE,
    INVALID,
    OUT_OF_RANGE,
    TimestampNormalizer,
    parse_sent_at,
)
from hedgerow.lib.ids import generate_uuid7s
from hedgerow.lib.text import replace_unstorable_characters, truncate
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.persons.processing.changes import IngestionWarning

MAX_NAME_CHARS = 200
# Every event of a request can cause a warning; the first ones are enough to find the mistake.
MAX_WARNINGS = 100
NAME_TRUNCATED = "event_name_truncated"
DISTINCT_ID_TRUNCATED = "distinct_id_truncated"
REPLACED_CHARACTERS = "replaced_characters"
MORE_WARNINGS = "more_warnings"

_WARNING_DETAILS = {
    NAME_TRUNCATED: f"The event's name was cut to {MAX_NAME_CHARS} characters.",
    DISTINCT_ID_TRUNCATED: f"The distinct_id was cut to {DISTINCT_ID_MAX_CHARS} characters.",
    REPLACED_CHARACTERS: "NUL characters and lone surrogates were replaced by U+FFFD.",
    INVALID: "The timestamp {} is not a valid date and was ignored.",
    IN_FUTURE: (
        "The event is dated more than 23 hours in the future (timestamp {}). "
        "The time of arrival is used instead."
    ),
    OUT_OF_RANGE: (
        "The event is dated before the year 1900 (timestamp {}). 1970-01-01 is used instead."
    ),
}


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
    parser = _BatchParser(
        now=now,
        timestamps=TimestampNormalizer(now, parse_sent_at(envelope.sent_at, query_sent_at_ms)),
        default_name="$identify" if is_engage else "",
        # A migrated event was not sent by the person whom it is about.
        ip="" if envelope.historical_migration else ip,
        is_historical=envelope.historical_migration,
        uuids=generate_uuid7s(now, randomness),
    )
    for index, item in enumerate(envelope.items):
        parser.add(index, item)
    batch = CaptureBatch(
        token=envelope.token,
        events=parser.events,
        rejected=parser.rejected,
        warnings=parser.warnings(),
        original_uuids=parser.original_uuids,
    )
    first_error = parser.first_error
    if first_error is None or batch.events:
        return batch
    is_too_large = first_error.code == AllEventsTooLarge.code
    error_type = AllEventsTooLarge if is_too_large else AllEventsRejected
    raise error_type(first_error, batch, len(envelope.items))


class _BatchParser:
    """Collects the events of one request, its rejections and its warnings."""

    def __init__(
        self,
        *,
        now: datetime,
        timestamps: TimestampNormalizer,
        default_name: str,
        ip: str,
        is_historical: bool,
        uuids: Iterator[str],
    ) -> None:
        self._now = now
        self._timestamps = timestamps
        self._default_name = default_name
        self._ip = ip
        self._is_historical = is_historical
        self._uuids = uuids
        self._warnings: list[IngestionWarning] = []
        self._omitted_warnings = 0
        self.events: list[CapturedEvent] = []
        self.rejected: list[EventRejection] = []
        self.original_uuids: dict[str, str] = {}
        self.first_error: AppError | None = None

    def add(self, index: int, item: Any) -> None:
        try:
            if not isinstance(item, dict):
                raise Invalid(
                    f"An event must be a JSON object, received {json_type(item)}.",
                    code="invalid_event",
                )
            # PostHog drops these silently.
            if item.get("event") != "$performance_event":
                self.events.append(self._parse(item))
        except AppError as error:
            self._reject(index, item if isinstance(item, dict) else {}, error)

    def _parse(self, item: dict[str, Any]) -> CapturedEvent:
        sanitized = sanitize_event(item)
        warnings = [] if sanitized is item else [REPLACED_CHARACTERS]
        name, properties, distinct_id, uuid = read_fields(sanitized, self._default_name)
        if len(name) > MAX_NAME_CHARS:
            name = name[:MAX_NAME_CHARS]
            warnings.append(NAME_TRUNCATED)
        if len(distinct_id) > DISTINCT_ID_MAX_CHARS:
            distinct_id = distinct_id[:DISTINCT_ID_MAX_CHARS]
            warnings.append(DISTINCT_ID_TRUNCATED)
        timestamp, timestamp_warnings = self._timestamps.normalize(
            sanitized.get("timestamp"),
            sanitized.get("offset"),
            ignore_sent_at=properties.get("$ignore_sent_at") is True,
        )
        if uuid is None:
            uuid = next(self._uuids)
        elif uuid != sanitized["uuid"]:
            self.original_uuids[uuid] = sanitized["uuid"]
        event = CapturedEvent(
            uuid=uuid,
            event=name,
            distinct_id=distinct_id,
            properties=properties,
            timestamp=timestamp,
            accepted_at=self._now,
            ip=self._ip,
            historical_migration=self._is_historical,
        )
        if warnings or timestamp_warnings:
            self._warn(event, (*warnings, *timestamp_warnings), sanitized.get("timestamp"))
        return event

    def warnings(self) -> Sequence[IngestionWarning]:
        if not self._omitted_warnings:
            return self._warnings
        detail = f"{self._omitted_warnings} more warnings about the same request were left out."
        return [*self._warnings, IngestionWarning(type=MORE_WARNINGS, detail=detail)]

    def _warn(self, event: CapturedEvent, types: Sequence[str], timestamp: Any) -> None:
        shown = truncate(timestamp) if isinstance(timestamp, str | int) else json_type(timestamp)
        for type in types:
            self._add_warning(
                type,
                _WARNING_DETAILS[type].format(shown),
                event.event,
                event.uuid,
                event.distinct_id,
            )

    def _reject(self, index: int, event: dict[str, Any], error: AppError) -> None:
        if self.first_error is None:
            # The traceback would keep the whole request in memory until the next collection.
            self.first_error = error.with_traceback(None)
        uuid = _shorten(event.get("uuid"))
        self.rejected.append(
            EventRejection(index=index, uuid=uuid or None, code=error.code, detail=error.detail)
        )
        name, distinct_id = _shorten(event.get("event")), _shorten(event.get("distinct_id"))
        self._add_warning(error.code, error.detail, name, uuid, distinct_id)

    def _add_warning(self, type: str, detail: str, event: str, uuid: str, distinct_id: str) -> None:
        if len(self._warnings) >= MAX_WARNINGS:
            self._omitted_warnings += 1
            return
        self._warnings.append(
            IngestionWarning(
                type=type, detail=detail, event=event, uuid=uuid, distinct_id=distinct_id
            )
        )


def _shorten(value: Any) -> str:
    """Return the part of a text field that can be stored and shown, "" for any other type."""
    return replace_unstorable_characters(value[:MAX_NAME_CHARS]) if isinstance(value, str) else ""
