"""What all documents have in common that people keep in version control. Pure."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv


def check_version(document: Mapping[str, Any], known: int) -> None:
    version = document.get("version", known)
    if version != known or isinstance(version, bool):
        raise Invalid(f"This version of Hedgerow reads version {known}.", attr="version")


def check_names(value: Mapping[str, Any], known: Collection[str], place: str | None) -> None:
    for name in value:
        if name not in known:
            raise Invalid(
                f"{json.dumps(name)} means nothing here. Known are: {', '.join(known)}.",
                attr=place,
            )


def check_no_reference(value: Any, place: str, detail: str) -> None:
    """Raise Invalid, saying `detail`, if `!env` stands anywhere inside."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, FromEnv):
            raise Invalid(detail, attr=place)
        if isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


class At:
    """Says where, in front of what an Invalid from inside says."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Invalid):
            place = f"{self._place}: {error.attr}" if error.attr else self._place
            raise Invalid(error.detail, attr=place, code=error.code) from None
