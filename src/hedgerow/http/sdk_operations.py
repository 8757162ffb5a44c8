"""The operations that need no personal key, for the API's documentation: what SDKs, pages and
probes call. They are answered in front of FastAPI or beside its models, so they are told here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.http import sdk_shapes as shapes
from hedgerow.http.capture import EVENT_PATHS
from hedgerow.http.describe import Parameter
from hedgerow.http.ofrep import PATH as OFREP

JSON = "application/json"
SCRIPT = "application/javascript"
SECURITY_SCHEMES: Mapping[str, Mapping[str, str]] = {
    "personalKey": {"type": "http", "scheme": "bearer", "description": "A phx_ key."},
    "secretKey": {"type": "http", "scheme": "bearer", "description": "A phs_ key of the project."},
    "projectKey": {"type": "http", "scheme": "bearer", "description": "A phc_ key."},
    "projectKeyHeader": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "projectKeyInQuery": {"type": "apiKey", "in": "query", "name": "token"},
}
# Kinds of keys, by the schemes of which any will do. A key in the body is none of OpenAPI's.
IN_BODY: Sequence[str] = ()
NO_KEY: Sequence[str] = ()
SERVER_KEYS = ("personalKey", "secretKey")
BEARER_OR_HEADER = ("projectKey", "projectKeyHeader")
IN_QUERY = ("projectKeyInQuery",)

INTEGER = {"type": "integer"}
FLAG = {"type": "string", "enum": ["true", "false"]}
VERSION = Parameter("v", "The version of the answer; what is no number is 1.", INTEGER)
ONLY_SURVEYS = Parameter(
    "only_evaluate_survey_feature_flags", "Only the flags that decide about surveys.", FLAG
)
COMPRESSION = Parameter("compression", "How the body is packed: gzip-js, base64 or lz64.")
BEACON = Parameter("beacon", "1 for an answer without a body, 204.")
DATA = Parameter("data", "What the body would hold, in JSON or base64.")
TOKEN_OF_PROJECT = Parameter(
    "token", "The project's public key, where neither the key nor the path says which it is."
)
COHORTS = Parameter(
    "send_cohorts", "If it is there, cohorts are told; else conditions do without, where they can."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkOperation:
    """`endless` answers go on until the caller leaves; `statuses` are further ones that are no
    errors."""

    path: str
    name: str
    about: str
    tag: str
    method: str = "POST"
    keys: Sequence[str] = IN_BODY
    query: Sequence[Parameter] = ()
    body: Any = None
    answer: Any = None
    media_type: str = JSON
    failure: Any = None
    statuses: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False


def _captures() -> list[SdkOperation]:
    about = (
        "Events come in: one, or many. They are on disk before the answer. A bad event is refused "
        "by itself, and named in the answer."
    )
    paths = dict.fromkeys(EVENT_PATHS, about) | {
        "/engage": f"{about} An event without a name is `$identify`."
    }
    posts = [
        SdkOperation(
            path=path,
            name="capture",
            about=told,
            tag="Capture",
            query=(COMPRESSION, BEACON),
            body=shapes.CaptureRequest,
            answer=shapes.CaptureAnswer,
            statuses={"204": "Taken, for a beacon."},
        )
        for path, told in paths.items()
    ]
    gets = [
        SdkOperation(
            path=path,
            method="GET",
            name="capture_by_query",
            about="The same for who cannot post.",
            tag="Capture",
            query=(DATA, COMPRESSION, BEACON),
            answer=shapes.CaptureAnswer,
            statuses={"204": "Taken, for a beacon."},
        )
        for path in paths
    ]
    return posts + gets


UNCHANGED = {"304": "The caller has this very answer."}

SDK_OPERATIONS: Sequence[SdkOperation] = (
    SdkOperation(
        path="/decide",
        name="decide",
        about="The flags for somebody, in four versions, and what SDKs read besides.",
        tag="Flags for SDKs",
        query=(VERSION, COMPRESSION, ONLY_SURVEYS),
        body=shapes.DecideRequest,
        answer=shapes.DecideAnswer,
    ),
    SdkOperation(
        path="/flags",
        name="flags",
        about="The flags for somebody. v2 has details; `config=true` adds what SDKs read besides.",
        tag="Flags for SDKs",
        query=(VERSION, Parameter("config", "Whether to add it.", FLAG), COMPRESSION, ONLY_SURVEYS),
        body=shapes.DecideRequest,
        answer=shapes.DecideAnswer,
    ),
    SdkOperation(
        path="/flags/definitions",
        method="GET",
        name="definitions",
        about="The definitions of all flags, for SDKs that evaluate them by themselves. "
        "`If-None-Match` with the `ETag` of the last answer gives 304 if it is still right.",
        tag="Flags for SDKs",
        keys=SERVER_KEYS,
        query=(TOKEN_OF_PROJECT, COHORTS),
        answer=shapes.Definitions,
        statuses=UNCHANGED,
    ),
    SdkOperation(
        path="/api/feature_flag/local_evaluation",
        method="GET",
        name="older_definitions",
        about="The same for older SDKs, in words that they know.",
        tag="Flags for SDKs",
        keys=SERVER_KEYS,
        query=(TOKEN_OF_PROJECT, COHORTS),
        answer=shapes.Definitions,
        statuses=UNCHANGED,
    ),
    *(
        SdkOperation(
            path=f"/api/{root}/{{project_id}}/feature_flags/stream/",
            method="GET",
            name="stream",
            about="Tells that definitions have changed, as server-sent events, and does not end. "
            "Each event has the new `ETag`.",
            tag="Flags for SDKs",
            keys=SERVER_KEYS,
            answer=str,
            media_type="text/event-stream",
            endless=True,
        )
        for root in ("projects", "environments")
    ),
    *_captures(),
    SdkOperation(
        path="/i/v1/analytics/events",
        name="capture_per_event",
        about="Events come in, and each is answered by itself.",
        tag="Capture",
        keys=("projectKey",),
        body=shapes.PerEventRequest,
        answer=shapes.PerEventAnswer,
    ),
    SdkOperation(
        path="/s",
        name="recordings",
        about="Session recordings, which are taken and not kept.",
        tag="Capture",
        keys=NO_KEY,
        body=dict[str, Any],
        answer=shapes.CaptureAnswer,
    ),
    SdkOperation(
        path="/api/early_access_features",
        method="GET",
        name="public_features",
        about="The features that people may choose by themselves.",
        tag="Pages",
        keys=IN_QUERY,
        query=(Parameter("stage", "Of these stages only; beta unless told. May be repeated."),),
        answer=shapes.PublicFeatures,
    ),
    SdkOperation(
        path="/api/surveys",
        method="GET",
        name="public_surveys",
        about="The surveys that pages may show.",
        tag="Pages",
        keys=IN_QUERY,
        answer=shapes.PublicSurveys,
    ),
    SdkOperation(
        path="/array/{token}/config/",
        method="GET",
        name="remote_config",
        about="What posthog-js reads before anything else.",
        tag="Pages",
        keys=NO_KEY,
        answer=shapes.SdkConfig,
        statuses=UNCHANGED,
    ),
    SdkOperation(
        path="/array/{token}/config.js/",
        method="GET",
        name="remote_config_script",
        about="The same as a script.",
        tag="Pages",
        keys=NO_KEY,
        answer=str,
        media_type=SCRIPT,
        statuses=UNCHANGED,
    ),
    *(
        SdkOperation(
            path=path,
            method="GET",
            name=name,
            about="A script of posthog-js, from the folder in HEDGEROW_SDK_SCRIPTS.",
            tag="Pages",
            keys=NO_KEY,
            answer=str,
            media_type="text/javascript",
            statuses=UNCHANGED,
        )
        for name, path in (
            ("script", "/static/{name}/"),
            ("script_of_version", "/static/{version}/{name}/"),
            ("sdk", "/array/{token}/array.js/"),
        )
    ),
    SdkOperation(
        path="/site_app/{record_id}/{token}/{hash}/",
        method="GET",
        name="site_app",
        about="A frontend app with its settings, as a script.",
        tag="Pages",
        keys=NO_KEY,
        answer=str,
        media_type=SCRIPT,
        statuses=UNCHANGED,
    ),
    SdkOperation(
        path=OFREP,
        name="ofrep_evaluate_all",
        about="All flags for somebody, by the OpenFeature Remote Evaluation Protocol.",
        tag="OpenFeature",
        keys=BEARER_OR_HEADER,
        body=shapes.OfrepRequest,
        answer=shapes.OfrepFlags,
        failure=shapes.OfrepFailure,
        statuses=UNCHANGED,
    ),
    SdkOperation(
        path=f"{OFREP}/{{key}}",
        name="ofrep_evaluate_one",
        about="One flag for somebody, by the OpenFeature Remote Evaluation Protocol.",
        tag="OpenFeature",
        keys=BEARER_OR_HEADER,
        body=shapes.OfrepRequest,
        answer=shapes.OfrepFlag,
        failure=shapes.OfrepFailure,
    ),
    SdkOperation(
        path="/ofrep/v1/configuration",
        method="GET",
        name="ofrep_configuration",
        about="What providers of OpenFeature may expect here.",
        tag="OpenFeature",
        keys=BEARER_OR_HEADER,
        answer=shapes.OfrepConfiguration,
        statuses=UNCHANGED,
    ),
    SdkOperation(
        path="/_liveness",
        method="GET",
        name="liveness",
        about="Whether the process runs.",
        tag="Probes",
        keys=NO_KEY,
        answer=shapes.Standing,
    ),
    SdkOperation(
        path="/_readiness",
        method="GET",
        name="readiness",
        about="Whether it can work, or what is missing.",
        tag="Probes",
        keys=NO_KEY,
        answer=shapes.Standing,
    ),
    SdkOperation(
        path="/metrics",
        method="GET",
        name="metrics",
        about="Figures for Prometheus.",
        tag="Probes",
        keys=NO_KEY,
        answer=str,
        media_type="text/plain",
    ),
)
