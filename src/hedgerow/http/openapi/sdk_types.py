"""Types of SDK requests and responses, for the OpenAPI document only: the handlers read and write
most of them by hand, for speed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from hedgerow.http.parameters import Parameter

Object = dict[str, Any]

SCRIPT = "application/javascript"
# Security schemes, any of which is enough. OpenAPI has no scheme for a key in the body.
IN_BODY: Sequence[str] = ()
NO_KEY: Sequence[str] = ()
SERVER_KEYS = ("personalKey", "secretKey")
BEARER_OR_HEADER = ("projectKey", "projectKeyHeader")
IN_QUERY = ("projectKeyInQuery",)

NOT_MODIFIED = {"304": "The client already has this response."}

_TRUE_OR_FALSE = {"type": "string", "enum": ["true", "false"]}
VERSION = Parameter(
    "v", "The version of the response. A value that is not a number means 1.", {"type": "integer"}
)
CONFIG = Parameter("config", "Whether to add the SDK configuration.", _TRUE_OR_FALSE)
ONLY_SURVEYS = Parameter(
    "only_evaluate_survey_feature_flags", "Evaluate only the flags of surveys.", _TRUE_OR_FALSE
)
COMPRESSION = Parameter("compression", "The encoding of the body: gzip-js, base64 or lz64.")
BEACON = Parameter("beacon", "1 for a 204 response without a body.")
DATA = Parameter("data", "The body, as JSON or base64.")
STAGE = Parameter("stage", "Only features of this stage. Default: beta. May be repeated.")
TOKEN_OF_PROJECT = Parameter(
    "token", "The public key of the project, where neither the key nor the path identifies it."
)
PUBLIC_TOKEN = Parameter("token", "The public key of the project.")
COHORTS = Parameter(
    "send_cohorts",
    "If present, the response includes cohorts. Otherwise conditions replace them where possible.",
)


class DecideRequest(msgspec.Struct, kw_only=True):
    """The person and groups to evaluate for. The project key is in `token` or `api_key`."""

    distinct_id: str | float
    api_key: str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    person_properties: Object | UnsetType = UNSET
    groups: Object | UnsetType = UNSET
    group_properties: Object | UnsetType = UNSET
    flag_keys_to_evaluate: list[str] | UnsetType = UNSET
    evaluation_contexts: list[str] | UnsetType = UNSET
    evaluation_runtime: str | UnsetType = UNSET
    disable_flags: bool | UnsetType = UNSET
    geoip_disable: bool | UnsetType = UNSET
    device_id: str | UnsetType | None = msgspec.field(default=UNSET, name="$device_id")
    anonymous_id: str | UnsetType = msgspec.field(default=UNSET, name="$anon_distinct_id")


class FlagReason(msgspec.Struct, kw_only=True):
    code: str
    condition_index: int | None
    description: str


class FlagMetadata(msgspec.Struct, kw_only=True):
    id: int
    version: int
    description: str | None
    payload: Any


class FlagDetail(msgspec.Struct, kw_only=True):
    """A flag in v4 of /decide and v2 of /flags. `failed`: it could not be computed."""

    key: str
    enabled: bool
    variant: str | None
    reason: FlagReason
    metadata: FlagMetadata
    failed: bool | UnsetType = UNSET


class SdkConfig(msgspec.Struct, kw_only=True):
    """The SDK configuration: always in /decide, in /flags with `config=true`."""

    config: Object | UnsetType = UNSET
    toolbarParams: Object | UnsetType = UNSET
    isAuthenticated: bool | UnsetType = UNSET
    supportedCompression: list[str] | UnsetType = UNSET
    sessionRecording: Any = UNSET
    capturePerformance: Any = UNSET
    captureDeadClicks: bool | UnsetType = UNSET
    autocapture_opt_out: bool | UnsetType = UNSET
    chat_opt_in: bool | UnsetType = UNSET
    autocaptureExceptions: Any = UNSET
    analytics: Object | UnsetType = UNSET
    elementsChainAsString: bool | UnsetType = UNSET
    defaultIdentifiedOnly: bool | UnsetType = UNSET
    flagsPersistenceDefault: bool | UnsetType = UNSET
    heatmaps: bool | UnsetType = UNSET
    surveys: bool | UnsetType = UNSET
    siteApps: list[Object] | UnsetType = UNSET
    errorTracking: Object | UnsetType = UNSET
    hasFeatureFlags: bool | UnsetType = UNSET
    token: str | UnsetType = UNSET


class DecideResponse(SdkConfig, kw_only=True):
    """`featureFlags` is a list of keys in v1 and an object of values in v2 and v3; `flags` replaces
    it in v4 of /decide and v2 of /flags."""

    errorsWhileComputingFlags: bool
    requestId: str
    featureFlags: list[str] | dict[str, bool | str] | UnsetType = UNSET
    featureFlagPayloads: Object | UnsetType = UNSET
    flags: dict[str, FlagDetail] | UnsetType = UNSET
    evaluatedAt: int | UnsetType = UNSET


class EventRequest(msgspec.Struct, kw_only=True):
    """One event. The project key and the distinct id may also be among the properties."""

    event: str
    distinct_id: str | UnsetType = UNSET
    properties: Object | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    uuid: str | UnsetType = UNSET
    set: Object | UnsetType = msgspec.field(default=UNSET, name="$set")
    set_once: Object | UnsetType = msgspec.field(default=UNSET, name="$set_once")


class CaptureRequest(msgspec.Struct, kw_only=True):
    """One event with `api_key`, or a `batch` of events. A bare list of events, a form with `data`,
    gzip, base64 and lz64 are accepted, too."""

    api_key: str | UnsetType = UNSET
    batch: list[EventRequest] | UnsetType = UNSET
    event: str | UnsetType = UNSET
    distinct_id: str | UnsetType = UNSET
    properties: Object | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    uuid: str | UnsetType = UNSET
    sent_at: str | UnsetType = UNSET
    historical_migration: bool | UnsetType = UNSET


class SegmentRequest(msgspec.Struct, kw_only=True):
    """A call of Segment's tracking API, or a `batch` of calls that name their `type`. The project's
    key is the user name of basic authentication, or `writeKey`."""

    writeKey: str | UnsetType = UNSET
    batch: list[Object] | UnsetType = UNSET
    type: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    userId: str | UnsetType = UNSET
    anonymousId: str | UnsetType = UNSET
    previousId: str | UnsetType = UNSET
    groupId: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    properties: Object | UnsetType = UNSET
    traits: Object | UnsetType = UNSET
    context: Object | UnsetType = UNSET
    messageId: str | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    originalTimestamp: str | UnsetType = UNSET
    sentAt: str | UnsetType = UNSET


class SegmentResponse(msgspec.Struct, kw_only=True):
    success: bool


class RejectedEventItem(msgspec.Struct, kw_only=True):
    index: int
    uuid: str | None
    code: str
    detail: str


class CaptureResponse(msgspec.Struct, kw_only=True):
    """With `beacon=1` the response is 204 without a body."""

    status: int
    rejected: list[RejectedEventItem] | UnsetType = UNSET


class PerEventRequest(msgspec.Struct, kw_only=True):
    batch: list[EventRequest]
    created_at: str | UnsetType = UNSET
    historical_migration: bool | UnsetType = UNSET


class EventResult(msgspec.Struct, kw_only=True):
    """`ok`, `warning` or `drop`."""

    result: str
    details: str | UnsetType = UNSET


class PerEventResponse(msgspec.Struct, kw_only=True):
    results: dict[str, EventResult]


class Definitions(msgspec.Struct, kw_only=True):
    """Flag definitions for local evaluation."""

    flags: list[Object]
    group_type_mapping: dict[str, str]
    cohorts: dict[str, Object]


class EdgeDefinitions(msgspec.Struct, kw_only=True):
    """All that an edge process needs. Another `format` is not compatible with this one."""

    format: int
    project: Object
    definitions: Object


class PublicFeature(msgspec.Struct, kw_only=True):
    id: str
    name: str
    description: str
    stage: str
    documentationUrl: str
    payload: Mapping[str, Any]
    flagKey: str


class PublicFeatures(msgspec.Struct, kw_only=True):
    earlyAccessFeatures: list[PublicFeature]


class PublicSurvey(msgspec.Struct, kw_only=True):
    """A survey is shown where all of its flags are on and its conditions hold."""

    id: str
    name: str
    type: str
    linked_flag_key: str | None
    targeting_flag_key: str | None
    internal_targeting_flag_key: str
    questions: list[Object]
    conditions: Object | None
    appearance: Object | None
    translations: Object | None
    start_date: str | None
    end_date: str | None
    current_iteration: int | None
    current_iteration_start_date: str | None
    schedule: str | None
    enable_partial_responses: bool


class PublicSurveys(msgspec.Struct, kw_only=True):
    surveys: list[PublicSurvey]
    survey_config: Object | None


class OfrepRequest(msgspec.Struct, kw_only=True):
    """`targetingKey` is the distinct id. `$groups`, `$group_properties` and `$device_id` have the
    same meaning as in /decide. Every other field is a person property."""

    context: Object


class OfrepFlag(msgspec.Struct, kw_only=True):
    """Without `value` the app uses its default. `errorCode`: the flag could not be computed."""

    key: str
    reason: str | UnsetType = UNSET
    variant: str | UnsetType = UNSET
    metadata: dict[str, bool | str | float] | UnsetType = UNSET
    value: Any = UNSET
    errorCode: str | UnsetType = UNSET
    errorDetails: str | UnsetType = UNSET


class OfrepStreamEndpoint(msgspec.Struct, kw_only=True):
    """`requestUri` is below the origin of this service."""

    requestUri: str


class OfrepEventStream(msgspec.Struct, kw_only=True):
    """Where to learn of changes. A hidden page closes its stream after `inactivityDelaySec`."""

    type: Literal["sse"]
    endpoint: OfrepStreamEndpoint
    inactivityDelaySec: int


class OfrepFlags(msgspec.Struct, kw_only=True):
    flags: list[OfrepFlag]
    eventStreams: list[OfrepEventStream]


class OfrepFailure(msgspec.Struct, kw_only=True):
    """PARSE_ERROR, TARGETING_KEY_MISSING, INVALID_CONTEXT, FLAG_NOT_FOUND or GENERAL. Other errors
    (401, 413) have the common shape."""

    errorCode: str
    errorDetails: str
    key: str | UnsetType = UNSET


class OfrepConfiguration(msgspec.Struct, kw_only=True):
    name: str
    capabilities: Object


class HealthStatus(msgspec.Struct, kw_only=True):
    status: str
    missing: list[str] | UnsetType = UNSET
