"""`GET …/feature_flags/:id/remote_config/` at an edge process: the payload of a flag, for SDKs of
servers.
"""

from typing import Any

from starlette.responses import Response

from hedgerow.edge.forwarding import Forwarder
from hedgerow.edge.state import NO_ORIGIN, EdgeState
from hedgerow.errors import NotFound, Unavailable
from hedgerow.flags.model import Flag
from hedgerow.flags.payloads import get_payloads
from hedgerow.http.auth.access import for_sdks
from hedgerow.http.call import SdkCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.server.response import JsonResponse
from hedgerow.outbound.origin_client import OriginUnreachable


class EdgePayloadEndpoints:
    tag = "Feature flags"

    def __init__(self, state: EdgeState, forwarder: Forwarder, *, timeout_s: float) -> None:
        self._state = state
        self._forwarder = forwarder
        self._timeout_s = timeout_s

    @endpoint(
        "GET",
        *project_paths("feature_flags/{flag_id}/remote_config/"),
        access=for_sdks(),
        response=Any,
    )
    async def retrieve_remote_config(self, call: SdkCall) -> Response:
        """Retrieve the payload of a remote configuration flag. Only the origin can decrypt it."""
        flag = self._find_flag(call)
        if flag is None or not flag.is_remote_configuration:
            raise NotFound
        if flag.has_encrypted_payloads:
            return await self._ask_origin(call)
        return JsonResponse(get_payloads(flag.filters).get("true"))

    def _find_flag(self, call: SdkCall) -> Flag | None:
        """Find a flag by its id, or else by its key, as the origin does."""
        document = self._state.find(call.project.id)
        flags = document.definitions.flags if document else ()
        wanted = call.path_param("flag_id")
        by_id = (each for each in flags if str(each.id) == wanted)
        by_key = (each for each in flags if each.key == wanted)
        return next(by_id, None) or next(by_key, None)

    async def _ask_origin(self, call: SdkCall) -> Response:
        try:
            found = await self._forwarder.send(call.request.scope, b"", self._timeout_s)
        except OriginUnreachable:
            raise Unavailable(NO_ORIGIN, retry_after_s=5) from None
        return Response(found.body, found.status, media_type="application/json")
