"""`GET /flags/definitions` and `/api/feature_flag/local_evaluation`: flag definitions for SDKs that
evaluate locally and poll every half minute.
"""

from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.definitions import SdkProfile
from hedgerow.http.auth.sdk_key import admit_project, find_sdk_project
from hedgerow.http.endpoint import Options, fast_endpoint
from hedgerow.http.openapi.sdk_types import (
    COHORTS,
    NOT_MODIFIED,
    SERVER_KEYS,
    TOKEN_OF_PROJECT,
    Definitions,
)
from hedgerow.http.server.headers import etag_matches
from hedgerow.http.server.response import JSON_TYPE, Reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.projects.directory import Directory
from hedgerow.projects.rate_limit import RateLimiter

# Proxies must not cache the response; clients revalidate theirs on every request.
CACHING = (b"cache-control", b"private, no-cache")


DEFINITIONS_OPTIONS: Options = {
    "keys": SERVER_KEYS,
    "query": (TOKEN_OF_PROJECT, COHORTS),
    "response": Definitions,
    "statuses": NOT_MODIFIED,
}


class LocalEvaluationEndpoints:
    tag = "Flags for SDKs"

    def __init__(
        self, directory: Directory, cache: LocalEvaluationCache, throttle: RateLimiter
    ) -> None:
        self._directory = directory
        self._cache = cache
        self._throttle = throttle

    @fast_endpoint(
        "GET", "/flags/definitions", is_quick=True, name="definitions", **DEFINITIONS_OPTIONS
    )
    async def retrieve_definitions(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Retrieve the definitions of all flags, for local evaluation. Send the `ETag` of the last
        response as `If-None-Match` to get 304 if nothing changed."""
        return await self._respond(scope, trace, SdkProfile.CURRENT)

    @fast_endpoint(
        "GET",
        "/api/feature_flag/local_evaluation",
        is_quick=True,
        name="older_definitions",
        **DEFINITIONS_OPTIONS,
    )
    async def retrieve_legacy_definitions(
        self, scope: Scope, receive: Receive, trace: Trace
    ) -> Reply:
        """Retrieve the definitions of all flags, in the format of older SDKs."""
        return await self._respond(scope, trace, parse_legacy_audience(scope))

    async def _respond(self, scope: Scope, trace: Trace, audience: SdkProfile) -> Reply:
        project = await find_sdk_project(scope, self._directory, trace)
        admit_project(self._throttle, project)
        trace.mark("access")
        cached = self._cache.get_cached(project, audience) or await self._cache.get(
            project, audience
        )
        etag = (b"etag", cached.etag.encode())
        if etag_matches(scope, cached.etag):
            return build_reply(304, b"", etag, CACHING)
        return build_reply(200, cached.body, JSON_TYPE, etag, CACHING)


def parse_legacy_audience(scope: Scope) -> SdkProfile:
    """Older SDKs request cohorts with the parameter `send_cohorts`, with or without a value."""
    query = parse_qs(scope["query_string"][:2000].decode("latin-1"), keep_blank_values=True)
    return SdkProfile.OLDER if "send_cohorts" in query else SdkProfile.OLDER_WITHOUT_COHORTS
