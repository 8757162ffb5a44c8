"""Every operation of the API, read from the OpenAPI document."""

import uuid
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from hedgerow.http.openapi.document import build_document
from hedgerow.http.routes import documented_endpoints
from tests.support.live import PROJECT_KEY

DOCUMENT = build_document(documented_endpoints())
ANY_KEY = "any key"
# Creates an object in a project and returns its id.
Creator = Callable[[httpx.Client, object], object]

# A component of each family of records, with valid settings.
COMPONENTS: dict[str, tuple[int, dict[str, str]]] = {
    "pipeline_destination_configs": (3, {"folder": "documented"}),
    "pipeline_frontend_apps_configs": (22, {"code": "documented()"}),
    "pipeline_import_apps_configs": (41, {"source": "documented.csv"}),
    "pipeline_transformation_configs": (65, {"mode": "remove"}),
}
# Resources whose primary root in PostHog is /api/projects/.
PROJECT_ROOT_RESOURCES = (
    "feature_flags",
    "scheduled_changes",
    "rollout_plans",
    "bandits",
    "code_references",
    "approval_policies",
    "change_requests",
    "early_access_feature",
    "surveys",
    "event_definitions",
    "property_definitions",
    "experiments",
    "experiment_holdouts",
    "cohorts",
    "persons",
    "groups",
    "groups_types",
    "events",
    "query",
    "actions",
    "insights",
    "dashboards",
    "annotations",
    "alerts",
    "subscriptions",
)
JOB_TYPES = {"pipeline_destination_configs": "replay", "pipeline_import_apps_configs": "import"}
FIRST_FAMILY, *OTHER_FAMILIES = COMPONENTS
# Values for the path parameters of public endpoints.
SDK_PATH_VALUES = {
    "token": PROJECT_KEY,
    "name": "array.js",
    "version": "1.2.3",
    "hash": "0",
    "key": "documented",
    "picture": "none.png",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathIds:
    """Values for path parameters. Records and jobs have one id per family."""

    project_id: object = "1"
    key_id: object = "no-such-key"
    organization_id: object = "@current"
    record_ids: Mapping[str, object] = field(default_factory=dict)
    job_ids: Mapping[str, object] = field(default_factory=dict)
    flag_id: object = "999999"
    feature_id: object = "no-such-feature"
    survey_id: object = "no-such-survey"
    event_definition_id: object = "no-such-definition"
    experiment_id: object = "999999"
    holdout_id: object = "999999"
    insight_id: object = "999999"
    dashboard_id: object = "999999"
    annotation_id: object = "999999"
    change_id: object = "999999"
    plan_id: object = "999999"
    bandit_id: object = "999999"
    product_id: object = "999999"
    policy_id: object = "no-such-policy"
    alert_id: object = "no-such-alert"
    subscription_id: object = "999999"
    cohort_id: object = "999999"
    action_id: object = "999999"
    person_id: object = "999999"
    event_id: object = "00000000-0000-0000-0000-000000000000"
    query_id: object = "no-such-query"
    user_id: object = "no-such-member"
    session_id: object = "no-such-session"
    role_id: object = "no-such-role"
    invite_id: object = "no-such-invite"

    def for_family(self, family: str) -> dict[str, str]:
        known = {
            "project_id": self.project_id,
            "key_id": self.key_id,
            "organization_id": self.organization_id,
            "flag_id": self.flag_id,
            "feature_id": self.feature_id,
            "survey_id": self.survey_id,
            "event_definition_id": self.event_definition_id,
            "property_definition_id": "no-such-definition",
            "experiment_id": self.experiment_id,
            "holdout_id": self.holdout_id,
            "insight_id": self.insight_id,
            "dashboard_id": self.dashboard_id,
            "annotation_id": self.annotation_id,
            "change_id": self.change_id,
            "plan_id": self.plan_id,
            "bandit_id": self.bandit_id,
            "product_id": self.product_id,
            "policy_id": self.policy_id,
            "change_request_id": "no-such-request",
            "alert_id": self.alert_id,
            "subscription_id": self.subscription_id,
            "cohort_id": self.cohort_id,
            "action_id": self.action_id,
            "person_id": self.person_id,
            "event_id": self.event_id,
            "query_id": self.query_id,
            "user_id": self.user_id,
            "session_id": self.session_id,
            "role_id": self.role_id,
            "invite_id": self.invite_id,
            "record_id": self.record_ids.get(family, "999999"),
            "job_id": self.job_ids.get(family, "no-such-job"),
            "document_kind": "definitions",
            "delivery_id": "999999",
            "letter_id": "999999",
            **SDK_PATH_VALUES,
        }
        return {name: str(value) for name, value in known.items()}


NO_IDS = PathIds()


def create_objects(
    admin: httpx.Client,
    project_id: object,
    key_id: object,
    parameters: Container[str] | None = None,
) -> PathIds:
    """Create an object in a project for each of these path parameters, or for all: one object of
    its kind, and of records a configured one of each family, with a job if the family has them."""
    record_ids: dict[str, object] = {}
    job_ids: dict[str, object] = {}
    has_records = parameters is None or "record_id" in parameters
    for family, (component, config) in COMPONENTS.items() if has_records else ():
        base = f"/api/environments/{project_id}/{family}/"
        created = admin.post(base, json={"plugin": component})
        assert created.status_code == 201, created.text
        record_ids[family] = created.json()["id"]
        at = f"{base}{record_ids[family]}/"
        assert admin.put(f"{at}config/", json=config).status_code == 200
        if family in JOB_TYPES:
            started = admin.post(f"{at}job/", json={"job": {"type": JOB_TYPES[family]}})
            job_ids[family] = started.headers["x-job-id"]
    created_ids: dict[str, Any] = {
        name: create(admin, project_id)
        for name, create in CREATORS.items()
        if parameters is None or name in parameters
    }
    return PathIds(
        project_id=project_id, key_id=key_id, record_ids=record_ids, job_ids=job_ids, **created_ids
    )


def _create_invite(admin: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"target_email": f"{uuid.uuid4()}@example.com", **fields}
    response = admin.post("/api/organizations/@current/invites/", json=body)
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


def create_member(admin: httpx.Client, project_id: object, role: str = "viewer") -> str:
    """Invite a person, let it join, and return its uuid."""
    invite = _create_invite(admin, project_roles={str(project_id): role})
    body = {"token": invite["link"], "first_name": "Ann", "password": "correct horse battery"}
    headers = {"Sec-Fetch-Site": "same-origin"}
    joined = httpx.post(f"{admin.base_url}/api/signup/", json=body, headers=headers, verify=False)
    assert joined.status_code == 201, joined.text
    members = admin.get("/api/organizations/@current/members/?limit=1000").json()["results"]
    email = invite["target_email"]
    return str(next(each["id"] for each in members if each["user"]["email"] == email))


def _capture_event(admin: httpx.Client, project_id: object) -> str:
    token = admin.get(f"/api/projects/{project_id}/").json()["api_token"]
    event = {"event": "seen", "distinct_id": "ann", "uuid": str(uuid.uuid4())}
    assert admin.post("/capture/", json={"api_key": token, **event}).status_code == 200
    return event["uuid"]


def _start_query(admin: httpx.Client, project_id: object) -> object:
    body = {"query": {"kind": "HogQLQuery", "query": "select 1"}, "refresh": "force_async"}
    response = admin.post(f"/api/projects/{project_id}/query/", json=body)
    assert response.status_code == 202, response.text
    return response.json()["query_status"]["id"]


def _create(admin: httpx.Client, path: str, body: dict[str, Any]) -> object:
    response = admin.post(path, json=body)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def create_flag(admin: httpx.Client, project_id: object) -> object:
    return _create(
        admin,
        f"/api/projects/{project_id}/feature_flags/",
        {
            "key": f"documented-{uuid.uuid4()}",
            "filters": {"groups": [{}]},
            "is_remote_configuration": True,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    path: str
    scope: str
    body: dict[str, Any] | None
    is_streaming: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def in_project(self) -> bool:
        return "{project_id}" in self.path

    @property
    def family(self) -> str:
        """The record family in the path, if any."""
        return next((family for family in COMPONENTS if f"/{family}/" in self.path), "")

    @property
    def is_alias(self) -> bool:
        """Whether the path is under the secondary root of the specification or of PostHog."""
        if any(f"/{{project_id}}/{name}/" in self.path for name in PROJECT_ROOT_RESOURCES):
            return self.path.startswith("/api/environments/")
        return bool(self.family) and self.path.startswith("/api/projects/")

    @property
    def is_login(self) -> bool:
        places = ("login", "logout", "setup", "reset", "signup", "users/@me")
        return self.path.startswith(tuple(f"/api/{place}/" for place in places))

    @property
    def body_name(self) -> str:
        schema = self.body["content"]["application/json"]["schema"] if self.body else {}
        return str(schema.get("$ref", "")).rpartition("/")[2]

    def url(self, ids: PathIds) -> str:
        return self.path.format(**ids.for_family(self.family))


def parse_operations(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(
            method=method.upper(),
            path=path,
            scope=operation.get("x-scope", ""),
            body=operation.get("requestBody"),
            is_streaming=operation.get("x-streaming", False),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


_ALL_OPERATIONS = parse_operations(DOCUMENT)
# Operations with a personal key, and operations that SDKs, pages and probes call.
OPERATIONS = [operation for operation in _ALL_OPERATIONS if operation.scope]
SDK_OPERATIONS = [
    operation for operation in _ALL_OPERATIONS if not (operation.scope or operation.is_login)
]
# Operations with which people log in and manage how they do, with a session or without one.
LOGIN_OPERATIONS = [
    operation for operation in _ALL_OPERATIONS if operation.is_login and not operation.scope
]
# Both roots respond alike, so one root is enough for most tests,
ONE_ROOT_OPERATIONS = [operation for operation in OPERATIONS if not operation.is_alias]
# and one family for expensive tests.
ONE_FAMILY_OPERATIONS = [o for o in ONE_ROOT_OPERATIONS if o.family not in OTHER_FAMILIES]


def list_allowed_methods(path: str) -> list[str]:
    """Return the expected Allow header of a documented path."""
    known = (*OPERATIONS, *LOGIN_OPERATIONS)
    methods = {operation.method for operation in known if operation.path == path}
    if "GET" in methods:
        methods.add("HEAD")
    order = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    return [*(method for method in order if method in methods), "OPTIONS"]


def _create_product(admin: httpx.Client) -> object:
    """Create a product with two new projects."""
    environments = [
        {"name": name, "project_id": _create(admin, "/api/projects/", {"name": name})}
        for name in ("dev", "live")
    ]
    body = {"name": f"Documented {uuid.uuid4()}", "environments": environments}
    return _create(admin, "/api/organizations/@current/products/", body)


def _in_project(path: str, body: Callable[[], dict[str, Any]]) -> Creator:
    return lambda admin, project_id: _create(admin, f"/api/projects/{project_id}/{path}/", body())


def _of_flag(path: str, parameter: str, body: dict[str, Any]) -> Creator:
    """Create an object that belongs to a new flag."""
    return lambda admin, project_id: _create(
        admin,
        f"/api/projects/{project_id}/{path}/",
        {parameter: create_flag(admin, project_id), **body},
    )


def _create_role(admin: httpx.Client, _: object) -> object:
    body = {"name": f"Documented {uuid.uuid4()}", "scopes": ["survey:read"]}
    return _create(admin, "/api/organizations/@current/roles/", body)


CREATORS: dict[str, Creator] = {
    "flag_id": create_flag,
    "feature_id": _in_project(
        "early_access_feature", lambda: {"name": f"Documented {uuid.uuid4()}", "stage": "beta"}
    ),
    "survey_id": _in_project(
        "surveys", lambda: {"name": f"Documented {uuid.uuid4()}", "type": "api"}
    ),
    "event_definition_id": _in_project(
        "event_definitions", lambda: {"name": f"Documented {uuid.uuid4()}"}
    ),
    "experiment_id": _in_project(
        "experiments",
        lambda: {"name": "Documented", "feature_flag_key": f"tried-{uuid.uuid4()}"},
    ),
    "insight_id": _in_project(
        "insights", lambda: {"query": {"kind": "HogQLQuery", "query": "select 1"}}
    ),
    "dashboard_id": _in_project("dashboards", lambda: {"name": "Documented"}),
    "change_id": _of_flag(
        "scheduled_changes",
        "record_id",
        {
            "model_name": "FeatureFlag",
            "payload": {"operation": "update_status", "value": True},
            "scheduled_at": "2030-01-01T00:00:00Z",
        },
    ),
    "plan_id": _of_flag(
        "rollout_plans",
        "flag",
        {
            "steps": [{"rollout_percentage": 100, "duration_seconds": 3600}],
            "metrics": [{"type": "count", "event": "documented", "harm": "increase"}],
        },
    ),
    "bandit_id": _of_flag(
        "bandits",
        "flag",
        {"metric": {"metric_type": "funnel", "series": [{"event": "documented"}]}},
    ),
    "holdout_id": _in_project(
        "experiment_holdouts",
        lambda: {"name": "Documented", "filters": [{"rollout_percentage": 5}]},
    ),
    "product_id": lambda admin, _: _create_product(admin),
    "policy_id": _in_project(
        "approval_policies",
        lambda: {
            "action_key": "feature_flag.*",
            "approver_config": {"quorum": 1},
            "enabled": False,
        },
    ),
    "annotation_id": _in_project("annotations", lambda: {"content": "Documented"}),
    "cohort_id": _in_project("cohorts", lambda: {"name": "Documented"}),
    "action_id": _in_project("actions", lambda: {"name": f"Documented {uuid.uuid4()}"}),
    "person_id": _in_project("persons", lambda: {"distinct_ids": [str(uuid.uuid4())]}),
    "event_id": _capture_event,
    "query_id": _start_query,
    "user_id": create_member,
    "role_id": _create_role,
    "invite_id": lambda admin, _: _create_invite(admin)["id"],
}
