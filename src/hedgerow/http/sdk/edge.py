"""`GET …/edge/definitions/` and `…/edge/stream/`: what `hedgerow edge` evaluates flags with."""

from starlette.responses import Response

from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.flags.local_evaluation.etag_stream import EtagStreams
from hedgerow.http.auth.access import for_sdks
from hedgerow.http.call import SdkCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.openapi.sdk_types import NOT_MODIFIED, SERVER_KEYS, EdgeDefinitions
from hedgerow.http.sdk.stream import EVENT_STREAM, build_stream
from hedgerow.http.server.headers import etag_matches


class EdgeEndpoints:
    tag = "Flags for SDKs"

    def __init__(self, documents: EdgeDocuments, streams: EtagStreams) -> None:
        self._documents = documents
        self._streams = streams

    @endpoint(
        "GET",
        *project_paths("edge/definitions/"),
        access=for_sdks(),
        response=EdgeDefinitions,
        name="edge_definitions",
        keys=SERVER_KEYS,
        statuses=NOT_MODIFIED,
    )
    async def retrieve_edge_definitions(self, call: SdkCall) -> Response:
        """Retrieve all that `hedgerow edge` needs to evaluate the flags of the project. Encrypted
        payloads are redacted. Send the `ETag` as `If-None-Match` to get 304 if nothing changed."""
        document = await self._documents.get(call.project)
        headers = {"ETag": document.etag, "Cache-Control": "private, no-cache"}
        if etag_matches(call.request.scope, document.etag):
            return Response(status_code=304, headers=headers)
        return Response(document.body, media_type="application/json", headers=headers)

    @endpoint(
        "GET",
        *project_paths("edge/stream/"),
        access=for_sdks(also=EVENT_STREAM),
        response=str,
        media_type=EVENT_STREAM,
        name="edge_stream",
        keys=SERVER_KEYS,
        is_streaming=True,
    )
    async def stream_edge_changes(self, call: SdkCall) -> Response:
        """Send a server-sent event for each change of these definitions, until the client
        disconnects. Each event carries the new `ETag`. A change of the keys or of the SDK
        configuration is reported within 15 seconds, any other at once."""
        return build_stream(call, self._streams, self._documents.get_etag)
