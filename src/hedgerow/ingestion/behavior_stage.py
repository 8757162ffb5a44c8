"""Find what processed events mean for cohorts: which of the counted behaviors they belong to."""

from collections.abc import Sequence

from hedgerow.ingestion.persons.changes import PersonBatchResult
from hedgerow.persons.behaviors.matcher import BehaviorMatcher
from hedgerow.persons.behaviors.model import Behavior, BehaviorId
from hedgerow.persons.behaviors.store import NewOccurrences
from hedgerow.persons.behaviors.times import pack_occurrence

# Compiled behaviors of so many projects stay in memory.
CACHE_SIZE = 100


class BehaviorStage:
    """Compiles the behaviors of a project when they change."""

    def __init__(self) -> None:
        self._matchers: dict[tuple[BehaviorId, ...], BehaviorMatcher] = {}

    def find_occurrences(
        self, behaviors: Sequence[Behavior], result: PersonBatchResult
    ) -> NewOccurrences:
        """Return the occurrences in a batch of events, by their distinct ids."""
        if not behaviors:
            return {}
        matcher = self._get_matcher(behaviors)
        found: dict[str, dict[BehaviorId, list[bytes]]] = {}
        stored = (event for event in result.events if event is not None)
        for event, seen in zip(stored, result.seen, strict=True):
            ids = matcher.find(event.event, seen.properties, event.timestamp)
            if ids:
                packed = pack_occurrence(event.timestamp, event.uuid)
                own = found.setdefault(event.distinct_id, {})
                for id in ids:
                    own.setdefault(id, []).append(packed)
        return found

    def _get_matcher(self, behaviors: Sequence[Behavior]) -> BehaviorMatcher:
        key = tuple(each.id for each in behaviors)
        matcher = self._matchers.get(key)
        if matcher is None:
            if len(self._matchers) >= CACHE_SIZE:
                self._matchers.clear()
            matcher = self._matchers[key] = BehaviorMatcher(behaviors)
        return matcher
