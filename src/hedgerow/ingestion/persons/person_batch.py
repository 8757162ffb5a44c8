"""The persons of one batch during processing: owners of distinct ids, merges, changes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hedgerow.ingestion.persons.changes import PersonChange
from hedgerow.ingestion.persons.loaded_state import LoadedState, StoredPerson, person_uuid
from hedgerow.ingestion.persons.property_updates import MAX_PROPERTIES_BYTES, overlay, trim
from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId


class PersonState:
    """A person during processing. `properties` is replaced, never mutated."""

    __slots__ = (
        "_text",
        "absorbs",
        "created_at",
        "id",
        "is_changed",
        "is_identified",
        "merged_into",
        "new_ids",
        "properties",
        "uuid",
    )

    def __init__(
        self, uuid: str, created_at: datetime, *, id: int | None = None, is_identified: bool = False
    ) -> None:
        self.id = id
        self.uuid = uuid
        self.properties: Mapping[str, Any] = {}
        self.is_identified = is_identified
        self.created_at = created_at
        self.is_changed = id is None
        self.new_ids: list[str] = []
        self.absorbs: list[int] = []
        self.merged_into: PersonState | None = None
        self._text: str | None = None

    def set_properties(self, properties: dict[str, Any]) -> Sequence[str]:
        """Replace the properties. Returns the names of properties that exceed the size limit."""
        try:
            encoded = jsonio.encode(properties)
            is_storable = b"\\u0000" not in encoded
        except UnicodeEncodeError:
            is_storable = False
        if not is_storable:
            properties = jsonio.replace_unstorable(properties)
            encoded = jsonio.encode(properties)
        removed: Sequence[str] = ()
        if len(encoded) > MAX_PROPERTIES_BYTES:
            properties, removed = trim(properties, len(encoded))
            encoded = jsonio.encode(properties)
        self.properties = properties
        self._text = encoded.decode()
        self.is_changed = True
        return removed

    def identify(self) -> None:
        if not self.is_identified:
            self.is_identified = self.is_changed = True

    def absorb(self, other: "PersonState") -> Sequence[str]:
        """Merge another person into this one; own properties take precedence. Returns the names of
        properties that exceed the size limit."""
        other.merged_into = self
        self.absorbs += [*([] if other.id is None else [other.id]), *other.absorbs]
        self.new_ids += other.new_ids
        self.created_at = min(self.created_at, other.created_at)
        return self.set_properties({**other.properties, **self.properties})

    def text(self) -> str:
        """Return the properties as JSON text."""
        if self._text is None:
            self._text = jsonio.encode(self.properties).decode()
        return self._text

    def text_with(self, to_set: Mapping[str, Any]) -> str:
        """Return the properties with the `$set` of an event on top, as JSON text."""
        properties = overlay(self.properties, to_set)
        if properties is None:
            return self.text()
        try:
            return jsonio.encode(properties).decode()
        except UnicodeEncodeError:
            return jsonio.encode(jsonio.replace_unstorable(properties)).decode()


class PersonBatch:
    def __init__(self, project_id: ProjectId, state: LoadedState) -> None:
        self._project_id = project_id
        self._state = state
        self._owners: dict[str, PersonState] = {}
        self._by_id: dict[int, PersonState] = {}
        self._all: list[PersonState] = []

    def find(self, distinct_id: str) -> PersonState | None:
        owner = self._owners.get(distinct_id)
        if owner is None:
            stored = self._state.persons.get(distinct_id)
            if stored is None:
                return None
            owner = self._get_state(stored)
            self._owners[distinct_id] = owner
        while owner.merged_into is not None:
            owner = owner.merged_into
        return owner

    def add(self, distinct_ids: Iterable[str], created_at: datetime) -> PersonState:
        """Create a person with these distinct ids. The first one determines the uuid."""
        first, *others = distinct_ids
        person = PersonState(self.choose_uuid(first), created_at)
        self._all.append(person)
        for id in (first, *others):
            self.attach(id, person)
        return person

    def attach(self, distinct_id: str, person: PersonState) -> None:
        """Add a new distinct id to a person."""
        person.new_ids.append(distinct_id)
        self._owners[distinct_id] = person

    def choose_uuid(self, distinct_id: str) -> str:
        """Return the uuid of the person that this unknown distinct id creates."""
        return self._state.uuids.get(distinct_id) or person_uuid(self._project_id, distinct_id)

    def list_changes(self) -> list[PersonChange]:
        return [
            PersonChange(
                id=person.id,
                uuid=person.uuid,
                properties=person.text(),
                is_identified=person.is_identified,
                created_at=person.created_at,
                is_changed=person.is_changed,
                distinct_ids=person.new_ids,
                absorbs=person.absorbs,
            )
            for person in self._all
            if person.merged_into is None and (person.is_changed or person.new_ids)
        ]

    def _get_state(self, stored: StoredPerson) -> PersonState:
        person = self._by_id.get(stored.id)
        if person is None:
            person = PersonState(
                stored.uuid,
                stored.created_at,
                id=stored.id,
                is_identified=stored.is_identified,
            )
            person.properties = stored.properties
            self._by_id[stored.id] = person
            self._all.append(person)
        return person
