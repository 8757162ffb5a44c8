"""What SDKs send and get, for the API's documentation. The doors read and write most of it by hand,
which is faster.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Object = dict[str, Any]


class DecideRequest(msgspec.Struct, kw_only=True):
    """Who asks. The key may stand in `token` or in `api_key`."""

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
    """A flag in v4 of /decide and v2 of /flags. `failed` where it could not be computed."""

    key: str
    enabled: bool
    variant: str | None
    reason: FlagReason
    metadata: FlagMetadata
    failed: bool | UnsetType = UNSET


class SdkConfig(msgspec.Struct, kw_only=True):
    """What SDKs read besides flags: always in /decide, in /flags with `config=true`."""

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


class DecideAnswer(SdkConfig, kw_only=True):
    """`featureFlags` is a list of keys in v1, an object of values in v2 and v3; `flags` takes its
    place in v4 of /decide and v2 of /flags."""

    errorsWhileComputingFlags: bool
    requestId: str
    featureFlags: list[str] | dict[str, bool | str] | UnsetType = UNSET
    featureFlagPayloads: Object | UnsetType = UNSET
    flags: dict[str, FlagDetail] | UnsetType = UNSET
    evaluatedAt: int | UnsetType = UNSET


class CapturedEvent(msgspec.Struct, kw_only=True):
    """One event. Its key and its distinct id may stand among the properties."""

    event: str
    distinct_id: str | UnsetType = UNSET
    properties: Object | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    uuid: str | UnsetType = UNSET
    set: Object | UnsetType = msgspec.field(default=UNSET, name="$set")
    set_once: Object | UnsetType = msgspec.field(default=UNSET, name="$set_once")


class CaptureRequest(msgspec.Struct, kw_only=True):
    """One event with `api_key` beside it, or a `batch` of them. A bare list of events, a form with
    `data`, gzip, base64 and lz64 are taken, too."""

    api_key: str | UnsetType = UNSET
    batch: list[CapturedEvent] | UnsetType = UNSET
    event: str | UnsetType = UNSET
    distinct_id: str | UnsetType = UNSET
    properties: Object | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    uuid: str | UnsetType = UNSET
    sent_at: str | UnsetType = UNSET
    historical_migration: bool | UnsetType = UNSET


class RefusedEvent(msgspec.Struct, kw_only=True):
    index: int
    uuid: str | None
    code: str
    detail: str


class CaptureAnswer(msgspec.Struct, kw_only=True):
    """With `beacon=1` the answer is 204 without a body."""

    status: int
    rejected: list[RefusedEvent] | UnsetType = UNSET


class PerEventRequest(msgspec.Struct, kw_only=True):
    batch: list[CapturedEvent]
    created_at: str | UnsetType = UNSET
    historical_migration: bool | UnsetType = UNSET


class EventResult(msgspec.Struct, kw_only=True):
    """`ok`, `warning` or `drop`."""

    result: str
    details: str | UnsetType = UNSET


class PerEventAnswer(msgspec.Struct, kw_only=True):
    results: dict[str, EventResult]


class Definitions(msgspec.Struct, kw_only=True):
    """Flags for SDKs that evaluate them by themselves."""

    flags: list[Object]
    group_type_mapping: dict[str, str]
    cohorts: dict[str, Object]


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
    """It is shown where all of its flags are on, and its conditions hold."""

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
    """`targetingKey` is the distinct id; `$groups`, `$group_properties` and `$device_id` are what
    they are in /decide; everything else is a property of the person."""

    context: Object


class OfrepFlag(msgspec.Struct, kw_only=True):
    """Without `value` the app's default counts. `errorCode` where it could not be computed."""

    key: str
    reason: str | UnsetType = UNSET
    variant: str | UnsetType = UNSET
    metadata: dict[str, bool | str | float] | UnsetType = UNSET
    value: Any = UNSET
    errorCode: str | UnsetType = UNSET
    errorDetails: str | UnsetType = UNSET


class OfrepFlags(msgspec.Struct, kw_only=True):
    flags: list[OfrepFlag]


class OfrepFailure(msgspec.Struct, kw_only=True):
    """PARSE_ERROR, TARGETING_KEY_MISSING, INVALID_CONTEXT, FLAG_NOT_FOUND or GENERAL. What is not
    about an evaluation (401, 413) has the shape of every other error."""

    errorCode: str
    errorDetails: str
    key: str | UnsetType = UNSET


class OfrepConfiguration(msgspec.Struct, kw_only=True):
    name: str
    capabilities: Object


class Standing(msgspec.Struct, kw_only=True):
    status: str
    missing: list[str] | UnsetType = UNSET
