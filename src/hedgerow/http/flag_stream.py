"""`GET …/feature_flags/stream/`: tells that definitions of flags have changed, as server-sent
events, so that nobody has to ask again and again. It has no end, which the OpenAPI document says by
`x-endless`, for whoever tries all operations.
"""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.http.reply import Streamed
from hedgerow.http.sdk_access import SdkCall, for_sdks, sdk_project
from hedgerow.http.trace import Trace
from hedgerow.lib import jsonio

TYPE = "text/event-stream"
SIGN_OF_LIFE = b": still here\n\n"

router = APIRouter(include_in_schema=False)


async def stream(call: Annotated[SdkCall, for_sdks(also=TYPE)]) -> Response:
    call.rooms.flag_streams.check_room(call.project)
    return Streamed(
        _events(call),
        media_type=TYPE,
        # The second is for nginx, which would otherwise collect answers before it passes them on.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(call: SdkCall) -> AsyncIterator[bytes]:
    scope = call.request.scope

    async def may_listen() -> bool:
        try:
            directory = call.rooms.directory
            await sdk_project(scope, directory, Trace(scope), str(call.project.id))
        except AppError:
            return False
        return True

    async for mark in call.rooms.flag_streams.marks(call.project, may_listen):
        if mark is None:
            yield SIGN_OF_LIFE
        else:
            yield b"event: definitions\ndata: %s\n\n" % jsonio.encode({"etag": mark})


for root in ("projects", "environments"):
    router.get(f"/api/{root}/{{project_id}}/feature_flags/stream/")(stream)
