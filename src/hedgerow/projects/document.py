"""Common checks of configuration documents. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.shape import Shape, find_unknown_fields
from hedgerow.lib.yamlio import FromEnv


def check_version(document: Mapping[str, Any], known: int) -> None:
    version = document.get("version", known)
    if version != known or isinstance(version, bool):
        raise Invalid(f"Unsupported version. Expected: {known}.", attr="version")


def check_field_names(value: Mapping[str, Any], known: Collection[str], attr: str | None) -> None:
    for found in find_unknown_fields(value, Shape(*known), ""):
        raise Invalid(found.detail, attr=attr, code="unknown_field")


def check_no_env_reference(value: Any, attr: str, detail: str) -> None:
    """Raise Invalid with `detail` if the value contains an `!env` reference."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, FromEnv):
            raise Invalid(detail, attr=attr)
        if isinstance(node, dict):
            pending += node.values()
        elif isinstance(node, list):
            pending += node


class ErrorLocation:
    """A context manager that prefixes the field of an Invalid with a location."""

    def __init__(self, attr: str) -> None:
        self._attr = attr

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Invalid):
            attr = f"{self._attr}: {error.attr}" if error.attr else self._attr
            raise Invalid(error.detail, attr=attr, code=error.code) from None
