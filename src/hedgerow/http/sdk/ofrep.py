"""`/ofrep/v1`: the OpenFeature Remote Evaluation Protocol.

A boolean flag is true or false, a multivariate flag is the key of the variant, a remote
configuration is its payload. A flag without a value for the context has no `value` in the response,
and the app uses its default.
"""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.types import Receive, Scope

from hedgerow.errors import AppError
from hedgerow.flags.evaluation.decide import Decider, EvaluationRequest, no_geoip
from hedgerow.flags.model import Flag, FlagOutcome, Reason
from hedgerow.flags.validate import condition_sets, variant_keys
from hedgerow.http.auth.project_key import MissingProjectKey, find_project_by_token
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.openapi.sdk_types import (
    BEARER_OR_HEADER,
    NOT_MODIFIED,
    OfrepConfiguration,
    OfrepFailure,
    OfrepFlag,
    OfrepFlags,
    OfrepRequest,
)
from hedgerow.http.payload.errors import NoData
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.sdk.decide import LocateRequest
from hedgerow.http.sdk.runtime import detect_runtime
from hedgerow.http.server.headers import etag_matches, read_bearer, read_header
from hedgerow.http.server.response import JSON_TYPE, Header, Reply, build_json_reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import truncate
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project

PATH = "/ofrep/v1/evaluate/flags"
EVENTS_PATH = "/ofrep/v1/events"
# How long a hidden page keeps its stream.
INACTIVITY_DELAY_S = 120
# Browsers hide other response headers from a page.
EXPOSE_ETAG: Header = (b"access-control-expose-headers", b"ETag")
CONFIGURATION = jsonio.encode(
    {
        "name": "Hedgerow",
        "capabilities": {
            "cacheInvalidation": {"polling": {"enabled": True, "minPollingIntervalMs": 1000}},
            "flagEvaluation": {"supportedTypes": ["boolean", "string", "int", "float", "object"]},
            "caching": {"enabled": False},
        },
    }
)
NO_KEY = (
    "Project API key not provided: send it as `Authorization: Bearer` or as `X-API-Key`. "
    "`hedgerow projects list` shows it."
)
TARGETING_KEY = "targetingKey"
# Fields of a context that are not person properties.
GROUPS, GROUP_PROPERTIES, DEVICE_ID = "$groups", "$group_properties", "$device_id"


class EvaluationError(Exception):
    """An error in the format of the protocol."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.status = status


class OfrepEndpoints:
    tag = "OpenFeature"

    def __init__(
        self,
        directory: Directory,
        decider: Decider,
        payloads: PayloadReader,
        places: LocateRequest | None,
        clock: Clock,
        limits: CallLimits,
    ) -> None:
        self._limits = limits
        self._directory = directory
        self._decider = decider
        self._payloads = payloads
        self._locate_request = places
        self._clock = clock

    @fast_endpoint(
        "POST",
        PATH,
        is_public=True,
        is_quick=True,
        allows_credentials=False,
        name="ofrep_evaluate_all",
        keys=BEARER_OR_HEADER,
        body=OfrepRequest,
        response=OfrepFlags,
        failure=OfrepFailure,
        statuses=NOT_MODIFIED,
    )
    async def evaluate_all(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Evaluate all flags for a context, by the OpenFeature Remote Evaluation Protocol."""
        project = await self._authenticate(scope, trace)
        try:
            outcomes = await self._evaluate(project, scope, receive, trace)
        except EvaluationError as error:
            return _build_error(error)
        rendered = [
            _render_outcome(each) for each in outcomes if not each.flag.has_encrypted_payloads
        ]
        token = urlencode({"token": _read_key(scope)})
        stream = {
            "type": "sse",
            "endpoint": {"requestUri": f"{EVENTS_PATH}?{token}"},
            "inactivityDelaySec": INACTIVITY_DELAY_S,
        }
        body = {"flags": rendered, "eventStreams": [stream]}
        return _reply_with_etag(scope, jsonio.encode(body))

    @fast_endpoint(
        "POST",
        f"{PATH}/{{key}}",
        is_public=True,
        is_quick=True,
        allows_credentials=False,
        name="ofrep_evaluate_one",
        keys=BEARER_OR_HEADER,
        body=OfrepRequest,
        response=OfrepFlag,
        failure=OfrepFailure,
    )
    async def evaluate_one(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Evaluate one flag for a context, by the OpenFeature Remote Evaluation Protocol."""
        project = await self._authenticate(scope, trace)
        key = scope["path"].removeprefix(f"{PATH}/").rstrip("/")
        try:
            outcomes = await self._evaluate(project, scope, receive, trace, key)
            outcome = next((each for each in outcomes if each.flag.key == key), None)
            if outcome is None or outcome.flag.has_encrypted_payloads:
                raise EvaluationError("FLAG_NOT_FOUND", f"Unknown flag {truncate(key)!r}.", 404)
            rendered = _render_outcome(outcome)
        except EvaluationError as error:
            return _build_error(error, key)
        return build_json_reply(400 if "errorCode" in rendered else 200, rendered)

    @fast_endpoint(
        "GET",
        "/ofrep/v1/configuration",
        is_public=True,
        is_quick=True,
        allows_credentials=False,
        name="ofrep_configuration",
        keys=BEARER_OR_HEADER,
        response=OfrepConfiguration,
        statuses=NOT_MODIFIED,
    )
    async def retrieve_configuration(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Retrieve the capabilities that OpenFeature providers can use."""
        await self._authenticate(scope, trace)
        return _reply_with_etag(scope, CONFIGURATION)

    async def _authenticate(self, scope: Scope, trace: Trace) -> Project:
        key = _read_key(scope)
        if not key:
            raise MissingProjectKey(NO_KEY)
        project = await find_project_by_token(self._directory, key)
        trace.project_id = project.id
        self._limits.admit_evaluation(project.id)
        trace.mark("access")
        return project

    async def _evaluate(
        self,
        project: Project,
        scope: Scope,
        receive: Receive,
        trace: Trace,
        key: str | None = None,
    ) -> list[FlagOutcome]:
        request = _parse_context(
            await self._read_context(scope, receive, project), scope, self._locate_request, key
        )
        trace.mark("body")
        decision = await self._decider.decide(project, request, self._clock())
        trace.mark("evaluate")
        return sorted(decision.outcomes, key=lambda outcome: outcome.flag.key)

    async def _read_context(
        self, scope: Scope, receive: Receive, project: Project
    ) -> Mapping[str, Any]:
        try:
            body = await self._payloads.read(scope, receive, project)
        except NoData:
            body = {}
        except AppError as error:
            if error.status != 400:
                raise
            raise EvaluationError("PARSE_ERROR", error.detail) from None
        if not isinstance(body, dict):
            raise EvaluationError("PARSE_ERROR", "A JSON object is required.")
        context = body.get("context")
        if not isinstance(context, dict | None):
            raise EvaluationError("INVALID_CONTEXT", "The context must be an object.")
        return context or {}


def _read_key(scope: Scope) -> str:
    return read_bearer(scope) or read_header(scope, b"x-api-key")


def _parse_context(
    context: Mapping[str, Any], scope: Scope, locate: LocateRequest | None, key: str | None
) -> EvaluationRequest:
    id = context.get(TARGETING_KEY)
    if id is None or id == "":
        raise EvaluationError(
            "TARGETING_KEY_MISSING", "A targetingKey is required: the distinct id."
        )
    if isinstance(id, bool) or not isinstance(id, str | int | float):
        raise EvaluationError("INVALID_CONTEXT", "The targetingKey must be a string.")
    device = context.get(DEVICE_ID)
    special = (TARGETING_KEY, GROUPS, GROUP_PROPERTIES, DEVICE_ID)
    return EvaluationRequest(
        distinct_id=str(id),
        person_properties={name: each for name, each in context.items() if name not in special},
        groups={name: str(each) for name, each in _read_object(context, GROUPS).items() if each},
        group_properties={
            name: each
            for name, each in _read_object(context, GROUP_PROPERTIES).items()
            if isinstance(each, dict)
        },
        device_id=device if isinstance(device, str) else None,
        flag_keys=None if key is None else frozenset((key,)),
        runtime=lambda: detect_runtime({}, scope),
        geoip=no_geoip if locate is None else lambda: locate(scope, {}),
    )


def _read_object(context: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = context.get(name)
    if not isinstance(value, dict | None):
        raise EvaluationError("INVALID_CONTEXT", f"{name} must be an object.")
    return value or {}


def _render_outcome(outcome: FlagOutcome) -> dict[str, Any]:
    flag = outcome.flag
    if outcome.has_failed:
        details = outcome.error or outcome.reason.description(None)
        return {"key": flag.key, "errorCode": "GENERAL", "errorDetails": details}
    rendered = {
        "key": flag.key,
        "reason": _map_reason(outcome),
        "variant": outcome.variant or ("true" if outcome.value else "false"),
        "metadata": {
            "id": flag.id,
            "version": flag.version,
            "reason": outcome.reason.value,
            **({} if outcome.payload is None else {"payload": _format_payload(outcome.payload)}),
        },
    }
    return rendered | _render_value(outcome)


def _render_value(outcome: FlagOutcome) -> dict[str, Any]:
    """Return an empty object where the flag has no value of its type for the context."""
    if outcome.flag.is_remote_configuration:
        found = _parse_payload(outcome.payload)
        return {} if found is None else {"value": found}
    if outcome.value is False and variant_keys(outcome.flag.filters):
        return {}
    return {"value": outcome.value}


def _parse_payload(payload: Any) -> Any:
    try:
        return jsonio.parse(payload.encode()) if isinstance(payload, str) else payload
    except jsonio.JsonError:  # stored with an invalid payload
        return None


def _format_payload(payload: Any) -> str:
    return payload if isinstance(payload, str) else jsonio.encode(payload).decode()


def _map_reason(outcome: FlagOutcome) -> str:
    """Map a reason to OpenFeature's resolution reasons."""
    match outcome.reason:
        case Reason.DISABLED:
            return "DISABLED"
        case Reason.MATCH:
            return _map_match(outcome.flag, outcome)
        case Reason.SUPER_CONDITION:
            return "TARGETING_MATCH"
        case Reason.OUT_OF_ROLLOUT | Reason.HOLDOUT:
            return "SPLIT"
        case _:
            return "DEFAULT"


def _map_match(flag: Flag, outcome: FlagOutcome) -> str:
    groups = condition_sets(flag.filters)
    index = outcome.condition_index or 0
    group = groups[index] if index < len(groups) else {}
    if group.get("properties"):
        return "TARGETING_MATCH"
    is_drawn = outcome.variant is not None and not group.get("variant")
    is_whole = group.get("rollout_percentage") in (None, 100)
    return "STATIC" if is_whole and not is_drawn else "SPLIT"


def _reply_with_etag(scope: Scope, body: bytes) -> Reply:
    """Reply 304 to a client that already has this response."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    etag = (b"etag", tag.encode())
    if etag_matches(scope, tag):
        return build_reply(304, b"", etag, EXPOSE_ETAG)
    return build_reply(200, body, JSON_TYPE, etag, EXPOSE_ETAG)


def _build_error(error: EvaluationError, key: str | None = None) -> Reply:
    named = {} if key is None else {"key": key}
    body = {**named, "errorCode": error.code, "errorDetails": error.details}
    return build_json_reply(error.status, body)
