"""How a property's value is read: as text, as a number, as a moment, as a version."""

import calendar
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import total_ordering
from typing import Any

# A property that is not there. Null is a value; this is none.
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()

_NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,5})?", re.ASCII)
_RELATIVE = re.compile(r"-?0{0,100}(\d{1,4})([hdwmy])", re.ASCII)
_SEMVER = re.compile(
    r"(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+[0-9A-Za-z.-]{1,200})?",
    re.ASCII,
)
DATE_MAX = 64


def as_text(value: Any) -> str:
    """Text as it is, all else as compact JSON with its keys sorted."""
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
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
        moment = datetime.fromisoformat(value.strip())
        # As an instant: two readings of an hour that comes twice compare as the clock does.
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


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
                return _months_before(now, number)
            case _:
                return _months_before(now, 12 * number)
    except (ValueError, OverflowError):
        return None


def _months_before(now: datetime, months: int) -> datetime:
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
