"""How a property's value is read: as text, as a number, as a moment, as a version."""

import calendar
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from functools import total_ordering
from typing import Any

# A property that is not there. Null is a value; this is none.
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()
# A value that is there and too long to be compared: it equals nothing and contains nothing.
TOO_LONG: Any = type("TooLong", (), {"__repr__": lambda _: "TOO_LONG"})()
# No filter holds a null character, so this is in none.
_TOO_LONG_TEXT = "\0"
TEXT_MAX = 10_000

_NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,5})?", re.ASCII)
_RELATIVE = re.compile(r"-?0{0,100}(\d{1,4})([hdwmy])", re.ASCII)
_SEMVER = re.compile(
    r"(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+[0-9A-Za-z.-]{1,200})?",
    re.ASCII,
)
_SLASHED = re.compile(r"^(\d{4})/(\d{2})/(\d{2})", re.ASCII)
DATE_MAX = 64


class Listed(list[Any]):
    """A list that knows its text, because a thousand questions may ask for it."""

    __slots__ = ("text",)

    def __init__(self, value: list[Any]) -> None:
        super().__init__(value)
        self.text = _json_text(value)


class Keyed(dict[str, Any]):
    """An object that knows its text."""

    __slots__ = ("text",)

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__(value)
        self.text = _json_text(value)


def comparable(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties, in a form in which every question about them takes a bounded time."""
    for value in properties.values():
        kind = value.__class__
        if kind is list or kind is dict or (kind is str and len(value) > TEXT_MAX):
            return {key: _comparable(each) for key, each in properties.items()}
    return properties


def _comparable(value: Any) -> Any:
    if not isinstance(value, str | list | dict):
        return value
    if len(value) > TEXT_MAX or (not isinstance(value, str) and len(repr(value)) > TEXT_MAX):
        return TOO_LONG
    if isinstance(value, str):
        return value
    return Listed(value) if isinstance(value, list) else Keyed(value)


def as_text(value: Any) -> str:
    """Text as it is, all else as compact JSON with its keys sorted."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, Listed | Keyed) else _json_text(value)


def _json_text(value: Any) -> str:
    if value is TOO_LONG:
        return _TOO_LONG_TEXT
    match value:
        case float():
            return _float_text(value)
        case list():
            return f"[{','.join(map(_json_text, value))}]"
        case dict():
            pairs = (f"{_json_text(str(key))}:{_json_text(value[key])}" for key in sorted(value))
            return f"{{{','.join(pairs)}}}"
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _float_text(value: float) -> str:
    """As PostHog writes it: 1e-7 where Python writes 1e-07, and 0.00001 where Python has 1e-05."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    if not e:
        return text
    if int(exponent) == -5:
        digits = mantissa.lstrip("-").replace(".", "")
        return f"{'-' if value < 0 else ''}0.0000{digits}"
    return f"{mantissa}e{'+' if int(exponent) > 0 else ''}{int(exponent)}"


def as_number(value: Any) -> float | None:
    """A number, or text that is one; None for all else."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return float(value)
    except OverflowError:
        return None
    return None


def as_moment(value: Any, zone: tzinfo) -> datetime | None:
    """Seconds since 1970, or a date as text; one without an offset is in `zone`."""
    seconds = as_number(value)
    try:
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC)
        if not isinstance(value, str) or len(value) > DATE_MAX:
            return None
        moment = read_date(value.strip())
        # As an instant: two readings of an hour that comes twice compare as the clock does.
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def read_date(text: str) -> datetime:
    """ISO 8601, also with slashes or a zone named UTC; else as mail writes it."""
    plain = _SLASHED.sub(r"\1-\2-\3", text)
    if plain.endswith((" UTC", " GMT")) and plain[:4].isdecimal():
        plain = plain[:-4] + "+00:00"
    try:
        return datetime.fromisoformat(plain)
    except ValueError:
        return parsedate_to_datetime(text)


def is_relative_date(text: str) -> bool:
    return _RELATIVE.fullmatch(text) is not None


def relative_moment(text: str, now: datetime) -> datetime | None:
    """`7d`, `-7d`: that long before `now`. Months and years go by the calendar."""
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return None
    number, unit = int(found[1]), found[2]
    try:
        match unit:
            case "h":
                return now - timedelta(hours=number)
            case "d":
                return now - timedelta(days=number)
            case "w":
                return now - timedelta(weeks=number)
            case "m":
                return months_before(now, number)
            case _:
                return months_before(now, 12 * number)
    except (ValueError, OverflowError):
        return None


def months_before(now: datetime, months: int) -> datetime:
    index = now.year * 12 + now.month - 1 - months
    year, month = divmod(index, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return now.replace(year=year, month=month + 1, day=min(now.day, last))


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version; a pre-release comes before its release."""

    numbers: tuple[int, int, int]
    pre: tuple[tuple[int, int, str], ...] = ()

    def __lt__(self, other: "Version") -> bool:
        if self.numbers != other.numbers or not (self.pre and other.pre):
            return (self.numbers, not self.pre) < (other.numbers, not other.pre)
        return self.pre < other.pre


def as_version(value: Any) -> Version | None:
    """Missing parts are zero, a leading v is dropped; None for what is no version."""
    text = as_text(value).strip()
    found = _SEMVER.fullmatch(text[1:] if text[:1] in ("v", "V") else text)
    if found is None:
        return None
    major, minor, patch, pre = found.groups()
    if pre is not None and "" in pre.split("."):
        return None
    parts = tuple(
        (0, int(part), "") if part.isdecimal() and len(part) < 19 else (1, 0, part)
        for part in (pre.split(".") if pre else ())
    )
    return Version((int(major), int(minor or 0), int(patch or 0)), parts)
