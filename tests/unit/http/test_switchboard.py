import re
from collections.abc import Iterator, Sequence

import pytest
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hedgerow.http.routes import FAMILIES
from hedgerow.http.switchboard import Switchboard
from tests.unit.http.asgi import ask, http_scope

OURS = [route for family in FAMILIES for route in family.routes if isinstance(route, Route)]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# What may stand where a path has a parameter: also words that are fixed segments elsewhere.
FILLINGS = ("rearrange", "a %ü{id}")


def route(name: str, path: str, *methods: str) -> Route:
    """Answers with its name and what the path holds."""

    async def endpoint(request: Request) -> Response:
        given = [f"{key}={value}" for key, value in request.path_params.items()]
        return PlainTextResponse(" ".join([name, *given]))

    return Route(path, endpoint, methods=methods or ("GET",))


THINGS = [
    route("any", "/things/{id}/"),
    route("mine", "/things/mine/"),
    route("change", "/things/{id}/", "PATCH"),
    route("part", "/things/{id}/parts/{part}/"),
    route("last", "/things/{id}/parts/last/", "POST"),
    route("first of mine", "/things/mine/parts/first/"),
    route("front", "/"),
]


async def answer(app: ASGIApp, path: str, method: str = "GET") -> tuple[int, str]:
    got = await ask(app, http_scope(method, path))
    return got.status, got.body.decode()


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/", "front"),
        ("GET", "/things/7/", "any id=7"),
        ("GET", "/things/mine/", "mine"),
        ("PATCH", "/things/7/", "change id=7"),
        ("PATCH", "/things/mine/", "change id=mine"),
        ("GET", "/things/7/parts/8/", "part id=7 part=8"),
        ("GET", "/things/7/parts/last/", "part id=7 part=last"),
        ("POST", "/things/7/parts/last/", "last id=7"),
        ("GET", "/things/mine/parts/first/", "first of mine"),
        ("GET", "/things/mine/parts/8/", "part id=mine part=8"),
        ("GET", "/things/{id}/", "any id={id}"),
        ("GET", "/things/ü b/", "any id=ü b"),
    ],
)
async def test_a_fixed_segment_beats_a_parameter_and_the_method_decides(
    method: str, path: str, found: str
) -> None:
    for routes in (THINGS, THINGS[::-1]):
        assert await answer(Switchboard(routes), path, method) == (200, found)


@pytest.mark.parametrize(
    "path",
    ["/nothing/", "/things/", "/things//", "/things/7", "//", "", "/things/7/parts/", "/x/y/z/"],
)
async def test_a_path_that_leads_nowhere_is_404(path: str) -> None:
    assert (await answer(Switchboard(THINGS), path))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/things/mine/", "GET"),
        ("DELETE", "/things/7/", "GET"),
        ("POST", "/things/7/parts/8/", "GET"),
        ("PATCH", "/things/7/parts/last/", "POST"),
    ],
)
async def test_a_path_that_takes_another_method_is_405(
    method: str, path: str, allowed: str
) -> None:
    got = await ask(Switchboard(THINGS), http_scope(method, path))
    assert (got.status, allowed in got.headers["allow"]) == (405, True)


async def test_a_route_of_fastapi_knows_itself_and_its_router() -> None:
    family = APIRouter()

    @family.get("/things/{id}/")
    async def thing(id: int, request: Request) -> list[object]:
        return [id, request.scope["route"].path, request.scope["router"] is app.router]

    app = FastAPI()
    app.router = Switchboard(family.routes)
    got = await ask(app, http_scope("GET", "/things/7/"))
    assert (got.status, got.json) == (200, [7, "/things/{id}/", True])


def test_every_parameter_of_ours_is_a_whole_segment() -> None:
    segments = {segment for each in OURS for segment in each.path.split("/")}
    assert [s for s in segments if "{" in s and not re.fullmatch(r"\{[a-z_]+\}", s)] == []


def test_every_route_of_ours_is_one_that_the_switchboard_takes() -> None:
    assert len(OURS) == sum(len(family.routes) for family in FAMILIES) > 50


def sample_paths() -> Iterator[str]:
    """Each path of ours with every filling, and each with something wrong at its end."""
    for template in dict.fromkeys(each.path for each in OURS):
        paths = dict.fromkeys(re.sub(r"\{[a-z_]+\}", filling, template) for filling in FILLINGS)
        yield from paths
        first = next(iter(paths))
        yield from (f"{first}more/", first.rstrip("/"))


def answering(routes: Sequence[Route]) -> list[Route]:
    """The same paths and methods in the same order, each answering with its number."""
    return [
        route(str(number), each.path, *sorted(each.methods or ()))
        for number, each in enumerate(routes)
    ]


async def test_every_path_of_ours_leads_where_fastapis_own_router_leads_it() -> None:
    routes = answering(OURS)
    board = Switchboard(routes)
    reached = set()
    for path in sample_paths():
        # Its router goes through all routes each time and passes over those of other paths.
        plain = APIRouter(
            routes=[each for each in routes if each.path_regex.match(path)], redirect_slashes=False
        )
        for method in METHODS:
            expected = await answer(plain, path, method)
            assert await answer(board, path, method) == expected, (method, path)
            if expected[0] == 200:
                reached.add((method, int(expected[1].split()[0])))
    assert reached == {
        (method, number)
        for number, each in enumerate(OURS)
        for method in each.methods or ()
        if method in METHODS
    }
