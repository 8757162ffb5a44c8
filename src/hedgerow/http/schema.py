"""The OpenAPI 3.1 document, read off the routes themselves: parameters, bodies, answers, scopes,
errors.
"""

import re
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from hedgerow import __version__
from hedgerow.http.access import Allow
from hedgerow.http.describe import Description, Parameter, description_of
from hedgerow.http.sdk_operations import JSON, SDK_OPERATIONS, SECURITY_SCHEMES, SdkOperation

REF = "#/components/schemas/{name}"
PATH_NAMES = re.compile(r"\{(\w+)\}")
ABOUT = """\
Hedgerow speaks PostHog's wire contract. Calls under /api carry a personal key
(`Authorization: Bearer phx_…`), apps send the project's public key (`phc_…`).
Every path works with and without its trailing slash.
Every error is `{type, code, detail, attr}`."""

PATH_PARAMETERS = {
    "project_id": "The project's id, or @current.",
    "key_id": "The key's id, or @current for the key that asks.",
    "organization_id": "@current, or the organization's id.",
    "record_id": "The record's id.",
    "job_id": "The job's id.",
    "delivery_id": "The delivery's id.",
    "cohort_id": "The cohort's id.",
    "event_id": "The event's uuid.",
    "person_id": "The person's uuid.",
    "flag_id": "The flag's id, or its key.",
    "feature_id": "The feature's id.",
    "survey_id": "The survey's id.",
    "experiment_id": "The experiment's id.",
    "query_id": "The query's id, from its status or the client_query_id.",
    "token": "The project's public key; of a frontend app, its own.",
    "name": "The script's name.",
    "version": "The version of posthog-js.",
    "hash": "The hash of the script.",
    "key": "The flag's key.",
}


class Error(msgspec.Struct, kw_only=True):
    """The one shape of every error. `attr` names the field at fault, if one is."""

    type: str
    code: str
    detail: str
    attr: str | None


def openapi(api: FastAPI) -> dict[str, Any]:
    routes = [
        route for route in api.routes if isinstance(route, APIRoute) and route.include_in_schema
    ]
    document = get_openapi(
        title="Hedgerow",
        version=__version__,
        openapi_version="3.1.0",
        description=ABOUT,
        routes=routes,
    )
    described = [
        (route, found) for route in routes if (found := description_of(route.endpoint)) is not None
    ]
    shapes = [
        shape
        for shape in (
            Error,
            *(d.answer for _, d in described),
            *(shape for o in SDK_OPERATIONS for shape in (o.answer, o.body, o.failure)),
        )
        if shape is not None
    ]
    shape_schemas, components = msgspec.json.schema_components(shapes, ref_template=REF)
    schema_of = dict(zip(map(id, shapes), shape_schemas, strict=True))
    bodies = [d.body for _, d in described if d.body is not None]
    _, body_definitions = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    for route, description in described:
        for method in route.methods or ():
            operation = document["paths"][route.path_format][method.lower()]
            _complete(operation, route, description, schema_of)
    for sdk_operation in SDK_OPERATIONS:
        path = document["paths"].setdefault(sdk_operation.path, {})
        path[sdk_operation.method.lower()] = _of_sdks(sdk_operation, schema_of)
    document["components"] = {
        "schemas": {**components, **body_definitions.get("$defs", {})},
        "securitySchemes": SECURITY_SCHEMES,
    }
    return document


def _of_sdks(said: SdkOperation, schema_of: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """An operation that needs no personal key."""
    description = Description(answer=said.answer, media_type=said.media_type)
    responses = _responses(description, schema_of)
    responses |= {status: {"description": about} for status, about in said.statuses.items()}
    if said.failure is not None:
        schema = {"anyOf": [schema_of[id(said.failure)], schema_of[id(Error)]]}
        responses["4XX"]["content"] = {JSON: {"schema": schema}}
    operation: dict[str, Any] = {
        "tags": [said.tag],
        "summary": said.name.replace("_", " ").capitalize(),
        "description": said.about,
        "operationId": _id_of(said.name, said.path),
        "parameters": [_in_path(name) for name in PATH_NAMES.findall(said.path)],
        "security": [{scheme: []} for scheme in said.keys],
        "responses": responses,
    }
    operation["parameters"] += [_in_query(parameter) for parameter in said.query]
    if said.body is not None:
        content = {JSON: {"schema": schema_of[id(said.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if said.endless:
        operation["x-endless"] = True
    return operation


def _id_of(name: str, path: str) -> str:
    return "_".join([name, *(part for part in re.split(r"[/.]", path) if part.isidentifier())])


def _in_path(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": PATH_PARAMETERS[name],
    }


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "schema": {**parameter.schema, "title": parameter.name.title().replace("_", " ")},
        "description": parameter.about,
    }


def _complete(
    operation: dict[str, Any],
    route: APIRoute,
    description: Description,
    schema_of: dict[int, dict[str, Any]],
) -> None:
    fixed = [part for part in route.path_format.split("/")[2:] if part.isidentifier()]
    operation["operationId"] = "_".join([route.name, *fixed])
    _add_path_parameters(operation, route)
    for parameter in description.query:
        operation.setdefault("parameters", []).append(_in_query(parameter))
    if description.body is not None:
        schema = {"$ref": REF.format(name=description.body.__name__)}
        operation["requestBody"] = {
            "required": bool(description.body.model_json_schema().get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    operation["responses"] = _responses(description, schema_of)
    allow = next((d.call for d in route.dependant.dependencies if isinstance(d.call, Allow)), None)
    if allow is not None:
        operation["security"] = [{"personalKey": []}]
        operation["x-scope"] = allow.scope or "any key"


def _responses(description: Description, schema_of: dict[int, dict[str, Any]]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success"}
    if description.answer is not None:
        schema = schema_of[id(description.answer)]
        success["content"] = {description.media_type: {"schema": schema}}
    failure = {"application/json": {"schema": schema_of[id(Error)]}}
    return {
        str(description.status): success,
        "4XX": {"description": "The request cannot be granted as it is.", "content": failure},
        "503": {"description": "Away for now: try again after Retry-After.", "content": failure},
    }


def _add_path_parameters(operation: dict[str, Any], route: APIRoute) -> None:
    parameters = operation.setdefault("parameters", [])
    declared = {parameter["name"]: parameter for parameter in parameters}
    for name in route.param_convertors:
        found = declared.get(name)
        if found is None:
            found = _in_path(name)
            parameters.insert(0, found)
        found["description"] = PATH_PARAMETERS[name]
    if not parameters:
        del operation["parameters"]
