"""Endpoints: methods of handler classes, with a description that routing, access checks and the
OpenAPI document read.

    class KeyEndpoints:
        tag = "Personal API keys"

        def __init__(self, keys: Keys) -> None: ...

        @endpoint("POST", "/api/personal_api_keys/{key_id}/roll/", access=anywhere(ALL),
                  response=KeyDetail)
        async def roll_key(self, call: Call) -> Response: ...
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from starlette.responses import Response

from hedgerow.http.auth.access import Access
from hedgerow.http.parameters import Parameter

JSON = "application/json"
PROJECT_ROOTS = ("projects", "environments")

_ATTRIBUTE = "__endpoints__"

M = TypeVar("M", bound=Callable[..., Awaitable[Response]])
H = TypeVar("H", bound=Callable[..., Any])


class Handler(Protocol):
    """An object with endpoints. `tag` is their heading in the API documentation."""

    tag: str


class Options(TypedDict, total=False):
    """The optional part of a description; see the fields of Endpoint."""

    response: Any
    status: int
    query: Sequence[Parameter]
    body: Any
    media_type: str
    is_documented: bool
    keys: Sequence[str]
    statuses: Mapping[str, str]
    failure: Any
    is_streaming: bool


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One operation on one or more paths."""

    method: str
    paths: Sequence[str]
    access: Access | None
    function: str
    # The first part of the operationId, and the description: the name and the docstring of the
    # function unless given.
    name: str
    description: str
    # The types of the response and request bodies; None for no body.
    response: Any = None
    status: int = 200
    query: Sequence[Parameter] = ()
    body: Any = None
    media_type: str = JSON
    is_documented: bool = True
    # The security schemes to document instead of a personal key with a scope.
    keys: Sequence[str] | None = None
    # Further status codes that are not errors, with their descriptions.
    statuses: Mapping[str, str] = field(default_factory=dict)
    # The type of an error body beside the common one.
    failure: Any = None
    # The response goes on until the client disconnects.
    is_streaming: bool = False


@dataclass(frozen=True, kw_only=True)
class FastEndpoint(Endpoint):
    """An operation that the gateway serves without the framework."""

    keys: Sequence[str] | None = ()
    is_public: bool
    is_probe: bool
    is_quick: bool
    # Whether pages may call a public one with credentials.
    allows_credentials: bool


def endpoint(
    method: str,
    *paths: str,
    access: Access | None,
    name: str = "",
    description: str = "",
    **options: Unpack[Options],
) -> Callable[[M], M]:
    """Serve `method` on `paths` with the decorated method of a handler class.

    `access` decides which call the method receives: `anywhere(...)` a Call, `in_project(...)` a
    ProjectCall, `for_sdks(...)` an SdkCall, None a PublicCall.
    """

    def attach(function: M) -> M:
        return _attach(
            function,
            Endpoint(
                method=method,
                paths=paths,
                access=access,
                function=function.__name__,
                name=name or function.__name__,
                description=description or inspect.getdoc(function) or "",
                **options,
            ),
        )

    return attach


def fast_endpoint(  # noqa: PLR0913 - flags, all named
    method: str,
    *paths: str,
    is_public: bool = False,
    is_probe: bool = False,
    is_quick: bool = False,
    allows_credentials: bool = True,
    name: str = "",
    description: str = "",
    **options: Unpack[Options],
) -> Callable[[H], H]:
    """Serve `method` on `paths` in the gateway, with a method that takes the ASGI scope. See
    FastRoute for the flags."""

    def attach(function: H) -> H:
        return _attach(
            function,
            FastEndpoint(
                method=method,
                paths=paths,
                access=None,
                function=function.__name__,
                name=name or function.__name__,
                description=description or inspect.getdoc(function) or "",
                is_public=is_public,
                is_probe=is_probe,
                is_quick=is_quick,
                allows_credentials=is_public and allows_credentials,
                **options,
            ),
        )

    return attach


def _attach(function: H, description: Endpoint) -> H:
    setattr(function, _ATTRIBUTE, (*getattr(function, _ATTRIBUTE, ()), description))
    return function


def project_paths(*rests: str) -> list[str]:
    """Return the paths below a project, under both of PostHog's roots."""
    return [f"/api/{root}/{{project_id}}/{rest}" for root in PROJECT_ROOTS for rest in rests]


def endpoints_of(handler_class: type[Handler]) -> Iterator[Endpoint]:
    for function in vars(handler_class).values():
        yield from getattr(function, _ATTRIBUTE, ())
