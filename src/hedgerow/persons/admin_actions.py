"""Changes that an administrator makes to one person: edit, split, delete.

Activity entries name the actor, the amount and the property names, never the values: the entries
outlive the person.
"""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.persons.model import Person
from hedgerow.persons.store import PersonSplit
from hedgerow.projects.activity import ActivityEntry, Actor

SCOPE = "Person"
MAX_LISTED_PROPERTIES = 100


def overlay_properties(before: Person | None, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored properties with the new ones on top."""
    return {**(before.properties if before else {}), **properties}


def merge_properties(before: Person, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Like `overlay_properties`, but a null removes its property. Stored nulls stay."""
    return {
        name: value
        for name, value in overlay_properties(before, properties).items()
        if value is not None or name not in properties
    }


def plan_split(person: Person, main_distinct_id: str | None, actor: Actor) -> PersonSplit:
    """Make each distinct id except the main one a new person without properties. Without a main
    distinct id, the first one stays and the person loses all properties."""
    if main_distinct_id is not None and main_distinct_id not in person.distinct_ids:
        detail = "This person has no such distinct id."
        raise Invalid(detail, attr="main_distinct_id", code="does_not_exist")
    others = [each for each in person.distinct_ids if each != main_distinct_id]
    if main_distinct_id is None:
        others = others[1:]
    return PersonSplit(
        properties={} if main_distinct_id is None else person.properties,
        others=others,
        entry=_build_entry(person, "split_person", actor, split_off=len(others)),
    )


def build_deletion_entry(
    person: Person, actor: Actor, *, events: int | None, copies: int
) -> ActivityEntry:
    """`events` is the number of deleted events, None if the events were kept. `copies` are those of
    the events in queues."""
    return _build_entry(person, "deleted", actor, events_deleted=events, copies_deleted=copies)


def build_edit_entry(before: Person | None, after: Person, actor: Actor) -> ActivityEntry | None:
    """Return None if nothing has changed."""
    if before is None:
        names = sorted(after.properties)[:MAX_LISTED_PROPERTIES]
        return _build_entry(after, "created", actor, properties=names)
    names = sorted(
        name
        for name in before.properties.keys() | after.properties.keys()
        if name not in before.properties
        or name not in after.properties
        or not jsonio.is_equal(before.properties[name], after.properties[name])
    )
    if not names and len(before.distinct_ids) == len(after.distinct_ids):
        return None
    return _build_entry(after, "updated", actor, properties=names[:MAX_LISTED_PROPERTIES])


def _build_entry(
    person: Person, activity: str, actor: Actor, **detail: int | list[str] | None
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=person.uuid,
        item_name=person.uuid,
        activity=activity,
        actor=actor,
        project_id=person.project_id,
        detail={"distinct_ids": len(person.distinct_ids), **detail},
    )
