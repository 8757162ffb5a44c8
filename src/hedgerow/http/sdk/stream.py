"""`GET …/feature_flags/stream/`: server-sent events that report changed flag definitions, so that
clients need not poll.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hedgerow.errors import AppError
from hedgerow.flags.local_evaluation.etag_stream import EtagStreams, GetEtag, Listener
from hedgerow.http.auth.access import for_sdks
from hedgerow.http.auth.sdk_key import find_sdk_project
from hedgerow.http.call import SdkCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.openapi.sdk_types import SERVER_KEYS
from hedgerow.http.server.response import ApiStreamingResponse
from hedgerow.http.server.trace import Trace, get_trace
from hedgerow.lib import jsonio

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE = b": still here\n\n"


class CountedStream(ApiStreamingResponse):
    """A stream that counts until it has ended. It is closed also if it never begins."""

    def __init__(self, events: AsyncIterator[bytes], held: ExitStack) -> None:
        # Without the second header, nginx buffers the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=EVENT_STREAM, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


class StreamEndpoints:
    tag = "Flags for SDKs"

    def __init__(self, streams: EtagStreams) -> None:
        self._streams = streams

    @endpoint(
        "GET",
        *project_paths("feature_flags/stream/"),
        access=for_sdks(also=EVENT_STREAM),
        response=str,
        media_type=EVENT_STREAM,
        name="stream",
        keys=SERVER_KEYS,
        is_streaming=True,
    )
    async def stream_changes(self, call: SdkCall) -> Response:
        """Send a server-sent event for each change of the flag definitions, until the client
        disconnects. Each event carries the new `ETag`."""
        return build_stream(call, self._streams, self._streams.get_sdk_etag)


def build_stream(call: SdkCall, streams: EtagStreams, get_etag: GetEtag) -> Response:
    """Stream the ETag that `get_etag` returns, whenever it changes. Raises Throttled if there are
    too many streams."""
    with ExitStack() as held:
        # From now on: of many requests at the same time, only as many as allowed get a stream.
        held.enter_context(streams.hold(_identify(call)))
        return CountedStream(_iter_events(call, streams, get_etag), held.pop_all())


async def _iter_events(
    call: SdkCall, streams: EtagStreams, get_etag: GetEtag
) -> AsyncIterator[bytes]:
    scope = call.request.scope

    async def is_key_valid() -> bool:
        try:
            await find_sdk_project(
                scope, call.context.directory, Trace(scope), str(call.project.id)
            )
        except AppError:
            return False
        return True

    async for etag in streams.stream_etags(call.project, is_key_valid, get_etag):
        if etag is None:
            yield KEEP_ALIVE
        else:
            yield encode_etag_event(etag)


def encode_etag_event(etag: str) -> bytes:
    return b"event: definitions\ndata: %s\n\n" % jsonio.encode({"etag": etag})


def _identify(call: SdkCall) -> Listener:
    """Count by the personal key, or by the secret key, of which a project has one."""
    scope = call.request.scope
    return Listener(
        project=call.project,
        key=get_trace(scope).key_id or f"secret key of {call.project.id}",
        address=str(call.context.origins.client_address(scope)),
    )
