import re
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match

from hedgerow.http.auth.access import Access, Authenticator, in_project
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import Handler, endpoint, fast_endpoint, project_paths
from hedgerow.http.route_tables import build_routes
from hedgerow.http.routes import (
    ENDPOINT_CLASSES,
    FAST_ENDPOINT_CLASSES,
    build_api,
    build_fast_routes,
    documented_endpoints,
)
from hedgerow.http.routing import EndpointRoute
from hedgerow.http.server.errors import EXCEPTION_HANDLERS
from tests.unit.http.asgi import http_scope, send_request

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Values of path parameters, one of which is a fixed segment of another path.
VALUES = ("rearrange", "a %ü{id}")


class AnonymousAuthenticator(Authenticator):
    """Admits every request."""

    def __init__(self) -> None:
        pass

    async def authorize(self, request: Request, access: Access | None) -> PublicCall:
        return PublicCall(request=request, context=None)  # type: ignore[arg-type]


def show(call: PublicCall, name: str) -> Response:
    """Return the name of the endpoint and the path parameters."""
    parameters = [f"{key}={value}" for key, value in call.request.path_params.items()]
    return PlainTextResponse(" ".join([name, *parameters]))


class ThingEndpoints:
    tag = "Things"

    @endpoint("GET", "/things/{id}/", access=None)
    async def retrieve(self, call: PublicCall) -> Response:
        return show(call, "retrieve")

    @endpoint("GET", "/things/mine/", access=None)
    async def retrieve_mine(self, call: PublicCall) -> Response:
        return show(call, "retrieve_mine")

    @endpoint("PATCH", "/things/{id}/", access=None)
    async def change(self, call: PublicCall) -> Response:
        return show(call, "change")

    @endpoint("GET", "/things/{id}/parts/{part}/", access=None)
    async def retrieve_part(self, call: PublicCall) -> Response:
        return show(call, "retrieve_part")

    @endpoint("POST", "/things/{id}/parts/last/", access=None)
    async def create_last_part(self, call: PublicCall) -> Response:
        return show(call, "create_last_part")

    @endpoint("GET", "/things/mine/parts/first/", access=None)
    async def retrieve_first_part(self, call: PublicCall) -> Response:
        return show(call, "retrieve_first_part")

    @endpoint("GET", "/pages/{rest:path}", access=None)
    async def page(self, call: PublicCall) -> Response:
        return show(call, "page")

    @endpoint("GET", "/", access=None)
    async def front(self, call: PublicCall) -> Response:
        return show(call, "front")


def build_things() -> Starlette:
    table = build_routes([ThingEndpoints()], AnonymousAuthenticator())
    app = Starlette(routes=[table], exception_handlers=dict(EXCEPTION_HANDLERS))
    app.router.redirect_slashes = False
    return app


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", "front"),
        ("GET", "/things/7/", "retrieve id=7"),
        ("GET", "/things/mine/", "retrieve_mine"),
        ("PATCH", "/things/7/", "change id=7"),
        ("PATCH", "/things/mine/", "change id=mine"),
        ("GET", "/things/7/parts/8/", "retrieve_part id=7 part=8"),
        ("GET", "/things/7/parts/last/", "retrieve_part id=7 part=last"),
        ("POST", "/things/7/parts/last/", "create_last_part id=7"),
        ("GET", "/things/mine/parts/first/", "retrieve_first_part"),
        ("GET", "/things/mine/parts/8/", "retrieve_part id=mine part=8"),
        ("GET", "/things/{id}/", "retrieve id={id}"),
        ("GET", "/things/ü b/", "retrieve id=ü b"),
        ("GET", "/pages/", "page rest="),
        ("GET", "/pages/a", "page rest=a"),
        ("GET", "/pages/a//b/", "page rest=a//b/"),
    ],
)
async def test_fixed_segment_wins_over_parameter_and_method_decides(
    method: str, path: str, expected: str
) -> None:
    response = await send_request(build_things(), http_scope(method, path))
    assert (response.status, response.body.decode()) == (200, expected)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing/",
        "/things/",
        "/things//",
        "/things/7",
        "//",
        "",
        "/things/7/parts/",
        "/x/y/z/",
        "/pages",
    ],
)
async def test_unknown_path_is_404(path: str) -> None:
    assert (await send_request(build_things(), http_scope("GET", path))).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/things/mine/", "GET"),
        ("DELETE", "/things/7/", "GET"),
        ("POST", "/things/7/parts/8/", "GET"),
        ("PATCH", "/things/7/parts/last/", "POST"),
    ],
)
async def test_unknown_method_is_405(method: str, path: str, allowed: str) -> None:
    response = await send_request(build_things(), http_scope(method, path))
    assert (response.status, allowed in response.headers["allow"]) == (405, True)


async def test_matched_route_is_known_by_its_path() -> None:
    scope = http_scope("GET", "/things/7/")
    await send_request(build_things(), scope)
    assert scope["endpoint"].path == "/things/{id}/"


def build_instances(classes: tuple[type[Handler], ...]) -> list[Handler]:
    """Build endpoint instances without services, which is enough for routes."""
    return [object.__new__(each) for each in classes]


TABLE = build_routes(build_instances(ENDPOINT_CLASSES), AnonymousAuthenticator())


def test_every_path_parameter_is_a_whole_segment() -> None:
    segments = {segment for route in TABLE.routes for segment in route.path.split("/")}
    # The router of the console reads the rest of its addresses.
    segments.discard("{rest:path}")
    assert [s for s in segments if "{" in s and not re.fullmatch(r"\{[a-z_]+\}", s)] == []


def test_no_two_parameters_of_a_path_share_a_name() -> None:
    assert not [
        each.path for each in TABLE.routes if len({*each.parameters}) < len(each.parameters)
    ]


def test_no_two_routes_share_a_path_and_a_method() -> None:
    keys = [(route.path, route.method) for route in TABLE.routes]
    assert len(keys) > 50
    assert len(set(keys)) == len(keys)


def sample_paths() -> Iterator[str]:
    """Return every path with each value for its parameters."""
    for template in dict.fromkeys(route.path for route in TABLE.routes):
        yield from dict.fromkeys(re.sub(r"\{[a-z_:]+\}", value, template) for value in VALUES)


def find_route(method: str, path: str) -> EndpointRoute | None:
    match, found = TABLE.matches(http_scope(method, path))
    return found["route"] if match is Match.FULL else None


def compile_template(path: str) -> re.Pattern[str]:
    one_segment = re.sub(r"\\{[a-z_]+\\}", "[^/]+", re.escape(path))
    return re.compile(re.sub(r"\\{[a-z_]+:path\\}", ".*", one_segment))


@pytest.mark.slow
def test_most_specific_route_takes_each_path() -> None:
    patterns = {path: compile_template(path) for path in {route.path for route in TABLE.routes}}
    reached = set()
    for path in sample_paths():
        matching = [each for each in TABLE.routes if patterns[each.path].fullmatch(path)]
        assert {route.path for route, _ in TABLE.find(path)} == {each.path for each in matching}
        for method in METHODS:
            alternatives = [
                [segment.startswith("{") for segment in each.path.split("/")]
                for each in matching
                if method == each.method
            ]
            route = find_route(method, path)
            assert (route is None) == (not alternatives)
            if route is not None:
                assert [part.startswith("{") for part in route.path.split("/")] == min(alternatives)
                reached.add((method, route.path))
    assert reached == {(route.method, route.path) for route in TABLE.routes}


def test_api_needs_an_instance_of_every_endpoint_class() -> None:
    instances = build_instances(ENDPOINT_CLASSES)
    assert build_api(instances, AnonymousAuthenticator()).routes
    with pytest.raises(ValueError, match=rf"Check: {type(instances[3]).__name__}\."):
        build_api(instances[:3] + instances[4:], AnonymousAuthenticator())


def test_fast_routes_merge_the_methods_of_a_path() -> None:
    routes = build_fast_routes(build_instances(FAST_ENDPOINT_CLASSES))
    assert set(routes["/e"].methods) == {"GET", "POST"}
    assert routes["/decide"].methods == ("POST",)
    assert (routes["/decide"].is_public, routes["/decide"].is_quick) == (True, True)
    assert routes["/metrics"].is_probe


def test_every_documented_endpoint_has_a_description() -> None:
    missing = [each.name for _, each in documented_endpoints() if each.is_documented]
    assert missing
    assert not [
        each.name
        for _, each in documented_endpoints()
        if each.is_documented and not each.description
    ]


def test_project_paths_are_under_both_roots() -> None:
    assert project_paths("a/", "b/") == [
        "/api/projects/{project_id}/a/",
        "/api/projects/{project_id}/b/",
        "/api/environments/{project_id}/a/",
        "/api/environments/{project_id}/b/",
    ]


def test_decorators_describe_the_function_and_take_overrides() -> None:
    @endpoint("GET", "/a/", access=in_project("a:read"), status=201)
    async def retrieve_a(self: object, call: PublicCall) -> Response:
        """Retrieve a."""
        return Response()

    @fast_endpoint("POST", "/b", name="b", description="Other.")
    async def create_b() -> None:
        """Create b."""

    [first], [second] = retrieve_a.__endpoints__, create_b.__endpoints__  # type: ignore[attr-defined]
    assert (first.name, first.description, first.status) == ("retrieve_a", "Retrieve a.", 201)
    assert (second.function, second.name, second.description) == ("create_b", "b", "Other.")
