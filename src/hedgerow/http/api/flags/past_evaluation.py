"""The value of a flag for a person at an earlier time, with the reasons."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explanation import (
    ConditionExplanation,
    Explanation,
    FilterExplanation,
    Verdict,
    to_json,
)
from hedgerow.flags.history.past_evaluation import TIMESTAMP, PastEvaluation, PastEvaluations
from hedgerow.http.api.flags.drafts import PERSON_SCOPE, FlagExplanation
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.projects.validation import parse_date_parameter


class PastEvaluationBody(Fields):
    """Either `distinct_id` or `person_id`. Without `timestamp`, the flag is evaluated as it is now;
    without an offset, it is in UTC. `person_properties` and `group_properties` win over those of
    that time."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    distinct_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)] | None = None
    person_id: Annotated[str, Text(100)] | None = None
    timestamp: Annotated[str, Text(100)] | None = None
    groups: dict[str, str] = Field(default_factory=dict)
    person_properties: dict[str, Any] = Field(default_factory=dict)
    group_properties: dict[str, dict[str, Any]] = Field(default_factory=dict)
    device_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)] | None = None


class PropertyAnalysis(msgspec.Struct, kw_only=True):
    key: str
    operator: str
    value: Any
    type: str
    actual_value: Any
    matched: bool
    explanation: str


class ConditionAnalysis(msgspec.Struct, kw_only=True):
    """`matched` is the condition that decides, `properties_matched` are all whose filters hold."""

    index: int
    matched: bool
    properties_matched: bool
    explanation: str
    rollout_percentage: float
    rollout_excluded: bool
    variant: str | None
    properties: Sequence[PropertyAnalysis]


class PastEvaluationItem(msgspec.Struct, kw_only=True):
    """`person_properties` are those that the flag reads. `evaluation_distinct_id` is null if the
    request has a `person_id`. `flag_changes_since` counts the later changes of the flag. `notes`
    say what cannot be known about that time, and what was used instead."""

    flag_key: str
    result: bool | str
    reason: str
    condition_index: int | None
    payload: Any
    person_properties: Mapping[str, Any]
    evaluation_distinct_id: str | None
    conditions: Sequence[ConditionAnalysis]
    timestamp: str
    flag_changes_since: int
    notes: Sequence[str]
    explanation: FlagExplanation


class PastEvaluationEndpoints:
    tag = "Feature flags"

    def __init__(self, evaluations: PastEvaluations) -> None:
        self._evaluations = evaluations

    @endpoint(
        "POST",
        *project_paths("feature_flags/{flag_id}/test_evaluation/"),
        access=in_project("feature_flag:read"),
        response=PastEvaluationItem,
        body=PastEvaluationBody,
    )
    async def evaluate_flag(self, call: ProjectCall) -> Response:
        """Evaluate a flag for a person, as both were at a time: the flag and its cohorts by the
        activity log, the person and its groups by the events that were accepted until then. The
        flag is named by its id, or by the key that it had. The key also needs the scope
        `person:read`, because the response contains properties of the person."""
        check_scope(call.caller, PERSON_SCOPE, call.project)
        flag_id = call.path_param("flag_id")
        body = await call.body(PastEvaluationBody)
        now = call.now
        past = await call.while_connected(self._evaluate(call, flag_id, body, now))
        return JsonResponse(_render(past, is_id_shown=body.person_id is None))

    async def _evaluate(
        self, call: ProjectCall, flag_id: str, body: PastEvaluationBody, now: datetime
    ) -> PastEvaluation:
        at = now
        if body.timestamp is not None:
            at = parse_date_parameter(body.timestamp, now, UTC, TIMESTAMP)
        request = EvaluationRequest(
            distinct_id=await self._find_distinct_id(call, body),
            person_properties=body.person_properties,
            groups=body.groups,
            group_properties=body.group_properties,
            device_id=body.device_id,
        )
        return await self._evaluations.evaluate(call.project, flag_id, request, at, now)

    async def _find_distinct_id(self, call: ProjectCall, body: PastEvaluationBody) -> str:
        if (body.distinct_id is None) == (body.person_id is None):
            raise Invalid("Send either distinct_id or person_id.", attr="distinct_id")
        if body.distinct_id is not None:
            return body.distinct_id
        assert body.person_id is not None
        return await self._evaluations.choose_distinct_id(call.project, body.person_id)


def _render(past: PastEvaluation, *, is_id_shown: bool) -> PastEvaluationItem:
    outcome = past.explanation.outcome
    explained = to_json(past.explanation)
    if outcome.flag.has_encrypted_payloads:
        explained["payload"] = None
    return PastEvaluationItem(
        flag_key=outcome.flag.key,
        result=outcome.value,
        reason=outcome.reason.value,
        condition_index=outcome.condition_index,
        payload=explained["payload"],
        person_properties=_list_read_properties(past.explanation),
        evaluation_distinct_id=past.distinct_id if is_id_shown else None,
        conditions=[
            _render_condition(each, past.explanation) for each in past.explanation.conditions
        ],
        timestamp=format_iso(past.at),
        flag_changes_since=past.changes,
        notes=past.notes,
        explanation=FlagExplanation(**explained),
    )


def _list_read_properties(explanation: Explanation) -> dict[str, Any]:
    return {
        each.key: each.found
        for condition in explanation.conditions
        for each in condition.filters
        if each.kind == "person" and each.found is not MISSING
    }


def _render_condition(
    condition: ConditionExplanation, explanation: Explanation
) -> ConditionAnalysis:
    return ConditionAnalysis(
        index=condition.index,
        matched=explanation.outcome.condition_index == condition.index
        and condition.verdict is Verdict.MATCHES,
        properties_matched=all(bool(each.holds) for each in condition.filters),
        explanation=condition.verdict.value,
        rollout_percentage=condition.rollout.percentage,
        rollout_excluded=condition.verdict is Verdict.OUT,
        variant=condition.variants.forced if condition.variants else None,
        properties=[_render_filter(each) for each in condition.filters],
    )


def _render_filter(filter: FilterExplanation) -> PropertyAnalysis:
    found = None if filter.found is MISSING else filter.found
    word = "cannot be evaluated" if filter.holds is None else "holds"
    if filter.holds is False:
        word = "does not hold"
    return PropertyAnalysis(
        key=filter.key,
        operator=filter.operator,
        value=filter.wanted,
        type=filter.kind,
        actual_value=found,
        matched=bool(filter.holds),
        explanation=f"{filter.about} {filter.key} {filter.operator}: {word}",
    )
