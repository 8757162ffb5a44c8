"""Event capture: `/capture`, `/e`, `/track`, `/engage`, `/batch`, `/i/v0/e`,
`/i/v1/analytics/events`, and Segment's `/v1/track` with its siblings.
"""

from datetime import datetime
from functools import lru_cache, partial
from typing import Protocol
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from hedgerow.errors import AppError
from hedgerow.http.auth.project_key import find_project_by_token
from hedgerow.http.endpoint import Options, fast_endpoint
from hedgerow.http.openapi.sdk_types import (
    BEACON,
    COMPRESSION,
    DATA,
    IN_BODY,
    CaptureRequest,
    CaptureResponse,
    PerEventRequest,
    PerEventResponse,
    SegmentRequest,
    SegmentResponse,
)
from hedgerow.http.payload.forms import parse_sent_at_ms
from hedgerow.http.payload.limits import MAX_INLINE_EVENTS
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.payload.workers import (
    CaptureArguments,
    ParsedPayload,
    SegmentCall,
    V1Headers,
    parse_events,
)
from hedgerow.http.sdk.edge_receipt import Receipt, check_receipt_key, read_receipt
from hedgerow.http.server.headers import read_basic_user, read_bearer, read_header
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.response import JSON_TYPE, Reply, build_json_reply, build_reply
from hedgerow.http.server.spans import RequestSpans
from hedgerow.http.server.trace import Trace
from hedgerow.ingestion.model import CaptureBatch, PackedBatch
from hedgerow.ingestion.parsing import segment_format
from hedgerow.ingestion.parsing.request import AllEventsRejected
from hedgerow.ingestion.parsing.v1_format import build_results
from hedgerow.lib.clock import Clock
from hedgerow.lib.tokens import RandomBytesPool
from hedgerow.projects.call_limits import CallLimits
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId

# SDKs of different ages send events to different paths, which all work alike.
EVENT_PATHS = ("/capture", "/e", "/track", "/batch", "/i/v0/e", "/i/v0/ai/batch")
# A batch may hold a million invalid events; the first ones tell the client enough.
MAX_REPORTED_REJECTIONS = 1000
ACCEPTED = build_reply(200, b'{"status":1}', JSON_TYPE)
ACCEPTED_BEACON = build_reply(204, b"")
ACCEPTED_SEGMENT = build_reply(200, b'{"success":true}', JSON_TYPE)
# By the last part of the path. The browser library shortens the names.
SEGMENT_TYPES = {
    **{type: type for type in (*segment_format.TYPES, segment_format.BATCH)},
    **{"t": "track", "i": "identify", "p": "page", "s": "screen", "g": "group", "a": "alias"},
    "m": segment_format.BATCH,
    "b": segment_format.BATCH,
}

CAPTURE_DESCRIPTION = (
    "Capture one event or a batch. The events are on disk before the response. Invalid events are "
    "rejected one by one and listed in the response."
)
ENGAGE_DESCRIPTION = f"{CAPTURE_DESCRIPTION} An event without a name is `$identify`."
SEGMENT_DESCRIPTION = (
    "Segment's tracking API. Calls become events with the names and properties of PostHog's SDKs: "
    "a page is a `$pageview`, traits are properties of the person."
)
GET_DESCRIPTION = "Capture events with a GET request, for clients that cannot POST."
CAPTURE_OPTIONS: Options = {
    "keys": IN_BODY,
    "response": CaptureResponse,
    "statuses": {"204": "Accepted, for a beacon."},
}
POST_OPTIONS: Options = {
    **CAPTURE_OPTIONS,
    "query": (COMPRESSION, BEACON),
    "body": CaptureRequest,
}
GET_OPTIONS: Options = {
    **CAPTURE_OPTIONS,
    "query": (DATA, COMPRESSION, BEACON),
}


class Acceptance(Protocol):
    """What takes the events of a request: the service stores them, see `ingestion/accept.py`."""

    @property
    def bucket_count(self) -> int: ...

    async def accept(self, project_id: ProjectId, batch: CaptureBatch, now: datetime) -> None: ...

    async def accept_packed(
        self, project_id: ProjectId, batch: PackedBatch, now: datetime
    ) -> None: ...


class CaptureEndpoints:
    tag = "Capture"

    def __init__(  # noqa: PLR0913 - collaborators
        self,
        directory: Directory,
        capture: Acceptance,
        payloads: PayloadReader,
        origins: Origins,
        clock: Clock,
        limits: CallLimits,
        spans: RequestSpans | None = None,
    ) -> None:
        self._limits = limits
        self._spans = spans
        self._directory = directory
        self._capture = capture
        self._payloads = payloads
        self._origins = origins
        self._clock = clock
        self._randomness = RandomBytesPool()

    @fast_endpoint(
        "POST",
        *EVENT_PATHS,
        is_public=True,
        name="capture",
        description=CAPTURE_DESCRIPTION,
        **POST_OPTIONS,
    )
    @fast_endpoint(
        "GET",
        *EVENT_PATHS,
        is_public=True,
        name="capture_by_query",
        description=GET_DESCRIPTION,
        **GET_OPTIONS,
    )
    async def capture(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._capture_batch(scope, receive, trace, is_engage=False)

    @fast_endpoint(
        "POST",
        "/engage",
        is_public=True,
        name="capture",
        description=ENGAGE_DESCRIPTION,
        **POST_OPTIONS,
    )
    @fast_endpoint(
        "GET",
        "/engage",
        is_public=True,
        name="capture_by_query",
        description=GET_DESCRIPTION,
        **GET_OPTIONS,
    )
    async def engage(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._capture_batch(scope, receive, trace, is_engage=True)

    @fast_endpoint(
        "POST",
        "/i/v1/analytics/events",
        is_public=True,
        name="capture_per_event",
        keys=("projectKey",),
        body=PerEventRequest,
        response=PerEventResponse,
    )
    async def capture_v1(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Capture a batch of events, with one result for each event."""
        headers = V1Headers(
            token=read_bearer(scope),
            library=read_header(scope, b"posthog-sdk-info")[:200],
            sent_at=read_header(scope, b"posthog-request-timestamp"),
        )
        batch, refusal = await self._accept(scope, receive, trace, v1=headers)
        results_by_uuid = batch.results if isinstance(batch, PackedBatch) else build_results(batch)
        if refusal is not None and not results_by_uuid:
            raise refusal
        return build_json_reply(200, {"results": results_by_uuid})

    @fast_endpoint(
        "POST",
        *(f"/v1/{each}" for each in SEGMENT_TYPES),
        is_public=True,
        name="capture_segment",
        description=SEGMENT_DESCRIPTION,
        keys=IN_BODY,
        body=SegmentRequest,
        response=SegmentResponse,
    )
    async def capture_segment(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        last = scope["path"].rstrip("/").rpartition("/")[2]
        call = SegmentCall(token=read_basic_user(scope), type=SEGMENT_TYPES[last])
        _, refusal = await self._accept(scope, receive, trace, segment=call)
        if refusal is not None:
            raise refusal
        return ACCEPTED_SEGMENT

    async def _capture_batch(
        self, scope: Scope, receive: Receive, trace: Trace, *, is_engage: bool
    ) -> Reply:
        batch, refusal = await self._accept(scope, receive, trace, is_engage=is_engage)
        if refusal is not None:
            raise refusal
        if batch.rejected:
            return build_json_reply(
                200, {"status": 1, "rejected": batch.rejected[:MAX_REPORTED_REJECTIONS]}
            )
        query: bytes = scope["query_string"]
        return ACCEPTED_BEACON if query and _is_beacon(query) else ACCEPTED

    async def _accept(
        self,
        scope: Scope,
        receive: Receive,
        trace: Trace,
        v1: V1Headers | None = None,
        segment: SegmentCall | None = None,
        *,
        is_engage: bool = False,
    ) -> tuple[CaptureBatch | PackedBatch, AppError | None]:
        """Read and store a batch. Return it with the error to raise if no event was valid."""
        query: bytes = scope["query_string"]
        now = self._clock()
        receipt, edge_key = read_receipt(scope) or (None, "")
        arguments = CaptureArguments(
            now=now if receipt is None else receipt.find_moment(now),
            accepted_at=None if receipt is None else now,
            query_sent_at_ms=parse_sent_at_ms(query) if query else None,
            is_engage=is_engage,
            ip=self._find_address(scope, receipt),
            randomness=(
                self._randomness.take_uuid7_bytes() if receipt is None else receipt.randomness
            ),
            bucket_count=self._capture.bucket_count,
            v1=v1,
            segment=segment,
            traceparent=self._find_traceparent(trace),
        )
        batch, refusal = await self._read(scope, receive, arguments)
        trace.mark("body")
        project = await find_project_by_token(self._directory, batch.token)
        trace.project_id = project.id
        if receipt is not None:
            await check_receipt_key(edge_key, self._directory, project)
        trace.mark("access")
        if isinstance(batch, PackedBatch):
            self._limits.admit_capture(project.id, batch.event_count)
            await self._capture.accept_packed(project.id, batch, now)
        else:
            self._limits.admit_capture(project.id, len(batch.events))
            await self._capture.accept(project.id, batch, now)
        trace.mark("store")
        return batch, refusal

    def _find_address(self, scope: Scope, receipt: Receipt | None) -> str:
        """Return the address of the client, which an edge process knows. If that is a trusted
        proxy, the forwarded addresses count, as those of any other proxy."""
        client = self._origins.client(scope)
        if receipt is None or (scope["client"] and self._origins.is_proxy(scope["client"][0])):
            return client.text
        return receipt.ip

    def _find_traceparent(self, trace: Trace) -> str:
        """Return the trace context that deliveries continue; empty without tracing."""
        if self._spans is None:
            return ""
        context = self._spans.find_context(trace)
        return context.traceparent if context.is_sampled else ""

    async def _read(
        self, scope: Scope, receive: Receive, arguments: CaptureArguments
    ) -> tuple[CaptureBatch | PackedBatch, AppError | None]:
        parse = partial(parse_events, arguments=arguments, max_events=MAX_INLINE_EVENTS)
        try:
            parsed = await self._payloads.read_events(scope, receive, parse, arguments)
        except AllEventsRejected as refused:
            return refused.batch, refused
        if isinstance(parsed, ParsedPayload):
            assert parsed.batch is not None
            return parsed.batch, parsed.error
        batch: CaptureBatch = parsed
        return batch, None


@lru_cache(maxsize=256)
def _is_beacon(query: bytes) -> bool:
    return "1" in parse_qs(query[:2000].decode("latin-1")).get("beacon", ())
