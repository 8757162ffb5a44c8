"""The state of the installation, for its owners: versions, storage, waiting work, jobs, and what
`hedgerow doctor` says about it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec
from starlette.responses import Response

from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.server.response import JsonResponse


class StatusMetric(msgspec.Struct, kw_only=True):
    """A figure. Sizes are in bytes; null means unknown."""

    key: str
    metric: str
    value: str | int | float | bool | None


class StatusCheck(msgspec.Struct, kw_only=True):
    """The result of a check. A `warning` or `problem` says what to do; `page` is the path of the
    page of the console to do it on."""

    verdict: Literal["ok", "warning", "problem"]
    check: str
    detail: str
    page: str | None


class OpenJob(msgspec.Struct, kw_only=True):
    """A job that is not over. `family` is that of its pipeline."""

    id: str
    project_id: int
    pipeline_id: int
    pipeline_name: str
    family: str
    type: str
    status: str
    done: int
    total: int | None
    rate: float
    requested_by: str
    created_at: str
    updated_at: str


class InstanceStatusResults(msgspec.Struct, kw_only=True):
    """`jobs` has the 100 newest; `jobs_count` counts all."""

    overview: Sequence[StatusMetric]
    checks: Sequence[StatusCheck]
    jobs: Sequence[OpenJob]
    jobs_count: int


class InstanceStatus(msgspec.Struct, kw_only=True):
    results: InstanceStatusResults


class InstanceStatusEndpoints:
    tag = "Installation"

    def __init__(self, read_status: Callable[[], Awaitable[InstanceStatusResults]]) -> None:
        self._read_status = read_status

    @endpoint(
        "GET",
        "/api/instance_status/",
        access=anywhere("organization:read"),
        response=InstanceStatus,
    )
    async def retrieve_status(self, call: Call) -> Response:
        """Retrieve the state of the installation: versions, storage, waiting work, open jobs, and
        warnings. For owners of the organization."""
        return JsonResponse(InstanceStatus(results=await self._read_status()))
