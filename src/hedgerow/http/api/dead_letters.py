"""Dead letters of ingestion: accepted events of a project that could not be processed or stored."""

from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX
from hedgerow.http.server.response import JsonResponse
from hedgerow.ingestion.store import (
    DeadLetter,
    DeadLetterChoice,
    DeadLetterQuery,
    ProjectDeadLetterStore,
)
from hedgerow.lib.clock import format_iso
from hedgerow.projects.activity import ActivityEntry

SEARCH_MAX = 200
# Dead letters that one call retries or discards, so that it does not hold up the events of others.
MAX_HANDLED = 1000
SCOPE = "DeadLetter"
RESERVED = {"discard": "POST", "retry": "POST"}
FILTERS = (
    Parameter("search", "Only dead letters whose reason, event or distinct id contains this text."),
)


UNTIL_PARAMETERS = (
    Parameter(
        "until",
        "Only dead letters up to this id: none that fails again meanwhile.",
        {"type": "integer"},
    ),
)


class DeadLetterItem(msgspec.Struct, kw_only=True):
    """Events that failed together. `event`, `uuid` and `distinct_id` are those of the first one."""

    id: int
    project_id: int | None
    step: str
    reason: str
    event: str
    uuid: str
    distinct_id: str
    events: int
    timestamp: str


class DeadLetterContent(DeadLetterItem, kw_only=True):
    """A dead letter with its events as they were accepted. If they cannot be read, `content` has
    their bytes: `{"base64": …}`."""

    content: Any


class RetryItem(msgspec.Struct, kw_only=True):
    """The number of events that are processed again, and of dead letters that are left."""

    events: int
    left: int


class DiscardItem(msgspec.Struct, kw_only=True):
    """The number of events that are deleted, and of dead letters that are left."""

    events: int
    left: int


def _render(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "project_id": letter.project_id,
        "step": letter.stage,
        "reason": letter.reason,
        "event": letter.event,
        "uuid": letter.uuid,
        "distinct_id": letter.distinct_id,
        "events": letter.number,
        "timestamp": format_iso(letter.dead_lettered_at),
    }


class DeadLetterEndpoints:
    tag = "Ingestion warnings"

    def __init__(self, dead_letters: ProjectDeadLetterStore) -> None:
        self._dead_letters = dead_letters

    @endpoint(
        "GET",
        *project_paths("dead_letters/"),
        access=in_project("ingestion_warning:read"),
        response=Page[DeadLetterItem],
        query=PAGE_PARAMETERS + FILTERS,
    )
    async def list_dead_letters(self, call: ProjectCall) -> Response:
        """List events that were accepted and could not be processed, newest first."""
        window = call.window
        query = DeadLetterQuery(
            project_id=call.project.id,
            search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX],
            limit=window.limit,
            offset=window.offset,
        )
        found, count = await self._dead_letters.list_of_project(query)
        return JsonResponse(call.page(count, [DeadLetterItem(**_render(each)) for each in found]))

    @endpoint(
        "GET",
        *project_paths("dead_letters/{letter_id}/"),
        access=in_project("ingestion_warning:read"),
        response=DeadLetterContent,
    )
    async def retrieve_dead_letter(self, call: ProjectCall) -> Response:
        """Retrieve a dead letter with its events."""
        found = await self._dead_letters.find(call.project.id, _parse_id(call))
        if found is None:
            raise NotFound
        letter, content = found
        return JsonResponse(DeadLetterContent(**_render(letter), content=content))

    @endpoint(
        "POST",
        *project_paths("dead_letters/{letter_id}/retry/"),
        access=in_project("ingestion_warning:write"),
        response=RetryItem,
    )
    async def retry_dead_letter(self, call: ProjectCall) -> Response:
        """Process the events of a dead letter again. If they fail again, they become a dead letter
        again."""
        return await self._retry(call, await self._choose_one(call))

    @endpoint(
        "POST",
        *project_paths("dead_letters/retry/"),
        access=in_project("ingestion_warning:write"),
        response=RetryItem,
        query=UNTIL_PARAMETERS,
    )
    async def retry_dead_letters(self, call: ProjectCall) -> Response:
        """Process the oldest 1,000 dead letters of the project again. Repeat the call with the same
        `until` while `left` is above 0."""
        return await self._retry(call, _choose_until(call))

    @endpoint(
        "POST",
        *project_paths("dead_letters/{letter_id}/discard/"),
        access=in_project("ingestion_warning:write"),
        response=DiscardItem,
    )
    async def discard_dead_letter(self, call: ProjectCall) -> Response:
        """Delete the events of a dead letter permanently."""
        return await self._discard(call, await self._choose_one(call))

    @endpoint(
        "POST",
        *project_paths("dead_letters/discard/"),
        access=in_project("ingestion_warning:write"),
        response=DiscardItem,
        query=UNTIL_PARAMETERS,
    )
    async def discard_dead_letters(self, call: ProjectCall) -> Response:
        """Delete the oldest 1,000 dead letters of the project permanently. Repeat the call with the
        same `until` while `left` is above 0."""
        return await self._discard(call, _choose_until(call))

    async def _choose_one(self, call: ProjectCall) -> DeadLetterChoice:
        id = _parse_id(call)
        if await self._dead_letters.find(call.project.id, id) is None:
            raise NotFound
        return DeadLetterChoice(project_id=call.project.id, id=id)

    async def _retry(self, call: ProjectCall, choice: DeadLetterChoice) -> Response:
        entry = _build_entry(call, choice, "retried")
        retried = await self._dead_letters.retry_of_project(choice, MAX_HANDLED, entry, call.now)
        return JsonResponse(RetryItem(events=retried.events, left=retried.left))

    async def _discard(self, call: ProjectCall, choice: DeadLetterChoice) -> Response:
        entry = _build_entry(call, choice, "discarded")
        gone = await self._dead_letters.discard_of_project(choice, MAX_HANDLED, entry, call.now)
        return JsonResponse(DiscardItem(events=gone.events, left=gone.left))


def _choose_until(call: ProjectCall) -> DeadLetterChoice:
    text = call.query_param("until")
    until = parse_positive(text)
    if text and (until is None or until > INT64_MAX):
        raise Invalid("The id of a dead letter is required.", attr="until")
    return DeadLetterChoice(project_id=call.project.id, until=until)


def _build_entry(call: ProjectCall, choice: DeadLetterChoice, activity: str) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id="" if choice.id is None else str(choice.id),
        item_name="",
        activity=activity,
        actor=call.actor,
        project_id=call.project.id,
    )


def _parse_id(call: ProjectCall) -> int:
    id = parse_positive(call.path_param("letter_id", RESERVED))
    if id is None or id > INT64_MAX:
        raise NotFound
    return id
