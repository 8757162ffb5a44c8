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
with encrypted payloads and flags of surveys, and applying it does not change them. `overrides.py`
describes the differences between environments, `expectations.py` the tests of flags.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.expectations import FlagExpectation, parse_tests
from hedgerow.flags.as_code.overrides import (
    EnvironmentChoice,
    combine_environments,
    select_environment,
)
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
    tests: Sequence[FlagExpectation] = ()


def parse_document(value: Any, choice: EnvironmentChoice | None = None) -> list[FlagSpec]:
    """Parse a document, as it is for the chosen environment. Invalid names the path of an error."""
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `version` and `flags`.")
    check_field_names(value, ("version", "flags"), None)
    check_version(value, VERSION)
    flags = value.get("flags", MISSING)
    if not isinstance(flags, list | None):
        raise Invalid("Expected a list of flags.", attr="flags")
    places: dict[str, str] = {}
    specs: list[FlagSpec] = []
    for number, item in enumerate(flags or ()):
        place = f"flags[{number}]"
        key = _parse_key(item, place)
        place = f"{place} ({key})"
        if key in places:
            raise Invalid(f"{places[key]} has the same key.", attr=place)
        places[key] = place
        chosen = select_environment(item, choice, tuple(_FIELDS), place)
        if chosen is not None:
            specs.append(parse_flag(chosen, key, place))
    return specs


def _parse_key(value: Any, place: str) -> str:
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `key` and `filters`.", attr=place)
    key = value.get("key")
    with ErrorLocation(place):
        if not isinstance(key, str):
            raise Invalid("Expected a string: put the value in quotes.", attr="key")
        check_key(key, {})
    return key


def parse_flag(value: Mapping[str, Any], key: str, place: str) -> FlagSpec:
    """Parse one flag of a document. `place` is its path, for errors."""
    check_field_names(value, ("key", "filters", "tests", *_FIELDS), place)
    fields = {}
    for name, (default, parse) in _FIELDS.items():
        field = value.get(name)
        with ErrorLocation(f"{place}: {name}"):
            fields[name] = default if field is None else parse(field)
    filters = value.get("filters", {})
    check_storable(filters, f"{place}: filters")
    check_no_env_reference(filters, f"{place}: filters", "`!env` cannot be used in flags.")
    tests = parse_tests(value.get("tests"), place)
    return FlagSpec(place=place, key=key, fields=fields, filters=filters, tests=tests)


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
    "owners": ((), _parse_labels),
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


def build_product_document(environments: Mapping[str, FlagDefinitions]) -> FlagDocument:
    """Build the document of a product, from the definitions of each environment by its name."""
    documents = {name: build_document(each) for name, each in environments.items()}
    items = {
        name: {item["key"]: item for item in each.document["flags"]}
        for name, each in documents.items()
    }
    defaults = {field: _to_plain(default) for field, (default, _) in _FIELDS.items()}
    return FlagDocument(
        document={"version": VERSION, "flags": combine_environments(items, defaults)},
        left_out=[flag for each in documents.values() for flag in each.left_out],
        unnamed_references=[
            f"{name}: {place}"
            for name, each in documents.items()
            for place in each.unnamed_references
        ],
    )


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
            item[name] = _to_plain(value)
    return item | {"filters": rewrite_references(flag.filters, rewrite)}


def fill_default(field: str, value: Any) -> Any:
    """Return the default of a field that a document leaves out, and any other value as it is."""
    return _to_plain(_FIELDS[field][0]) if value is MISSING and field in _FIELDS else value


def _to_plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
