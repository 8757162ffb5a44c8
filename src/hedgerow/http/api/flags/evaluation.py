"""Flag evaluation: definitions and payloads for server-side SDKs, evaluation reasons, and the blast
radius of a condition.
"""

from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.evaluation.blast_radius import BlastRadiusCounter
from hedgerow.flags.evaluation.decide import Decider, EvaluationRequest
from hedgerow.flags.flags import Flags
from hedgerow.flags.known_fields import CONDITION
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.model import Runtime
from hedgerow.http.auth.access import for_sdks, in_project
from hedgerow.http.call import ProjectCall, SdkCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.openapi.sdk_types import COHORTS, TOKEN_OF_PROJECT, Definitions
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.fields import Between, Fields
from hedgerow.http.sdk.decide import parse_groups
from hedgerow.http.sdk.local_evaluation import CACHING, parse_legacy_audience
from hedgerow.http.server.headers import etag_matches
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib import jsonio
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.projects.validation import check_known_fields

EVALUATION_PARAMETERS = (
    Parameter("distinct_id", "The distinct id to evaluate the flags for."),
    Parameter("groups", "The groups of the person, as a JSON object of group types and keys."),
)


class BlastRadiusResponse(msgspec.Struct, kw_only=True):
    users_affected: int
    total_users: int


class BlastRadiusBody(Fields):
    """A condition set as in `filters.groups`, and the group type to count, if any."""

    condition: dict[str, Any]
    group_type_index: Annotated[int, Between(0, MAX_GROUP_TYPES - 1)] | None = None


class FlagEvaluationEndpoints:
    tag = "Feature flags"

    def __init__(
        self,
        blast_radius: BlastRadiusCounter,
        decider: Decider,
        flags: Flags,
        local_evaluation_cache: LocalEvaluationCache,
    ) -> None:
        self._blast_radius = blast_radius
        self._decider = decider
        self._flags = flags
        self._local_evaluation_cache = local_evaluation_cache

    @endpoint(
        "GET",
        *project_paths("feature_flags/{flag_id}/remote_config/"),
        access=for_sdks(),
        response=Any,
    )
    async def retrieve_remote_config(self, call: SdkCall) -> Response:
        """Retrieve the decrypted payload of a remote configuration flag. Accepts a project secret
        API key or a personal API key."""
        found = await self._flags.find(call.project, call.path_param("flag_id"))
        if not found.is_remote_configuration:
            raise NotFound
        return JsonResponse(self._flags.decrypt_payload(found))

    @endpoint(
        "GET",
        *project_paths("feature_flags/local_evaluation/"),
        access=for_sdks(),
        response=Definitions,
        query=(TOKEN_OF_PROJECT, COHORTS),
    )
    async def retrieve_definitions(self, call: SdkCall) -> Response:
        """Retrieve the definitions of all flags for local evaluation in SDKs. Accepts a project
        secret API key or a personal API key. Send the last `ETag` as `If-None-Match` to receive 304
        while the definitions are unchanged."""
        scope = call.request.scope
        cached = await self._local_evaluation_cache.get(call.project, parse_legacy_audience(scope))
        headers = {"ETag": cached.etag, "Cache-Control": CACHING[1].decode()}
        if etag_matches(scope, cached.etag):
            return Response(status_code=304, headers=headers)
        return Response(cached.body, media_type="application/json", headers=headers)

    @endpoint(
        "GET",
        *project_paths("feature_flags/evaluation_reasons/"),
        access=in_project("feature_flag:read"),
        response=dict[str, Any],
        query=EVALUATION_PARAMETERS,
    )
    async def explain_evaluation(self, call: ProjectCall) -> Response:
        """Evaluate all flags for a distinct id and explain each value."""
        distinct_id = call.query_param("distinct_id")
        if not distinct_id:
            raise Invalid("This field is required.", attr="distinct_id", code="required")
        request = EvaluationRequest(
            distinct_id=distinct_id,
            groups=_read_groups(call.query_param("groups")),
            runtime=lambda: Runtime.ALL,
        )
        decision = await self._decider.decide(call.project, request, call.now)
        return JsonResponse(
            {
                outcome.flag.key: {
                    "value": outcome.value,
                    "evaluation": {
                        "reason": "disabled" if not outcome.flag.active else outcome.reason.value,
                        "condition_index": outcome.condition_index,
                    },
                }
                for outcome in decision.outcomes
            }
        )

    @endpoint(
        "POST",
        *project_paths("feature_flags/user_blast_radius/"),
        access=in_project("feature_flag:read"),
        response=BlastRadiusResponse,
        body=BlastRadiusBody,
    )
    async def count_blast_radius(self, call: ProjectCall) -> Response:
        """Count the stored persons or groups that a condition matches."""
        body = await call.body(BlastRadiusBody)
        check_known_fields(body.condition, CONDITION, "condition")
        radius = await call.while_connected(
            self._blast_radius.count(call.project, body.condition, body.group_type_index, call.now)
        )
        return JsonResponse(
            BlastRadiusResponse(users_affected=radius.affected, total_users=radius.total)
        )


def _read_groups(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        value = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError as error:
        raise Invalid(str(error), attr="groups") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("Expected an object of group types and group keys.", attr="groups")
    return parse_groups(value)
