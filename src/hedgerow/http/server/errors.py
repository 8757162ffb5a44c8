"""Renders every error as `{type, code, detail, attr}`, few with more. No other module does."""

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from hedgerow.errors import (
    AppError,
    InternalError,
    Malformed,
    MethodNotAllowed,
    NotFound,
    Unavailable,
)
from hedgerow.http.routing import RouteTable
from hedgerow.http.server.response import Header, JsonResponse, Reply, build_json_reply
from hedgerow.lib.optional_packages import MissingPackage
from hedgerow.lib.text import format_path

METHOD_ORDER = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def render_error(error: AppError) -> dict[str, Any]:
    return {
        "type": error.type,
        "code": error.code,
        # A quoted value may contain a lone surrogate, which cannot be encoded.
        "detail": error.detail.encode("utf-8", "replace").decode(),
        "attr": error.attr and format_path(error.attr.encode("utf-8", "replace").decode()),
        **error.extra,
    }


def build_error_reply(error: AppError, *headers: Header) -> Reply:
    own = ((name.lower().encode(), value.encode()) for name, value in error.headers.items())
    return build_json_reply(error.status, render_error(error), *own, *headers)


def build_error_response(error: AppError) -> Response:
    return JsonResponse(render_error(error), status_code=error.status, headers=error.headers)


def find_allowed_methods(request: Request) -> list[str]:
    """Return the methods of the routes that match the path. Only routes with the fewest parameters
    count: …/rearrange/ is not also a record with the id "rearrange"."""
    matching = [
        route
        for table in request.app.routes
        if isinstance(table, RouteTable)
        for route, _ in table.find(request.scope["path"])
    ]
    fewest = min((len(route.parameters) for route in matching), default=0)
    methods = {route.method for route in matching if len(route.parameters) == fewest}
    if "GET" in methods:
        methods.add("HEAD")
    return [name for name in METHOD_ORDER if name in methods or name == "OPTIONS"]


async def _handle_app_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, AppError)
    return build_error_response(error)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's router raises these for an unknown path or method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = find_allowed_methods(request)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(allowed)})
        return build_error_response(MethodNotAllowed(request.method, allowed))
    if error.status_code == 404:
        return build_error_response(NotFound())
    return build_error_response(Malformed(str(error.detail)))


async def _handle_missing_package(_: Request, error: Exception) -> Response:
    return build_error_response(Unavailable(str(error)))


async def _handle_unexpected(_: Request, __: Exception) -> Response:
    return build_error_response(InternalError())


EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {
    AppError: _handle_app_error,
    HTTPException: _handle_http_exception,
    MissingPackage: _handle_missing_package,
    Exception: _handle_unexpected,
}
