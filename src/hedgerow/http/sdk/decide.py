"""`POST /decide` and `/flags`: flag evaluation for SDKs, with the public key of a project."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope

from hedgerow.errors import Invalid
from hedgerow.flags.evaluation.decide import Decider, EvaluationRequest, FlagDecision, no_geoip
from hedgerow.http.auth.project_key import find_project_by_token
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.openapi.sdk_types import (
    COMPRESSION,
    CONFIG,
    IN_BODY,
    ONLY_SURVEYS,
    VERSION,
    DecideRequest,
    DecideResponse,
)
from hedgerow.http.payload.errors import NoData
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.sdk.decide_response import DecideFormat, render_decision
from hedgerow.http.sdk.runtime import detect_runtime
from hedgerow.http.sdk.sdk_config import DECIDE_FIELDS, ConfigFields, render_current
from hedgerow.http.server.response import JSON_TYPE, Reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.ingestion.cookieless.identity import SENTINEL_ID
from hedgerow.lib.clock import Clock
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.projects.project_token import find_project_token

TRUE_VALUES = (True, "true", "True", "1")
# A request with no other fields skips the parsing of the rare ones.
COMMON_FIELDS = frozenset(("api_key", "token", "distinct_id", "person_properties"))
ANONYMOUS_ID = "$anon_distinct_id"
# Fields in which posthog-js sends the same value for every visitor without cookies.
VISITOR_FIELDS = ("distinct_id", ANONYMOUS_ID, "$device_id")
NO_FLAGS = FlagDecision(outcomes=(), has_errors=False)

# Renders the SDK configuration from its common fields and the key of the project.
RenderConfig = Callable[[bytes, str], bytes]
# Returns the GeoIP properties of the user of a request, from its scope and body.
LocateRequest = Callable[[Scope, Mapping[str, Any]], Mapping[str, str]]
# Returns the distinct id of a visitor without cookies, from the request and its body.
IdentifyVisitor = Callable[[ProjectId, Scope, Mapping[str, Any]], Awaitable[str]]


class DecideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options in a query string."""

    format: DecideFormat
    has_config: bool
    has_time: bool
    only_surveys: bool


class DecideEndpoints:
    tag = "Flags for SDKs"

    def __init__(  # noqa: PLR0913 - collaborators
        self,
        directory: Directory,
        decider: Decider,
        configs: ConfigFields,
        payloads: PayloadReader,
        places: LocateRequest | None,
        identify_visitor: IdentifyVisitor,
        clock: Clock,
        limits: CallLimits,
    ) -> None:
        self._limits = limits
        self._directory = directory
        self._decider = decider
        self._configs = configs
        self._payloads = payloads
        self._locate_request = places
        self._identify_visitor = identify_visitor
        self._clock = clock

    @fast_endpoint(
        "POST",
        "/decide",
        is_public=True,
        is_quick=True,
        keys=IN_BODY,
        query=(VERSION, COMPRESSION, ONLY_SURVEYS),
        body=DecideRequest,
        response=DecideResponse,
    )
    async def decide(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Evaluate the flags of the project for a distinct id, in one of four response versions,
        with the SDK configuration."""
        options = _parse_decide_options(scope["query_string"])
        return await self._respond(scope, receive, trace, options, _render_decide_config)

    @fast_endpoint(
        "POST",
        "/flags",
        is_public=True,
        is_quick=True,
        keys=IN_BODY,
        query=(VERSION, CONFIG, COMPRESSION, ONLY_SURVEYS),
        body=DecideRequest,
        response=DecideResponse,
    )
    async def flags(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Evaluate the flags of the project for a distinct id. v2 has details; `config=true` adds
        the SDK configuration."""
        options = _parse_flags_options(scope["query_string"])
        return await self._respond(scope, receive, trace, options, render_current)

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        trace: Trace,
        options: DecideOptions,
        render: RenderConfig,
    ) -> Reply:
        try:
            body = await self._payloads.read(scope, receive)
        except NoData:
            body = {}
        trace.mark("body")
        if isinstance(body, list):
            body = body[0] if body else {}
        if not isinstance(body, dict):
            raise Invalid("A JSON object is required.", code="malformed_data")
        token = find_project_token(body)
        project = await find_project_by_token(self._directory, token)
        trace.project_id = project.id
        self._limits.admit_evaluation(project.id)
        trace.mark("access")
        decision = NO_FLAGS
        if body.get("disable_flags") not in TRUE_VALUES:
            if SENTINEL_ID in map(body.get, VISITOR_FIELDS):
                visitor_id = await self._identify_visitor(project.id, scope, body)
                body = {**body, **_replace_sentinel(body, visitor_id)}
            request = _parse_request(
                body, scope, self._locate(body, scope), only_surveys=options.only_surveys
            )
            decision = await self._decider.decide(project, request, self._clock())
            trace.mark("evaluate")
        config = (
            render(self._configs.render_fields(project.id), token) if options.has_config else b""
        )
        evaluated_at = self._clock() if options.has_time else None
        return build_reply(
            200, render_decision(decision, options.format, config, evaluated_at), JSON_TYPE
        )

    def _locate(self, body: Mapping[str, Any], scope: Scope) -> Callable[[], Mapping[str, str]]:
        locate = self._locate_request
        # posthog-python before version 4 sends the second name.
        is_disabled = (
            body.get("geoip_disable") in TRUE_VALUES or body.get("disable_geoip") in TRUE_VALUES
        )
        if locate is None or is_disabled:
            return no_geoip
        return lambda: locate(scope, body)


def _replace_sentinel(body: Mapping[str, Any], visitor_id: str) -> dict[str, str]:
    return {name: visitor_id for name in VISITOR_FIELDS if body.get(name) == SENTINEL_ID}


def _render_decide_config(part: bytes, token: str) -> bytes:
    return part + DECIDE_FIELDS


def _parse_request(
    body: Mapping[str, Any],
    scope: Scope,
    place: Callable[[], Mapping[str, str]],
    *,
    only_surveys: bool,
) -> EvaluationRequest:
    properties = _read_object(body, "person_properties", "$properties")
    if body.keys() <= COMMON_FIELDS and ANONYMOUS_ID not in properties:
        return EvaluationRequest(
            distinct_id=_parse_distinct_id(body),
            person_properties=properties,
            runtime=lambda: detect_runtime(body, scope),
            only_surveys=only_surveys,
            geoip=place,
        )
    keys = _first_present(body, "flag_keys", "flag_keys_to_evaluate")
    contexts = _first_present(body, "evaluation_contexts", "evaluation_environments")
    groups = _read_object(body, "groups", "$groups")
    group_properties = _read_object(body, "group_properties", "$group_properties")
    anonymous_id = _read_text(body, ANONYMOUS_ID, "anon_distinct_id")
    if anonymous_id is None:
        anonymous_id = _read_text(properties, ANONYMOUS_ID)
    return EvaluationRequest(
        distinct_id=_parse_distinct_id(body),
        person_properties=properties,
        groups=parse_groups(groups) if groups else groups,
        group_properties=_keep_objects(group_properties) if group_properties else group_properties,
        anonymous_id=anonymous_id and anonymous_id[:DISTINCT_ID_MAX_CHARS],
        device_id=_read_text(body, "$device_id", "device_id"),
        flag_keys=_parse_texts(keys, "flag_keys"),
        contexts=_parse_texts(contexts, "evaluation_contexts") or None,
        runtime=lambda: detect_runtime(body, scope),
        only_surveys=only_surveys,
        geoip=place,
    )


def _parse_distinct_id(body: Mapping[str, Any]) -> str:
    value = _first_present(body, "distinct_id", "$distinct_id")
    if isinstance(value, str):
        return value
    if value is None:
        raise Invalid("A distinct_id is required.", code="missing_distinct_id")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid("A text or a number is required.", attr="distinct_id")
    return str(value)


def _first_present(body: Mapping[str, Any], name: str, alias: str) -> Any:
    value = body.get(name)
    return body.get(alias) if value is None else value


def _read_object(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = body.get(name)
        if value is not None:
            if not isinstance(value, dict):
                raise Invalid("A JSON object is required.", attr=name, code="malformed_data")
            return value
    return {}


def parse_groups(groups: Mapping[str, Any]) -> dict[str, str]:
    """Keep group keys that are text or numbers; ignore all others."""
    return {
        name: str(key)
        for name, key in groups.items()
        if key != "" and isinstance(key, str | int | float) and not isinstance(key, bool)
    }


def _keep_objects(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in values.items() if isinstance(each, dict)}


def _read_text(body: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = body.get(name)
        if isinstance(value, str):
            return value
    return None


def _parse_texts(value: Any, name: str) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise Invalid("A list is required.", attr=name)
    return frozenset(each for each in value if isinstance(each, str))


@lru_cache(maxsize=256)
def _parse_decide_options(query_string: bytes) -> DecideOptions:
    query = _parse_query(query_string)
    version = min(max(_parse_number(query.get("v"), 1), 1), 4)
    return DecideOptions(
        format=(DecideFormat.KEYS, DecideFormat.ON, DecideFormat.VALUES, DecideFormat.DETAILS)[
            version - 1
        ],
        has_config=True,
        has_time=False,
        only_surveys=_has_only_surveys(query),
    )


@lru_cache(maxsize=256)
def _parse_flags_options(query_string: bytes) -> DecideOptions:
    query = _parse_query(query_string)
    version, config = query.get("v"), query.get("config")
    return DecideOptions(
        format=DecideFormat.VALUES
        if _parse_number(version, 2 if config is None else 1) < 2
        else DecideFormat.DETAILS,
        has_config=config in ("true", "1") or (version is None and config is None),
        has_time=True,
        only_surveys=_has_only_surveys(query),
    )


def _has_only_surveys(query: Mapping[str, str]) -> bool:
    return query.get("only_evaluate_survey_feature_flags") in ("true", "1")


def _parse_query(query_string: bytes) -> dict[str, str]:
    parsed = parse_qs(query_string[:2000].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in parsed.items()}


def _parse_number(text: str | None, default: int) -> int:
    if text is None:
        return default
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return 1
    return int(text[:10])
