"""`GET /flags/definitions` and `/api/feature_flag/local_evaluation`: flags for SDKs that evaluate
them by themselves, and ask every half minute whether they have changed.
"""

from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from hedgerow.flags.local import Audience
from hedgerow.flags.local_board import LocalBoard
from hedgerow.http.reply import JSON_TYPE, Reply, reply
from hedgerow.http.request_headers import has_answer
from hedgerow.http.sdk_access import admit, sdk_project
from hedgerow.http.trace import Trace
from hedgerow.projects.directory import Directory
from hedgerow.projects.throttle import Throttle

# A proxy may keep it for nobody; a client asks each time whether what it has is still right.
CACHING = (b"cache-control", b"private, no-cache")


class LocalEvaluationDoor:
    """The handlers, with what they work with."""

    def __init__(self, directory: Directory, board: LocalBoard, throttle: Throttle) -> None:
        self._directory = directory
        self._board = board
        self._throttle = throttle

    async def definitions(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._answer(scope, trace, Audience.CURRENT)

    async def older(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._answer(scope, trace, older_audience(scope))

    async def _answer(self, scope: Scope, trace: Trace, audience: Audience) -> Reply:
        project = await sdk_project(scope, self._directory, trace)
        admit(self._throttle, project)
        trace.mark("access")
        told = self._board.at_hand(project, audience) or await self._board.told(project, audience)
        etag = (b"etag", told.etag.encode())
        if has_answer(scope, told.etag):
            return reply(304, b"", etag, CACHING)
        return reply(200, told.body, JSON_TYPE, etag, CACHING)


def older_audience(scope: Scope) -> Audience:
    """Older SDKs say that they read cohorts by naming them, with or without a value."""
    asked = parse_qs(scope["query_string"][:2000].decode("latin-1"), keep_blank_values=True)
    return Audience.OLDER if "send_cohorts" in asked else Audience.OLDER_WITHOUT_COHORTS
