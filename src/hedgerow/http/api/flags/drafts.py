"""Flags before they are saved: why a person would get a value, and how many persons would."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.draft import DraftEvaluation, DraftFields, Preview
from hedgerow.flags.evaluation.explanation import to_json
from hedgerow.flags.model import FlagId
from hedgerow.http.api.flags.flags import FlagBody
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Between, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS

PERSON_SCOPE = "person:read"


class DraftBody(FlagBody):
    """The fields of a flag as it would be saved. `id` names the saved flag, whose other fields
    stay; without it the flag is a new one."""

    id: Annotated[int, Between()] | None = None

    def to_draft(self) -> DraftFields:
        id = None if self.id is None else FlagId(self.id)
        return DraftFields(id=id, fields=self.to_fields())


class ExplainBody(DraftBody):
    """A flag as it would be saved, and the person: `person_properties` and `group_properties` win
    over the stored ones."""

    distinct_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)]
    person_properties: dict[str, Any] = Field(default_factory=dict)
    groups: dict[str, str] = Field(default_factory=dict)
    group_properties: dict[str, dict[str, Any]] = Field(default_factory=dict)


class FlagExplanation(msgspec.Struct, kw_only=True):
    """The value, and each condition with its filters, its rollout and its verdict."""

    key: str
    value: bool | str
    variant: str | None
    payload: Any
    reason: str
    description: str
    condition_index: int | None
    error: str | None
    conditions: Sequence[Any]
    exceptions: Sequence[Any]
    dependencies: Sequence[Any]


class ConditionPreview(msgspec.Struct, kw_only=True):
    """`matches` persons have the properties, `gets` of them are in the rollout, and `decides` of
    those are not decided by an earlier condition."""

    matches: int
    gets: int
    decides: int


class ChangePreview(msgspec.Struct, kw_only=True):
    before: str
    after: str
    persons: int


class FlagPreview(msgspec.Struct, kw_only=True):
    """Counts of `sampled_persons` of the `total_persons`, the newest. `values` has the number of
    persons by value, `changes` those who get another value than from the saved flag."""

    total_persons: int
    sampled_persons: int
    conditions: Sequence[ConditionPreview]
    values: Mapping[str, int]
    changes: Sequence[ChangePreview]


class FlagDraftEndpoints:
    tag = "Feature flags"

    def __init__(self, drafts: DraftEvaluation) -> None:
        self._drafts = drafts

    @endpoint(
        "POST",
        *project_paths("feature_flags/explain/"),
        access=in_project("feature_flag:read"),
        response=FlagExplanation,
        body=ExplainBody,
    )
    async def explain_flag(self, call: ProjectCall) -> Response:
        """Explain the value that a person gets from a flag, saved or not. The key also needs the
        scope `person:read`, because the response contains properties of the person."""
        check_scope(call.caller, PERSON_SCOPE, call.project)
        body = await call.body(ExplainBody)
        request = EvaluationRequest(
            distinct_id=body.distinct_id,
            person_properties=body.person_properties,
            groups=body.groups,
            group_properties=body.group_properties,
        )
        found = await self._drafts.explain(
            call.project, body.to_draft(), request, call.actor, call.now
        )
        explained = to_json(found)
        if found.outcome.flag.has_encrypted_payloads:
            explained["payload"] = None
        return JsonResponse(FlagExplanation(**explained))

    @endpoint(
        "POST",
        *project_paths("feature_flags/preview/"),
        access=in_project("feature_flag:read"),
        response=FlagPreview,
        body=DraftBody,
    )
    async def preview_flag(self, call: ProjectCall) -> Response:
        """Count the persons who would get each value from a flag, condition by condition in order.
        Evaluates the newest persons, at most 10,000 and for at most 0.3 seconds."""
        body = await call.body(DraftBody)
        preview = await call.while_connected(
            self._drafts.preview(call.project, body.to_draft(), call.actor, call.now)
        )
        return JsonResponse(_render_preview(preview))


def _sort_changes(preview: Preview) -> list[tuple[tuple[str, str], int]]:
    return sorted(preview.changes.items(), key=lambda each: (-each[1], each[0]))


def _render_preview(preview: Preview) -> FlagPreview:
    return FlagPreview(
        total_persons=preview.total,
        sampled_persons=preview.sampled,
        conditions=[
            ConditionPreview(matches=each.matches, gets=each.gets, decides=each.decides)
            for each in preview.conditions
        ],
        values=dict(sorted(preview.values.items())),
        changes=[
            ChangePreview(before=before, after=after, persons=count)
            for (before, after), count in _sort_changes(preview)
        ],
    )
