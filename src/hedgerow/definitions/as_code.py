"""Definitions as code: export those that people have written about, and apply a document.

    version: 1
    events:
      - name: invoice sent
        description: An invoice left the house.
        schema: {required: [amount]}
        schema_mode: reject
    properties:
      - name: amount
        property_type: Numeric
      - name: plan
        type: person

An event is identified by its name, a property by its name, its type and its `group_type_index`. A
field that the document leaves out has its default, but an absent `property_type` stays as it was
seen. A definition that the document leaves out is not changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.definitions.definitions import (
    apply_fields,
    build_entry,
    new_event,
    new_property,
)
from hedgerow.definitions.model import (
    DESCRIPTION_MAX_CHARS,
    MAX_EVENTS,
    MAX_PROPERTIES,
    MAX_TAGS,
    NAME_MAX_CHARS,
    TAG_MAX_CHARS,
    EventDefinition,
    EventSchemaMode,
    PropertyDefinition,
    PropertyKind,
    PropertyValueType,
)
from hedgerow.definitions.schemas import check_schema
from hedgerow.definitions.store import (
    DefinitionLookup,
    DefinitionStore,
    DefinitionWrites,
    PropertyKey,
    StoredDefinitions,
)
from hedgerow.errors import Conflict, Invalid
from hedgerow.projects.activity import Actor, FieldChange
from hedgerow.projects.document import (
    ErrorLocation,
    check_field_names,
    check_no_env_reference,
    check_version,
)
from hedgerow.projects.model import Project
from hedgerow.projects.validation import validate_text

VERSION = 1
MAX_GROUP_TYPES = 5
_NO_GROUP = -1

AnyDefinition = EventDefinition | PropertyDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSpec:
    """A definition as the document describes it. `key` is the name of an event, or the identity of
    a property."""

    place: str
    key: str | PropertyKey
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionStep:
    """One definition before and after; `before` is None for a new one."""

    before: AnyDefinition | None
    after: AnyDefinition
    changes: Sequence[FieldChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPlan:
    """What a document changes in a project."""

    project: Project
    specs: Sequence[DefinitionSpec]
    steps: Sequence[DefinitionStep]


class DefinitionsAsCode:
    def __init__(self, store: DefinitionStore) -> None:
        self._store = store

    async def export(self, project: Project) -> dict[str, Any]:
        """Return the document of all definitions that differ from what was seen."""
        stored = await self._store.load_all(project.id)
        events = [_build_item(each) for _, each in sorted(stored.events.items())]
        properties = [_build_item(each) for _, each in sorted(stored.properties.items())]
        return {
            "version": VERSION,
            "events": [item for item in events if len(item) > 1],
            "properties": [item for item in properties if item.keys() - _IDENTITY],
        }

    async def plan(
        self, project: Project, document: Any, actor: Actor, now: datetime
    ) -> DefinitionPlan:
        """Plan the changes that the document requires. Invalid names the path of an error."""
        specs = parse_document(document)
        steps = _plan_steps(project, specs, await self._store.load_all(project.id), actor, now)
        return DefinitionPlan(project=project, specs=specs, steps=steps)

    async def apply(self, plan: DefinitionPlan, actor: Actor, now: datetime) -> None:
        """Apply all changes, or none if they are no longer those of the plan."""

        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            steps = _plan_steps(plan.project, plan.specs, lookup.load_all(), actor, now)
            if [step.changes for step in steps] != [step.changes for step in plan.steps]:
                raise Conflict("The definitions have changed since the plan was made. Plan again.")
            return DefinitionWrites(
                stored=[step.after for step in steps],
                entries=[
                    build_entry(
                        "updated" if step.before else "created", step.after, actor, step.before
                    )
                    for step in steps
                ],
            )

        await self._store.write(plan.project.id, decide, now)


def parse_document(value: Any) -> list[DefinitionSpec]:
    """Parse a document. Invalid names the path of an error."""
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `version`, `events` and `properties`.")
    check_field_names(value, ("version", "events", "properties"), None)
    check_version(value, VERSION)
    found: dict[str | PropertyKey, DefinitionSpec] = {}
    for section, parse in (("events", _parse_event), ("properties", _parse_property)):
        items = value.get(section)
        if not isinstance(items, list | None):
            raise Invalid(f"Expected a list of {section}.", attr=section)
        for number, item in enumerate(items or ()):
            spec = parse(item, f"{section}[{number}]")
            if spec.key in found:
                raise Invalid(f"{found[spec.key].place} is the same.", attr=spec.place)
            found[spec.key] = spec
    return list(found.values())


def _parse_event(value: Any, place: str) -> DefinitionSpec:
    name = _parse_name(value, place)
    place = f"{place} ({name})"
    return DefinitionSpec(
        place=place, key=name, fields=_parse_fields(value, _EVENT_FIELDS, ("name",), place)
    )


def _parse_property(value: Any, place: str) -> DefinitionSpec:
    name = _parse_name(value, place)
    place = f"{place} ({name})"
    fields = _parse_fields(value, _PROPERTY_FIELDS, tuple(_IDENTITY), place)
    if fields["property_type"] is None:
        del fields["property_type"]
    with ErrorLocation(f"{place}: type"):
        kind = _parse_choice(PropertyKind)(value.get("type", "event"))
    index = value.get("group_type_index", _NO_GROUP)
    is_group = kind == PropertyKind.GROUP
    allowed = range(MAX_GROUP_TYPES) if is_group else (_NO_GROUP,)
    if isinstance(index, bool) or index not in allowed:
        detail = (
            f"Expected a whole number from 0 to {MAX_GROUP_TYPES - 1}."
            if is_group
            else "Only a property of type group has it."
        )
        raise Invalid(detail, attr=f"{place}: group_type_index")
    return DefinitionSpec(
        place=place, key=PropertyKey(PropertyKind(kind), index, name), fields=fields
    )


def _parse_name(value: Any, place: str) -> str:
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `name`.", attr=place)
    name = value.get("name")
    if not isinstance(name, str):
        raise Invalid("Expected a string: put the value in quotes.", attr=f"{place}: name")
    return validate_text(f"{place}: name", name, NAME_MAX_CHARS)


Parsers = Mapping[str, tuple[Any, Callable[[Any], Any]]]


def _parse_fields(
    value: Mapping[str, Any], parsers: Parsers, others: Sequence[str], place: str
) -> dict[str, Any]:
    check_field_names(value, (*others, *parsers), place)
    check_no_env_reference(value, place, "`!env` cannot be used in definitions.")
    fields = {}
    for name, (default, parse) in parsers.items():
        field = value.get(name)
        with ErrorLocation(f"{place}: {name}"):
            fields[name] = default if field is None else parse(field)
    return fields


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("Must be true or false.")
    return value


def _parse_text(value: Any, most: int = DESCRIPTION_MAX_CHARS) -> str:
    if not isinstance(value, str):
        raise Invalid("Expected a string: put the value in quotes.")
    return validate_text("", value, most) if value.strip() else ""


def _parse_tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise Invalid(f"Expected a list of at most {MAX_TAGS} strings.")
    tags = tuple(dict.fromkeys(_parse_text(each, TAG_MAX_CHARS) for each in value))
    if not all(tags):
        raise Invalid("This field may not be blank.")
    return tags


def _parse_schema(value: Any) -> Any:
    try:
        check_schema(value)
    except Invalid as error:
        raise Invalid(error.detail, code=error.code) from None
    return value


def _parse_choice(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def parse(value: Any) -> StrEnum:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        raise Invalid(f"Expected one of: {', '.join(kind)}.")

    return parse


_DETAILS: Parsers = {
    "description": ("", _parse_text),
    "tags": ((), _parse_tags),
    "verified": (False, _parse_boolean),
    "hidden": (False, _parse_boolean),
}
_EVENT_FIELDS: Parsers = {
    **_DETAILS,
    "schema": (None, _parse_schema),
    "schema_mode": (EventSchemaMode.PROJECT, _parse_choice(EventSchemaMode)),
}
_PROPERTY_FIELDS: Parsers = {**_DETAILS, "property_type": (None, _parse_choice(PropertyValueType))}
_IDENTITY = frozenset(("name", "type", "group_type_index"))


def _plan_steps(
    project: Project,
    specs: Sequence[DefinitionSpec],
    stored: StoredDefinitions,
    actor: Actor,
    now: datetime,
) -> list[DefinitionStep]:
    steps = []
    for spec in specs:
        with ErrorLocation(spec.place):
            step = _plan_step(project, spec, stored, actor, now)
        if step is not None:
            steps.append(step)
    _check_limits(stored, steps)
    return steps


def _plan_step(
    project: Project, spec: DefinitionSpec, stored: StoredDefinitions, actor: Actor, now: datetime
) -> DefinitionStep | None:
    before: AnyDefinition | None
    after: AnyDefinition
    if isinstance(spec.key, PropertyKey):
        kind, index, name = spec.key
        before = stored.properties.get(spec.key)
        group = None if index == _NO_GROUP else index
        start = before or new_property(project, kind, group, name, now)
        after = apply_fields(start, spec.fields, actor, now)
    else:
        before = stored.events.get(spec.key)
        after = apply_fields(before or new_event(project, spec.key, now), spec.fields, actor, now)
    if after == before:
        return None
    entry = build_entry("updated" if before else "created", after, actor, before)
    return DefinitionStep(before=before, after=after, changes=entry.changes)


def _check_limits(stored: StoredDefinitions, steps: Sequence[DefinitionStep]) -> None:
    new = [step.after for step in steps if step.before is None]
    events = sum(isinstance(each, EventDefinition) for each in new)
    for count, limit, name in (
        (len(stored.events) + events, MAX_EVENTS, "event"),
        (len(stored.properties) + len(new) - events, MAX_PROPERTIES, "property"),
    ):
        if new and count > limit:
            raise Invalid(f"A project can have at most {limit:,} {name} definitions.")


def _build_item(definition: AnyDefinition) -> dict[str, Any]:
    """Return the identity and the fields that differ from their defaults."""
    item: dict[str, Any] = {"name": definition.name}
    parsers = _EVENT_FIELDS
    if isinstance(definition, PropertyDefinition):
        parsers = _DETAILS
        if definition.type is not PropertyKind.EVENT:
            item["type"] = definition.type.value
        if definition.group_type_index is not None:
            item["group_type_index"] = definition.group_type_index
    for name, (default, _) in parsers.items():
        value = getattr(definition, name)
        if value != default:
            item[name] = value.value if isinstance(value, StrEnum) else value
            if isinstance(value, tuple):
                item[name] = list(value)
    if isinstance(definition, PropertyDefinition) and definition.updated_by is not None:
        # Otherwise it is only the type that was seen.
        type = definition.property_type
        item |= {"property_type": type.value} if type else {}
    return item
