"""Open the flags of an installation, to evaluate them or to manage them as a file."""

import difflib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from hedgerow.app.commands.state import open_state
from hedgerow.app.state import State
from hedgerow.errors import OperatorError
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import Explanation
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.projects.model import Project
from hedgerow.settings import Settings
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.flags import SqlFlagStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagCommands:
    """Flags of an installation, for commands."""

    state: State
    cache: FlagCache
    contexts: SqlEvaluationDataStore
    as_code: FlagsAsCode

    async def explain(self, project: Project, **fields: Any) -> Sequence[Explanation]:
        """Evaluate flags and explain each value. `fields` are those of the evaluation request.

        Raises OperatorError for an unknown flag or group type, which the service ignores.
        """
        request = EvaluationRequest(**fields)
        snapshot = await self.cache.snapshot(project)
        _check_request(snapshot, request, project)
        types = snapshot.definitions.group_types
        stored = await self.contexts.load(
            project.id,
            request.distinct_id[:DISTINCT_ID_MAX_CHARS],
            {types[name]: key for name, key in request.groups.items()},
        )
        return explain_flags(snapshot, request, stored, utc_now())


@asynccontextmanager
async def open_flags(settings: Settings) -> AsyncIterator[FlagCommands]:
    async with open_state(settings) as state:
        store = SqlFlagStore(state.database)
        yield FlagCommands(
            state=state,
            cache=FlagCache(store, run_in_thread),
            contexts=SqlEvaluationDataStore(state.database),
            as_code=FlagsAsCode(store),
        )


def _check_request(snapshot: FlagSnapshot, request: EvaluationRequest, project: Project) -> None:
    for key in request.flag_keys or ():
        if snapshot.get(key) is None:
            keys = [each.flag.key for each in snapshot.all_flags]
            close = difflib.get_close_matches(key, keys, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise OperatorError(f'There is no flag "{key}" in project {project.id}.{hint}')
    types = snapshot.definitions.group_types
    for name in request.groups:
        if name not in types:
            known = ", ".join(types) or "none"
            raise OperatorError(
                f'There is no group type "{name}" in project {project.id}. '
                f"Expected one of: {known}."
            )
    for name in request.group_properties:
        if name not in request.groups:
            raise OperatorError(
                f"--group-property {name}: choose the group with --group {name}=KEY."
            )
