"""The OpenAPI document: valid, complete and true of the live service."""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from hedgerow.http.console.console import PAGE_PATHS
from hedgerow.http.endpoint import endpoints_of
from hedgerow.http.openapi.docs import render_page
from hedgerow.http.openapi.document import build_document
from hedgerow.http.routes import ENDPOINT_CLASSES, FAST_ENDPOINT_CLASSES, documented_endpoints
from hedgerow.projects.scopes import is_scope
from tests.contract.api.cases import check_all
from tests.contract.api.operations import (
    ANY_KEY,
    COMPONENTS,
    LOGIN_OPERATIONS,
    ONE_ROOT_OPERATIONS,
    OPERATIONS,
    SDK_OPERATIONS,
    Operation,
    PathIds,
    create_objects,
    parse_operations,
)
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer

each_operation = check_all("operation", OPERATIONS)


@pytest.fixture(scope="module")
def document(live: LiveServer) -> dict[str, Any]:
    """The document as served, without a key."""
    with live.client(key=None) as client:
        response = client.get("/api/schema/")
        assert response.headers["content-type"] == "application/json"
        served: dict[str, Any] = response.json()
        return served


def test_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    validate(document, cls=OpenAPIV31SpecValidator)


def test_every_endpoint_is_documented_and_nothing_else(document: dict[str, Any]) -> None:
    assert sorted(map(str, parse_operations(document))) == sorted(
        map(str, [*OPERATIONS, *SDK_OPERATIONS, *LOGIN_OPERATIONS])
    )
    assert {(operation.method, operation.path) for operation in parse_operations(document)} == {
        (endpoint.method, path)
        for each in (*ENDPOINT_CLASSES, *FAST_ENDPOINT_CLASSES)
        for endpoint in endpoints_of(each)
        if endpoint.is_documented
        for path in endpoint.paths
    }


def test_only_preflights_aliases_docs_and_pages_are_undocumented() -> None:
    undocumented = [
        (endpoint.method, path)
        for each in (*ENDPOINT_CLASSES, *FAST_ENDPOINT_CLASSES)
        for endpoint in endpoints_of(each)
        if not endpoint.is_documented
        for path in endpoint.paths
    ]
    assert {
        path
        for method, path in undocumented
        if method != "OPTIONS" and not path.endswith((".csv/", ".json/"))
    } == {"/api/schema/", "/api/docs/", "/console/{name}", "/mcp", *PAGE_PATHS}


def test_operations_with_a_scope_are_those_of_personal_keys() -> None:
    """SDK operations name their own security schemes instead."""
    assert {operation.path for operation in (*SDK_OPERATIONS, *LOGIN_OPERATIONS)} == {
        path
        for each in (*ENDPOINT_CLASSES, *FAST_ENDPOINT_CLASSES)
        for endpoint in endpoints_of(each)
        if endpoint.is_documented and endpoint.keys is not None
        for path in endpoint.paths
    }


@check_all("operation", [*SDK_OPERATIONS, *LOGIN_OPERATIONS])
def test_sdk_operation_documents_purpose_parameters_and_keys(
    operation: Operation, document: dict[str, Any]
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    assert described["description"].endswith(".")
    assert described["tags"]
    schemes = document["components"]["securitySchemes"]
    assert all(name in schemes for choice in described["security"] for name in choice)
    assert all(parameter["description"] for parameter in described.get("parameters", ()))
    named = {p["name"] for p in described.get("parameters", ()) if p["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", operation.path))


@each_operation
def test_operation_documents_purpose_parameters_and_scope(
    operation: Operation, document: dict[str, Any]
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    assert is_scope(operation.scope) or operation.scope == ANY_KEY
    assert described["description"].endswith((".", "?"))
    assert described["tags"]
    assert described["security"][0] == {"personalKey": []}
    assert all(parameter["description"] for parameter in described.get("parameters", ()))
    named = {p["name"] for p in described.get("parameters", ()) if p["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", operation.path))
    rejected = described["responses"]["4XX"]["content"]["application/json"]["schema"]
    error = {"$ref": "#/components/schemas/Error"}
    assert rejected == error or error in rejected["anyOf"]


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [o["operationId"] for path in document["paths"].values() for o in path.values()]
    assert len(set(ids)) == len(ids)


def without_extras(document: dict[str, Any]) -> dict[str, Any]:
    """The document with objects closed to undocumented fields."""
    strict = copy.deepcopy(document)
    for schema in strict["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return strict


@pytest.fixture(scope="module")
def strict(document: dict[str, Any]) -> dict[str, Any]:
    return without_extras(document)


GOOD_BODIES: dict[str, dict[str, Any]] = {
    "MemberChange": {"level": 1, "project_roles": {}},
    "NewRole": {"name": "Documented", "scopes": ["survey:write"]},
    "RoleChange": {"scopes": ["survey:write", "query:read"]},
    "NewInvite": {"target_email": "documented@example.com", "project_roles": {"1": "viewer"}},
    "CohortPreviewBody": {"filters": {"properties": {"type": "AND", "values": []}}},
    "SampleBody": {"event": "bought", "properties": {"price": 3}},
    "PreviewBody": {"event": "bought", "properties": {"price": 3}},
    "PastEvaluationBody": {"distinct_id": "ann"},
    "ExplanationsBody": {"distinct_id": "ann"},
    "ProductDocumentBody": {"document": {"version": 1, "flags": []}, "environment": {}},
    "DocumentBody": {"document": {"version": 1}, "environment": {}},
    "NewProjectBody": {"name": "Documented", "timezone": "Europe/Paris"},
    "ProjectChange": {"name": "Documented"},
    "TokenRotation": {"grace_s": 60},
    "NewKey": {"label": "Documented", "scopes": ["plugin:read"], "scoped_teams": []},
    "KeyChange": {"label": "Documented", "scoped_teams": None},
    "RecordBody": {"name": "Documented", "description": "", "enabled": True, "order": 0},
    "MigrateBody": {},
    "JobBody": {},
    "RearrangeBody": {"orders": {}},
    "DraftBody": {"key": "drafted", "filters": {"groups": [{}]}},
    "ExplainBody": {"key": "drafted", "filters": {"groups": [{}]}, "distinct_id": "ann"},
    "BlastRadiusBody": {"condition": {}},
    "CohortBody": {"name": "Documented"},
    "PersonBody": {"distinct_ids": ["documented"], "properties": {"plan": "pro"}},
    "PropertyBody": {"key": "plan", "value": "pro"},
    "UnsetBody": {"$unset": "plan"},
    "SplitBody": {},
    "DeletionBody": {"event": "documented"},
    "QueryBody": {"query": {"kind": "HogQLQuery", "query": "select 1"}},
    "GroupTypeBody": {"group_type": "documented"},
    "GroupBody": {"group_type": "company", "group_key": "documented"},
    "NewFeature": {"name": "Documented feature", "stage": "beta"},
    "FeatureBody": {"stage": "alpha"},
    "NewSurvey": {"name": "Documented survey", "type": "api"},
    "SurveyBody": {"description": "Documented"},
    "NewEventDefinition": {"name": "Documented event", "schema": {"required": ["price"]}},
    "EventDefinitionBody": {"description": "Documented", "schema_mode": "reject"},
    "PropertyDefinitionBody": {"description": "Documented"},
    "NewExperiment": {"name": "Documented", "feature_flag_key": "documented-experiment"},
    "NewAction": {"name": "Documented", "steps": [{"event": "seen"}]},
    "ActionBody": {"description": "Documented"},
    "ExperimentBody": {"description": "Documented", "metrics": []},
    "NewInsight": {"query": {"kind": "HogQLQuery", "query": "select 1"}},
    "InsightBody": {"name": "Documented", "tags": ["a"]},
    "NewDashboard": {"name": "Documented", "tiles": [{"text": {"body": "Documented"}}]},
    "DashboardBody": {"pinned": True},
    "NewScheduledChange": {
        "record_id": 1,
        "model_name": "FeatureFlag",
        "payload": {"operation": "update_status", "value": True},
        "scheduled_at": "2030-01-01T00:00:00Z",
    },
    "NewPolicy": {
        "action_key": "feature_flag.update",
        "approver_config": {"quorum": 1},
        "enabled": False,
    },
    "PolicyBody": {"conditions": {"tags": ["documented"]}, "expires_after": 3600},
    "DecisionBody": {"reason": "Documented"},
    "ReasonBody": {"reason": "Documented"},
    "CommentBody": {"content": "Documented"},
    "WhatIfBody": {
        "key": "documented-what-if",
        "filters": {"groups": [{"rollout_percentage": 100}]},
        "days": 3,
    },
    "CodeScanBody": {
        "repository": "documented",
        "references": [{"key": "documented", "file": "a.js", "line": 1}],
    },
    "ScheduledChangeBody": {"recurrence_interval": "weekly"},
    "RolloutBody": {
        "record_id": 1,
        "condition_index": 0,
        "steps": [{"scheduled_at": "2030-01-01T00:00:00Z", "rollout_percentage": 50}],
    },
    "NewRolloutPlan": {
        "flag": 1,
        "steps": [{"rollout_percentage": 10, "duration_seconds": 3600}],
        "metrics": [{"type": "count", "event": "documented", "harm": "increase"}],
    },
    "NewBandit": {
        "flag": 1,
        "metric": {"metric_type": "funnel", "series": [{"event": "documented"}]},
    },
    "BanditBody": {"name": "Documented", "floor_percent": 10},
    "NewHoldout": {"name": "Documented", "filters": [{"rollout_percentage": 10}]},
    "HoldoutBody": {"description": "Documented", "filters": [{"rollout_percentage": 20}]},
    "RolloutPlanBody": {"name": "Documented", "on_harm": "pause"},
    "NewProduct": {"name": "Documented"},
    "ProductChange": {"name": "Documented product"},
    "PromotionBody": {"from": "dev", "to": "live", "all": True, "dry_run": True},
    "CopyBody": {
        "feature_flag_key": "documented",
        "from_project": 1,
        "target_project_ids": [999999],
    },
    "NewAnnotation": {"content": "Documented", "scope": "project"},
    "AnnotationBody": {"content": "Documented"},
    "SharingBody": {"enabled": True},
    "NewAlert": {"insight": 1, "condition": {"type": "anomaly"}, "enabled": False},
    "AlertBody": {"name": "Documented", "skip_weekend": True},
    "NewSubscription": {
        "insight": 1,
        "target_type": "webhook",
        "target_value": "1",
        "frequency": "daily",
        "start_date": "2090-01-01",
    },
    "SubscriptionBody": {"title": "Documented"},
    "FlagBody": {"name": "Documented", "filters": {"groups": [{"rollout_percentage": 50}]}},
}


def good_body(operation: Operation) -> dict[str, Any] | None:
    if operation.body is None:
        return None
    component, config = COMPONENTS.get(operation.family, (0, {}))
    of_records: dict[str, dict[str, Any]] = {
        "NewRecordBody": {"plugin": component},
        "ConfigBody": {**config},
    }
    body = (GOOD_BODIES | of_records)[operation.body_name]
    if operation.body_name == "PersonBody" and operation.method == "PATCH":
        return {"properties": body["properties"]}
    if operation.body_name == "NewSurvey" and operation.method == "PUT":
        return {**body, "name": "Documented and replaced survey"}
    is_new_flag = operation.body_name == "FlagBody" and operation.method == "POST"
    return {"key": "documented", **body} if is_new_flag else body


@pytest.fixture(scope="module")
def admin(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client


@pytest.fixture(scope="module")
def ids(admin: httpx.Client) -> PathIds:
    project = admin.post("/api/projects/", json={}).json()["id"]
    return create_objects(admin, project, "no-such-key")


def can_succeed(operation: Operation) -> bool:
    """The fixtures have no jobs for frontend apps and transformations, no deliveries, no running
    experiment or rollout, no session, no dead letter, no change request, no group, no second
    dashboard, no property that was seen and no destination, which alerts and subscriptions need."""
    if "property_definition_id" in operation.path or operation.path.endswith("/by_name/"):
        return False
    if re.search(r"/(alerts|subscriptions)/\{|/chart\.", operation.path):
        return operation.path.endswith("/activity/")
    if operation.method == "POST" and operation.path.endswith(("/alerts/", "/subscriptions/")):
        return False
    if re.search(r"\{(plan|bandit)_id\}/(start|pause|resume|stop|rollback)/", operation.path):
        return False
    if re.search(
        r"\{session_id\}|\{letter_id\}|\{change_request_id\}|/groups/find/", operation.path
    ):
        return False
    if operation.path.endswith(
        ("/move_tile/", "/retry/", "/preview/", "/end/", "/archive/", "/reset/")
    ):
        return False
    transforms = "transformation" in operation.family
    if operation.path.endswith("/test/"):
        return transforms
    return "{job_id}" not in operation.path or not (
        transforms or "frontend_apps" in operation.family
    )


@pytest.mark.parametrize("operation", [o for o in ONE_ROOT_OPERATIONS if can_succeed(o)], ids=str)
def test_live_response_matches_the_document(
    operation: Operation,
    document: dict[str, Any],
    strict: dict[str, Any],
    admin: httpx.Client,
    ids: PathIds,
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    body = good_body(operation)
    if body and "record_id" in body:
        body = {**body, "record_id": ids.flag_id}
    if body and "flag" in body:
        body = {**body, "flag": ids.flag_id}
    if body and "from_project" in body:
        found = admin.get(f"/api/projects/{ids.project_id}/feature_flags/{ids.flag_id}/").json()
        body = {**body, "from_project": ids.project_id, "feature_flag_key": found["key"]}
    if operation.body:
        assert valid(operation.body["content"]["application/json"]["schema"], body, document)
    key = admin.post("/api/personal_api_keys/", json=GOOD_BODIES["NewKey"]).json()["id"]
    own = replace(ids, key_id=key)
    is_in_project = "_id}/" in operation.path.partition("{project_id}")[2]
    if operation.method == "DELETE" and (is_in_project or "{organization_id}" in operation.path):
        own = create_objects(admin, ids.project_id, key, re.findall(r"{(\w+)}", operation.path))
    if operation.method == "DELETE" and operation.path.endswith("/{project_id}/"):
        own = replace(ids, project_id=admin.post("/api/projects/", json={}).json()["id"])
    form = {"format": "js" if operation.path.endswith("/frontend/") else "json"}
    query = {**form, "distinct_id": "somebody", "group_type_index": "0", "key": "plan"}
    if operation.path.endswith("/property_definitions/"):
        query["type"] = "group"
    response = admin.request(operation.method, operation.url(own), params=query, json=body)
    unknown_ids = PathIds(project_id="@nobody", key_id="@nobody", organization_id="@nobody")
    rejected = admin.request(operation.method, operation.url(unknown_ids), json=[])
    [status] = (status for status in described["responses"] if status.startswith("2"))
    assert response.status_code == int(status), response.text
    content = described["responses"][status].get("content")
    if content is None:
        assert not response.content
    else:
        media_type = response.headers["content-type"].partition(";")[0]
        assert media_type in content
        value = response.json() if media_type == "application/json" else response.text
        assert valid(content[media_type]["schema"], value, strict)
    if rejected.is_error:
        schema = described["responses"]["4XX"]["content"]["application/json"]["schema"]
        assert valid(schema, rejected.json(), strict)


def valid(schema: dict[str, Any], value: Any, document: dict[str, Any]) -> bool:
    validator = OAS31Validator({**schema, "components": document["components"]})
    wrong = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not wrong, wrong
    return True


EVENT = {"event": "documented", "distinct_id": "ann", "properties": {"n": 1}}
SDK_BODIES: dict[str, dict[str, Any]] = {
    "DecideRequest": {"api_key": PROJECT_KEY, "distinct_id": "ann", "groups": {}},
    "CaptureRequest": {"api_key": PROJECT_KEY, "batch": [EVENT]},
    "PerEventRequest": {"batch": [EVENT]},
    "OfrepRequest": {"context": {"targetingKey": "ann"}},
    "SegmentRequest": {
        "writeKey": PROJECT_KEY,
        "userId": "ann",
        "event": "paid",
        "batch": [{"type": "track", "userId": "ann", "event": "paid"}],
    },
}
# These need files of the operator, an enabled app or a link.
SCRIPTS = ("/static/", "/site_app/", "/shared/", "/exporter/", "/array/{token}/array.js/")


@pytest.mark.parametrize("operation", [o for o in SDK_OPERATIONS if not o.is_streaming], ids=str)
def test_live_sdk_response_matches_the_document(
    operation: Operation,
    document: dict[str, Any],
    strict: dict[str, Any],
    live: LiveServer,
    admin: httpx.Client,
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    flag = {"key": "documented", "filters": {"groups": [{}], "payloads": {"true": "1"}}}
    admin.post("/api/projects/1/feature_flags/", json=flag)
    schemes = [name for choice in described["security"] for name in choice]
    body = SDK_BODIES.get(operation.body_name, {}) if operation.body else None
    if operation.body:
        assert valid(operation.body["content"]["application/json"]["schema"], body, document)
    query: dict[str, str] = {"token": PROJECT_KEY} if "projectKeyInQuery" in schemes else {}
    if operation.method == "GET" and described["tags"] == ["Capture"]:
        query["data"] = json.dumps(SDK_BODIES["CaptureRequest"])
    key = PROJECT_KEY if "projectKey" in schemes else PERSONAL_KEY
    with live.client(key=key if schemes else None) as client:
        response = client.request(
            operation.method, operation.url(PathIds()), params=query, json=body
        )
    with live.client(key=None) as anonymous:
        rejected = anonymous.request(operation.method, operation.url(PathIds()), content=b"[")
    if operation.path.startswith(SCRIPTS):
        assert response.status_code == 404
    else:
        assert response.status_code == 200, response.text
        [(media_type, content)] = described["responses"]["200"]["content"].items()
        assert response.headers["content-type"].partition(";")[0] == media_type
        value = response.json() if media_type == "application/json" else response.text
        assert valid(content["schema"], value, strict)
    if rejected.is_error:
        schema = described["responses"]["4XX"]["content"]["application/json"]["schema"]
        assert valid(schema, rejected.json(), strict)


class Page(HTMLParser):
    """The URLs, tags and text of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self._texts: list[str] = []
        self.feed(text)

    @property
    def text(self) -> str:
        """The text, with single spaces."""
        return " ".join("".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        holders = ("href", "src", "srcset", "action", "data", "poster")
        self.addresses += [value or "" for name, value in attrs if name in holders]

    def handle_data(self, data: str) -> None:
        self._texts.append(data)


@pytest.fixture(scope="module")
def docs() -> str:
    """The page of an installation without a built console."""
    return render_page(build_document(documented_endpoints()))


@pytest.fixture(scope="module")
def page(docs: str) -> Page:
    return Page(docs)


def test_docs_load_nothing_from_other_hosts(docs: str, page: Page) -> None:
    assert page.addresses
    assert all(address.startswith(("/", "#")) for address in page.addresses)
    assert not any(address.startswith("//") for address in page.addresses)
    assert page.tags.isdisjoint({"script", "iframe", "object", "embed", "link", "img"})
    assert not re.search(r"https?://|@import|url\(", docs)


def test_docs_list_every_operation_with_its_scope(page: Page) -> None:
    text = page.text
    for operation in OPERATIONS:
        assert f"{operation.method} {operation.path} scope {operation.scope}" in text


def test_docs_allow_nothing_but_their_own_files(live: LiveServer) -> None:
    with live.client(key=None) as client:
        page = client.get("/api/docs/", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    # Without a built console the page has a style of its own and no script at all.
    assert ("nonce-" in policy) != ("'unsafe-inline'" in policy)
    assert "script-src 'unsafe-inline'" not in policy
    assert page.headers["referrer-policy"] in ("no-referrer", "same-origin")
