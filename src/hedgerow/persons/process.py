"""Decide what a batch of events does to persons and groups.

Pure, and the same however events are split into batches. It never raises, whatever they hold.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from hedgerow.lib.text import storable_text
from hedgerow.persons.changes import NEVER, Changes, Placed, Processed, Warned
from hedgerow.persons.enrich import Enriched, Place, enriched
from hedgerow.persons.group_changes import PROPERTIES, Groups
from hedgerow.persons.illegal import is_illegal
from hedgerow.persons.known import (
    GROUP_IDENTIFY,
    MAX_GROUP_TEXT,
    OTHER_ID,
    Happening,
    Known,
    group_name,
    id_text,
)
from hedgerow.persons.people import People, Someone
from hedgerow.persons.updates import ALWAYS_UPDATE, NEVER_UPDATE, unset_names, updated
from hedgerow.projects.model import ProjectId

PERSON_KEYS = ("$set", "$set_once", "$unset")
FLAG = "$process_person_profile"


def process(
    project_id: ProjectId, known: Known, events: Iterable[Happening], place: Place
) -> Processed:
    batch = _Batch(project_id, known, place)
    placed = [batch.take(event) for event in events]
    return Processed(placed=placed, changes=batch.changes())


class _Batch:
    def __init__(self, project_id: ProjectId, known: Known, place: Place) -> None:
        self._people = People(project_id, known)
        self._groups = Groups(known)
        self._place = place
        self._warnings: list[Warned] = []
        self._types_refused: set[str] = set()

    def changes(self) -> Changes:
        return Changes(
            persons=self._people.changes(),
            groups=self._groups.changes(),
            group_types=self._groups.new_types,
            warnings=self._warnings,
        )

    def take(self, event: Happening) -> Placed | None:
        more = enriched(event, self._place)
        distinct_id = storable_text(event.distinct_id)
        flag = event.properties.get(FLAG, True)
        if flag is False:
            return self._take_personless(event, distinct_id, more.properties)
        if flag is not True:
            detail = f"{FLAG} is true or false. Anything else counts as true."
            self._warn("invalid_process_person_profile", detail, event)
        if event.event == GROUP_IDENTIFY and not self._take_group(event):
            return None
        self._name_groups(event, more.properties)
        someone = self._merged(event, distinct_id, more) or self._updated(event, distinct_id, more)
        return Placed(
            distinct_id=distinct_id,
            person_uuid=someone.uuid,
            person_created_at=someone.created_at,
            person_properties=someone.text_with(more.set),
            mode="full",
            properties=more.properties,
        )

    def _take_personless(
        self, event: Happening, distinct_id: str, properties: dict[str, Any]
    ) -> Placed | None:
        if event.event in OTHER_ID or event.event == GROUP_IDENTIFY:
            detail = f"{event.event} is about a person, and {FLAG} is false. The event is dropped."
            self._warn("invalid_event_when_process_person_profile_is_false", detail, event)
            return None
        for name in (*PERSON_KEYS, *PROPERTIES):
            properties.pop(name, None)
        someone = self._people.find(distinct_id)
        if someone is None:
            return Placed(
                distinct_id=distinct_id,
                person_uuid=self._people.uuid_of(distinct_id),
                person_created_at=NEVER,
                person_properties="{}",
                mode="propertyless",
                properties=properties,
            )
        return Placed(
            distinct_id=distinct_id,
            person_uuid=someone.uuid,
            person_created_at=someone.created_at,
            person_properties=someone.text(),
            mode="force_upgrade",
            properties=properties,
        )

    def _updated(self, event: Happening, distinct_id: str, more: Enriched) -> Someone:
        """The person of an id, made if there is none, after the event."""
        someone = self._people.find(distinct_id)
        if someone is None:
            someone = self._created(event, (distinct_id,), more)
        else:
            self._update(someone, event, more)
        return someone

    def _created(self, event: Happening, distinct_ids: Sequence[str], more: Enriched) -> Someone:
        someone = self._people.add(distinct_ids, event.timestamp)
        unset = unset_names(event.properties.get("$unset"))
        first = updated({}, more.set, more.set_once, unset, is_worth_all=True) or {}
        self._tell_gone(someone.become({**first, "$creator_event_uuid": event.uuid}), event)
        return someone

    def _update(self, someone: Someone, event: Happening, more: Enriched) -> None:
        name = event.event
        if name in NEVER_UPDATE:
            return
        unset = unset_names(event.properties["$unset"]) if "$unset" in event.properties else ()
        is_worth_all = name in ALWAYS_UPDATE
        after = updated(
            someone.properties, more.set, more.set_once, unset, is_worth_all=is_worth_all
        )
        if after is not None:
            self._tell_gone(someone.become(after), event)

    def _merged(self, event: Happening, distinct_id: str, more: Enriched) -> Someone | None:
        """The person of an event that makes one of two, None when it does not or may not."""
        name = OTHER_ID.get(event.event)
        if name is None or name not in event.properties:
            return None
        other_id = id_text(event.properties[name])
        if other_id == distinct_id:
            return None
        for id in (distinct_id, other_id):
            if is_illegal(id):
                detail = f"{id!r} is nobody's own id: nobody is merged by it."
                self._warn("cannot_merge_with_illegal_distinct_id", detail, event)
                return None
        target, other = self._people.find(distinct_id), self._people.find(other_id)
        if target is None and other is None:
            someone = self._created(event, (distinct_id, other_id), more)
            someone.identify()
            return someone
        if target is None:
            assert other is not None
            self._people.attach(distinct_id, other)
            target = other
        elif other is None:
            self._people.attach(other_id, target)
        elif other is not target:
            self._merge(event, other, target, other_id)
        target.identify()
        self._update(target, event, more)
        return target

    def _merge(self, event: Happening, other: Someone, target: Someone, other_id: str) -> None:
        if other.is_identified and event.event != "$merge_dangerously":
            detail = f"{other_id!r} is of a person who is identified: they stay apart."
            self._warn("cannot_merge_already_identified", detail, event)
            return
        self._tell_gone(self._people.merge(other, target), event)

    def _take_group(self, event: Happening) -> bool:
        """Change the group that the event is about; whether the event is kept."""
        to_set = event.properties.get("$group_set")
        if to_set is not None and not isinstance(to_set, dict):
            detail = "$group_set is an object. The event is dropped."
            self._warn("invalid_group_set", detail, event)
            return False
        name = group_name(event.properties)
        if name is None:
            detail = "$group_type and $group_key are required. No group is changed."
            self._warn("group_missing_type_or_key", detail, event)
        elif max(map(len, name)) > MAX_GROUP_TEXT:
            detail = f"A group's type and key have at most {MAX_GROUP_TEXT} characters each."
            self._warn("group_key_too_long", detail, event)
        elif self._groups.index_of(name[0]) is None:
            self._refuse_types([name[0]], event)
        else:
            self._groups.put(*name, to_set or {}, event.timestamp)
        return True

    def _name_groups(self, event: Happening, properties: dict[str, Any]) -> None:
        if "$groups" in properties and (refused := self._groups.place(properties)):
            self._refuse_types(refused, event)

    def _refuse_types(self, names: Iterable[str], event: Happening) -> None:
        """Said once for each type: every event of an app may name it."""
        for name in names:
            if name not in self._types_refused:
                self._types_refused.add(name)
                detail = f"There is no room for a group type {name!r}: it is ignored."
                self._warn("group_type_limit_reached", detail, event)

    def _tell_gone(self, names: Sequence[str], event: Happening) -> None:
        if names:
            detail = f"The person's properties are too large. Removed: {', '.join(names)}."
            self._warn("person_properties_size_violation", detail, event)

    def _warn(self, type: str, detail: str, event: Happening) -> None:
        self._warnings.append(
            Warned(
                type=type,
                detail=storable_text(detail[:1000]),
                event=storable_text(event.event),
                uuid=event.uuid,
                distinct_id=storable_text(event.distinct_id),
            )
        )
