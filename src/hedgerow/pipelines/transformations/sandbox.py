"""The sandbox: transformations of packages run in a worker process that may hang or crash.

A failure leaves the event unchanged. All projects wait for the process, so a transformation that
hangs or crashes is suspended afterwards, longer each time.
"""

import time
from collections.abc import Mapping
from itertools import count
from typing import Any, Literal

import msgspec

from hedgerow.lib.workers.process import WorkerDied, WorkerProcess
from hedgerow.plugin.transform import IncomingEvent, Transform, TransformError

HOST_MODULE = "hedgerow.pipelines.transformations.sandbox_host"
# Limits for loading packages or preparing a transformation, and for transforming one event.
START_TIMEOUT_S = 60.0
RESPONSE_TIMEOUT_S = 5.0
# The suspension after the first failure, and the longest one after repeated failures.
INITIAL_BACKOFF_S = 60.0
MAX_BACKOFF_S = 3600.0

TIMEOUT_REASON = (
    f"The component took longer than {RESPONSE_TIMEOUT_S:.0f} s, or {START_TIMEOUT_S:.0f} s to"
    " start, and is suspended for a while"
)
CRASH_REASON = "The component ended its process and is suspended for a while"


class SandboxRequest(msgspec.Struct, array_like=True):
    """An event for the transformation with this number; or, without an event, the component and
    settings to prepare for it. Each worker process prepares a number before its first event."""

    number: int
    event: IncomingEvent | None = None
    key: str = ""
    settings: Mapping[str, Any] | None = None


class SandboxResponse(msgspec.Struct, array_like=True):
    """The name and properties of a changed event, or the reason of a failure. `unknown` means that
    the process has not prepared the number, or dropped it."""

    outcome: Literal["same", "dropped", "changed", "failed", "unknown"]
    event: str = ""
    properties: dict[str, Any] = {}
    reason: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SandboxResponse).decode


class Sandbox:
    def __init__(self, process: WorkerProcess | None = None) -> None:
        self._process = process or WorkerProcess(
            HOST_MODULE, start_timeout_s=START_TIMEOUT_S, response_timeout_s=RESPONSE_TIMEOUT_S
        )
        self._numbers = count()

    def transform(self, key: str, settings: Mapping[str, Any]) -> Transform:
        """Return a transform that runs in the sandbox. Does not call the package yet."""
        return _SandboxedTransform(self._process, next(self._numbers), key, settings)

    def close(self) -> None:
        self._process.close()


class _SandboxedTransform:
    def __init__(
        self, process: WorkerProcess, number: int, key: str, settings: Mapping[str, Any]
    ) -> None:
        self._process = process
        self._number = number
        self._key = key
        self._settings = settings
        # The start count of the process that has prepared this transformation.
        self._prepared_process = 0
        self._suspended_until = 0.0
        self._backoff_s = INITIAL_BACKOFF_S
        self._reason = ""

    def __call__(self, event: IncomingEvent) -> IncomingEvent | None:
        if time.monotonic() < self._suspended_until:
            raise TransformError(self._reason)
        try:
            response = self._transform(event)
        except WorkerDied as death:
            self._reason = TIMEOUT_REASON if death.timed_out else CRASH_REASON
            self._suspended_until = time.monotonic() + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, MAX_BACKOFF_S)
            raise TransformError(self._reason) from None
        self._backoff_s = INITIAL_BACKOFF_S
        match response.outcome:
            case "same":
                return event
            case "dropped":
                return None
            case "failed":
                raise TransformError(response.reason)
        return IncomingEvent(
            uuid=event.uuid,
            event=response.event,
            distinct_id=event.distinct_id,
            properties=response.properties,
            timestamp=event.timestamp,
            accepted_at=event.accepted_at,
        )

    def _transform(self, event: IncomingEvent) -> SandboxResponse:
        request = _encode(SandboxRequest(number=self._number, event=event))
        try:
            response = self._send(request)
        except WorkerDied as death:
            if death.timed_out:
                raise
            # Another transformation may have ended the process; if this one did, it will again.
            response = self._send(request)
        if response.outcome == "unknown":
            self._prepared_process = 0
            response = self._send(request)
        return response

    def _send(self, request: bytes) -> SandboxResponse:
        return _decode(self._process.request(request, self._prepare))

    def _prepare(self, process: int) -> bytes:
        if self._prepared_process == process:
            return b""
        self._prepared_process = process
        return _encode(SandboxRequest(number=self._number, key=self._key, settings=self._settings))
