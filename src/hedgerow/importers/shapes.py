"""Parts of a document that somebody else wrote: what is not of the expected kind is not there."""

from collections.abc import Mapping
from typing import Any

Item = Mapping[str, Any]


def part(item: Item, name: str) -> Item:
    """An object within an object; an empty one where there is none."""
    found = item.get(name)
    return found if isinstance(found, Mapping) else {}


def parts(item: Item, name: str) -> list[Item]:
    """The objects of a list within an object."""
    return [each for each in listed(item, name) if isinstance(each, Mapping)]


def listed(item: Item, name: str) -> list[Any]:
    found = item.get(name)
    return found if isinstance(found, list) else []


def number(value: Any) -> int:
    """An id, which may be written as text; 0 for what is none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
