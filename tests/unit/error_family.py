"""All error classes, found through their subclasses."""

from collections.abc import Iterator

from hedgerow.errors import AppError


def descendants(of: type[AppError]) -> Iterator[type[AppError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from descendants(kind)


WIRE_FIELDS = {"status", "type", "code", "default_detail"}

# A class that defines none of the fields is its base for clients, and has more data for callers.
ERROR_FAMILY = [
    kind
    for kind in descendants(AppError)
    if kind.__module__.startswith("hedgerow.") and WIRE_FIELDS & vars(kind).keys()
]
