"""The OpenAPI 3.1 document, built from the descriptions of the endpoints."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hedgerow import __version__
from hedgerow.http.auth.session_cookie import COOKIE
from hedgerow.http.endpoint import JSON, Endpoint
from hedgerow.http.parameters import Parameter

PATH_PARAMETER = re.compile(r"\{(\w+)\}")
DESCRIPTION = """\
Hedgerow implements PostHog's HTTP API. Requests to /api carry a personal key
(`Authorization: Bearer phx_…`); apps send the project's public key (`phc_…`).
Every path works with and without its trailing slash.
Every error is `{type, code, detail, attr}`."""

SECURITY_SCHEMES: Mapping[str, Mapping[str, str]] = {
    "personalKey": {"type": "http", "scheme": "bearer", "description": "A personal key, phx_…"},
    "secretKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A secret key of the project, phs_…",
    },
    "projectKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The public key of the project, phc_…",
    },
    "projectKeyHeader": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    "projectKeyInQuery": {"type": "apiKey", "in": "query", "name": "token"},
}

PATH_PARAMETERS = {
    "project_id": "The id of the project, or @current.",
    "document_kind": "The kind: flags, pipelines, definitions or dashboards.",
    "key_id": "The id of the key, or @current for the key of the request.",
    "organization_id": "The id of the organization, or @current.",
    "record_id": "The id of the record.",
    "job_id": "The id of the job.",
    "delivery_id": "The id of the delivery.",
    "letter_id": "The id of the dead letter.",
    "cohort_id": "The id of the cohort.",
    "action_id": "The id of the action.",
    "event_id": "The uuid of the event.",
    "person_id": "The uuid of the person.",
    "flag_id": "The id or the key of the flag.",
    "feature_id": "The id of the feature.",
    "event_definition_id": "The id of the event definition.",
    "property_definition_id": "The id of the property definition.",
    "survey_id": "The id of the survey.",
    "alert_id": "The id of the alert.",
    "subscription_id": "The id of the subscription.",
    "picture": "The file name of the picture.",
    "experiment_id": "The id of the experiment.",
    "holdout_id": "The id of the holdout.",
    "insight_id": "The id or the short id of the insight.",
    "dashboard_id": "The id of the dashboard.",
    "annotation_id": "The id of the annotation.",
    "plan_id": "The id of the rollout plan.",
    "bandit_id": "The id of the bandit.",
    "change_id": "The id of the scheduled change.",
    "product_id": "The id of the product.",
    "change_request_id": "The id of the change request.",
    "policy_id": "The id of the approval policy.",
    "user_id": "The uuid of the member, or @me.",
    "session_id": "The id of the session.",
    "role_id": "The id of the role.",
    "invite_id": "The id of the invite.",
    "query_id": "The id of the query: its status returns it, or the client_query_id.",
    "token": "The public key of the project; for a frontend app or a shared link, its token.",
    "name": "The file name of the script.",
    "version": "The version of posthog-js.",
    "hash": "The hash of the script.",
    "key": "The key of the flag.",
}


class Error(msgspec.Struct, kw_only=True):
    """The shape of every error. `attr` names the invalid field, if there is one."""

    type: str
    code: str
    detail: str
    attr: str | None


def build_document(endpoints: Iterable[tuple[str, Endpoint]]) -> dict[str, Any]:
    """Build the document from endpoints with their tags."""
    documented = [(tag, each) for tag, each in endpoints if each.is_documented]
    schemas = _Schemas([each for _, each in documented])
    paths: dict[str, dict[str, Any]] = {}
    for tag, each in documented:
        for path in each.paths:
            operation = _operation(path, tag, each, schemas)
            paths.setdefault(path, {})[each.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hedgerow", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": SECURITY_SCHEMES},
    }


class _Schemas:
    """JSON schemas of the types that endpoints name: msgspec structs and pydantic models."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        types: list[Any] = [Error]
        for each in endpoints:
            types += [t for t in (each.response, each.body, each.failure) if t is not None]
        models = [t for t in types if _is_model(t)]
        structs = [t for t in types if not _is_model(t)]
        template = "#/components/schemas/{%s}"
        schemas, components = msgspec.json.schema_components(
            structs, ref_template=template % "name"
        )
        references, definitions = models_json_schema(
            [(model, "validation") for model in models], ref_template=template % "model"
        )
        self.components = {**components, **definitions.get("$defs", {})}
        self._by_type = dict(zip(map(id, structs), schemas, strict=True))
        self._by_type |= {id(model): references[model, "validation"] for model in models}

    def content(self, type: Any, media_type: str = JSON) -> dict[str, Any]:
        return {media_type: {"schema": self._by_type[id(type)]}}

    def is_body_required(self, type: Any) -> bool:
        """A model whose fields are all optional may be left out of the request."""
        return not _is_model(type) or bool(self.components[type.__name__].get("required"))


def _is_model(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def _operation(path: str, tag: str, endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [tag],
        "summary": endpoint.name.replace("_", " ").capitalize(),
        "description": endpoint.description,
        "operationId": _operation_id(path, endpoint),
        "responses": _responses(endpoint, schemas),
    }
    parameters = [_path_parameter(name) for name in PATH_PARAMETER.findall(path)]
    parameters += [_query_parameter(parameter) for parameter in endpoint.query]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": schemas.is_body_required(endpoint.body),
            "content": schemas.content(endpoint.body),
        }
    if endpoint.keys is not None:
        operation["security"] = [{scheme: []} for scheme in endpoint.keys]
    elif endpoint.access is not None:
        operation["security"] = [{"personalKey": []}]
        if not endpoint.access.allows_secret_key:
            operation["security"].append({"session": []})
        operation["x-scope"] = endpoint.access.scope or "any key"
    if endpoint.is_streaming:
        operation["x-streaming"] = True
    return operation


def _operation_id(path: str, endpoint: Endpoint) -> str:
    parts = [part for part in re.split("[/.]", path) if part.isidentifier()]
    if endpoint.keys is None:
        parts.remove("api")
    return "_".join([endpoint.name, *parts])


def _path_parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": PATH_PARAMETERS[name],
    }


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "schema": parameter.schema,
        "description": parameter.description,
    }


def _responses(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success"}
    if endpoint.response is not None:
        success["content"] = schemas.content(endpoint.response, endpoint.media_type)
    error = schemas.content(Error)
    refusal = error
    if endpoint.failure is not None:
        own = schemas.content(endpoint.failure)[JSON]["schema"]
        refusal = {JSON: {"schema": {"anyOf": [own, error[JSON]["schema"]]}}}
    return {
        str(endpoint.status): success,
        "4XX": {"description": "The request is invalid or not allowed.", "content": refusal},
        "503": {"description": "Unavailable: retry after Retry-After.", "content": error},
        **{status: {"description": text} for status, text in endpoint.statuses.items()},
    }
