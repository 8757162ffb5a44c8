"""Sends the requests of the inbox on, in their order for each person and group."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import structlog

from hedgerow.edge.inbox.queue import Inbox
from hedgerow.edge.inbox.requests import StoredRequest
from hedgerow.edge.inbox.store import EdgeInboxError
from hedgerow.edge.sources import EdgeSource
from hedgerow.http.sdk.edge_receipt import HEADER, EdgeKeyRefused
from hedgerow.lib import jsonio
from hedgerow.lib.workers.fair_queue import Places
from hedgerow.outbound.origin_client import (
    OriginClient,
    OriginRequest,
    OriginResponse,
    OriginUnreachable,
)
from hedgerow.projects.model import ProjectId

# Requests of one project that the origin gets at the same time.
MAX_PARALLEL = 16
# Projects whose requests are in memory and sent at the same time, each a few. Others take turns.
MAX_WINDOWS = 8
TIMEOUT_S = 30.0
FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
# How often to look for what commands have left to do.
COMMAND_INTERVAL_S = 2.0
# Answers of an origin that is not there, or of the proxy in front of it.
AWAY = frozenset((502, 503, 504))
# A request is given up after so many attempts at least, and not before `give_up_s` has passed.
MIN_ATTEMPTS = 5
PROBE = OriginRequest(method="GET", path="/_readiness", headers=(), body=b"", timeout_s=5.0)
# Answers after which the same request may succeed later, beside those of 500 and above.
TEMPORARY = frozenset((408, 425, 429))

_log = structlog.get_logger("hedgerow.edge")


class Outcome(Enum):
    SENT = "sent"
    REFUSED = "refused"
    NOT_SENT = "not sent"


@dataclass(slots=True, kw_only=True)
class _Failing:
    """The first request of a project that the origin answers with an error of its own."""

    request_id: int
    since_s: float
    attempts: int = 0


class InboxSender:
    """`give_up_s` is how long the origin may answer the same request with an error of its own."""

    def __init__(self, inbox: Inbox, client: OriginClient, *, give_up_s: float) -> None:
        self._inbox = inbox
        self._client = client
        self._give_up_s = give_up_s
        self._places = Places[ProjectId](MAX_WINDOWS, per_key=1)
        self._contact = asyncio.Event()
        self._problems: dict[ProjectId, str] = {}
        self._failing: dict[ProjectId, _Failing] = {}
        self.sent = 0
        self.failed_attempts = 0

    def wake(self) -> None:
        """The origin answers again: try now."""
        self._contact.set()

    async def run_commands(self) -> None:
        while True:
            await asyncio.sleep(COMMAND_INTERVAL_S)
            try:
                await self._inbox.run_commands()
            except (EdgeInboxError, OSError) as error:
                _log.debug("the inbox cannot be read", reason=str(error))

    async def run(self, source: EdgeSource, project_id: ProjectId) -> None:
        """Send the requests of a project until cancelled."""
        changed = self._inbox.get_changed(project_id)
        pause_s = FIRST_PAUSE_S
        while True:
            if not self._inbox.has_waiting(project_id):
                changed.clear()
                await changed.wait()
            self._contact.clear()
            try:
                async with self._places.hold(project_id):
                    is_done = await self._send_some(source, project_id)
            except (EdgeInboxError, OSError) as error:
                is_done = False
                self._report(project_id, f"the inbox cannot be used: {error}")
            if is_done:
                pause_s = FIRST_PAUSE_S
                continue
            try:
                async with asyncio.timeout(pause_s):
                    await self._contact.wait()
                pause_s = FIRST_PAUSE_S
            except TimeoutError:
                pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _send_some(self, source: EdgeSource, project_id: ProjectId) -> bool:
        """Send the first requests that wait. Return whether the origin has answered all."""
        requests = await self._inbox.fetch(project_id)
        if not requests:
            # They are being written.
            await asyncio.sleep(FIRST_PAUSE_S / 10)
            return True
        self._inbox.set_oldest(project_id, requests[0].request.receipt.received_us)
        window = _Window(self, source.key)
        outcomes = await window.send(requests)
        given_up = await self._find_hopeless(project_id, window.failures)
        if given_up is not None:
            outcomes[given_up] = Outcome.REFUSED
        sent = [each for each in requests if outcomes.get(each.id) is Outcome.SENT]
        refused = [
            (each, window.reasons.get(each.id) or self._describe_failing(project_id, window))
            for each in requests
            if outcomes.get(each.id) is Outcome.REFUSED
        ]
        for each, reason in refused:
            _log.error(
                "the origin refuses a stored request: `hedgerow edge-inbox` lists it",
                project_id=project_id,
                path=each.request.path.partition("?")[0],
                reason=reason,
            )
        if sent:
            await self._inbox.finish(project_id, sent)
            self.sent += len(sent)
        if refused:
            await self._inbox.bury(project_id, refused)
        if given_up is not None:
            del self._failing[project_id]
        elif window.problem:
            self._report(project_id, window.problem)
            return False
        if project_id in self._problems:
            _log.info("stored requests are sent on again", project_id=project_id)
            del self._problems[project_id]
        return True

    async def _find_hopeless(
        self, project_id: ProjectId, failures: Mapping[int, str]
    ) -> int | None:
        """Return the request to give up, if any. One at a time: the origin may fail at all of them
        for a while. Failures count only while the origin answers otherwise."""
        if not failures:
            self._failing.pop(project_id, None)
            return None
        now_s, id = time.monotonic(), min(failures)
        failing = self._failing.get(project_id)
        if failing is None or failing.request_id != id:
            failing = self._failing[project_id] = _Failing(request_id=id, since_s=now_s)
        failing.attempts += 1
        is_long = failing.attempts >= MIN_ATTEMPTS and now_s - failing.since_s >= self._give_up_s
        return id if is_long and await self._is_origin_ready() else None

    async def _is_origin_ready(self) -> bool:
        try:
            # A proxy may hide the path.
            return (await self._client.forward(PROBE)).status < 500
        except OriginUnreachable:
            return False

    def _describe_failing(self, project_id: ProjectId, window: "_Window") -> str:
        failing = self._failing[project_id]
        return f"{window.failures[failing.request_id]} (after {failing.attempts} attempts)"

    async def send_one(self, stored: StoredRequest, key: str) -> OriginResponse:
        request = stored.request
        receipt = (HEADER.decode(), request.receipt.encode(key))
        return await self._client.forward(
            OriginRequest(
                method=request.method,
                path=request.path,
                headers=[*request.headers, receipt],
                body=stored.body,
                timeout_s=TIMEOUT_S,
            )
        )

    def _report(self, project_id: ProjectId, problem: str) -> None:
        """Log each problem once, not with each attempt."""
        if problem != self._problems.get(project_id):
            self._problems[project_id] = problem
            _log.warning("stored requests wait", project_id=project_id, reason=problem)


class _Window:
    """Some requests in their order. Each one waits for those before it that change the same person
    or group. After the first that cannot be sent, no further one is."""

    def __init__(self, sender: InboxSender, key: str) -> None:
        self._sender = sender
        self._key = key
        self._places = asyncio.Semaphore(MAX_PARALLEL)
        self.problem = ""
        # Why the origin refuses a request for good, and why it fails at others.
        self.reasons: dict[int, str] = {}
        self.failures: dict[int, str] = {}

    async def send(self, requests: Sequence[StoredRequest]) -> dict[int, Outcome]:
        tasks: dict[int, asyncio.Task[Outcome]] = {}
        last_of_key: dict[int, asyncio.Task[Outcome]] = {}
        barrier: asyncio.Task[Outcome] | None = None
        async with asyncio.TaskGroup() as group:
            for each in requests:
                if each.request.keys:
                    before = {last_of_key[key] for key in each.request.keys if key in last_of_key}
                    before |= {barrier} if barrier is not None else set()
                else:
                    before = set(tasks.values())
                work: Coroutine[Any, Any, Outcome] = self._send_after(before, each)
                tasks[each.id] = task = group.create_task(work)
                last_of_key.update(dict.fromkeys(each.request.keys, task))
                if not each.request.keys:
                    barrier = task
        return {id: task.result() for id, task in tasks.items()}

    async def _send_after(
        self, before: set["asyncio.Task[Outcome]"], request: StoredRequest
    ) -> Outcome:
        for each in before:
            if await asyncio.shield(each) is Outcome.NOT_SENT:
                return Outcome.NOT_SENT
        async with self._places:
            return Outcome.NOT_SENT if self.problem else await self._send(request)

    async def _send(self, request: StoredRequest) -> Outcome:
        try:
            response = await self._sender.send_one(request, self._key)
        except OriginUnreachable as error:
            self.problem = str(error)
            self._sender.failed_attempts += 1
            return Outcome.NOT_SENT
        if response.status < 300:
            return Outcome.SENT
        reason = describe_refusal(response)
        if is_refused_for_good(response):
            self.reasons[request.id] = reason
            return Outcome.REFUSED
        if response.status >= 500 and response.status not in AWAY:
            self.failures[request.id] = reason
        self.problem = reason
        self._sender.failed_attempts += 1
        return Outcome.NOT_SENT


def is_refused_for_good(response: OriginResponse) -> bool:
    """Whether the origin would answer the same later. Another key may still be accepted."""
    return (
        400 <= response.status < 500
        and response.status not in TEMPORARY
        and not is_key_refused(response)
    )


def is_key_refused(response: OriginResponse) -> bool:
    return response.status == EdgeKeyRefused.status and (
        _read_fields(response).get("code") == EdgeKeyRefused.code
    )


def describe_refusal(response: OriginResponse) -> str:
    return f"{response.status} {_read_fields(response).get('detail', '')}".strip()


def _read_fields(response: OriginResponse) -> Mapping[str, Any]:
    try:
        found = jsonio.parse(response.body)
    except jsonio.JsonError:
        return {}
    return found if isinstance(found, dict) else {}
