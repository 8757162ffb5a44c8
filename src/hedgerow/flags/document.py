"""Flags as a document that people keep in version control. Pure.

    version: 1
    flags:
      - key: beta
        filters:
          groups:
            - properties:
                - {key: id, type: cohort, value: Testers, operator: in}

A flag is known by its key, and what it leaves out is at its default. Where stored filters name
another flag, a cohort or a group type by number, the document names it by key or name, so that it
means the same in another project. A number there is an id. Flags with encrypted payloads and those
of surveys are not in it, and are left alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.model import SURVEY_PREFIX, Bucketing, Definitions, Flag, Runtime
from hedgerow.flags.references import Names, Rewrite, rewritten
from hedgerow.flags.rules import check_key
from hedgerow.projects.document import At, check_names, check_no_reference, check_version
from hedgerow.projects.text import check_storable

VERSION = 1
NAME_MAX = 10_000
LABEL_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A flag as a document asks for it. `place` is where, for errors."""

    place: str
    key: str
    fields: Mapping[str, Any]
    filters: Any


def parsed(value: Any) -> list[Wanted]:
    """What the document asks for; Invalid names the place that is wrong."""
    if not isinstance(value, dict):
        raise Invalid("A document has a version and flags.")
    check_names(value, ("version", "flags"), None)
    check_version(value, VERSION)
    flags = value.get("flags", MISSING)
    if not isinstance(flags, list | None):
        raise Invalid("A list of flags is wanted here.", attr="flags")
    found: dict[str, Wanted] = {}
    for number, item in enumerate(flags or ()):
        wanted = _wanted(item, f"flags[{number}]")
        if wanted.key in found:
            raise Invalid(f"{found[wanted.key].place} is the same flag.", attr=wanted.place)
        found[wanted.key] = wanted
    return list(found.values())


def _wanted(value: Any, place: str) -> Wanted:
    if not isinstance(value, dict):
        raise Invalid("A flag has a key and filters.", attr=place)
    key = value.get("key")
    with At(place):
        if not isinstance(key, str):
            raise Invalid("A text is required: put it in quotes.", attr="key")
        check_key(key, {})
    place = f"{place} ({key})"
    check_names(value, ("key", "filters", *_FIELDS), place)
    fields = {}
    for name, (default, checked) in _FIELDS.items():
        given = value.get(name)
        with At(f"{place}: {name}"):
            fields[name] = default if given is None else checked(given)
    filters = value.get("filters", {})
    check_storable(filters, f"{place}: filters")
    check_no_reference(filters, f"{place}: filters", "`!env` cannot be used in flags.")
    return Wanted(place=place, key=key, fields=fields, filters=filters)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("Must be true or false.")
    return value


def _text(value: Any, most: int = NAME_MAX) -> str:
    if not isinstance(value, str):
        raise Invalid("Not text: put it in quotes.")
    check_storable(value, "")
    if len(value) > most:
        raise Invalid(f"Ensure this field has no more than {most} characters.")
    return value


def _labels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid("A list of texts is wanted here.")
    labels = dict.fromkeys(_text(each, LABEL_MAX) for each in value)
    if not all(label.strip() for label in labels):
        raise Invalid("This field may not be blank.")
    return tuple(labels)


def _choice(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def checked(value: Any) -> StrEnum:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        raise Invalid(f"One of these is wanted: {', '.join(kind)}.")

    return checked


_FIELDS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "name": ("", _text),
    "active": (True, _boolean),
    "archived": (False, _boolean),
    "tags": ((), _labels),
    "ensure_experience_continuity": (False, _boolean),
    "is_remote_configuration": (False, _boolean),
    "evaluation_runtime": (Runtime.ALL, _choice(Runtime)),
    "bucketing_identifier": (Bucketing.DISTINCT_ID, _choice(Bucketing)),
    "evaluation_contexts": ((), _labels),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A document, the flags that are not in it because their payloads are secret, and the places
    in it that only this project can read: what they mean has no name of its own."""

    document: dict[str, Any]
    left_out: Sequence[Flag]
    nameless: Sequence[str]


def is_told(flag: Flag) -> bool:
    """A document holds no secrets, and nothing that surveys make and take away by themselves."""
    return not flag.has_encrypted_payloads and not flag.key.startswith(SURVEY_PREFIX)


def composed(seen: Definitions) -> Composed:
    names = Names(seen, {flag.id: flag.key for flag in seen.flags})
    flags = sorted(seen.flags, key=lambda flag: flag.key)
    items: list[dict[str, Any]] = []
    for flag in flags:
        if is_told(flag):
            names.prefix = f"flags[{len(items)}] ({flag.key}): "
            items.append(item_of(flag, names.outward))
    return Composed(
        document={"version": VERSION, "flags": items},
        left_out=[flag for flag in flags if flag.has_encrypted_payloads],
        nameless=names.nameless,
    )


def item_of(flag: Flag, rewrite: Rewrite) -> dict[str, Any]:
    item: dict[str, Any] = {"key": flag.key}
    for name, (default, _) in _FIELDS.items():
        value = getattr(flag, name)
        if value != default:
            item[name] = list(value) if isinstance(value, tuple) else value
            if isinstance(value, StrEnum):
                item[name] = value.value
    return item | {"filters": rewritten(flag.filters, rewrite)}
