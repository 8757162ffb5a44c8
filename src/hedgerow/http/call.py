"""The authorized request that an endpoint receives."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from hedgerow.errors import AuthenticationFailed, MethodNotAllowed
from hedgerow.http.paging import Page, PageWindow, build_link, build_page, parse_window
from hedgerow.http.payload.body import BodyReader
from hedgerow.http.payload.fields import Fields, validate
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.trace import get_trace
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import Actor
from hedgerow.projects.caller import Caller
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, User

T = TypeVar("T")
F = TypeVar("F", bound=Fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The services behind every call. The container builds it once."""

    directory: Directory
    bodies: BodyReader
    origins: Origins
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCall:
    """A request to an endpoint that needs no key."""

    request: Request
    context: CallContext

    @property
    def now(self) -> datetime:
        return self.context.clock()

    @property
    def base_url(self) -> str:
        """Scheme and host as the client sees them, without a trailing slash."""
        return self.context.origins.base_url(self.request.scope)

    def path_param(self, name: str, reserved: Mapping[str, str] | None = None) -> str:
        """Return a parameter of the path. `reserved` values have their own routes, which accept
        only the given methods."""
        value = str(self.request.path_params[name])
        if reserved and value in reserved:
            raise MethodNotAllowed(self.request.method, [reserved[value], "OPTIONS"])
        return value

    def query_param(self, name: str) -> str | None:
        """Return the last value of a query parameter, or None."""
        return self.request.query_params.get(name)

    @property
    def window(self) -> PageWindow:
        return parse_window(self.query_param("limit"), self.query_param("offset"))

    def page(self, count: int, results: Sequence[T]) -> Page[T]:
        """Build the page of `results` for the window of this call, out of `count` in all."""
        return build_page(self.request, self.context.origins, self.window, count, results)

    def link(self, changes: dict[str, Any]) -> str:
        """Return the URL of this request with some query parameters replaced; None removes one."""
        return build_link(self.request, self.context.origins, changes)

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work whose cost the client decides. It is cancelled if the client disconnects. Call
        it after the body is read."""
        running = asyncio.create_task(work)
        watching = asyncio.create_task(_wait_for_disconnect(self.request))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise ClientDisconnect
            return running.result()
        finally:
            watching.cancel()
            running.cancel()

    async def body(self, model: type[F]) -> F:
        """Parse and validate the body. Call it last: every other check comes before the body."""
        trace = get_trace(self.request.scope)
        trace.mark("object")
        fields = validate(model, await self.raw_body())
        trace.mark("body")
        return fields

    async def raw_body(self) -> Any:
        """Return the parsed body before validation: a JSON value or a `FormFields`."""
        return await self.context.bodies.value(self.request)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(PublicCall):
    """A request of a known caller: with a personal key, or of a person who has logged in."""

    caller: Caller

    @property
    def owner(self) -> User:
        """The person who calls, or who owns the key."""
        return self.caller.user

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    async def raw_body(self) -> Any:
        """A body may arrive half a minute after the headers, by which access was checked."""
        body = await PublicCall.raw_body(self)
        if not self.context.directory.has_same_rights(self.caller):
            raise AuthenticationFailed(
                "Your rights have changed while the request was sent. Send it again."
            )
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCall(Call):
    """A request of a known caller to a path with {project_id}."""

    project: Project


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkCall(PublicCall):
    """A request of a server-side SDK, with a secret key of the project or a personal key."""

    project: Project
