"""The OpenAPI document: valid, whole, true of the live service, and a guide for hostile callers."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from fastapi.routing import APIRoute
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from hedgerow.http import flag_stream, remote_config, sdk_extras, site_app
from hedgerow.http.capture import EVENT_PATHS
from hedgerow.http.routes import FAMILIES, lean_routes
from hedgerow.projects.scopes import is_scope
from tests.contract.api.fuzz import Fuzz
from tests.contract.api.operations import (
    ANY_KEY,
    COMPONENTS,
    FIRST_FAMILY,
    OF_ONE_FAMILY,
    OF_ONE_ROOT,
    OPERATIONS,
    SDK_OPERATIONS,
    Ids,
    Operation,
    ids_with_records,
    operations_of,
)
from tests.live import PERSONAL_KEY, PROJECT_KEY, LiveServer

HOSTILE_REQUESTS = 10_000
# Of each kind, sound and unsound, for each operation, besides those at the edges.
EXAMPLES = 2

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)


@pytest.fixture(scope="module")
def document(live: LiveServer) -> dict[str, Any]:
    """As anybody gets it: no key is needed."""
    with live.client(key=None) as client:
        answer = client.get("/api/schema/")
        assert answer.headers["content-type"] == "application/json"
        served: dict[str, Any] = answer.json()
        return served


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    validate(document, cls=OpenAPIV31SpecValidator)


def test_every_route_is_documented_and_nothing_else(document: dict[str, Any]) -> None:
    assert [o for o in operations_of(document) if o.scope] == OPERATIONS
    assert {(operation.method, operation.path) for operation in OPERATIONS} == {
        (method, route.path)
        for family in FAMILIES
        for route in family.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }


def test_every_door_for_sdks_is_documented_and_nothing_else() -> None:
    lean = lean_routes(MagicMock(), MagicMock(), MagicMock())
    beside = {
        (method, route.path)
        for router in (remote_config.router, sdk_extras.router, site_app.router, flag_stream.router)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
        if method != "OPTIONS"
    }
    assert {(operation.method, operation.path) for operation in SDK_OPERATIONS} == beside | {
        (method, path) for path, route in lean.items() for method in route.methods
    }


@pytest.mark.parametrize("operation", SDK_OPERATIONS, ids=str)
def test_a_door_for_sdks_says_what_it_does_and_takes(
    operation: Operation, document: dict[str, Any]
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    assert described["description"].endswith(".")
    assert described["tags"]
    schemes = document["components"]["securitySchemes"]
    assert all(name in schemes for choice in described["security"] for name in choice)
    assert all(parameter["description"] for parameter in described["parameters"])
    named = {p["name"] for p in described["parameters"] if p["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", operation.path))


@each_operation
def test_an_operation_says_what_it_does_takes_and_needs(
    operation: Operation, document: dict[str, Any]
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    assert is_scope(operation.scope) or operation.scope == ANY_KEY
    assert described["description"].endswith((".", "?"))
    assert described["tags"]
    assert described["security"] == [{"personalKey": []}]
    assert all(parameter["description"] for parameter in described.get("parameters", ()))
    named = {p["name"] for p in described.get("parameters", ()) if p["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", operation.path))
    refused = described["responses"]["4XX"]["content"]["application/json"]["schema"]
    assert refused == {"$ref": "#/components/schemas/Error"}


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [o["operationId"] for path in document["paths"].values() for o in path.values()]
    assert len(set(ids)) == len(ids)


def without_extras(document: dict[str, Any]) -> dict[str, Any]:
    """The document in which an object holds nothing but what it says."""
    strict = copy.deepcopy(document)
    for schema in strict["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return strict


GOOD_BODIES: dict[str, dict[str, Any]] = {
    "TrialBody": {"event": "bought", "properties": {"price": 3}},
    "NewProject": {"name": "Documented", "timezone": "Europe/Paris"},
    "ProjectChange": {"name": "Documented"},
    "TokenRotation": {"grace_s": 60},
    "NewKey": {"label": "Documented", "scopes": ["plugin:read"], "scoped_teams": []},
    "KeyChange": {"label": "Documented", "scoped_teams": None},
    "RecordBody": {"name": "Documented", "description": "", "enabled": True, "order": 0},
    "MigrateBody": {},
    "JobBody": {},
    "RearrangeBody": {"orders": {}},
    "RadiusBody": {"condition": {}},
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
    "NewExperiment": {"name": "Documented", "feature_flag_key": "documented-experiment"},
    "ExperimentBody": {"description": "Documented", "metrics": []},
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
    is_new_flag = operation.body_name == "FlagBody" and operation.method == "POST"
    return {"key": "documented", **body} if is_new_flag else body


@pytest.fixture(scope="module")
def admin(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client


@pytest.fixture(scope="module")
def ids(admin: httpx.Client) -> Ids:
    project = admin.post("/api/projects/", json={}).json()["id"]
    return ids_with_records(admin, project, "no-such-key")


def can_succeed(operation: Operation) -> bool:
    """No frontend app and no transformation has a job that could be looked at, none of the records
    delivers, and no experiment runs."""
    if operation.path.endswith(("/retry/", "/preview/", "/end/", "/archive/", "/reset/")):
        return False
    transforms = "transformation" in operation.family
    if operation.path.endswith("/test/"):
        return transforms
    return "{job_id}" not in operation.path or not (
        transforms or "frontend_apps" in operation.family
    )


@pytest.mark.parametrize("operation", [o for o in OF_ONE_ROOT if can_succeed(o)], ids=str)
def test_a_live_answer_is_what_the_document_says(
    operation: Operation, document: dict[str, Any], admin: httpx.Client, ids: Ids
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    body = good_body(operation)
    if operation.body:
        assert valid(operation.body["content"]["application/json"]["schema"], body, document)
    key = admin.post("/api/personal_api_keys/", json=GOOD_BODIES["NewKey"]).json()["id"]
    own = replace(ids, key_id=key)
    if operation.method == "DELETE" and "_id}/" in operation.path.partition("{project_id}")[2]:
        own = ids_with_records(admin, ids.project_id, key)
    form = {"format": "js" if operation.path.endswith("/frontend/") else "json"}
    asked = {**form, "distinct_id": "somebody", "group_type_index": "0", "key": "plan"}
    answer = admin.request(operation.method, operation.url(own), params=asked, json=body)
    nowhere = Ids(project_id="@nobody", key_id="@nobody", organization_id="@nobody")
    refused = admin.request(operation.method, operation.url(nowhere), json=[])
    [status] = (status for status in described["responses"] if status.startswith("2"))
    assert answer.status_code == int(status), answer.text
    content = described["responses"][status].get("content")
    if content is None:
        assert not answer.content
    else:
        media_type = answer.headers["content-type"].partition(";")[0]
        assert media_type in content
        value = answer.json() if media_type == "application/json" else answer.text
        assert valid(content[media_type]["schema"], value, without_extras(document))
    if refused.is_error:
        said = described["responses"]["4XX"]["content"]["application/json"]["schema"]
        assert valid(said, refused.json(), without_extras(document))


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
}
# They answer only where an operator put them, or for an app that is enabled.
SCRIPTS = ("/static/", "/site_app/", "/array/{token}/array.js/")


@pytest.mark.parametrize("operation", [o for o in SDK_OPERATIONS if not o.is_endless], ids=str)
def test_a_live_answer_to_an_sdk_is_what_the_document_says(
    operation: Operation, document: dict[str, Any], live: LiveServer, admin: httpx.Client
) -> None:
    described = document["paths"][operation.path][operation.method.lower()]
    flag = {"key": "documented", "filters": {"groups": [{}], "payloads": {"true": "1"}}}
    admin.post("/api/projects/1/feature_flags/", json=flag)
    schemes = [name for choice in described["security"] for name in choice]
    body = SDK_BODIES.get(operation.body_name, {}) if operation.body else None
    if operation.body:
        assert valid(operation.body["content"]["application/json"]["schema"], body, document)
    asked: dict[str, str] = {"token": PROJECT_KEY} if "projectKeyInQuery" in schemes else {}
    if operation.method == "GET" and described["tags"] == ["Capture"]:
        asked["data"] = json.dumps(SDK_BODIES["CaptureRequest"])
    key = PROJECT_KEY if "projectKey" in schemes else PERSONAL_KEY
    with live.client(key=key if schemes else None) as client:
        answer = client.request(operation.method, operation.url(Ids()), params=asked, json=body)
    with live.client(key=None) as stranger:
        refused = stranger.request(operation.method, operation.url(Ids()), content=b"[")
    strict = without_extras(document)
    if operation.path.startswith(SCRIPTS):
        assert answer.status_code == 404
    else:
        assert answer.status_code == 200, answer.text
        [(media_type, content)] = described["responses"]["200"]["content"].items()
        assert answer.headers["content-type"].partition(";")[0] == media_type
        value = answer.json() if media_type == "application/json" else answer.text
        assert valid(content["schema"], value, strict)
    if refused.is_error:
        said = described["responses"]["4XX"]["content"]["application/json"]["schema"]
        assert valid(said, refused.json(), strict)


class Page(HTMLParser):
    """The addresses that a page would fetch or lead to, its tags and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        holders = ("href", "src", "srcset", "action", "data", "poster")
        self.addresses += [value or "" for name, value in attrs if name in holders]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def docs(live: LiveServer) -> httpx.Response:
    with live.client(key=None) as client:
        return client.get("/api/docs/", headers={"Accept": "text/html"})


def test_the_docs_need_nothing_from_another_host(docs: httpx.Response) -> None:
    assert docs.status_code == 200
    assert docs.headers["content-type"].startswith("text/html")
    page = Page(docs.text)
    assert page.addresses
    assert all(address.startswith(("/", "#")) for address in page.addresses)
    assert not any(address.startswith("//") for address in page.addresses)
    assert page.tags.isdisjoint({"script", "iframe", "object", "embed", "link", "img"})
    assert not re.search(r"https?://|@import|url\(", docs.text)


def test_the_docs_list_every_operation_with_its_scope(docs: httpx.Response) -> None:
    text = " ".join(Page(docs.text).text.split())
    for operation in OPERATIONS:
        assert f"{operation.method} {operation.path} scope {operation.scope}" in text


def test_the_front_page_leads_to_the_docs(live: LiveServer) -> None:
    with live.client(key=None) as client:
        answer = client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (302, "/api/docs/")


def fit(operation: Operation) -> bool:
    """One of the doors for events stands for all, who streams would wait for ever, probes take
    nothing, and the error of an app that is not there is PostHog's own."""
    is_alike = operation.path in (*EVENT_PATHS, "/engage") and operation.path != "/batch"
    is_apart = operation.path.startswith(("/_", "/metrics", "/site_app/"))
    return not (operation.is_endless or is_alike or is_apart)


def only(document: dict[str, Any], operations: list[Operation]) -> dict[str, Any]:
    """The document as if there were no other operations."""
    paths = {path: document["paths"][path] for path in dict.fromkeys(o.path for o in operations)}
    return {**document, "paths": paths}


@pytest.mark.timeout(600)
def test_ten_thousand_hostile_requests_get_no_5xx_and_one_error_shape(
    document: dict[str, Any],
    tmp_path: Path,
    tell: Callable[[str], None],
) -> None:
    with LiveServer(tmp_path) as server, server.client() as admin:

        def new_key(label: str, **more: Any) -> dict[str, Any]:
            body = {"label": label, "scopes": ["*"], **more}
            made: dict[str, Any] = admin.post("/api/personal_api_keys/", json=body).json()
            return made

        project, other = (admin.post("/api/projects/", json={}).json()["id"] for _ in range(2))
        ids = ids_with_records(admin, project, new_key("Victim")["id"])
        fuzz = Fuzz(
            base_url=server.address,
            known_ids=ids.of_family(FIRST_FAMILY),
            # A key of its own: it may revoke what it finds, and we must be able to look after.
            key=new_key("Fuzz")["value"],
            limited_key=new_key("Limited", scoped_teams=[other])["value"],
            project_key=PROJECT_KEY,
            examples=EXAMPLES,
        )
        fuzz.run(only(document, [*OF_ONE_FAMILY, *(o for o in SDK_OPERATIONS if fit(o))]))
        with server.client(key=fuzz.key) as fuzzer:
            assert fuzzer.get("/api/personal_api_keys/@current/").status_code == 200
        assert admin.get("/_readiness").json() == {"status": "ready", "missing": []}
        assert admin.get(f"/api/projects/{other}/").status_code == 200
    sent = fuzz.answers.total()
    told = ", ".join(f"{status}: {count}" for status, count in sorted(fuzz.answers.items()))
    tell(f"{sent} hostile requests, answered {told}")
    assert not fuzz.wrong, fuzz.wrong[:10]
    assert sent >= HOSTILE_REQUESTS
    # It got everywhere: to success, to every check, and past the paths that there are.
    assert fuzz.answers.keys() >= {200, 201, 204, 400, 403, 404, 405}
