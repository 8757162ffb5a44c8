"""A world in memory that takes changes as a store would."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hedgerow.ingestion.model import Arrived
from hedgerow.lib import jsonio
from hedgerow.persons.changes import Changes, Placed, Processed
from hedgerow.persons.enrich import Place
from hedgerow.persons.known import GroupName, Known, KnownGroup, KnownPerson, mentioned
from hedgerow.persons.process import process
from hedgerow.projects.model import ProjectId
from tests.happenings import nowhere

PROJECT = ProjectId(1)


@dataclass
class World:
    persons: dict[int, KnownPerson] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    group_types: dict[str, int] = field(default_factory=dict)
    groups: dict[GroupName, KnownGroup] = field(default_factory=dict)
    last_id: int = 0

    def apply(self, *events: Arrived, place: Place = nowhere) -> Processed:
        about = mentioned(events)
        known = Known(
            persons={
                id: self.persons[self.owners[id]] for id in about.distinct_ids if id in self.owners
            },
            group_types=dict(self.group_types),
            groups={name: self.groups[name] for name in about.groups if name in self.groups},
        )
        processed = process(PROJECT, known, events, place)
        self._store(processed.changes)
        return processed

    def placed(self, *events: Arrived, place: Place = nowhere) -> Placed:
        """Where the last of the events ends."""
        last = self.apply(*events, place=place).placed[-1]
        assert last is not None
        return last

    def warned(self, *events: Arrived) -> list[str]:
        return [warning.type for warning in self.apply(*events).changes.warnings]

    def person(self, distinct_id: str) -> KnownPerson:
        return self.persons[self.owners[distinct_id]]

    def properties(self, distinct_id: str) -> dict[str, Any]:
        """A person's, without the mark of the event that made them."""
        found = self.person(distinct_id).properties
        return {name: found[name] for name in found if name != "$creator_event_uuid"}

    def ids(self, distinct_id: str) -> set[str]:
        person_id = self.owners[distinct_id]
        return {id for id, owner in self.owners.items() if owner == person_id}

    def everything(self) -> Any:
        """All that can be seen, whatever numbers a store gave."""
        persons = {
            person.uuid: (person.properties, person.is_identified, person.created_at)
            for person in self.persons.values()
        }
        return persons, self.ownership(), self.group_types, self.groups

    def ownership(self) -> dict[str, str]:
        return {id: self.persons[owner].uuid for id, owner in self.owners.items()}

    def _store(self, changes: Changes) -> None:
        for each in changes.persons:
            person_id = each.id
            if person_id is None:
                self.last_id += 1
                person_id = self.last_id
                assert each.uuid not in {person.uuid for person in self.persons.values()}
            assert each.id is None or each.id in self.persons
            if each.is_changed:
                self.persons[person_id] = KnownPerson(
                    id=person_id,
                    uuid=each.uuid,
                    properties=jsonio.decode(each.properties),
                    is_identified=each.is_identified,
                    created_at=each.created_at,
                )
            self._attach(each.distinct_ids, person_id)
            for loser in each.absorbs:
                self._move(loser, person_id)
        for name, index in changes.group_types.items():
            assert name not in self.group_types
            assert index not in self.group_types.values()
            self.group_types[name] = index
        names = {index: name for name, index in self.group_types.items()}
        for group in changes.groups:
            place = names[group.type_index], group.key
            assert group.is_new is (place not in self.groups)
            self.groups[place] = KnownGroup(
                properties=jsonio.decode(group.properties), created_at=group.created_at
            )

    def _attach(self, distinct_ids: Iterable[str], person_id: int) -> None:
        for id in distinct_ids:
            assert id not in self.owners, "an id has one person"
            self.owners[id] = person_id

    def _move(self, loser: int, survivor: int) -> None:
        del self.persons[loser]
        for id, owner in self.owners.items():
            if owner == loser:
                self.owners[id] = survivor


def world_of(**properties_by_id: dict[str, Any]) -> World:
    """A world of these persons, nobody of whom is identified."""
    world = World()
    for id, properties in properties_by_id.items():
        world.last_id += 1
        world.persons[world.last_id] = KnownPerson(
            id=world.last_id,
            uuid=f"uuid of {id}",
            properties=properties,
            is_identified=False,
            created_at=datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
        )
        world.owners[id] = world.last_id
    return world
