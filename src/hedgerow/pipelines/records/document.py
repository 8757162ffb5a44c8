"""Pipeline records as a document for version control. Pure.

    version: 1
    destinations:
      - name: Orders
        component: hedgerow/webhook
        enabled: true
        settings:
          url: https://shop.example/hook
          secret: !env PIPELINE_ORDERS_SECRET

A family that the document omits is not changed. A record is identified by its name, or by its
component if it has no name; among several with the same identity, by their order.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.catalogue import Catalogue, CatalogueEntry
from hedgerow.pipelines.config import is_encrypted
from hedgerow.pipelines.model import DESCRIPTION_MAX, NAME_MAX, Record
from hedgerow.plugin.component import Component, Family
from hedgerow.projects.document import check_field_names, check_version
from hedgerow.projects.validation import check_storable, validate_text

VERSION = 1
SECTIONS = {
    "destinations": Family.DESTINATION,
    "frontend_apps": Family.FRONTEND_APP,
    "import_apps": Family.IMPORT_APP,
    "transformations": Family.TRANSFORMATION,
}
FIELDS = ("name", "component", "enabled", "description", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """A record of a document. `place` is its position, for error messages."""

    place: str
    component: CatalogueEntry
    enabled: bool
    name: str
    description: str
    settings: Mapping[str, Any]


Document = Mapping[Family, Sequence[RecordSpec]]


def parse_document(value: Any, catalogue: Catalogue) -> Document:
    """Parse a document. Raises Invalid with the place of the first error."""
    if not isinstance(value, dict):
        raise Invalid(f"The document must be a mapping with the sections {', '.join(SECTIONS)}.")
    check_field_names(value, ("version", *SECTIONS), None)
    check_version(value, VERSION)
    return {
        family: _parse_section(name, value[name], family, catalogue)
        for name, family in SECTIONS.items()
        if name in value
    }


def _parse_section(name: str, value: Any, family: Family, catalogue: Catalogue) -> list[RecordSpec]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid("A list of records is required.", attr=name)
    return [
        _parse_record(item, f"{name}[{number}]", family, catalogue)
        for number, item in enumerate(value)
    ]


def _parse_record(value: Any, place: str, family: Family, catalogue: Catalogue) -> RecordSpec:
    if not isinstance(value, dict):
        raise Invalid(
            "A record is required: a mapping with a component, and optionally a name and settings.",
            attr=place,
        )
    check_field_names(value, FIELDS, place)
    name = _parse_text(value, "name", NAME_MAX, place)
    enabled = value.get("enabled", False)
    if not isinstance(enabled, bool):
        raise Invalid("Must be true or false.", attr=f"{place}.enabled")
    values = value.get("settings")
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise Invalid("A mapping of settings and values is required.", attr=f"{place}.settings")
    check_storable(values, f"{place}.settings")
    return RecordSpec(
        place=f"{place} ({_escape_control_characters(name)})" if name else place,
        component=_find_component(value.get("component"), f"{place}.component", family, catalogue),
        enabled=enabled,
        name=name,
        description=_parse_text(value, "description", DESCRIPTION_MAX, place),
        settings=values,
    )


def _escape_control_characters(text: str) -> str:
    """Escape line breaks and other control characters."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _find_component(value: Any, place: str, family: Family, catalogue: Catalogue) -> CatalogueEntry:
    listed = catalogue.list_components(family)
    for each in listed:
        if each.component.key == value:
            return each
    keys = ", ".join(each.component.key for each in listed)
    raise Invalid(f"Unknown component. Expected one of: {keys}.", attr=place)


def _parse_text(value: Mapping[str, Any], field: str, most: int, place: str) -> str:
    text = value.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Invalid("Not a string. Put the value in quotes.", attr=f"{place}.{field}")
    return validate_text(f"{place}.{field}", text, most) if text.strip() else ""


def build_document(records: Sequence[Record], catalogue: Catalogue) -> dict[str, Any]:
    """Return the document of these records, without secrets. Skips records whose component is not
    installed."""
    names: set[str] = set()
    document: dict[str, Any] = {"version": VERSION}
    for section, family in SECTIONS.items():
        document[section] = [
            _build_record(record, component, names)
            for record in records
            if record.family is family
            and (component := catalogue.component(record.component_id)) is not None
        ]
    return document


def _build_record(record: Record, component: Component, names: set[str]) -> dict[str, Any]:
    item: dict[str, Any] = {"name": record.name} if record.name else {}
    item |= {"component": component.key, "enabled": record.enabled}
    if record.description:
        item["description"] = record.description
    values = {
        field.key: FromEnv(_name_variable(record.name or component.key, field.key, names))
        if field.secret
        else record.config[field.key]
        for field in component.settings
        if field.key in record.config
        and (field.secret or not is_encrypted(record.config[field.key]))
    }
    if values:
        item["settings"] = values
    return item


def _name_variable(record: str, setting: str, taken: set[str]) -> str:
    """Return an unused name of ASCII letters for the environment variable of a secret."""
    base = "_".join(["PIPELINE", *filter(None, (_to_identifier(record), _to_identifier(setting)))])
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name


def _to_identifier(text: str) -> str:
    ascii = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Z0-9]+", "_", ascii.upper()).strip("_")
