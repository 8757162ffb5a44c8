import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from hedgerow.errors import Invalid, Throttled
from hedgerow.http.door import CLIENT_GONE, UNMATCHED, FrontDoor, Lean
from hedgerow.http.health import Readiness
from hedgerow.http.log import AccessLog
from hedgerow.http.metrics import Metrics
from hedgerow.http.reply import Reply, json_reply
from hedgerow.http.trace import SCOPE_KEY, Trace, trace_of
from tests.unit.http.asgi import Answer, ask, http_scope, receiving

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
    return json_reply(200, {"path": scope["path"]})


def raising(error: Exception) -> Callable[[Scope, Receive, Trace], Awaitable[Reply]]:
    async def handler(scope: Scope, receive: Receive, trace: Trace) -> Reply:
        raise error

    return handler


class Route:
    path = "/api/things/{id}/"


class Rest:
    """The application behind the door: remembers what it was asked, then does what it is told."""

    def __init__(self, after_start: Exception | None = None) -> None:
        self.scopes: list[Scope] = []
        self.before_start: Exception | None = None
        self.after_start = after_start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        scope["route"] = Route
        if self.before_start:
            raise self.before_start
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        if self.after_start:
            raise self.after_start
        await send({"type": "http.response.body", "body": b"rest"})


class House:
    """A door with its surroundings, ready unless told otherwise."""

    def __init__(self, rest: ASGIApp, **lean: Lean) -> None:
        self.readiness = Readiness(no_check)
        self.readiness.waiting_for = None
        self._stream = io.StringIO()
        self._log = AccessLog(self._stream, for_people=False)
        self._metrics = Metrics(list)
        self.door = FrontDoor(
            {f"/{name}": route for name, route in lean.items()},
            rest,
            readiness=self.readiness,
            metrics=self._metrics,
            log=self._log,
        )

    async def ask(self, scope: Scope) -> Answer:
        return await ask(self.door, scope)

    def lines(self) -> list[dict[str, Any]]:
        self._log.flush()
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    async def counted(self, method: str, route: str, status: int) -> bool:
        scope = http_scope()
        page = (await self._metrics.page(scope, receiving(), Trace(scope))).body.decode()
        labels = f'method="{method}",route="{route}",status="{status}"'
        return f"hedgerow_http_requests_total{{{labels}}} 1.0" in page


def lean(handler: Any = fine, methods: tuple[str, ...] = ("GET",), **kind: bool) -> Lean:
    return Lean(handler=handler, methods=methods, **kind)


@pytest.mark.parametrize("path", ["/hot", "/hot/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_hot_path_is_answered_on_the_spot_with_and_without_its_slash(
    method: str, path: str
) -> None:
    house = House(rest := Rest(), hot=lean())
    answer = await house.ask(http_scope(method, path, headers={"X-Request-Id": "abc"}))
    assert (answer.status, answer.json) == (200, {"path": path})
    assert answer.headers["x-request-id"] == "abc"
    assert rest.scopes == []
    (line,) = house.lines()
    assert (line["method"], line["route"], line["status"]) == (method, "/hot", 200)
    assert line["phases_ms"].keys() == {"work"}
    assert 0 <= line["ms"] < 60_000
    assert await house.counted(method, "/hot", 200)


async def test_options_tells_what_a_hot_path_takes() -> None:
    house = House(Rest(), hot=lean(raising(AssertionError()), ("GET", "POST")))
    answer = await house.ask(http_scope("OPTIONS", "/hot"))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["allow"] == "GET, POST, HEAD, OPTIONS"


@pytest.mark.parametrize(("methods", "allow"), [(("GET",), "GET, HEAD, OPTIONS")])
async def test_another_method_is_refused_with_those_allowed(
    methods: tuple[str, ...], allow: str
) -> None:
    answer = await House(Rest(), hot=lean(methods=methods)).ask(http_scope("DELETE", "/hot"))
    assert (answer.status, answer.headers["allow"]) == (405, allow)
    assert answer.json["code"] == "method_not_allowed"


async def test_head_is_refused_where_get_is() -> None:
    answer = await House(Rest(), hot=lean(methods=("POST",))).ask(http_scope("HEAD", "/hot"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


async def test_a_foreseen_error_of_a_hot_path_has_the_one_shape_and_its_headers() -> None:
    invalid = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    house = House(Rest(), bad=lean(raising(invalid)), busy=lean(raising(Throttled(35))))
    answer = await house.ask(http_scope(path="/bad"))
    assert answer.status == 400
    assert answer.json == {
        "type": "validation_error",
        "code": "does_not_exist",
        "detail": "No such plugin.",
        "attr": "plugin",
    }
    answer = await house.ask(http_scope(path="/busy"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "35")


async def test_a_defect_of_a_hot_path_is_logged_and_not_told() -> None:
    house = House(Rest(), hot=lean(raising(ValueError(f"{SECRET} in /srv/hedgerow.py"))))
    with capture_logs() as logged:
        answer = await house.ask(http_scope(path="/hot", headers={"X-Request-Id": "abc"}))
    assert (answer.status, answer.json) == (500, DEFECT)
    assert answer.headers["x-request-id"] == "abc"
    (line,) = logged
    assert (line["log_level"], line["request_id"], line["route"]) == ("error", "abc", "/hot")
    assert line["exc_info"]
    assert await house.counted("GET", "/hot", 500)


async def test_a_client_that_leaves_is_counted_and_sent_nothing() -> None:
    house = House(Rest(), hot=lean(raising(ClientDisconnect())))
    assert (await house.ask(http_scope(path="/hot"))).starts == 0
    assert await house.counted("GET", "/hot", CLIENT_GONE)


@pytest.mark.parametrize("path", ["/hot", "/api/things/"])
async def test_until_the_service_is_ready_it_answers_503_with_the_reason(path: str) -> None:
    house = House(rest := Rest(), hot=lean(), probe=lean(probe=True))
    house.readiness.waiting_for = "applying migrations"
    answer = await house.ask(http_scope(path=path))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.json["code"] == "service_unavailable"
    assert "applying migrations" in answer.json["detail"]
    assert answer.headers["x-request-id"]
    assert rest.scopes == []
    assert (await house.ask(http_scope(path="/probe"))).status == 200


async def test_probes_are_counted_and_not_logged() -> None:
    house = House(Rest(), probe=lean(probe=True))
    await house.ask(http_scope(path="/probe"))
    assert house.lines() == []
    assert await house.counted("GET", "/probe", 200)


@pytest.mark.parametrize("error", [None, Invalid(), ValueError()])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "PUT"])
async def test_any_page_may_read_every_answer_of_a_public_path(
    method: str, error: Exception | None
) -> None:
    handler = raising(error) if error else fine
    house = House(Rest(), hot=lean(handler, public=True), private=lean(handler))
    scope = http_scope(method, "/hot", headers={"Origin": "https://shop.example"})
    with capture_logs():
        answer = await house.ask(scope)
        private = await house.ask({**scope, "path": "/private"})
        plain = await house.ask(http_scope(method, "/hot"))
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
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
async def test_everything_else_goes_on_with_a_slash_under_api_and_head_as_get(
    method: str, path: str, inner_method: str, inner_path: str
) -> None:
    house = House(rest := Rest())
    scope = http_scope(method, path, headers={"X-Request-Id": "abc"})
    answer = await house.ask(scope)
    (inner,) = rest.scopes
    assert (inner["method"], inner["path"]) == (inner_method, inner_path)
    assert trace_of(inner).id == b"abc"
    assert (scope["method"], scope["path"]) == (method, path)
    assert SCOPE_KEY not in scope
    assert (answer.status, answer.body) == (200, b"rest")
    assert (answer.headers["x-a"], answer.headers["x-request-id"]) == ("1", "abc")
    assert await house.counted(method, Route.path, 200)


async def test_a_line_names_the_route_and_never_the_path_or_query() -> None:
    house = House(Rest())
    query = f"personal_api_key={SECRET}".encode()
    await house.ask(http_scope(path=f"/api/things/{SECRET}", query=query))
    (line,) = house.lines()
    assert line["route"] == Route.path
    assert "answer" in line["phases_ms"]
    assert SECRET not in json.dumps(line)


async def test_a_path_that_leads_nowhere_has_no_name_of_its_own() -> None:
    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    house = House(nowhere)
    await house.ask(http_scope("BREW", f"/{SECRET}"))
    assert house.lines()[0]["route"] == UNMATCHED
    assert await house.counted("OTHER", UNMATCHED, 404)


async def test_a_defect_behind_the_door_is_logged_and_not_told() -> None:
    rest = Rest()
    rest.before_start = ValueError(f"{SECRET} in /srv/hedgerow.py")
    house = House(rest)
    with capture_logs() as logged:
        answer = await house.ask(http_scope(path="/api/things/7/"))
    assert (answer.status, answer.json) == (500, DEFECT)
    assert logged[0]["route"] == Route.path
    assert await house.counted("GET", Route.path, 500)


async def test_a_defect_in_the_middle_of_an_answer_begins_no_second_one() -> None:
    with capture_logs() as logged:
        answer = await House(Rest(after_start=ValueError())).ask(http_scope(path="/api/"))
    assert (answer.starts, answer.status, answer.body) == (1, 200, b"")
    assert logged[0]["event"] == "request failed"


async def test_a_client_that_leaves_the_rest_is_no_error() -> None:
    rest = Rest()
    rest.before_start = ClientDisconnect()
    house = House(rest)
    with capture_logs() as logged:
        answer = await house.ask(http_scope(path="/api/"))
    assert (answer.starts, logged) == (0, [])
    assert await house.counted("GET", Route.path, CLIENT_GONE)
