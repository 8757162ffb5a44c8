"""The shape of a document: which fields its objects have. Finds fields that nothing reads, such as
misspelled ones, and suggests the field that was meant.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.lib.text import replace_unstorable_characters, truncate

# A shorter part of a name says too little to suggest the name.
MIN_PART_CHARS = 4


class Shape:
    """The fields of an object. `nested` are fields whose value, or each item of whose value, is an
    object with a shape of its own. `unused` are fields that clients send without effect: they are
    accepted and never suggested."""

    __slots__ = ("fields", "unused")

    def __init__(self, *names: str, unused: Collection[str] = (), **nested: "AnyShape") -> None:
        self.fields: dict[str, AnyShape | None] = {**dict.fromkeys(names), **nested}
        self.unused = frozenset(unused)


@dataclass(frozen=True, slots=True)
class ByName:
    """An object whose field names are free. Each value has the shape `each`."""

    each: Shape


AnyShape = Shape | ByName


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownField:
    """A field that nothing reads. `place` is the path of its object, "" for the document."""

    place: str
    name: str
    value: Any
    expected: Collection[str]

    @property
    def path(self) -> str:
        return f"{self.place}.{self.name}" if self.place else self.name

    @property
    def detail(self) -> str:
        within = f" in {self.place}" if self.place else ""
        close = suggest_name(self.name, self.expected)
        hint = f"Did you mean `{close}`?" if close else f"Expected one of: {self._list_expected()}."
        return f"Unknown field `{self.name}`{within}. {hint}"

    def _list_expected(self) -> str:
        return ", ".join(self.expected)


def find_unknown_fields(value: Any, shape: AnyShape, place: str) -> Iterator[UnknownField]:
    """Yield the unknown fields in document order. Values of another type than the shape requires
    are skipped: other checks report them."""
    pending: list[tuple[Any, AnyShape, str]] = [(value, shape, place)]
    while pending:
        node, its_shape, path = pending.pop()
        inner: list[tuple[Any, AnyShape, str]] = []
        if isinstance(node, list):
            inner = [(each, its_shape, f"{path}[{number}]") for number, each in enumerate(node)]
        elif isinstance(node, Mapping) and isinstance(its_shape, ByName):
            inner = [
                (each, its_shape.each, f"{path}.{_format_name(name)}")
                for name, each in node.items()
            ]
        elif isinstance(node, Mapping) and isinstance(its_shape, Shape):
            for name, each in node.items():
                if name not in its_shape.fields:
                    if name not in its_shape.unused:
                        yield UnknownField(
                            place=path,
                            name=_format_name(name),
                            value=each,
                            expected=list(its_shape.fields),
                        )
                elif (nested := its_shape.fields[name]) is not None:
                    inner.append((each, nested, f"{path}.{name}" if path else name))
        pending += reversed(inner)


def remove_unknown_fields(value: Any, shape: AnyShape) -> Any:
    """Return the document without unknown fields."""
    if isinstance(value, list):
        return [remove_unknown_fields(each, shape) for each in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(shape, ByName):
        return {name: remove_unknown_fields(each, shape.each) for name, each in value.items()}
    kept = {}
    for name, each in value.items():
        if name in shape.fields:
            nested = shape.fields[name]
            kept[name] = each if nested is None else remove_unknown_fields(each, nested)
        elif name in shape.unused:
            kept[name] = each
    return kept


def suggest_name(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant. Case, hyphens and underscores do not count."""
    plain = {_fold(each): each for each in known}
    meant = _fold(name)
    close = difflib.get_close_matches(meant, plain, n=1)
    if not close and len(meant) >= MIN_PART_CHARS:
        close = [each for each in plain if meant in each]
    return plain[close[0]] if close else None


def _fold(name: str) -> str:
    return truncate(name).lower().replace("_", "").replace("-", "")


def _format_name(name: Any) -> str:
    return replace_unstorable_characters(truncate(name))
