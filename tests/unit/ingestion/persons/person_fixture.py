"""Persons and groups in memory; changes are applied like in the store."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hedgerow.events.model import Event
from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.changes import PersonBatchResult, PersonChanges
from hedgerow.ingestion.persons.enrich import LocateIp
from hedgerow.ingestion.persons.loaded_state import (
    GroupName,
    LoadedState,
    StoredGroup,
    StoredPerson,
    collect_references,
)
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId
from tests.support.factories import no_location

PROJECT = ProjectId(1)


@dataclass
class PersonFixture:
    persons: dict[int, StoredPerson] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    group_types: dict[str, int] = field(default_factory=dict)
    groups: dict[GroupName, StoredGroup] = field(default_factory=dict)
    last_id: int = 0

    def apply(self, *events: CapturedEvent, locate_ip: LocateIp = no_location) -> PersonBatchResult:
        references = collect_references(events)
        loaded = LoadedState(
            persons={
                id: self.persons[self.owners[id]]
                for id in references.distinct_ids
                if id in self.owners
            },
            group_types=dict(self.group_types),
            groups={name: self.groups[name] for name in references.groups if name in self.groups},
        )
        processed = process_batch(PROJECT, loaded, events, locate_ip)
        self._store(processed.changes)
        return processed

    def process_last(self, *events: CapturedEvent, locate_ip: LocateIp = no_location) -> Event:
        """Process the events and return the result of the last one."""
        last = self.apply(*events, locate_ip=locate_ip).events[-1]
        assert last is not None
        return last

    def warning_types(self, *events: CapturedEvent) -> list[str]:
        return [warning.type for warning in self.apply(*events).warnings]

    def person(self, distinct_id: str) -> StoredPerson:
        return self.persons[self.owners[distinct_id]]

    def properties(self, distinct_id: str) -> dict[str, Any]:
        """Return the properties of a person without `$creator_event_uuid`."""
        found = self.person(distinct_id).properties
        return {name: found[name] for name in found if name != "$creator_event_uuid"}

    def ids(self, distinct_id: str) -> set[str]:
        person_id = self.owners[distinct_id]
        return {id for id, owner in self.owners.items() if owner == person_id}

    def snapshot(self) -> Any:
        """Return the visible state, without generated ids."""
        persons = {
            person.uuid: (person.properties, person.is_identified, person.created_at)
            for person in self.persons.values()
        }
        return persons, self.ownership(), self.group_types, self.groups

    def ownership(self) -> dict[str, str]:
        return {id: self.persons[owner].uuid for id, owner in self.owners.items()}

    def _store(self, changes: PersonChanges) -> None:
        for each in changes.persons:
            person_id = each.id
            if person_id is None:
                self.last_id += 1
                person_id = self.last_id
                assert each.uuid not in {person.uuid for person in self.persons.values()}
            assert each.id is None or each.id in self.persons
            if each.is_changed:
                self.persons[person_id] = StoredPerson(
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
            name_and_key = names[group.type_index], group.key
            assert group.is_new is (name_and_key not in self.groups)
            self.groups[name_and_key] = StoredGroup(
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


def fixture_with(**properties_by_id: dict[str, Any]) -> PersonFixture:
    """Return a fixture with these persons, not identified."""
    fixture = PersonFixture()
    for id, properties in properties_by_id.items():
        fixture.last_id += 1
        fixture.persons[fixture.last_id] = StoredPerson(
            id=fixture.last_id,
            uuid=f"uuid of {id}",
            properties=properties,
            is_identified=False,
            created_at=datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
        )
        fixture.owners[id] = fixture.last_id
    return fixture
