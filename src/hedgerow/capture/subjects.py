"""Flags see what was captured before: who has events on their way is waited for, a little."""

from collections.abc import Mapping

from hedgerow.capture.progress import Progress
from hedgerow.flags.store import StoredSubject, SubjectStore
from hedgerow.projects.model import ProjectId


class FreshSubjects:
    """A SubjectStore that knows of events that are accepted and not yet settled."""

    def __init__(self, subjects: SubjectStore, progress: Progress, *, at_most_s: float) -> None:
        self._subjects = subjects
        self._progress = progress
        self._at_most_s = at_most_s
        self.keep_hash_keys = subjects.keep_hash_keys

    async def subject(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> StoredSubject:
        who = (project_id, distinct_id)
        if not self._progress.is_settled(who):
            await self._progress.wait_until_settled(who, at_most_s=self._at_most_s)
        return await self._subjects.subject(
            project_id, distinct_id, groups, cohorts=cohorts, hash_keys=hash_keys
        )
