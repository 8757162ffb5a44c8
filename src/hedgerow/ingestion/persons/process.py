"""Process a batch of captured events: which persons and groups they create, merge and change.

Pure. The result does not depend on how events are split into batches. Never raises, whatever the
events hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hedgerow.definitions.model import SeenEvent
from hedgerow.events.elements import extract_elements
from hedgerow.events.model import Event, PersonMode
from hedgerow.ingestion.model import CapturedEvent, IngestionWarning
from hedgerow.ingestion.parsing.event import COOKIELESS_MODE
from hedgerow.ingestion.persons.blocked_ids import is_blocked_id
from hedgerow.ingestion.persons.changes import PersonBatchResult, PersonChanges
from hedgerow.ingestion.persons.enrich import Enrichment, LocateIp, enrich
from hedgerow.ingestion.persons.group_batch import GROUP_PROPERTIES, GroupBatch
from hedgerow.ingestion.persons.loaded_state import (
    GROUP_IDENTIFY,
    MAX_GROUP_TEXT_CHARS,
    MERGE_PROPERTIES,
    LoadedState,
    normalize_distinct_id,
    parse_group,
)
from hedgerow.ingestion.persons.person_batch import PersonBatch, PersonState
from hedgerow.ingestion.persons.property_updates import (
    ALWAYS_UPDATE,
    NEVER_UPDATE,
    apply_update,
    build_first,
    parse_unset_names,
)
from hedgerow.lib import jsonio
from hedgerow.lib.dates import EPOCH
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.model import ProjectId

PERSON_UPDATE_PROPERTIES = ("$set", "$set_once", "$unset")
PROCESS_PERSON_PROFILE = "$process_person_profile"
MAX_DETAIL_CHARS = 1000


def process_batch(
    project_id: ProjectId, state: LoadedState, events: Iterable[CapturedEvent], locate_ip: LocateIp
) -> PersonBatchResult:
    batch = _BatchProcessor(project_id, state, locate_ip)
    processed = [batch.process(event) for event in events]
    return PersonBatchResult(
        events=processed, seen=batch.seen, changes=batch.changes(), warnings=batch.warnings
    )


class _BatchProcessor:
    def __init__(self, project_id: ProjectId, state: LoadedState, locate_ip: LocateIp) -> None:
        self._project_id = project_id
        self._persons = PersonBatch(project_id, state)
        self._groups = GroupBatch(state)
        self._locate_ip = locate_ip
        self._rejected_types: set[str] = set()
        self.warnings: list[IngestionWarning] = []
        self.seen: list[SeenEvent] = []

    def changes(self) -> PersonChanges:
        return PersonChanges(
            persons=self._persons.list_changes(),
            groups=self._groups.list_changes(),
            group_types=self._groups.new_types,
        )

    def process(self, event: CapturedEvent) -> Event | None:
        """Apply one event. None if the event is dropped."""
        enrichment = enrich(event, self._locate_ip)
        distinct_id = replace_unstorable_characters(event.distinct_id)
        has_profile = event.properties.get(PROCESS_PERSON_PROFILE, True)
        if has_profile is False:
            return self._process_personless(event, distinct_id, enrichment.properties)
        if has_profile is not True:
            detail = f"{PROCESS_PERSON_PROFILE} must be true or false. It is taken for true."
            self._warn("invalid_process_person_profile", detail, event)
        if event.event == GROUP_IDENTIFY and not self._process_group(event):
            return None
        self._add_group_properties(event, enrichment.properties)
        person = self._process_merge(event, distinct_id, enrichment)
        if person is None:
            person = self._create_or_update(event, distinct_id, enrichment)
        return self._build_event(
            event,
            enrichment.properties,
            person_id=person.uuid,
            person_created_at=person.created_at,
            person_properties=person.text_with(enrichment.set),
            person_mode=PersonMode.FULL,
        )

    def _process_personless(
        self, event: CapturedEvent, distinct_id: str, properties: dict[str, Any]
    ) -> Event | None:
        is_cookieless = event.properties.get(COOKIELESS_MODE) is True
        if event.event == GROUP_IDENTIFY and is_cookieless:
            # A visitor without cookies never has a profile. A group is not personal.
            self._process_group(event)
        elif event.event in MERGE_PROPERTIES or event.event == GROUP_IDENTIFY:
            detail = (
                f"{event.event} needs a person profile, but {PROCESS_PERSON_PROFILE} is false. "
                "The event is dropped."
            )
            self._warn("invalid_event_when_process_person_profile_is_false", detail, event)
            return None
        for name in (*PERSON_UPDATE_PROPERTIES, *GROUP_PROPERTIES):
            properties.pop(name, None)
        person = self._persons.find(distinct_id)
        if person is None:
            return self._build_event(
                event,
                properties,
                person_id=self._persons.choose_uuid(distinct_id),
                person_created_at=EPOCH,
                person_properties="{}",
                person_mode=PersonMode.PROPERTYLESS,
            )
        return self._build_event(
            event,
            properties,
            person_id=person.uuid,
            person_created_at=person.created_at,
            person_properties=person.text(),
            person_mode=PersonMode.FORCE_UPGRADE,
        )

    def _build_event(
        self,
        captured: CapturedEvent,
        properties: dict[str, Any],
        *,
        person_id: str,
        person_created_at: datetime,
        person_properties: str,
        person_mode: PersonMode,
    ) -> Event:
        elements_chain, others = extract_elements(properties)
        group_index = None
        if captured.event == GROUP_IDENTIFY:
            group_index = self._groups.find_index(parse_group(captured.properties))
        self.seen.append(
            SeenEvent(
                captured.event,
                others,
                captured.properties,
                captured.timestamp,
                captured.accepted_at,
                group_index,
            )
        )
        return Event(
            project_id=self._project_id,
            uuid=captured.uuid,
            event=captured.event,
            distinct_id=replace_unstorable_characters(captured.distinct_id),
            properties=_encode_properties(others),
            elements_chain=elements_chain,
            timestamp=captured.timestamp,
            created_at=captured.accepted_at,
            person_id=person_id,
            person_created_at=person_created_at,
            person_properties=person_properties,
            person_mode=person_mode,
            historical_migration=captured.historical_migration,
        )

    def _create_or_update(
        self, event: CapturedEvent, distinct_id: str, enrichment: Enrichment
    ) -> PersonState:
        person = self._persons.find(distinct_id)
        if person is None:
            return self._create(event, (distinct_id,), enrichment)
        self._update(person, event, enrichment)
        return person

    def _create(
        self, event: CapturedEvent, distinct_ids: Sequence[str], enrichment: Enrichment
    ) -> PersonState:
        person = self._persons.add(distinct_ids, event.timestamp)
        unset = parse_unset_names(event.properties.get("$unset"))
        first = build_first(enrichment.set, enrichment.set_once, unset)
        first["$creator_event_uuid"] = event.uuid
        self._warn_removed(person.set_properties(first), event)
        return person

    def _update(self, person: PersonState, event: CapturedEvent, enrichment: Enrichment) -> None:
        name = event.event
        if name in NEVER_UPDATE:
            return
        unset = (
            parse_unset_names(event.properties["$unset"]) if "$unset" in event.properties else ()
        )
        after = apply_update(
            person.properties,
            enrichment.set,
            enrichment.set_once,
            unset,
            is_always_worth=name in ALWAYS_UPDATE,
        )
        if after is not None:
            self._warn_removed(person.set_properties(after), event)

    def _process_merge(
        self, event: CapturedEvent, distinct_id: str, enrichment: Enrichment
    ) -> PersonState | None:
        """Merge the two persons of a merge event. None if it is another event, or if one of its
        distinct ids is blocked."""
        name = MERGE_PROPERTIES.get(event.event)
        if name is None or name not in event.properties:
            return None
        other_id = normalize_distinct_id(event.properties[name])
        if other_id == distinct_id:
            return None
        for id in (distinct_id, other_id):
            if is_blocked_id(id):
                detail = f"{id!r} does not identify a person. No persons are merged by it."
                self._warn("cannot_merge_with_illegal_distinct_id", detail, event)
                return None
        target, other = self._persons.find(distinct_id), self._persons.find(other_id)
        if target is None and other is None:
            person = self._create(event, (distinct_id, other_id), enrichment)
            person.identify()
            return person
        if target is None:
            assert other is not None
            self._persons.attach(distinct_id, other)
            target = other
        elif other is None:
            self._persons.attach(other_id, target)
        elif other is not target:
            self._merge(event, other, target, other_id)
        target.identify()
        self._update(target, event, enrichment)
        return target

    def _merge(
        self, event: CapturedEvent, other: PersonState, target: PersonState, other_id: str
    ) -> None:
        if other.is_identified and event.event != "$merge_dangerously":
            detail = f"The person of {other_id!r} is already identified. They are not merged."
            self._warn("cannot_merge_already_identified", detail, event)
            return
        self._warn_removed(target.absorb(other), event)

    def _process_group(self, event: CapturedEvent) -> bool:
        """Apply a group event. False if the event is to be dropped."""
        to_set = event.properties.get("$group_set")
        if to_set is not None and not isinstance(to_set, dict):
            detail = "$group_set must be an object. The event is dropped."
            self._warn("invalid_group_set", detail, event)
            return False
        group = parse_group(event.properties)
        if group is None:
            detail = "$group_type and $group_key are required. No group is changed."
            self._warn("group_missing_type_or_key", detail, event)
        elif max(map(len, group)) > MAX_GROUP_TEXT_CHARS:
            detail = f"A group's type and key have at most {MAX_GROUP_TEXT_CHARS} characters each."
            self._warn("group_key_too_long", detail, event)
        elif self._groups.assign_index(group[0]) is None:
            self._reject_types([group[0]], event)
        else:
            self._groups.set_properties(*group, to_set or {}, event.timestamp)
        return True

    def _add_group_properties(self, event: CapturedEvent, properties: dict[str, Any]) -> None:
        if "$groups" in properties and (rejected := self._groups.add_group_properties(properties)):
            self._reject_types(rejected, event)

    def _reject_types(self, names: Iterable[str], event: CapturedEvent) -> None:
        """Warn once for each type: every event of an app can name it."""
        for name in names:
            if name not in self._rejected_types:
                self._rejected_types.add(name)
                detail = f"The project has reached its limit of group types. {name!r} is ignored."
                self._warn("group_type_limit_reached", detail, event)

    def _warn_removed(self, names: Sequence[str], event: CapturedEvent) -> None:
        if names:
            detail = f"The person's properties are too large. Removed: {', '.join(names)}."
            self._warn("person_properties_size_violation", detail, event)

    def _warn(self, type: str, detail: str, event: CapturedEvent) -> None:
        self.warnings.append(
            IngestionWarning(
                type=type,
                detail=replace_unstorable_characters(detail[:MAX_DETAIL_CHARS]),
                event=replace_unstorable_characters(event.event),
                uuid=event.uuid,
                distinct_id=replace_unstorable_characters(event.distinct_id),
            )
        )


def _encode_properties(properties: Mapping[str, Any]) -> str:
    try:
        return jsonio.encode(properties).decode()
    except UnicodeEncodeError:  # an event that an earlier version accepted
        return jsonio.encode(jsonio.replace_unstorable(properties)).decode()
