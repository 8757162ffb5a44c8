"""The persons of one batch while it is processed: who owns which id, who became whom."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.persons.changes import PersonChange
from hedgerow.persons.known import Known, KnownPerson, person_uuid
from hedgerow.persons.updates import MAX_BYTES, laid_over, trimmed
from hedgerow.projects.model import ProjectId


class Someone:
    """A person who may still change. Their properties are replaced, never written into."""

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
        self.merged_into: Someone | None = None
        self._text: str | None = None

    def become(self, properties: dict[str, Any]) -> Sequence[str]:
        """Take these properties; the names of those that did not fit."""
        encoded = jsonio.encode(properties)
        gone: Sequence[str] = ()
        if len(encoded) > MAX_BYTES:
            properties, gone = trimmed(properties, len(encoded))
            encoded = jsonio.encode(properties)
        self.properties = properties
        self._text = encoded.decode()
        self.is_changed = True
        return gone

    def identify(self) -> None:
        if not self.is_identified:
            self.is_identified = self.is_changed = True

    def absorb(self, other: "Someone") -> Sequence[str]:
        """What the other has becomes theirs where they have none of it; the names of properties
        for which there was no room."""
        other.merged_into = self
        self.absorbs += [*([] if other.id is None else [other.id]), *other.absorbs]
        self.new_ids += other.new_ids
        self.created_at = min(self.created_at, other.created_at)
        return self.become({**other.properties, **self.properties})

    def text(self) -> str:
        """Their properties as JSON."""
        if self._text is None:
            self._text = jsonio.encode(self.properties).decode()
        return self._text

    def text_with(self, to_set: Mapping[str, Any]) -> str:
        """The same with an event's `$set` over them."""
        properties = laid_over(self.properties, to_set)
        if properties is None:
            return self.text()
        try:
            return jsonio.encode(properties).decode()
        except UnicodeEncodeError:
            return jsonio.encode(jsonio.storable(properties)).decode()


class People:
    def __init__(self, project_id: ProjectId, known: Known) -> None:
        self._project_id = project_id
        self._known = known
        self._owners: dict[str, Someone] = {}
        self._met: dict[int, Someone] = {}
        self._all: list[Someone] = []

    def find(self, distinct_id: str) -> Someone | None:
        owner = self._owners.get(distinct_id)
        if owner is None:
            stored = self._known.persons.get(distinct_id)
            if stored is None:
                return None
            owner = self._meet(stored)
            self._owners[distinct_id] = owner
        while owner.merged_into is not None:
            owner = owner.merged_into
        return owner

    def add(self, distinct_ids: Iterable[str], created_at: datetime) -> Someone:
        """Somebody new with these ids, the first of which says who they are."""
        first, *others = distinct_ids
        someone = Someone(self.uuid_of(first), created_at)
        self._all.append(someone)
        self._own(first, someone)
        for id in others:
            self.attach(id, someone)
        return someone

    def attach(self, distinct_id: str, to: Someone) -> None:
        """Give somebody an id more."""
        self._own(distinct_id, to)

    def merge(self, other: Someone, into: Someone) -> Sequence[str]:
        return into.absorb(other)

    def uuid_of(self, stranger: str) -> str:
        return self._known.uuids.get(stranger) or person_uuid(self._project_id, stranger)

    def changes(self) -> list[PersonChange]:
        return [
            PersonChange(
                id=someone.id,
                uuid=someone.uuid,
                properties=someone.text(),
                is_identified=someone.is_identified,
                created_at=someone.created_at,
                is_changed=someone.is_changed,
                distinct_ids=someone.new_ids,
                absorbs=someone.absorbs,
            )
            for someone in self._all
            if someone.merged_into is None and (someone.is_changed or someone.new_ids)
        ]

    def _own(self, distinct_id: str, owner: Someone) -> None:
        owner.new_ids.append(distinct_id)
        self._owners[distinct_id] = owner

    def _meet(self, stored: KnownPerson) -> Someone:
        someone = self._met.get(stored.id)
        if someone is None:
            someone = Someone(
                stored.uuid,
                stored.created_at,
                id=stored.id,
                is_identified=stored.is_identified,
            )
            someone.properties = stored.properties
            self._met[stored.id] = someone
            self._all.append(someone)
        return someone
