"""Finds the route of a path by its segments. A pattern for each of hundreds of routes took half of
a start to compile, and most of the time of a small request to try.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

REST_SUFFIX = ":path}"


class EndpointRoute:
    """An application for one method of a path. A parameter of the path is one segment, as in
    `/things/{id}/`, or at the end all others: `/pages/{rest:path}`."""

    def __init__(self, method: str, path: str, app: ASGIApp) -> None:
        self.method = method
        self.path = path
        self.app = app
        names = [part[1:-1] for part in path.split("/") if part[:1] == "{"]
        self.parameters = [name.partition(":")[0] for name in names]


@dataclass(slots=True)
class _Node:
    """The routes that end at a segment, and the segments that may follow."""

    ends: list[EndpointRoute] = field(default_factory=list)
    fixed: "dict[str, _Node]" = field(default_factory=dict)
    parameter: "_Node | None" = None
    rests: list[EndpointRoute] = field(default_factory=list)

    def add(self, route: EndpointRoute, segments: Sequence[str]) -> None:
        if not segments:
            self.ends.append(route)
            return
        segment, *following = segments
        if segment.endswith(REST_SUFFIX):
            self.rests.append(route)
            return
        if segment[:1] == "{":
            self.parameter = node = self.parameter or _Node()
        else:
            node = self.fixed.setdefault(segment, _Node())
        node.add(route, following)

    def find(
        self, segments: Sequence[str], values: tuple[str, ...]
    ) -> Iterator[tuple[EndpointRoute, tuple[str, ...]]]:
        if not segments:
            yield from ((route, values) for route in self.ends)
            return
        segment, following = segments[0], segments[1:]
        if segment in self.fixed:
            yield from self.fixed[segment].find(following, values)
        if segment and self.parameter:
            yield from self.parameter.find(following, (*values, segment))
        yield from ((route, (*values, "/".join(segments))) for route in self.rests)


class RouteTable(BaseRoute):
    """All routes of an application. A fixed segment wins over a parameter."""

    def __init__(self, routes: Iterable[EndpointRoute]) -> None:
        self.routes = list(routes)
        self._root = _Node()
        for route in self.routes:
            self._root.add(route, route.path.split("/"))

    def find(self, path: str) -> Iterator[tuple[EndpointRoute, Mapping[str, str]]]:
        """Find the routes of a path, the most specific first, with its parameters."""
        for route, values in self._root.find(path.split("/"), ()):
            yield route, dict(zip(route.parameters, values, strict=True))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        partial: Scope | None = None
        if scope["type"] == "http":
            for route, parameters in self.find(scope["path"]):
                found = {"endpoint": route.app, "path_params": parameters, "route": route}
                if route.method == scope["method"]:
                    return Match.FULL, found
                partial = partial or found
        return (Match.NONE, {}) if partial is None else (Match.PARTIAL, partial)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: EndpointRoute = scope["route"]
        if route.method != scope["method"]:
            raise HTTPException(status_code=405)
        await route.app(scope, receive, send)
