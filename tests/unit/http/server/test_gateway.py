import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from hedgerow.errors import Invalid, Throttled
from hedgerow.http.server.access_log import AccessLog
from hedgerow.http.server.connections import ConnectionTable
from hedgerow.http.server.gateway import CLIENT_GONE, UNMATCHED, FastRoute, Gateway
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.request_queues import RequestQueues
from hedgerow.http.server.response import Reply, build_json_reply
from hedgerow.http.server.senders import Senders
from hedgerow.http.server.trace import SCOPE_KEY, Trace, get_trace
from tests.unit.http.asgi import AsgiResponse, http_scope, make_receive, send_request

SECRET = "phx_0123456789abcdefABCDEF"
DEFECT = {
    "type": "server_error",
    "code": "error",
    "detail": "A server error occurred.",
    "attr": None,
}


async def no_check() -> None:
    pass


async def fine(scope: Scope, receive: Receive, trace: Trace) -> Reply:
    trace.mark("work")
    return build_json_reply(200, {"path": scope["path"]})


def raising(error: Exception) -> Callable[[Scope, Receive, Trace], Awaitable[Reply]]:
    async def handler(scope: Scope, receive: Receive, trace: Trace) -> Reply:
        raise error

    return handler


class Endpoint:
    path = "/api/things/{id}/"


class App:
    """The application behind the gateway: records its scopes, then responds or raises."""

    def __init__(self, after_start: Exception | None = None) -> None:
        self.scopes: list[Scope] = []
        self.before_start: Exception | None = None
        self.after_start = after_start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        scope["endpoint"] = Endpoint
        if self.before_start:
            raise self.before_start
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        if self.after_start:
            raise self.after_start
        await send({"type": "http.response.body", "body": b"rest"})


class GatewayFixture:
    """A ready gateway with its readiness, log and metrics."""

    def __init__(self, app: ASGIApp, **fast_routes: FastRoute) -> None:
        self.readiness = Readiness(no_check)
        self.readiness.waiting_for = None
        self._stream = io.StringIO()
        self._log = AccessLog(self._stream, for_people=False)
        self._metrics = Metrics(list)
        self.gateway = Gateway(
            {f"/{name}": route for name, route in fast_routes.items()},
            app,
            readiness=self.readiness,
            metrics=self._metrics,
            log=self._log,
            open_connections=ConnectionTable(10, lambda _: False),
            queues=RequestQueues(),
            senders=Senders(Origins((), ""), lambda _: None),
            admit_client=lambda _: None,
        )

    async def send_request(self, scope: Scope) -> AsgiResponse:
        return await send_request(self.gateway, scope)

    def lines(self) -> list[dict[str, Any]]:
        self._log.flush()
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    async def is_counted(self, method: str, route: str, status: int) -> bool:
        scope = http_scope()
        page = (await self._metrics.show_metrics(scope, make_receive(), Trace(scope))).body.decode()
        labels = f'method="{method}",route="{route}",status="{status}"'
        return f"hedgerow_http_requests_total{{{labels}}} 1.0" in page


def fast(handler: Any = fine, methods: tuple[str, ...] = ("GET",), **flags: bool) -> FastRoute:
    return FastRoute(handler=handler, methods=methods, **flags)


@pytest.mark.parametrize("path", ["/hot", "/hot/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_fast_route_responds_with_and_without_trailing_slash(method: str, path: str) -> None:
    fixture = GatewayFixture(app := App(), hot=fast())
    response = await fixture.send_request(http_scope(method, path, headers={"X-Request-Id": "abc"}))
    assert (response.status, response.json) == (200, {"path": path})
    assert response.headers["x-request-id"] == "abc"
    assert app.scopes == []
    (line,) = fixture.lines()
    assert (line["method"], line["route"], line["status"]) == (method, "/hot", 200)
    assert line["phases_ms"].keys() == {"work"}
    assert 0 <= line["ms"] < 60_000
    assert await fixture.is_counted(method, "/hot", 200)


async def test_options_lists_the_methods_of_a_fast_route() -> None:
    fixture = GatewayFixture(App(), hot=fast(raising(AssertionError()), ("GET", "POST")))
    response = await fixture.send_request(http_scope("OPTIONS", "/hot"))
    assert (response.status, response.body) == (204, b"")
    assert response.headers["allow"] == "GET, POST, HEAD, OPTIONS"


@pytest.mark.parametrize(("methods", "allow"), [(("GET",), "GET, HEAD, OPTIONS")])
async def test_unknown_method_is_405_with_the_allowed_ones(
    methods: tuple[str, ...], allow: str
) -> None:
    response = await GatewayFixture(App(), hot=fast(methods=methods)).send_request(
        http_scope("DELETE", "/hot")
    )
    assert (response.status, response.headers["allow"]) == (405, allow)
    assert response.json["code"] == "method_not_allowed"


async def test_head_is_405_where_get_is() -> None:
    response = await GatewayFixture(App(), hot=fast(methods=("POST",))).send_request(
        http_scope("HEAD", "/hot")
    )
    assert (response.status, response.headers["allow"]) == (405, "POST, OPTIONS")


async def test_app_error_of_a_fast_route_has_the_common_shape_and_its_headers() -> None:
    invalid = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    fixture = GatewayFixture(App(), bad=fast(raising(invalid)), busy=fast(raising(Throttled(35))))
    response = await fixture.send_request(http_scope(path="/bad"))
    assert response.status == 400
    assert response.json == {
        "type": "validation_error",
        "code": "does_not_exist",
        "detail": "No such plugin.",
        "attr": "plugin",
    }
    response = await fixture.send_request(http_scope(path="/busy"))
    assert (response.status, response.headers["retry-after"]) == (429, "35")


async def test_unexpected_error_of_a_fast_route_is_logged_and_not_revealed() -> None:
    fixture = GatewayFixture(App(), hot=fast(raising(ValueError(f"{SECRET} in /srv/hedgerow.py"))))
    with capture_logs() as logged:
        response = await fixture.send_request(
            http_scope(path="/hot", headers={"X-Request-Id": "abc"})
        )
    assert (response.status, response.json) == (500, DEFECT)
    assert response.headers["x-request-id"] == "abc"
    (line,) = logged
    assert (line["log_level"], line["request_id"], line["route"]) == ("error", "abc", "/hot")
    assert line["exc_info"]
    assert await fixture.is_counted("GET", "/hot", 500)


async def test_disconnected_client_is_counted_and_gets_no_response() -> None:
    fixture = GatewayFixture(App(), hot=fast(raising(ClientDisconnect())))
    assert (await fixture.send_request(http_scope(path="/hot"))).starts == 0
    assert await fixture.is_counted("GET", "/hot", CLIENT_GONE)


@pytest.mark.parametrize("path", ["/hot", "/api/things/"])
async def test_service_that_is_not_ready_returns_503_with_the_reason(path: str) -> None:
    fixture = GatewayFixture(app := App(), hot=fast(), probe=fast(is_probe=True))
    fixture.readiness.waiting_for = "applying migrations"
    response = await fixture.send_request(http_scope(path=path))
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert response.json["code"] == "service_unavailable"
    assert "applying migrations" in response.json["detail"]
    assert response.headers["x-request-id"]
    assert app.scopes == []
    assert (await fixture.send_request(http_scope(path="/probe"))).status == 200


async def test_probes_are_counted_and_not_logged() -> None:
    fixture = GatewayFixture(App(), probe=fast(is_probe=True))
    await fixture.send_request(http_scope(path="/probe"))
    assert fixture.lines() == []
    assert await fixture.is_counted("GET", "/probe", 200)


@pytest.mark.parametrize("error", [None, Invalid(), ValueError()])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "PUT"])
async def test_public_route_allows_cross_origin_requests(
    method: str, error: Exception | None
) -> None:
    handler = raising(error) if error else fine
    fixture = GatewayFixture(App(), hot=fast(handler, is_public=True), private=fast(handler))
    scope = http_scope(method, "/hot", headers={"Origin": "https://shop.example"})
    with capture_logs():
        response = await fixture.send_request(scope)
        private = await fixture.send_request({**scope, "path": "/private"})
        plain = await fixture.send_request(http_scope(method, "/hot"))
    assert response.headers["access-control-allow-origin"] == "https://shop.example"
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    for headers in (private.headers, plain.headers):
        assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    ("method", "path", "inner_method", "inner_path"),
    [
        ("GET", "/api/things/7/", "GET", "/api/things/7/"),
        ("POST", "/api/things/7", "POST", "/api/things/7/"),
        ("HEAD", "/api/things/7/", "GET", "/api/things/7/"),
        ("GET", "/", "GET", "/"),
        ("GET", "/elsewhere", "GET", "/elsewhere"),
    ],
)
async def test_other_requests_reach_the_app_with_trailing_slash_and_head_as_get(
    method: str, path: str, inner_method: str, inner_path: str
) -> None:
    fixture = GatewayFixture(app := App())
    scope = http_scope(method, path, headers={"X-Request-Id": "abc"})
    response = await fixture.send_request(scope)
    (inner,) = app.scopes
    assert (inner["method"], inner["path"]) == (inner_method, inner_path)
    assert get_trace(inner).id == b"abc"
    assert (scope["method"], scope["path"]) == (method, path)
    assert SCOPE_KEY not in scope
    assert (response.status, response.body) == (200, b"rest")
    assert (response.headers["x-a"], response.headers["x-request-id"]) == ("1", "abc")
    assert await fixture.is_counted(method, Endpoint.path, 200)


async def test_log_line_has_the_route_and_never_the_path_or_query() -> None:
    fixture = GatewayFixture(App())
    query = f"personal_api_key={SECRET}".encode()
    await fixture.send_request(http_scope(path=f"/api/things/{SECRET}", query=query))
    (line,) = fixture.lines()
    assert line["route"] == Endpoint.path
    assert "answer" in line["phases_ms"]
    assert SECRET not in json.dumps(line)


async def test_unknown_path_is_logged_as_unmatched() -> None:
    async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    fixture = GatewayFixture(not_found)
    await fixture.send_request(http_scope("BREW", f"/{SECRET}"))
    assert fixture.lines()[0]["route"] == UNMATCHED
    assert await fixture.is_counted("OTHER", UNMATCHED, 404)


async def test_unexpected_error_of_the_app_is_logged_and_not_revealed() -> None:
    app = App()
    app.before_start = ValueError(f"{SECRET} in /srv/hedgerow.py")
    fixture = GatewayFixture(app)
    with capture_logs() as logged:
        response = await fixture.send_request(http_scope(path="/api/things/7/"))
    assert (response.status, response.json) == (500, DEFECT)
    assert logged[0]["route"] == Endpoint.path
    assert await fixture.is_counted("GET", Endpoint.path, 500)


async def test_error_after_the_response_started_sends_no_second_response() -> None:
    with capture_logs() as logged:
        response = await GatewayFixture(App(after_start=ValueError())).send_request(
            http_scope(path="/api/")
        )
    assert (response.starts, response.status, response.body) == (1, 200, b"")
    assert logged[0]["event"] == "request failed"


async def test_client_that_disconnects_from_the_app_is_not_an_error() -> None:
    app = App()
    app.before_start = ClientDisconnect()
    fixture = GatewayFixture(app)
    with capture_logs() as logged:
        response = await fixture.send_request(http_scope(path="/api/"))
    assert (response.starts, logged) == (0, [])
    assert await fixture.is_counted("GET", Endpoint.path, CLIENT_GONE)
