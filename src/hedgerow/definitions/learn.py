"""Learn the names, types and volumes of events and properties from processed events.

A worker observes every event, but looks at most of them only as a whole: events with the same name
and the same keys have the same shape, and the properties of a known shape are known. What was
learned is saved once a second.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hedgerow.definitions.model import (
    NAME_MAX_CHARS,
    VOLUME_PERIOD,
    PropertyKind,
    PropertyValueType,
    SeenEvent,
)
from hedgerow.definitions.property_types import detect_property_type
from hedgerow.definitions.store import (
    DefinitionStore,
    LearnedEvent,
    LearnedNames,
    LearnedProperty,
    PropertyKey,
)
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.model import ProjectId

# The time when a property was last seen is saved this exactly: it changes with nearly every event.
PROPERTY_PRECISION = timedelta(hours=1)
# The memory of a worker: the keys of all known shapes. A shape with more keys than the limit is
# learned anew each time.
MAX_KEYS = 500_000
MAX_KEYS_PER_SHAPE = 1000
# Keys of new shapes until the next time of saving: 10 ms of the event loop. The others are learned
# from later events.
MAX_NEW_KEYS = 5_000

# Evidence: SKIP_PROPERTIES in PostHog's rust/property-defs-rs/src/types.rs.
_SKIPPED = frozenset(
    (
        *("$set", "$set_once", "$unset", "$groups", "$group_set"),
        *(f"$group_{number}" for number in range(5)),
    )
)
_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_GROUP = -1


class _EventShape:
    """Events with the same name and the same keys, since they were saved last. `untyped` are the
    properties that were null in all of them; lists and objects have no type."""

    __slots__ = (
        *("count", "event", "first", "is_active", "keys", "last"),
        *("properties", "properties_saved_at", "untyped"),
    )

    def __init__(
        self, event: str, keys: Sequence[Any], properties: Iterable[PropertyKey], at: datetime
    ) -> None:
        self.event = event
        self.keys = keys
        self.properties: dict[PropertyKey, PropertyValueType | None] = dict.fromkeys(properties)
        self.untyped = tuple(self.properties)
        self.properties_saved_at = _NEVER
        # Whether there were events since then, and how many of the last 30 days.
        self.is_active = False
        self.count = 0
        self.first = self.last = at


class DefinitionLearner:
    def __init__(self, store: DefinitionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._shapes: dict[ProjectId, dict[Any, _EventShape]] = {}
        # The shape that each event name had last.
        self._last_shapes: dict[ProjectId, dict[str, _EventShape]] = {}
        self._key_count = self._new_key_count = 0
        self._active: list[tuple[ProjectId, _EventShape]] = []
        self._recent_after = clock() - VOLUME_PERIOD
        self._lock = asyncio.Lock()

    def observe(
        self, project_id: ProjectId, events: Iterable[SeenEvent], *, is_counted: bool = True
    ) -> None:
        """Note processed events. Events that are already in the volume are not counted."""
        last_shapes = self._last_shapes.setdefault(project_id, {})
        recent_after = self._recent_after
        for seen in events:
            event, properties, sent, at, accepted_at, group_index = seen
            keys: list[Any] = list(properties)
            if group_index is not None or "$set" in sent or "$set_once" in sent:
                keys += (group_index, _list_keys(sent, "$set"), _list_keys(sent, "$set_once"))
            # A clock that is ahead makes no event of the future.
            if at > accepted_at:
                at = accepted_at
            # Most events of a name have the keys of the one before: no hash is needed.
            shape = last_shapes.get(event)
            if shape is None or shape.keys != keys:
                shape = self._find_shape(project_id, keys, seen, at)
                if shape is None:
                    continue
                last_shapes[event] = shape
            if shape.untyped or not shape.is_active:
                self._look_closely(project_id, shape, seen, at)
            if at > shape.last:
                shape.last = at
            elif at < shape.first:
                shape.first = at
            if is_counted and at >= recent_after:
                shape.count += 1

    def forget(self, project_id: ProjectId) -> None:
        """Learn the properties of a project anew, because definitions were deleted."""
        self._shapes.pop(project_id, None)
        self._last_shapes.pop(project_id, None)

    async def save(self) -> bool:
        """Save what was learned since the last time, and return whether there was anything. After a
        failure it is saved next time."""
        async with self._lock:
            self._recent_after = self._clock() - VOLUME_PERIOD
            self._new_key_count = 0
            if not self._active:
                return False
            taken, self._active = self._active, []
            learned = _summarize(taken)
            counts = [_mark_saved(shape) for _, shape in taken]
            is_saved = False
            try:
                await self._store.save_learned(learned, self._clock())
                is_saved = True
            finally:
                if not is_saved:
                    self._restore(taken, counts)
            if self._key_count > MAX_KEYS:
                self._shapes, self._last_shapes, self._key_count = {}, {}, 0
            return True

    def _restore(
        self, taken: Sequence[tuple[ProjectId, _EventShape]], counts: Sequence[int]
    ) -> None:
        for (project_id, shape), count in zip(taken, counts, strict=True):
            shape.count += count
            shape.properties_saved_at = _NEVER
            if not shape.is_active:
                shape.is_active = True
                self._active.append((project_id, shape))

    def _find_shape(
        self, project_id: ProjectId, keys: list[Any], seen: SeenEvent, at: datetime
    ) -> _EventShape | None:
        """Return the known or a new shape; None if there is no room until the next time of
        saving."""
        shapes = self._shapes.setdefault(project_id, {})
        key = (seen.event, *keys)
        if (known := shapes.get(key)) is not None:
            return known
        name = replace_unstorable_characters(seen.event)
        if self._new_key_count >= MAX_NEW_KEYS or not 0 < len(name) <= NAME_MAX_CHARS:
            return None
        shape = _EventShape(name, keys, _list_properties(seen), at)
        size = max(len(keys), len(shape.properties)) + 1
        self._new_key_count += size
        if size <= MAX_KEYS_PER_SHAPE:
            self._key_count += size
            shapes[key] = shape
        return shape

    def _look_closely(
        self, project_id: ProjectId, shape: _EventShape, seen: SeenEvent, at: datetime
    ) -> None:
        if shape.untyped:
            _find_types(shape, seen)
        if not shape.is_active:
            shape.is_active = True
            self._active.append((project_id, shape))
            shape.first = shape.last = at


def _list_keys(properties: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = properties.get(name)
    return tuple(values) if isinstance(values, dict) else ()


def _find_types(shape: _EventShape, seen: SeenEvent) -> None:
    untyped = []
    for key in shape.untyped:
        value = _get_value(seen, key)
        if value is None:
            untyped.append(key)
        else:
            shape.properties[key] = detect_property_type(key.name, value, seen.accepted_at)
    if len(untyped) < len(shape.untyped):
        shape.untyped = tuple(untyped)
        shape.properties_saved_at = _NEVER


def _list_properties(seen: SeenEvent) -> Iterator[PropertyKey]:
    """Return the properties of an event, of its person and of the group that it describes."""
    properties = seen.properties
    found = [
        PropertyKey(PropertyKind.EVENT, _NO_GROUP, name)
        for name in properties
        if name not in _SKIPPED
    ]
    for source in ("$set", "$set_once"):
        if isinstance(values := properties.get(source), dict):
            found += [PropertyKey(PropertyKind.PERSON, _NO_GROUP, name) for name in values]
    index, values = seen.group_type_index, properties.get("$group_set")
    if index is not None and isinstance(values, dict):
        found += [PropertyKey(PropertyKind.GROUP, index, name) for name in values]
    return (
        key._replace(name=replace_unstorable_characters(key.name))
        for key in found
        if 0 < len(key.name) <= NAME_MAX_CHARS
    )


def _get_value(seen: SeenEvent, key: PropertyKey) -> Any:
    properties = seen.properties
    if key.kind is PropertyKind.EVENT:
        return properties.get(key.name)
    sources = ("$group_set",) if key.kind is PropertyKind.GROUP else ("$set", "$set_once")
    for source in sources:
        values = properties.get(source)
        if isinstance(values, dict) and values.get(key.name) is not None:
            return values[key.name]
    return None


def _is_due(shape: _EventShape) -> bool:
    return shape.last - shape.properties_saved_at >= PROPERTY_PRECISION


def _mark_saved(shape: _EventShape) -> int:
    """Return the number of events that were not saved yet."""
    count, shape.count, shape.is_active = shape.count, 0, False
    if _is_due(shape):
        shape.properties_saved_at = shape.last
    return count


def _summarize(active: Iterable[tuple[ProjectId, _EventShape]]) -> LearnedNames:
    events: dict[tuple[ProjectId, str], LearnedEvent] = {}
    properties: dict[tuple[ProjectId, PropertyKey], LearnedProperty] = {}
    pairs: set[tuple[ProjectId, str, str]] = set()
    for project_id, shape in active:
        span = shape.first, shape.last
        key = project_id, shape.event
        new = LearnedEvent(first_seen_at=span[0], last_seen_at=span[1], number=shape.count)
        events[key] = events[key].merge(new) if key in events else new
        if not _is_due(shape):
            continue
        for each, type in shape.properties.items():
            place = project_id, each
            seen = LearnedProperty(*span, type)
            properties[place] = properties[place].merge(seen) if place in properties else seen
            if each.kind is PropertyKind.EVENT:
                pairs.add((project_id, shape.event, each.name))
    return LearnedNames(events=events, properties=properties, pairs=pairs)
