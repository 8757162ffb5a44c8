"""Flags see what was captured before: who has events on their way is waited for, a little."""

from collections.abc import Coroutine, Mapping
from typing import Any

from hedgerow.flags.store import StoredSubject, SubjectStore
from hedgerow.ingestion.progress import Progress, Who
from hedgerow.projects.model import ProjectId


class FreshSubjects:
    """A SubjectStore that knows of events that are accepted and not yet settled."""

    def __init__(self, subjects: SubjectStore, progress: Progress, *, at_most_s: float) -> None:
        self._subjects = subjects
        self._progress = progress
        self._at_most_s = at_most_s
        self.keep_hash_keys = subjects.keep_hash_keys

    def subject(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> Coroutine[Any, Any, StoredSubject]:
        # Not begun before it is awaited, so waiting first means reading later.
        reading = self._subjects.subject(
            project_id, distinct_id, groups, cohorts=cohorts, hash_keys=hash_keys
        )
        who = (project_id, distinct_id)
        return reading if self._progress.is_settled(who) else self._once_settled(who, reading)

    async def _once_settled(
        self, who: Who, reading: Coroutine[Any, Any, StoredSubject]
    ) -> StoredSubject:
        try:
            await self._progress.wait_until_settled(who, at_most_s=self._at_most_s)
            return await reading
        finally:
            reading.close()
