"""Parse one event of a capture request: make it storable, read its fields, determine its time.

As in PostHog, the time of arrival replaces a timestamp that is malformed or too far in the future.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid, TooLarge
from hedgerow.ingestion.model import CapturedEvent, IngestionWarning
from hedgerow.lib.dates import EARLIEST, EPOCH, parse_event_timestamp, shift_time, subtract_ms
from hedgerow.lib.ids import normalize_uuid
from hedgerow.lib.jsonio import MAX_DEPTH, MAX_DIGITS, encode, is_deeper_than
from hedgerow.lib.text import replace_unstorable_characters, truncate
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS

MAX_EVENT_BYTES = 1_000_000
MAX_NAME_CHARS = 200
MAX_AHEAD = timedelta(hours=23)
COOKIELESS_MODE = "$cookieless_mode"

NAME_TRUNCATED = "event_name_truncated"
DISTINCT_ID_TRUNCATED = "distinct_id_truncated"
REPLACED_CHARACTERS = "replaced_characters"
INVALID = "ignored_invalid_timestamp"
IN_FUTURE = "event_timestamp_in_future"
OUT_OF_RANGE = "event_timestamp_out_of_range"

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
_JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_BITS_PER_DIGIT = 3.32


class EventParser:
    """Parses the events of one request. `now` is the time of arrival, `sent_at` the time of sending
    by the client's clock. Events without a uuid get one of `uuids`."""

    def __init__(
        self,
        *,
        now: datetime,
        sent_at: datetime | None,
        default_name: str,
        ip: str,
        is_historical: bool,
        uuids: Iterator[str],
    ) -> None:
        self._now = now
        self._latest = now + MAX_AHEAD
        self._skew = None if sent_at is None else now - sent_at
        self._default_name = default_name
        self._ip = ip
        self._is_historical = is_historical
        self._uuids = uuids

    def parse(self, item: Any) -> tuple[CapturedEvent, Sequence[IngestionWarning]]:
        """Return the event, and a warning for each value that was corrected. Raises an AppError for
        the first field that is missing or malformed."""
        if not isinstance(item, dict):
            raise Invalid(
                f"An event must be a JSON object, received {_json_type(item)}.",
                code="invalid_event",
            )
        sanitized = sanitize_event(item)
        warnings = [] if sanitized is item else [REPLACED_CHARACTERS]
        name = self._read_name(sanitized)
        properties = _read_properties(sanitized)
        if not isinstance(properties.get(COOKIELESS_MODE, False), bool):
            raise Invalid(
                f"{COOKIELESS_MODE} must be true or false.",
                attr=COOKIELESS_MODE,
                code="invalid_cookieless_mode",
            )
        distinct_id = _read_distinct_id(sanitized, properties)
        uuid = _read_uuid(sanitized) or next(self._uuids)
        if len(name) > MAX_NAME_CHARS:
            name = name[:MAX_NAME_CHARS]
            warnings.append(NAME_TRUNCATED)
        if len(distinct_id) > DISTINCT_ID_MAX_CHARS:
            distinct_id = distinct_id[:DISTINCT_ID_MAX_CHARS]
            warnings.append(DISTINCT_ID_TRUNCATED)
        timestamp, timestamp_warnings = self.determine_time(
            sanitized.get("timestamp"),
            sanitized.get("offset"),
            ignore_sent_at=properties.get("$ignore_sent_at") is True,
        )
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
            types = (*warnings, *timestamp_warnings)
            return event, _build_warnings(event, types, sanitized.get("timestamp"))
        return event, ()

    def _read_name(self, event: dict[str, Any]) -> str:
        name = event.get("event")
        if name is not None and not isinstance(name, str):
            raise Invalid(
                f"The event's name must be a string, received {_json_type(name)}.",
                attr="event",
                code="invalid_event_name",
            )
        name = name or self._default_name
        if not name:
            raise Invalid("An event must have a name.", attr="event", code="missing_event_name")
        return name

    def determine_time(
        self, timestamp: Any, offset: Any, *, ignore_sent_at: bool
    ) -> tuple[datetime, Sequence[str]]:
        """Return the time of an event, corrected for the client's clock skew, and the types of
        warnings. A valid timestamp takes precedence over an offset, as PostHog documents it."""
        warnings: Sequence[str] = ()
        moment = None if timestamp is None else parse_event_timestamp(timestamp)
        if moment is None:
            if timestamp is not None:
                warnings = (INVALID,)
            moment = subtract_ms(self._now, offset) if _is_offset(offset) else self._now
        elif self._skew is not None and not ignore_sent_at:
            moment = shift_time(moment, self._skew)
        if moment > self._latest:
            return self._now, (*warnings, IN_FUTURE)
        if moment < EARLIEST:
            return EPOCH, (*warnings, OUT_OF_RANGE)
        return moment, warnings


def sanitize_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event itself if it can be stored unchanged, otherwise a sanitized copy.

    Encoding the event once answers every question: size, depth, and whether all text is valid.
    """
    try:
        encoded = _encode_within_limits(event)
    except ValueError:
        encoded = b""
    if encoded and b"\\u0000" not in encoded:
        return event
    sanitized = _copy_sanitized(event)
    return event if _encode_within_limits(sanitized) == encoded else sanitized


def _encode_within_limits(event: dict[str, Any]) -> bytes:
    try:
        encoded = encode(event)
    except RecursionError:
        raise _too_deep() from None
    # Counting brackets is cheap and rules out deep nesting for most events.
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and is_deeper_than(event, MAX_DEPTH):
        raise _too_deep()
    if len(encoded) > MAX_EVENT_BYTES:
        raise TooLarge(
            f"The event has {len(encoded)} bytes. The limit is {MAX_EVENT_BYTES} bytes.",
            code="event_too_large",
        )
    return encoded


def _too_deep() -> Invalid:
    detail = f"The event is nested deeper than {MAX_DEPTH} levels."
    return Invalid(detail, code="event_too_deep")


def _copy_sanitized(event: dict[str, Any]) -> dict[str, Any]:
    sanitized: dict[str, Any] = {}
    pending: list[tuple[Any, Any]] = [(event, sanitized)]
    while pending:
        source, copy = pending.pop()
        if isinstance(source, dict):
            for key, value in source.items():
                copy[replace_unstorable_characters(key)] = _sanitize_value(value, pending)
        else:
            copy.extend(_sanitize_value(value, pending) for value in source)
    return sanitized


def _sanitize_value(value: Any, pending: list[tuple[Any, Any]]) -> Any:
    if isinstance(value, str):
        return replace_unstorable_characters(value)
    if isinstance(value, dict | list):
        copy: dict[str, Any] | list[Any] = {} if isinstance(value, dict) else []
        pending.append((value, copy))
        return copy
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * _BITS_PER_DIGIT:
        return None
    return value


def _read_properties(event: dict[str, Any]) -> dict[str, Any]:
    """Merge `$set` and `$set_once` from the top level of the event into the properties. On the top
    level they take precedence."""
    properties = _read_object(event, "properties") or {}
    for name in ("$set", "$set_once"):
        if outer := _read_object(event, name):
            inner = properties.get(name)
            merged = {**inner, **outer} if isinstance(inner, dict) else outer
            properties = {**properties, name: merged}
    return properties


def _read_object(event: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = event.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise Invalid(
        f"{name} must be a JSON object, received {_json_type(value)}.",
        attr=name,
        code="invalid_properties",
    )


def _read_distinct_id(event: dict[str, Any], properties: dict[str, Any]) -> str:
    value = event.get("distinct_id")
    if value is None:
        value = event.get("$distinct_id")
    if value is None:
        value = properties.get("distinct_id")
    if value is None:
        raise _missing_distinct_id("An event must have a distinct_id.")
    distinct_id = value if isinstance(value, str) else encode(value).decode()
    if not distinct_id or distinct_id.isspace():
        raise _missing_distinct_id("The distinct_id should not be blank.")
    return distinct_id


def _missing_distinct_id(detail: str) -> Invalid:
    return Invalid(detail, attr="distinct_id", code="missing_distinct_id")


def _read_uuid(event: dict[str, Any]) -> str | None:
    value = event.get("uuid")
    if value is None or value == "":
        return None
    uuid = normalize_uuid(value) if isinstance(value, str) else None
    if uuid is None:
        raise Invalid('Event field "uuid" is not a valid UUID!', attr="uuid", code="invalid_uuid")
    return uuid


def _is_offset(value: Any) -> bool:
    """Whether this is a number of milliseconds."""
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _build_warnings(
    event: CapturedEvent, types: Sequence[str], timestamp: Any
) -> Sequence[IngestionWarning]:
    shown = truncate(timestamp) if isinstance(timestamp, str | int) else _json_type(timestamp)
    return [
        IngestionWarning(
            type=type,
            detail=_WARNING_DETAILS[type].format(shown),
            event=event.event,
            uuid=event.uuid,
            distinct_id=event.distinct_id,
        )
        for type in types
    ]


def _json_type(value: Any) -> str:
    return _JSON_TYPES[type(value)]
