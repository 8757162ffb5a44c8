"""Requests of tools to the public API, over whatever carries them."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from hedgerow.lib.text import truncate

_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """`path` begins with /api and contains the query."""

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """`body` is the JSON value of the response, None if it has none."""

    status: int
    body: Any


ApiCall = Callable[[ApiRequest], Awaitable[ApiResponse]]


class ToolError(Exception):
    """A tool that cannot answer, with the reason for the assistant. `body` is that of the API."""

    def __init__(self, reason: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.body = body or {}


class ProjectApi:
    """The API of one project. Without a project it is the current one of the key's owner."""

    def __init__(self, call: ApiCall, project: int | None) -> None:
        self._call = call
        self._root = f"/api/projects/{'@current' if project is None else project}/"

    async def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        chosen = {name: value for name, value in (parameters or {}).items() if value is not None}
        query = f"?{urlencode(chosen)}" if chosen else ""
        return await self._request("GET", path + query)

    async def post(self, path: str, body: Any) -> Any:
        return await self._request("POST", path, body)

    async def patch(self, path: str, body: Any) -> Any:
        return await self._request("PATCH", path, body)

    async def _request(self, method: str, path: str, body: Any = None) -> Any:
        request = ApiRequest(method=method, path=self._root + path, body=body)
        return read_body(await self._call(request))


def read_body(response: ApiResponse) -> Any:
    """Return the body of a successful response. Raises ToolError with the reason of another."""
    if response.status < 400:
        return response.body
    body = response.body if isinstance(response.body, dict) else {}
    detail = body.get("detail") or f"The service answers {response.status}."
    field = f" (field {body['attr']})" if body.get("attr") else ""
    raise ToolError(f"{detail}{field}", body)


async def fetch_flag(api: ProjectApi, key: str) -> Any:
    """Return a flag. Raises ToolError for what is no key: it may be the path of something else."""
    flag = await api.get(flag_path(key)) if _KEY.fullmatch(key) else None
    if not isinstance(flag, dict) or "filters" not in flag:
        raise ToolError(f'There is no flag "{truncate(key)}". find_flags lists the flags.')
    return flag


def flag_path(key: str) -> str:
    return f"feature_flags/{key}/"
