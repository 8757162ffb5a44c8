import json

import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException

from hedgerow.errors import Conflict, Invalid, NotFound, Throttled, Unavailable
from hedgerow.http.errors import error_body, error_reply, error_response, install
from tests.unit.http.asgi import Answer, ask, http_scope, receiving


@pytest.fixture
def api() -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    install(app)

    @app.get("/things/{id}/")
    async def retrieve(id: str) -> None:
        raise NotFound(f"No thing {id}.")

    @app.patch("/things/{id}/")
    async def change(id: str) -> None:
        raise Conflict

    @app.delete("/things/{id}/")
    async def remove(id: str) -> None:
        raise Unavailable("The database does not answer.")

    @app.get("/broken/")
    async def broken() -> None:
        raise RuntimeError("the password is sesame")

    @app.get("/teapot/")
    async def teapot() -> None:
        raise HTTPException(418, "Short and stout.")

    @app.get("/number/")
    async def number(n: int) -> None:
        raise Conflict

    return app


def test_an_error_is_four_fields_in_this_order() -> None:
    error = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    assert json.dumps(error_body(error)) == (
        '{"type": "validation_error", "code": "does_not_exist", '
        '"detail": "No such plugin.", "attr": "plugin"}'
    )


def test_both_doors_send_the_same_bytes_and_headers() -> None:
    error = Throttled(35)
    lean, rest = error_reply(error), error_response(error)
    assert lean.status == rest.status_code == 429
    assert lean.body == rest.body
    assert dict(lean.headers)[b"retry-after"] == b"35"
    assert rest.headers["retry-after"] == "35"
    assert dict(lean.headers)[b"content-type"] == b"application/json"
    assert rest.headers["content-type"] == "application/json"
    assert dict(lean.headers)[b"content-length"] == str(len(lean.body)).encode()


def test_a_reply_may_carry_further_headers() -> None:
    assert (b"x-a", b"1") in error_reply(NotFound(), (b"x-a", b"1")).headers


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
        ("GET", "/number/", 400, "parse_error", "The request's parameters cannot be read."),
    ],
)
async def test_whatever_is_raised_comes_out_in_the_one_shape(
    api: FastAPI, method: str, path: str, status: int, code: str, detail: str
) -> None:
    answer = await ask(api, http_scope(method, path))
    assert answer.status == status
    assert answer.json.keys() == {"type", "code", "detail", "attr"}
    assert (answer.json["code"], answer.json["detail"]) == (code, detail)


@pytest.mark.parametrize(
    ("path", "allow"),
    [("/things/7/", "GET, HEAD, PATCH, DELETE, OPTIONS"), ("/broken/", "GET, HEAD, OPTIONS")],
)
async def test_the_allowed_methods_are_those_of_every_route_of_the_path(
    api: FastAPI, path: str, allow: str
) -> None:
    refused = await ask(api, http_scope("POST", path))
    assert (refused.status, refused.headers["allow"]) == (405, allow)
    asked = await ask(api, http_scope("OPTIONS", path))
    assert (asked.status, asked.headers["allow"], asked.body) == (204, allow, b"")


async def test_a_defect_is_answered_without_a_word_of_its_cause(api: FastAPI) -> None:
    answer = Answer()
    with pytest.raises(RuntimeError):  # for the front door's log
        await api(http_scope(path="/broken/"), receiving(), answer.send)
    assert answer.status == 500
    assert answer.json == {
        "type": "server_error",
        "code": "error",
        "detail": "A server error occurred.",
        "attr": None,
    }
