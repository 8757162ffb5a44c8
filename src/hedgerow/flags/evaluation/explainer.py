"""Explain the values that a person gets from the saved flags."""

import difflib
from collections.abc import Sequence
from datetime import datetime

from hedgerow.errors import Invalid
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import Explanation
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.store import EvaluationDataStore
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.projects.model import Project


class FlagExplainer:
    def __init__(self, cache: FlagCache, data: EvaluationDataStore) -> None:
        self._cache = cache
        self._data = data

    async def explain(
        self, project: Project, request: EvaluationRequest, now: datetime
    ) -> Sequence[Explanation]:
        """Evaluate flags and explain each value. Raises Invalid for an unknown flag or group type,
        which an evaluation ignores."""
        snapshot = await self._cache.snapshot(project)
        _check_request(snapshot, request, project)
        types = snapshot.definitions.group_types
        stored = await self._data.load(
            project.id,
            request.distinct_id[:DISTINCT_ID_MAX_CHARS],
            {types[name]: key for name, key in request.groups.items()},
        )
        return explain_flags(snapshot, request, stored, now)


def _check_request(snapshot: FlagSnapshot, request: EvaluationRequest, project: Project) -> None:
    for key in request.flag_keys or ():
        if snapshot.get(key) is None:
            keys = [each.flag.key for each in snapshot.all_flags]
            close = difflib.get_close_matches(key, keys, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise Invalid(f'There is no flag "{key}" in project {project.id}.{hint}')
    types = snapshot.definitions.group_types
    for name in request.groups:
        if name not in types:
            known = ", ".join(types) or "none"
            raise Invalid(
                f'There is no group type "{name}" in project {project.id}. '
                f"Expected one of: {known}."
            )
    for name in request.group_properties:
        if name not in request.groups:
            raise Invalid(
                f"Properties of the group {name} need the group itself: {name}=KEY in groups."
            )
