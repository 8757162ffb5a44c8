"""The API's documentation for people: one page rendered here from the OpenAPI document, no
script, no CDN.
"""

import re
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hedgerow.http.reply import JsonResponse
from hedgerow.http.schema import openapi

router = APIRouter(include_in_schema=False)


def _with_code(text: str) -> Markup:
    """Text in which `this` is set as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


_templates = Environment(
    loader=PackageLoader("hedgerow.http"), autoescape=True, undefined=StrictUndefined
)
_templates.filters["with_code"] = _with_code


@router.get("/")
async def front() -> Response:
    return RedirectResponse("/api/docs/", status_code=302)


@router.get("/api/schema/")
async def schema(request: Request) -> Response:
    return JsonResponse(_document(request.app))


@router.get("/api/docs/")
async def docs(request: Request) -> Response:
    return Response(_page(request.app), media_type="text/html")


@cache
def _document(api: FastAPI) -> dict[str, Any]:
    return openapi(api)


@cache
def _page(api: FastAPI) -> str:
    document = _document(api)
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            entry = {"path": path, "method": method.upper(), **_shown(operation, document)}
            groups.setdefault(operation.get("tags", ["Other"])[0], []).append(entry)
    objects = {
        name: {"about": schema.get("description", ""), "fields": _fields(schema, document)}
        for name, schema in sorted(document["components"]["schemas"].items())
    }
    return _templates.get_template("docs.html").render(
        document=document, groups=groups, objects=objects
    )


def _shown(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    status, success = next(iter(operation["responses"].items()))
    contents: list[dict[str, Any]] = list(success.get("content", {}).values())
    return {
        "id": f"{operation['operationId']}",
        "summary": operation.get("description", operation.get("summary", "")),
        "scope": operation.get("x-scope"),
        "parameters": operation.get("parameters", []),
        "body": _fields(body.get("schema"), document),
        "status": status,
        "answer": _fields(contents[0]["schema"] if contents else None, document),
    }


def _fields(schema: dict[str, Any] | None, document: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per property of an object schema; nested objects are named, not unfolded."""
    if schema is None:
        return []
    schema = _resolved(schema.get("items", schema), document)
    required = schema.get("required", ())
    return [
        {"name": name, "type": _type(property), "required": name in required}
        for name, property in schema.get("properties", {}).items()
    ]


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    found = document["components"]["schemas"].get(reference.rpartition("/")[2], schema)
    assert isinstance(found, dict)
    return found


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "prefixItems" in schema:  # so many, each of its own kind
        return f"array of {', '.join(_type(each) for each in schema['prefixItems'])}"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return str(kind)
