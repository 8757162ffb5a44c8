"""The one place where an error becomes bytes: `{type, code, detail, attr}`, whoever raised it."""

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from hedgerow.errors import AppError, Malformed, MethodNotAllowed, NotFound, Unexpected
from hedgerow.http.reply import Header, JsonResponse, Reply, json_reply

METHOD_ORDER = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def error_body(error: AppError) -> dict[str, Any]:
    return {
        "type": error.type,
        "code": error.code,
        # A text that we quote may hold half a character, which nothing can send.
        "detail": error.detail.encode("utf-8", "replace").decode(),
        "attr": error.attr and error.attr.encode("utf-8", "replace").decode(),
    }


def error_reply(error: AppError, *headers: Header) -> Reply:
    own = ((name.lower().encode(), value.encode()) for name, value in error.headers.items())
    return json_reply(error.status, error_body(error), *own, *headers)


def error_response(error: AppError) -> Response:
    return JsonResponse(error_body(error), status_code=error.status, headers=error.headers)


def allowed_methods(request: Request) -> list[str]:
    """Every method that some route of this path takes. Of routes that match, those with the fewest
    parameters count: …/rearrange/ is not also the record called "rearrange"."""
    matching = [
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    fewest = min((len(route.param_convertors) for route in matching), default=0)
    methods: set[str] = set()
    for route in matching:
        if len(route.param_convertors) == fewest:
            methods |= route.methods or set()
    if "GET" in methods:
        methods.add("HEAD")
    return [name for name in METHOD_ORDER if name in methods or name == "OPTIONS"]


def install(api: FastAPI) -> None:
    """Teach FastAPI our shape for everything that can be raised below it."""

    @api.exception_handler(AppError)
    async def ours(_: Request, error: AppError) -> Response:
        return error_response(error)

    @api.exception_handler(HTTPException)
    async def starlettes(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allowed = allowed_methods(request)
            if request.method == "OPTIONS":
                return Response(status_code=204, headers={"Allow": ", ".join(allowed)})
            return error_response(MethodNotAllowed(request.method, allowed))
        if error.status_code == 404:
            return error_response(NotFound())
        return error_response(Malformed(str(error.detail)))

    @api.exception_handler(RequestValidationError)
    async def fastapis(_: Request, __: RequestValidationError) -> Response:
        # Our parameters are all optional text that we read ourselves, so this is a guard only.
        return error_response(Malformed("The request's parameters cannot be read."))

    @api.exception_handler(Exception)
    async def unforeseen(_: Request, __: Exception) -> Response:
        return error_response(Unexpected())
