"""Evaluate flags as they were at an earlier time, and as they would be, without a running
service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import msgspec

from hedgerow.app.commands.queries import open_queries
from hedgerow.app.state import State
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.draft import DraftEvaluation
from hedgerow.flags.evaluation.explanation import to_json
from hedgerow.flags.evaluation.what_if import WhatIf
from hedgerow.flags.history.past_evaluation import TIMESTAMP, PastEvaluations
from hedgerow.flags.history.person_history import PersonHistory
from hedgerow.http.api.flags.what_if import WhatIfBody
from hedgerow.http.api.flags.what_if_figures import render_what_if
from hedgerow.http.payload.fields import validate
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Project
from hedgerow.projects.validation import parse_date_parameter
from hedgerow.settings import Settings
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.history import SqlFlagHistory
from hedgerow.storage.persons.evaluated_persons import SqlEvaluatedPersonStore
from hedgerow.storage.persons.persons import SqlPersonStore

__all__ = [
    "FolderInUseError",
    "PastFlagCommands",
    "WhatIfCommands",
    "open_past_flags",
    "open_what_if",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFlagCommands:
    state: State
    evaluations: PastEvaluations

    async def evaluate(
        self, project: Project, key: str, timestamp: str, **fields: Any
    ) -> dict[str, Any]:
        """Evaluate a flag at a time. Returns the part of the API's response that is printed."""
        now = utc_now()
        at = parse_date_parameter(timestamp, now, UTC, TIMESTAMP)
        past = await self.evaluations.evaluate(project, key, EvaluationRequest(**fields), at, now)
        return {
            "explanation": to_json(past.explanation),
            "timestamp": format_iso(past.at),
            "flag_changes_since": past.changes,
            "notes": list(past.notes),
        }


@asynccontextmanager
async def open_past_flags(settings: Settings) -> AsyncIterator[PastFlagCommands]:
    """Open flags and events. Raises FolderInUseError if another process has the events open."""
    async with open_queries(settings) as queries:
        database = queries.state.database
        yield PastFlagCommands(
            state=queries.state,
            evaluations=PastEvaluations(
                SqlFlagHistory(database),
                PersonHistory(queries.executor),
                SqlEvaluationDataStore(database),
                SqlPersonStore(database),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfCommands:
    state: State
    what_if: WhatIf

    async def ask(self, project: Project, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a body of the API, as the API does."""
        fields = validate(WhatIfBody, body)
        result = await self.what_if.ask(
            project, fields.to_draft(), fields.to_question(), COMMAND_LINE, utc_now()
        )
        answer: dict[str, Any] = msgspec.to_builtins(render_what_if(result))
        return answer


@asynccontextmanager
async def open_what_if(settings: Settings) -> AsyncIterator[WhatIfCommands]:
    """Open flags and events. Raises FolderInUseError if another process has the events open."""
    async with open_queries(settings) as queries:
        database = queries.state.database
        drafts = DraftEvaluation(
            queries.flag_cache, SqlEvaluationDataStore(database), SqlEvaluatedPersonStore(database)
        )
        yield WhatIfCommands(
            state=queries.state, what_if=WhatIf(drafts, queries.executor, queries.scanner)
        )
