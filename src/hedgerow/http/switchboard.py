"""Finds the routes that may serve a path. FastAPI tries all of them, one after the other, which
with a hundred routes costs more than most answers do.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

# Stands for a segment that is a parameter. No segment of a path holds a slash.
ANY = "/"


class _Branch:
    """The routes that end here, and where the next segment of a path leads."""

    __slots__ = ("ends", "next")

    def __init__(self) -> None:
        self.ends: list[Route] = []
        self.next: dict[str, _Branch] = {}


class Switchboard(APIRouter):
    """A router for routes whose parameters are whole segments, as all of ours are. Of two routes
    that take a path, the one with the earlier fixed segment wins."""

    def __init__(self, routes: Sequence[BaseRoute], **options: Any) -> None:
        super().__init__(routes=list(routes), **options)
        self._root = _Branch()
        for route in routes:
            if isinstance(route, Route):
                self._add(route)

    def _add(self, route: Route) -> None:
        branch = self._root
        for segment in route.path_format.split("/"):
            step = ANY if segment.startswith("{") else segment
            branch = branch.next.setdefault(step, _Branch())
        branch.ends.append(route)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["router"] = self
        other_method: tuple[Route, Scope] | None = None
        for route in _reached(self._root, scope["path"].split("/")):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
            if match is Match.PARTIAL and other_method is None:
                other_method = (route, found)
        if other_method is None:
            await self.default(scope, receive, send)
            return
        route, found = other_method
        scope.update(found)
        await route.handle(scope, receive, send)


def _reached(branch: _Branch, segments: Sequence[str], at: int = 0) -> Iterator[Route]:
    if at == len(segments):
        yield from branch.ends
        return
    for step in (segments[at], ANY):
        if (following := branch.next.get(step)) is not None:
            yield from _reached(following, segments, at + 1)
