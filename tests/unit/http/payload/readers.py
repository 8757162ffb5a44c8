"""Payload readers without a service: their workers record requests."""

import time

from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.limits import PayloadLimits
from hedgerow.http.payload.reader import PayloadReader, PayloadServices
from hedgerow.http.payload.workers import ParsedPayload, PayloadRequest, PayloadWorkers
from hedgerow.http.server.proxies import Origins
from hedgerow.lib.clock import utc_now
from hedgerow.projects.directory import Directory
from tests.unit.projects.factories import FakeProjectStore


class RecordingWorkers(PayloadWorkers):
    """Keeps the requests and their senders instead of starting processes."""

    def __init__(self, *responses: ParsedPayload) -> None:
        super().__init__()
        self.responses = list(responses)
        self.requests: list[tuple[str, PayloadRequest]] = []

    async def parse(self, request: PayloadRequest, sender: str) -> ParsedPayload:
        self.requests.append((sender, request))
        return self.responses.pop(0)


def make_reader(
    limits: PayloadLimits,
    *,
    max_bytes: int,
    timeout_s: float = 60,
    is_lenient: bool = False,
    workers: PayloadWorkers | None = None,
    memory: BodyMemory | None = None,
    directory: Directory | None = None,
) -> PayloadReader:
    services = PayloadServices(
        directory=directory or Directory(FakeProjectStore(), utc_now, time.monotonic),
        origins=Origins((), ""),
        workers=workers or RecordingWorkers(),
        memory=memory or BodyMemory(),
        timeout_s=timeout_s,
    )
    return PayloadReader(services, limits, max_bytes=max_bytes, is_lenient=is_lenient)
