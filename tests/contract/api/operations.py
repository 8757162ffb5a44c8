"""Every operation of the API, read off the routes as the OpenAPI document is."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from hedgerow.http.routes import FAMILIES
from hedgerow.http.schema import openapi
from tests.live import PROJECT_KEY

DOCUMENT = openapi(FastAPI(routes=[route for family in FAMILIES for route in family.routes]))
ANY_KEY = "any key"

# A component of each family of records, and settings that it takes.
COMPONENTS: dict[str, tuple[int, dict[str, str]]] = {
    "pipeline_destination_configs": (3, {"folder": "documented"}),
    "pipeline_frontend_apps_configs": (22, {"code": "documented()"}),
    "pipeline_import_apps_configs": (41, {"source": "documented.csv"}),
    "pipeline_transformation_configs": (65, {"mode": "remove"}),
}
# Things that PostHog has under /api/projects/ first.
ALIKE = (
    "feature_flags",
    "early_access_feature",
    "surveys",
    "experiments",
    "cohorts",
    "persons",
    "groups",
    "groups_types",
    "events",
    "query",
)
FIRST_FAMILY, *OTHER_FAMILIES = COMPONENTS
# What is in the paths that pages call.
NOT_OURS = {
    "token": PROJECT_KEY,
    "name": "array.js",
    "version": "1.2.3",
    "hash": "0",
    "key": "documented",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """What to fill into paths. Records and jobs have one id for each family."""

    project_id: object = "1"
    key_id: object = "no-such-key"
    organization_id: object = "@current"
    record_ids: Mapping[str, object] = field(default_factory=dict)
    job_ids: Mapping[str, object] = field(default_factory=dict)
    flag_id: object = "999999"
    feature_id: object = "no-such-feature"
    survey_id: object = "no-such-survey"
    experiment_id: object = "999999"
    cohort_id: object = "999999"
    person_id: object = "999999"
    event_id: object = "00000000-0000-0000-0000-000000000000"
    query_id: object = "no-such-query"

    def of_family(self, family: str) -> dict[str, str]:
        known = {
            "project_id": self.project_id,
            "key_id": self.key_id,
            "organization_id": self.organization_id,
            "flag_id": self.flag_id,
            "feature_id": self.feature_id,
            "survey_id": self.survey_id,
            "experiment_id": self.experiment_id,
            "cohort_id": self.cohort_id,
            "person_id": self.person_id,
            "event_id": self.event_id,
            "query_id": self.query_id,
            "record_id": self.record_ids.get(family, "999999"),
            "job_id": self.job_ids.get(family, "no-such-job"),
            "delivery_id": "999999",
            **NOT_OURS,
        }
        return {name: str(value) for name, value in known.items()}


NO_IDS = Ids()


def ids_with_records(admin: httpx.Client, project_id: object, key_id: object) -> Ids:
    """A flag, a cohort, a person, an event and a query in a project, and a record of each family
    with settings and, where it has any, a job."""
    record_ids: dict[str, object] = {}
    job_ids: dict[str, object] = {}
    for family, (component, config) in COMPONENTS.items():
        base = f"/api/environments/{project_id}/{family}/"
        made = admin.post(base, json={"plugin": component})
        assert made.status_code == 201, made.text
        record_ids[family] = made.json()["id"]
        at = f"{base}{record_ids[family]}/"
        assert admin.put(f"{at}config/", json=config).status_code == 200
        job = admin.post(f"{at}job/", params={"format": "json"}).json()
        if job is not None:
            job_ids[family] = job["id"]
    return Ids(
        project_id=project_id,
        key_id=key_id,
        record_ids=record_ids,
        job_ids=job_ids,
        flag_id=new_flag(admin, project_id),
        feature_id=_made(
            admin,
            f"/api/projects/{project_id}/early_access_feature/",
            {"name": f"Documented {uuid.uuid4()}", "stage": "beta"},
        ),
        survey_id=_made(
            admin,
            f"/api/projects/{project_id}/surveys/",
            {"name": f"Documented {uuid.uuid4()}", "type": "api"},
        ),
        experiment_id=_made(
            admin,
            f"/api/projects/{project_id}/experiments/",
            {"name": "Documented", "feature_flag_key": f"tried-{uuid.uuid4()}"},
        ),
        cohort_id=_made(admin, f"/api/projects/{project_id}/cohorts/", {"name": "Documented"}),
        person_id=_made(
            admin, f"/api/projects/{project_id}/persons/", {"distinct_ids": [str(uuid.uuid4())]}
        ),
        event_id=_captured(admin, project_id),
        query_id=_asked(admin, project_id),
    )


def _captured(admin: httpx.Client, project_id: object) -> str:
    token = admin.get(f"/api/projects/{project_id}/").json()["api_token"]
    event = {"event": "seen", "distinct_id": "somebody", "uuid": str(uuid.uuid4())}
    assert admin.post("/capture/", json={"api_key": token, **event}).status_code == 200
    return event["uuid"]


def _asked(admin: httpx.Client, project_id: object) -> object:
    wish = {"query": {"kind": "HogQLQuery", "query": "select 1"}, "refresh": "force_async"}
    asked = admin.post(f"/api/projects/{project_id}/query/", json=wish)
    assert asked.status_code == 202, asked.text
    return asked.json()["query_status"]["id"]


def _made(admin: httpx.Client, path: str, body: dict[str, Any]) -> object:
    made = admin.post(path, json=body)
    assert made.status_code == 201, made.text
    return made.json()["id"]


def new_flag(admin: httpx.Client, project_id: object) -> object:
    return _made(
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
    is_endless: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def in_project(self) -> bool:
        return "{project_id}" in self.path

    @property
    def family(self) -> str:
        """The family of records that it is about, if any."""
        return next((family for family in COMPONENTS if f"/{family}/" in self.path), "")

    @property
    def is_alias(self) -> bool:
        """Is it under the root that the specification (for flags: PostHog) names second?"""
        if any(f"/{{project_id}}/{name}/" in self.path for name in ALIKE):
            return self.path.startswith("/api/environments/")
        return bool(self.family) and self.path.startswith("/api/projects/")

    @property
    def body_name(self) -> str:
        schema = self.body["content"]["application/json"]["schema"] if self.body else {}
        return str(schema.get("$ref", "")).rpartition("/")[2]

    def url(self, ids: Ids) -> str:
        return self.path.format(**ids.of_family(self.family))


def operations_of(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(
            method=method.upper(),
            path=path,
            scope=operation.get("x-scope", ""),
            body=operation.get("requestBody"),
            is_endless=operation.get("x-endless", False),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


_EVERY = operations_of(DOCUMENT)
# Those for a personal key, and those that SDKs, pages and probes call.
OPERATIONS = [operation for operation in _EVERY if operation.scope]
SDK_OPERATIONS = [operation for operation in _EVERY if not operation.scope]
# Records and flags answer alike under both roots: to walk one root is enough for most claims,
OF_ONE_ROOT = [operation for operation in OPERATIONS if not operation.is_alias]
# and one family where a claim is dear.
OF_ONE_FAMILY = [o for o in OF_ONE_ROOT if o.family not in OTHER_FAMILIES]


def methods_of(path: str) -> list[str]:
    """What the Allow header of a documented path should say."""
    given = {operation.method for operation in OPERATIONS if operation.path == path}
    if "GET" in given:
        given.add("HEAD")
    order = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    return [*(method for method in order if method in given), "OPTIONS"]
