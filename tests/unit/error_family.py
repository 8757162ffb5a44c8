"""All error classes, found through their subclasses."""

from collections.abc import Iterator

from hedgerow.errors import AppError


def descendants(of: type[AppError]) -> Iterator[type[AppError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from descendants(kind)


ERROR_FAMILY = [kind for kind in descendants(AppError) if kind.__module__.startswith("hedgerow.")]
