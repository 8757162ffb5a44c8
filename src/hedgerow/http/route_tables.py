"""Route tables, built from instances of endpoint classes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hedgerow.http.auth.access import Access, Authenticator
from hedgerow.http.endpoint import FastEndpoint, Handler, endpoints_of
from hedgerow.http.routing import EndpointRoute, RouteTable
from hedgerow.http.server.gateway import FastHandler, FastRoute


def build_routes(handlers: Sequence[Handler], authenticator: Authenticator) -> RouteTable:
    """Build the routes of handler instances."""
    return RouteTable(
        EndpointRoute(
            each.method,
            path,
            EndpointApp(path, each.access, getattr(handler, each.function), authenticator),
        )
        for handler in handlers
        for each in endpoints_of(type(handler))
        for path in each.paths
    )


def build_fast_table(
    handlers: Sequence[Handler], capture: type[Handler] | tuple[()] = ()
) -> Mapping[str, FastRoute]:
    """Build the gateway's table. The requests of `capture` wait in a queue of their own."""
    routes: dict[str, FastRoute] = {}
    for handler in handlers:
        for each in endpoints_of(type(handler)):
            if not isinstance(each, FastEndpoint):
                continue
            function: FastHandler = getattr(handler, each.function)
            for path in each.paths:
                earlier = routes[path].methods if path in routes else ()
                routes[path] = FastRoute(
                    handler=function,
                    methods=(*earlier, each.method),
                    is_public=each.is_public,
                    is_probe=each.is_probe,
                    is_quick=each.is_quick,
                    is_capture=isinstance(handler, capture),
                    allows_credentials=each.allows_credentials,
                )
    return routes


class EndpointApp:
    """The ASGI application of one endpoint. The gateway logs its `path`."""

    def __init__(
        self,
        path: str,
        access: Access | None,
        method: Callable[[Any], Awaitable[Response]],
        authenticator: Authenticator,
    ) -> None:
        self.path = path
        self._access = access
        self._method = method
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        call = await self._authenticator.authorize(request, self._access)
        response = await self._method(call)
        await response(scope, receive, send)
