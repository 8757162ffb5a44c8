"""The flag document, for version control. Pure.

    version: 1
    flags:
      - key: beta
        filters:
          groups:
            - properties:
                - {key: id, type: cohort, value: Testers, operator: in}

A flag is identified by its key; absent fields have their default. Where stored filters refer to
another flag, a cohort or a group type by id, the document uses its key or name, so that the
document is valid in another project. A number there is an id. The document does not contain flags
with encrypted payloads and flags of surveys, and applying it does not change them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.references import ReferenceNames, Rewrite, rewrite_references
from hedgerow.flags.model import SURVEY_PREFIX, Bucketing, Flag, FlagDefinitions, Runtime
from hedgerow.flags.validate import check_key
from hedgerow.projects.document import (
    ErrorLocation,
    check_field_names,
    check_no_env_reference,
    check_version,
)
from hedgerow.projects.validation import check_storable

VERSION = 1
NAME_MAX_CHARS = 10_000
LABEL_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagSpec:
    """A flag as the document describes it. `place` is its path in the document, for errors."""

    place: str
    key: str
    fields: Mapping[str, Any]
    filters: Any


def parse_document(value: Any) -> list[FlagSpec]:
    """Parse a document. Invalid names the path of an error."""
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `version` and `flags`.")
    check_field_names(value, ("version", "flags"), None)
    check_version(value, VERSION)
    flags = value.get("flags", MISSING)
    if not isinstance(flags, list | None):
        raise Invalid("Expected a list of flags.", attr="flags")
    found: dict[str, FlagSpec] = {}
    for number, item in enumerate(flags or ()):
        spec = _parse_flag(item, f"flags[{number}]")
        if spec.key in found:
            raise Invalid(f"{found[spec.key].place} has the same key.", attr=spec.place)
        found[spec.key] = spec
    return list(found.values())


def _parse_flag(value: Any, place: str) -> FlagSpec:
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `key` and `filters`.", attr=place)
    key = value.get("key")
    with ErrorLocation(place):
        if not isinstance(key, str):
            raise Invalid("Expected a string: put the value in quotes.", attr="key")
        check_key(key, {})
    place = f"{place} ({key})"
    check_field_names(value, ("key", "filters", *_FIELDS), place)
    fields = {}
    for name, (default, parse) in _FIELDS.items():
        field = value.get(name)
        with ErrorLocation(f"{place}: {name}"):
            fields[name] = default if field is None else parse(field)
    filters = value.get("filters", {})
    check_storable(filters, f"{place}: filters")
    check_no_env_reference(filters, f"{place}: filters", "`!env` cannot be used in flags.")
    return FlagSpec(place=place, key=key, fields=fields, filters=filters)


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("Must be true or false.")
    return value


def _parse_text(value: Any, most: int = NAME_MAX_CHARS) -> str:
    if not isinstance(value, str):
        raise Invalid("Expected a string: put the value in quotes.")
    check_storable(value, "")
    if len(value) > most:
        raise Invalid(f"Ensure this field has no more than {most} characters.")
    return value


def _parse_labels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid("Expected a list of strings.")
    labels = dict.fromkeys(_parse_text(each, LABEL_MAX_CHARS) for each in value)
    if not all(label.strip() for label in labels):
        raise Invalid("This field may not be blank.")
    return tuple(labels)


def _parse_choice(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def parse(value: Any) -> StrEnum:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        raise Invalid(f"Expected one of: {', '.join(kind)}.")

    return parse


_FIELDS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "name": ("", _parse_text),
    "active": (True, _parse_boolean),
    "archived": (False, _parse_boolean),
    "tags": ((), _parse_labels),
    "ensure_experience_continuity": (False, _parse_boolean),
    "is_remote_configuration": (False, _parse_boolean),
    "evaluation_runtime": (Runtime.ALL, _parse_choice(Runtime)),
    "bucketing_identifier": (Bucketing.DISTINCT_ID, _parse_choice(Bucketing)),
    "evaluation_contexts": ((), _parse_labels),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagDocument:
    """An exported document. `left_out` are the flags with encrypted payloads.
    `unnamed_references` are the paths of ids that have no unique name, so that only this project
    can use them."""

    document: dict[str, Any]
    left_out: Sequence[Flag]
    unnamed_references: Sequence[str]


def is_exportable(flag: Flag) -> bool:
    """Documents contain neither secrets nor the flags that surveys manage."""
    return not flag.has_encrypted_payloads and not flag.key.startswith(SURVEY_PREFIX)


def build_document(definitions: FlagDefinitions) -> FlagDocument:
    names = ReferenceNames(definitions, {flag.id: flag.key for flag in definitions.flags})
    flags = sorted(definitions.flags, key=lambda flag: flag.key)
    items: list[dict[str, Any]] = []
    for flag in flags:
        if is_exportable(flag):
            names.prefix = f"flags[{len(items)}] ({flag.key}): "
            items.append(build_item(flag, names.to_name))
    return FlagDocument(
        document={"version": VERSION, "flags": items},
        left_out=[flag for flag in flags if flag.has_encrypted_payloads],
        unnamed_references=names.unnamed,
    )


def build_item(flag: Flag, rewrite: Rewrite) -> dict[str, Any]:
    item: dict[str, Any] = {"key": flag.key}
    for name, (default, _) in _FIELDS.items():
        value = getattr(flag, name)
        if value != default:
            item[name] = list(value) if isinstance(value, tuple) else value
            if isinstance(value, StrEnum):
                item[name] = value.value
    return item | {"filters": rewrite_references(flag.filters, rewrite)}
