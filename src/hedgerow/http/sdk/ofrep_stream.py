"""`GET /ofrep/v1/events`: the event stream of OpenFeature's Remote Evaluation Protocol, for pages.

Each event says that flags have changed, and the page evaluates them again. A browser's EventSource
sends no headers, so the public key is a parameter.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack

from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.flags.local_evaluation.etag_stream import EtagStreams, Listener
from hedgerow.http.auth.project_key import find_project_in_query, parse_query
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.openapi.sdk_types import NO_KEY, PUBLIC_TOKEN
from hedgerow.http.sdk.cors_assets import (
    CORS_HEADERS,
    build_asset_error,
    build_preflight_response,
)
from hedgerow.http.sdk.ofrep import EVENTS_PATH
from hedgerow.http.sdk.stream import EVENT_STREAM, KEEP_ALIVE, CountedStream
from hedgerow.http.server.headers import read_header
from hedgerow.lib import jsonio
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project


class OfrepStreamEndpoints:
    tag = "OpenFeature"

    def __init__(self, directory: Directory, streams: EtagStreams) -> None:
        self._directory = directory
        self._streams = streams

    @endpoint(
        "GET",
        EVENTS_PATH,
        access=None,
        keys=NO_KEY,
        query=(PUBLIC_TOKEN,),
        response=str,
        media_type=EVENT_STREAM,
        name="ofrep_events",
        is_streaming=True,
    )
    async def stream_ofrep_events(self, call: PublicCall) -> Response:
        """Send a server-sent event for each change of the flags, until the client disconnects. Its
        data is `{"type": "refetchEvaluation", "etag": …}`: evaluate the flags again. The first one
        is sent at once, unless `Last-Event-ID` names the last change."""
        scope = call.request.scope
        try:
            project = await find_project_in_query(self._directory, parse_query(scope))
            listener = Listener(
                project=project,
                key=f"pages of {project.id}",
                address=call.context.origins.client(scope).group,
            )
            with ExitStack() as held:
                held.enter_context(self._streams.hold(listener))
                events = self._iter_events(call, project)
                response = CountedStream(events, held.pop_all())
        except AppError as error:
            return build_asset_error(error)
        response.headers.update(CORS_HEADERS)
        return response

    @endpoint("OPTIONS", EVENTS_PATH, access=None, is_documented=False)
    async def preflight_ofrep_events(self, call: PublicCall) -> Response:
        return build_preflight_response(call.request)

    async def _iter_events(self, call: PublicCall, project: Project) -> AsyncIterator[bytes]:
        scope = call.request.scope

        async def is_key_valid() -> bool:
            try:
                found = await find_project_in_query(self._directory, parse_query(scope))
            except AppError:
                return False
            return found.id == project.id

        seen = read_header(scope, b"last-event-id")
        get_etag = self._streams.get_generation_etag
        async for etag in self._streams.stream_etags(project, is_key_valid, get_etag, seen):
            if etag is None:
                yield KEEP_ALIVE
            else:
                data = jsonio.encode({"type": "refetchEvaluation", "etag": etag})
                yield b"id: %s\nevent: message\ndata: %s\n\n" % (etag.encode(), data)
