"""Flags before they are saved: why a person would get a value, and how many persons would."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from annotated_types import MaxLen
from pydantic import Field
from starlette.responses import Response

from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.draft import DraftEvaluation, DraftFields, Preview
from hedgerow.flags.evaluation.explainer import FlagExplainer
from hedgerow.flags.evaluation.explanation import Explanation, to_json
from hedgerow.flags.model import FlagId
from hedgerow.http.api.flags.flags import FlagBody
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Between, Fields, Text
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


class ExplanationsBody(Fields):
    """The person, with properties that win over the stored ones, and the flags: all of them without
    `flag_keys`."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    distinct_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)]
    person_properties: dict[str, Any] = Field(default_factory=dict)
    groups: dict[str, str] = Field(default_factory=dict)
    group_properties: dict[str, dict[str, Any]] = Field(default_factory=dict)
    device_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)] | None = None
    flag_keys: Annotated[list[Annotated[str, Text(400)]], MaxLen(1000)] | None = None


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


def _render_explanation(found: Explanation) -> FlagExplanation:
    explained = to_json(found)
    if found.outcome.flag.has_encrypted_payloads:
        explained["payload"] = None
    return FlagExplanation(**explained)


class FlagDraftEndpoints:
    tag = "Feature flags"

    def __init__(self, drafts: DraftEvaluation, explainer: FlagExplainer) -> None:
        self._drafts = drafts
        self._explainer = explainer

    @endpoint(
        "POST",
        *project_paths("feature_flags/explanations/"),
        access=in_project("feature_flag:read"),
        response=list[FlagExplanation],
        body=ExplanationsBody,
    )
    async def explain_flags(self, call: ProjectCall) -> Response:
        """Explain the values that a person gets from the saved flags, without counting an
        evaluation. The key also needs the scope `person:read`, because the response contains
        properties of the person."""
        check_scope(call.caller, PERSON_SCOPE, call.project)
        body = await call.body(ExplanationsBody)
        request = EvaluationRequest(
            distinct_id=body.distinct_id,
            person_properties=body.person_properties,
            groups=body.groups,
            group_properties=body.group_properties,
            device_id=body.device_id,
            flag_keys=None if body.flag_keys is None else frozenset(body.flag_keys),
        )
        found = await call.while_connected(self._explainer.explain(call.project, request, call.now))
        return JsonResponse([_render_explanation(each) for each in found])

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
        return JsonResponse(_render_explanation(found))

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
