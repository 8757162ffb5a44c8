"""Pipeline records as a document that people keep in version control. Pure.

    version: 1
    destinations:
      - name: Orders
        component: hedgerow/webhook
        enabled: true
        settings:
          url: https://shop.example/hook
          secret: !env PIPELINE_ORDERS_SECRET

A family that is left out is left alone. A record is known by its name; one without a name, by its
component; and several of one name, by which of them it is.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.catalogue import Catalogue, Listed
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.config import is_sealed
from hedgerow.pipelines.model import DESCRIPTION_MAX, NAME_MAX, Family, Record
from hedgerow.projects.document import check_names, check_version
from hedgerow.projects.text import check_storable, checked_text

VERSION = 1
SECTIONS = {
    "destinations": Family.DESTINATION,
    "frontend_apps": Family.FRONTEND_APP,
    "import_apps": Family.IMPORT_APP,
    "transformations": Family.TRANSFORMATION,
}
FIELDS = ("name", "component", "enabled", "description", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A record as a document asks for it. `place` is where, for errors."""

    place: str
    component: Listed
    enabled: bool
    name: str
    description: str
    settings: Mapping[str, Any]


Document = Mapping[Family, Sequence[Wanted]]


def parsed(value: Any, catalogue: Catalogue) -> Document:
    """What the document asks for; Invalid names the place that is wrong."""
    if not isinstance(value, dict):
        raise Invalid(f"A document has sections: {', '.join(SECTIONS)}.")
    check_names(value, ("version", *SECTIONS), None)
    check_version(value, VERSION)
    return {
        family: _section(name, value[name], family, catalogue)
        for name, family in SECTIONS.items()
        if name in value
    }


def _section(name: str, value: Any, family: Family, catalogue: Catalogue) -> list[Wanted]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid("A list of records is wanted here.", attr=name)
    return [
        _wanted(item, f"{name}[{number}]", family, catalogue) for number, item in enumerate(value)
    ]


def _wanted(value: Any, place: str, family: Family, catalogue: Catalogue) -> Wanted:
    if not isinstance(value, dict):
        raise Invalid("A record has a component, and may have a name and settings.", attr=place)
    check_names(value, FIELDS, place)
    name = _text(value, "name", NAME_MAX, place)
    enabled = value.get("enabled", False)
    if not isinstance(enabled, bool):
        raise Invalid("Must be true or false.", attr=f"{place}.enabled")
    given = value.get("settings")
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise Invalid("Settings are names and values.", attr=f"{place}.settings")
    check_storable(given, f"{place}.settings")
    return Wanted(
        place=f"{place} ({_on_one_line(name)})" if name else place,
        component=_component(value.get("component"), f"{place}.component", family, catalogue),
        enabled=enabled,
        name=name,
        description=_text(value, "description", DESCRIPTION_MAX, place),
        settings=given,
    )


def _on_one_line(text: str) -> str:
    """The text with line breaks and other control characters written out."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _component(value: Any, place: str, family: Family, catalogue: Catalogue) -> Listed:
    listed = catalogue.of_family(family)
    for each in listed:
        if each.component.key == value:
            return each
    known = ", ".join(each.component.key for each in listed)
    raise Invalid(f"One of these is wanted: {known}.", attr=place)


def _text(value: Mapping[str, Any], field: str, most: int, place: str) -> str:
    text = value.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Invalid("Not text: put it in quotes.", attr=f"{place}.{field}")
    return checked_text(f"{place}.{field}", text, most) if text.strip() else ""


def composed(records: Sequence[Record], catalogue: Catalogue) -> dict[str, Any]:
    """The document of these records, whose components must be present. No secret is in it."""
    names: set[str] = set()
    document: dict[str, Any] = {"version": VERSION}
    for section, family in SECTIONS.items():
        document[section] = [
            _item(record, component, names)
            for record in records
            if record.family is family
            and (component := catalogue.component(record.component_id)) is not None
        ]
    return document


def _item(record: Record, component: Component, names: set[str]) -> dict[str, Any]:
    item: dict[str, Any] = {"name": record.name} if record.name else {}
    item |= {"component": component.key, "enabled": record.enabled}
    if record.description:
        item["description"] = record.description
    given = {
        field.key: FromEnv(_variable(record.name or component.key, field.key, names))
        if field.secret
        else record.config[field.key]
        for field in component.settings
        if field.key in record.config and (field.secret or not is_sealed(record.config[field.key]))
    }
    if given:
        item["settings"] = given
    return item


def _variable(record: str, setting: str, taken: set[str]) -> str:
    """A name for a secret's variable: of plain letters, and used for nothing else."""
    wanted = "_".join(["PIPELINE", *filter(None, (_plain(record), _plain(setting)))])
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def _plain(text: str) -> str:
    ascii = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Z0-9]+", "_", ascii.upper()).strip("_")
