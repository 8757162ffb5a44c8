"""The HTML documentation of the API: the viewer that is built with the console, or, where that is
not built, a page without scripts, rendered from the OpenAPI document."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from markupsafe import Markup, escape
from starlette.responses import Response

from hedgerow.http.call import PublicCall
from hedgerow.http.console.console import VIEWER_POLICY, respond_with_page
from hedgerow.http.console.files import ConsoleFileCache
from hedgerow.http.endpoint import Endpoint, endpoint
from hedgerow.http.openapi.document import build_document
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread


def _format_code(text: str) -> Markup:
    """Render `text` in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


# The page has no scripts, and nothing but its own style.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


@cache
def _load_templates() -> Any:
    """Load Jinja on first use. An installation with the console never needs it."""
    jinja = import_module("jinja2")
    templates = jinja.Environment(
        loader=jinja.PackageLoader("hedgerow.http.openapi"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
    )
    templates.filters["with_code"] = _format_code
    return templates


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDocs:
    """The OpenAPI document as JSON, and the page that renders it."""

    schema: bytes
    page: bytes


class DocsEndpoints:
    """The OpenAPI document and the page that shows it. Both are built on first use, in a thread:
    this takes long enough to delay other requests."""

    tag = "Documentation"

    def __init__(self, endpoints: Sequence[tuple[str, Endpoint]], files: ConsoleFileCache) -> None:
        self._endpoints = endpoints
        self._files = files
        self._building: asyncio.Task[BuiltDocs] | None = None

    async def _load(self) -> BuiltDocs:
        """Return the documents that all requests share. A client that leaves stops nothing."""
        if self._building is None:
            self._building = asyncio.create_task(run_in_thread(self._build))
        return await asyncio.shield(self._building)

    def _build(self) -> BuiltDocs:
        document = build_document(self._endpoints)
        return BuiltDocs(schema=jsonio.encode(document), page=render_page(document).encode())

    @endpoint("GET", "/api/schema/", access=None, is_documented=False)
    async def show_schema(self, call: PublicCall) -> Response:
        return Response((await self._load()).schema, media_type=JsonResponse.media_type)

    @endpoint("GET", "/api/docs/", access=None, is_documented=False)
    async def show_docs(self, call: PublicCall) -> Response:
        files = await self._files.load()
        if files.api_docs is not None:
            return respond_with_page(files.api_docs, VIEWER_POLICY)
        return Response((await self._load()).page, media_type="text/html", headers=PAGE_HEADERS)


def render_page(document: dict[str, Any]) -> str:
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            entry = {
                "path": path,
                "method": method.upper(),
                **_describe_operation(operation, document),
            }
            groups.setdefault(operation["tags"][0], []).append(entry)
    objects = {
        name: {
            "description": schema.get("description", ""),
            "fields": _list_fields(schema, document),
        }
        for name, schema in sorted(document["components"]["schemas"].items())
    }
    page: str = (
        _load_templates()
        .get_template("docs.html")
        .render(document=document, groups=groups, objects=objects)
    )
    return page


def _describe_operation(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    status, success = next(iter(operation["responses"].items()))
    contents: list[dict[str, Any]] = list(success.get("content", {}).values())
    return {
        "id": f"{operation['operationId']}",
        "summary": operation.get("description", operation.get("summary", "")),
        "scope": operation.get("x-scope"),
        "parameters": operation.get("parameters", []),
        "body": _list_fields(body.get("schema"), document),
        "status": status,
        "response": _list_fields(contents[0]["schema"] if contents else None, document),
    }


def _list_fields(schema: dict[str, Any] | None, document: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per property of an object schema; nested objects are named, not unfolded."""
    if schema is None:
        return []
    schema = _resolve(schema.get("items", schema), document)
    required = schema.get("required", ())
    return [
        {"name": name, "type": _format_type(property), "required": name in required}
        for name, property in schema.get("properties", {}).items()
    ]


def _resolve(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    found = document["components"]["schemas"].get(reference.rpartition("/")[2], schema)
    assert isinstance(found, dict)
    return found


def _format_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_format_type(choice) for choice in schema["anyOf"])
    if "prefixItems" in schema:  # a tuple
        return f"array of {', '.join(_format_type(each) for each in schema['prefixItems'])}"
    if schema.get("type") == "array":
        return f"array of {_format_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return str(kind)
