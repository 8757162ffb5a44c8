"""What somebody who looks after a project does with one person: make or change them, split them,
forget them.

The audit trail tells who did it, how much, and which properties; never what was known of somebody:
it outlives them.
"""

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.persons.model import Person
from hedgerow.persons.store import Split
from hedgerow.projects.activity import Actor, Entry

SCOPE = "Person"
# So many names of properties are told.
TOLD = 100


def split(person: Person, main_distinct_id: str | None, actor: Actor) -> Split:
    """All but one distinct id become persons of their own, of whom nothing is known yet. Who does
    not say which one stays does not trust what was gathered, so that goes too."""
    if main_distinct_id is not None and main_distinct_id not in person.distinct_ids:
        detail = "This person has no such distinct id."
        raise Invalid(detail, attr="main_distinct_id", code="does_not_exist")
    others = [each for each in person.distinct_ids if each != main_distinct_id]
    if main_distinct_id is None:
        others = others[1:]
    return Split(
        properties={} if main_distinct_id is None else person.properties,
        others=others,
        entry=_entry(person, "split_person", actor, split_off=len(others)),
    )


def deletion(person: Person, actor: Actor, events: int | None) -> Entry:
    """`events` is how many of theirs were deleted with them, None if that was not wished."""
    return _entry(person, "deleted", actor, events_deleted=events)


def edit(before: Person | None, after: Person, actor: Actor) -> Entry | None:
    """None when nothing is different."""
    if before is None:
        return _entry(after, "created", actor, properties=sorted(after.properties)[:TOLD])
    names = sorted(
        name
        for name in before.properties.keys() | after.properties.keys()
        if name not in before.properties
        or name not in after.properties
        or not jsonio.same(before.properties[name], after.properties[name])
    )
    if not names and len(before.distinct_ids) == len(after.distinct_ids):
        return None
    return _entry(after, "updated", actor, properties=names[:TOLD])


def _entry(person: Person, activity: str, actor: Actor, **detail: int | list[str] | None) -> Entry:
    return Entry(
        scope=SCOPE,
        item_id=person.uuid,
        item_name=person.uuid,
        activity=activity,
        actor=actor,
        project_id=person.project_id,
        detail={"distinct_ids": len(person.distinct_ids), **detail},
    )
