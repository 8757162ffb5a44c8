import json

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from hedgerow.errors import Conflict, Invalid, NotFound, Throttled, Unavailable
from hedgerow.http.routing import EndpointRoute, RouteTable
from hedgerow.http.server.errors import (
    EXCEPTION_HANDLERS,
    build_error_reply,
    build_error_response,
    render_error,
)
from tests.unit.http.asgi import AsgiResponse, http_scope, make_receive, send_request


@pytest.fixture
def api() -> Starlette:
    async def retrieve(request: Request) -> Response:
        raise NotFound(f"No thing {request.path_params['id']}.")

    async def change(_: Request) -> Response:
        raise Conflict

    async def remove(_: Request) -> Response:
        raise Unavailable("The database does not answer.")

    async def fail(_: Request) -> Response:
        raise RuntimeError("the password is sesame")

    async def brew(_: Request) -> Response:
        raise HTTPException(418, "Short and stout.")

    app = Starlette(
        routes=[
            RouteTable(
                EndpointRoute(method, path, request_response(function))
                for method, path, function in (
                    ("GET", "/things/{id}/", retrieve),
                    ("PATCH", "/things/{id}/", change),
                    ("DELETE", "/things/{id}/", remove),
                    ("GET", "/broken/", fail),
                    ("GET", "/teapot/", brew),
                )
            )
        ],
        exception_handlers=dict(EXCEPTION_HANDLERS),
    )
    app.router.redirect_slashes = False
    return app


def test_error_has_four_fields_in_order() -> None:
    error = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    assert json.dumps(render_error(error)) == (
        '{"type": "validation_error", "code": "does_not_exist", '
        '"detail": "No such plugin.", "attr": "plugin"}'
    )


def test_reply_and_response_are_the_same_bytes_and_headers() -> None:
    error = Throttled(35)
    reply, response = build_error_reply(error), build_error_response(error)
    assert reply.status == response.status_code == 429
    assert reply.body == response.body
    assert dict(reply.headers)[b"retry-after"] == b"35"
    assert response.headers["retry-after"] == "35"
    assert dict(reply.headers)[b"content-type"] == b"application/json"
    assert response.headers["content-type"] == "application/json"
    assert dict(reply.headers)[b"content-length"] == str(len(reply.body)).encode()


def test_reply_takes_further_headers() -> None:
    assert (b"x-a", b"1") in build_error_reply(NotFound(), (b"x-a", b"1")).headers


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "detail"),
    [
        ("GET", "/things/7/", 404, "not_found", "No thing 7."),
        (
            "PATCH",
            "/things/7/",
            409,
            "conflict",
            "The request conflicts with the present state.",
        ),
        ("DELETE", "/things/7/", 503, "service_unavailable", "The database does not answer."),
        ("GET", "/nowhere/", 404, "not_found", "Not found."),
        ("GET", "/things/7", 404, "not_found", "Not found."),
        ("POST", "/things/7/", 405, "method_not_allowed", 'Method "POST" not allowed.'),
        ("BREW", "/teapot/", 405, "method_not_allowed", 'Method "BREW" not allowed.'),
        ("GET", "/teapot/", 400, "parse_error", "Short and stout."),
    ],
)
async def test_every_exception_has_the_common_error_shape(
    api: Starlette, method: str, path: str, status: int, code: str, detail: str
) -> None:
    response = await send_request(api, http_scope(method, path))
    assert response.status == status
    assert response.json.keys() == {"type", "code", "detail", "attr"}
    assert (response.json["code"], response.json["detail"]) == (code, detail)


@pytest.mark.parametrize(
    ("path", "allow"),
    [("/things/7/", "GET, HEAD, PATCH, DELETE, OPTIONS"), ("/broken/", "GET, HEAD, OPTIONS")],
)
async def test_allowed_methods_cover_every_route_of_the_path(
    api: Starlette, path: str, allow: str
) -> None:
    response = await send_request(api, http_scope("POST", path))
    assert (response.status, response.headers["allow"]) == (405, allow)
    options = await send_request(api, http_scope("OPTIONS", path))
    assert (options.status, options.headers["allow"], options.body) == (204, allow, b"")


async def test_unexpected_error_reveals_nothing(api: Starlette) -> None:
    response = AsgiResponse()
    with pytest.raises(RuntimeError):  # the gateway logs it
        await api(http_scope(path="/broken/"), make_receive(), response.send)
    assert response.status == 500
    assert response.json == {
        "type": "server_error",
        "code": "error",
        "detail": "A server error occurred.",
        "attr": None,
    }
