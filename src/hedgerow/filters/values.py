"""Convert property values to text, numbers and versions for comparison."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

# Stands for an absent property. Null is a value, this is not.
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()
# Stands for a value that is too long to compare: it equals nothing and contains nothing.
TOO_LONG: Any = type("TooLong", (), {"__repr__": lambda _: "TOO_LONG"})()
# Filters cannot contain a NUL character, so this matches none.
_TOO_LONG_TEXT = "\0"
TEXT_MAX = 10_000

_SEMVER = re.compile(
    r"(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+[0-9A-Za-z.-]{1,200})?",
    re.ASCII,
)


# Python writes some numbers with an exponent, in another format than PostHog.
_EXPONENT = re.compile(r"[0-9]e[+-]?[0-9]")


class ListWithText(list[Any]):
    """A list that computes its text once, because many filters can use it."""

    __slots__ = ("_text",)
    _text: str

    @property
    def text(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = _json_text(self)
            return self._text


class DictWithText(dict[str, Any]):
    """An object that computes its text once."""

    __slots__ = ("_text",)
    _text: str

    @property
    def text(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = _json_text(self)
            return self._text


def bound_values(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties in a form that every filter can compare in bounded time."""
    for value in properties.values():
        kind = value.__class__
        if kind is list or kind is dict or (kind is str and len(value) > TEXT_MAX):
            return {key: _bound_value(each) for key, each in properties.items()}
    return properties


def _bound_value(value: Any) -> Any:
    if not isinstance(value, str | list | dict):
        return value
    if len(value) > TEXT_MAX or (not isinstance(value, str) and len(repr(value)) > TEXT_MAX):
        return TOO_LONG
    if isinstance(value, str):
        return value
    return ListWithText(value) if isinstance(value, list) else DictWithText(value)


def as_text(value: Any) -> str:
    """Return text unchanged, any other value as compact JSON with sorted keys."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, ListWithText | DictWithText) else _json_text(value)


def _json_text(value: Any) -> str:
    if value.__class__ is int:
        return str(value)
    if value is TOO_LONG:
        return _TOO_LONG_TEXT
    if isinstance(value, list | dict):
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str
        )
        if not _EXPONENT.search(text):
            return text
    return _exact_json_text(value)


def _exact_json_text(value: Any) -> str:
    """Return JSON text with numbers as PostHog formats them. Slower than `json.dumps`."""
    match value:
        case float():
            return _float_text(value)
        case list():
            return f"[{','.join(map(_exact_json_text, value))}]"
        case dict():
            pairs = (
                f"{_exact_json_text(str(key))}:{_exact_json_text(value[key])}"
                for key in sorted(value)
            )
            return f"{{{','.join(pairs)}}}"
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _float_text(value: float) -> str:
    """Format a float as PostHog does: 1e-7 for Python's 1e-07, and 0.00001 for 1e-05."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    if not e:
        return text
    if int(exponent) == -5:
        digits = mantissa.lstrip("-").replace(".", "")
        return f"{'-' if value < 0 else ''}0.0000{digits}"
    return f"{mantissa}e{'+' if int(exponent) > 0 else ''}{int(exponent)}"


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
    """Parse a version. Missing parts are zero, a leading v is ignored. None if it is not a
    version."""
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
