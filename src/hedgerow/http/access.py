"""Who may do what, checked in one order for every endpoint under /api:

an answer they can read, the key, the project, may the key see it, the scope, the rate limit. Only
then does an endpoint look for its object, and only then at the body.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fastapi import Depends
from starlette.requests import Request

from hedgerow.errors import (
    AppError,
    AuthenticationFailed,
    Forbidden,
    NotAcceptable,
    NotAuthenticated,
    NotFound,
)
from hedgerow.events.delete import Deletion
from hedgerow.events.listing import Listing
from hedgerow.events.selecting import Selecting
from hedgerow.events.values import Values
from hedgerow.experiments.experiments import Experiments
from hedgerow.experiments.results import ExperimentResults
from hedgerow.flags.decide import Decider
from hedgerow.flags.early_access import EarlyAccess
from hedgerow.flags.flags import Flags
from hedgerow.flags.local_board import LocalBoard
from hedgerow.flags.reach import Reaches
from hedgerow.flags.streams import FlagStreams
from hedgerow.http.body import BodyReader, Form
from hedgerow.http.fields import INT64_MAX, Fields, validated
from hedgerow.http.origin import Origins
from hedgerow.http.page_cache import PageCache
from hedgerow.http.paging import Window, window
from hedgerow.http.request_headers import bearer
from hedgerow.http.trace import trace_of
from hedgerow.ingestion.arrivals import Arrivals
from hedgerow.ingestion.store import WarningStore
from hedgerow.lib.clock import Clock
from hedgerow.persons.cohorts import Cohorts
from hedgerow.persons.store import PersonStore
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.imports.scheduler import ScheduleStore
from hedgerow.pipelines.jobs import Jobs
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.standings import Standings
from hedgerow.pipelines.store import DeliveryReading, ServedRecords, TransformationReading
from hedgerow.pipelines.transform_trial import TransformTrials
from hedgerow.pipelines.trial import Trials
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import Keys
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.projects import Projects
from hedgerow.projects.scopes import ALL, allows
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.throttle import Throttle
from hedgerow.queries.queries import Queries
from hedgerow.surveys.board import SurveyBoard
from hedgerow.surveys.responses import Responses
from hedgerow.surveys.surveys import Surveys

F = TypeVar("F", bound=Fields)

KEY_IN_BODY_BYTES = 256 * 1024
CURRENT = "@current"
NO_KEY_ACCESS = "This action does not support Personal API Key access"


class SdkFields(Protocol):
    def part(self, project_id: ProjectId) -> bytes:
        """What SDKs read besides flags: fields as they stand in the middle of a JSON object."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Everything that endpoints work with, joined in app/serve.py."""

    directory: Directory
    keys: Keys
    projects: Projects
    activity: ActivityStore
    catalogue: Catalogue
    records: Records
    served_records: ServedRecords
    jobs: Jobs
    schedules: ScheduleStore
    standings: Standings
    deliveries: DeliveryReading
    trials: Trials
    transformed: TransformationReading
    transform_trials: TransformTrials
    flags: Flags
    local_board: LocalBoard
    early_access: EarlyAccess
    surveys: Surveys
    survey_board: SurveyBoard
    survey_responses: Responses
    experiments: Experiments
    experiment_results: ExperimentResults
    flag_streams: FlagStreams
    cohorts: Cohorts
    persons: PersonStore
    arrivals: Arrivals
    deletion: Deletion
    listing: Listing
    selecting: Selecting
    values: Values
    queries: Queries
    warnings: WarningStore
    decider: Decider
    reaches: Reaches
    sdk_fields: SdkFields
    pages: PageCache
    throttle: Throttle
    sdk_throttle: Throttle
    bodies: BodyReader
    origins: Origins
    # Where the scripts of posthog-js are, if anywhere.
    sdk_scripts: Path | None
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that may go ahead: who asks, and what they may work with."""

    request: Request
    rooms: Rooms
    key: PersonalKey

    @property
    def actor(self) -> Actor:
        owner = self.rooms.directory.user(self.key.user_id)
        return Actor(kind="key", id=self.key.id, name=self.key.label, email=owner.email)

    @property
    def now(self) -> datetime:
        return self.rooms.clock()

    def asked(self, name: str) -> str | None:
        """A query parameter, the last one if it is repeated."""
        return self.request.query_params.get(name)

    @property
    def window(self) -> Window:
        return window(self.asked("limit"), self.asked("offset"))

    async def body(self, model: type[F]) -> F:
        """The request's body as `model`. Ask for it last: every other check comes first."""
        trace = trace_of(self.request.scope)
        trace.mark("object")
        fields = validated(model, await self.rooms.bodies.value(self.request))
        trace.mark("body")
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCall(Call):
    project: Project


@dataclass(frozen=True, slots=True)
class Allow:
    """What an endpoint asks of the key. The API's documentation reads `scope` off this."""

    scope: str
    projects: bool
    restricted_keys: bool
    # What it answers beside JSON.
    also: str = ""

    async def __call__(self, request: Request) -> Call:
        rooms: Rooms = request.app.state.rooms
        check_accept(request, self.also)
        key = await _authenticated(request, rooms)
        trace = trace_of(request.scope)
        trace.key_id = key.id
        call: Call
        if self.projects:
            project = await project_named(request.path_params["project_id"], key, rooms.directory)
            trace.project_id = project.id
            call = ProjectCall(request=request, rooms=rooms, key=key, project=project)
        else:
            if not (key.is_unrestricted or self.restricted_keys):
                raise Forbidden(
                    "API keys with scoped projects are only supported on project-based endpoints."
                )
            call = Call(request=request, rooms=rooms, key=key)
        check_scope(key, self.scope)
        rooms.throttle.admit(key.id, time.monotonic())
        trace.mark("access")
        return call


def in_project(scope: str, *, also: str = "") -> Any:
    """For paths with {project_id}: gives a ProjectCall. `also` is a type of answer beside JSON."""
    return Depends(Allow(scope, projects=True, restricted_keys=True, also=also))


def anywhere(scope: str, *, restricted_keys: bool = False) -> Any:
    """For paths without a project: gives a Call. Scope "" asks for a good key and no more."""
    return Depends(Allow(scope, projects=False, restricted_keys=restricted_keys))


def accepts(request: Request, media_type: str) -> bool:
    """Whether the Accept header names this very type."""
    accept = request.headers.get("accept", "")
    return media_type in (each.partition(";")[0].strip().lower() for each in accept.split(","))


def check_accept(request: Request, also: str) -> None:
    accept = request.headers.get("accept", "*/*")
    if also and (accepts(request, also) or accepts(request, also.partition("/")[0] + "/*")):
        return
    if "javascript" in accept and request.scope["path"].endswith("/frontend/"):
        return
    for choice in accept.split(","):
        essence = choice.partition(";")[0].strip().lower()
        if essence in ("", "*/*", "application/*", "application/json"):
            return
    raise NotAcceptable


async def _authenticated(request: Request, rooms: Rooms) -> PersonalKey:
    """The first key found is the one that counts: header, body, query."""
    value, place = bearer(request.scope) or None, "Authorization header"
    if value is None:
        value, place = await _key_in_body(request, rooms), "body"
    if value is None:
        value, place = request.query_params.get("personal_api_key"), "query string"
    if not value:
        raise NotAuthenticated
    key = await known_or_new(value, rooms.directory.find_key, rooms.directory.find_new_key)
    if key is None:
        raise AuthenticationFailed(f"Personal API key found in request {place} is invalid.")
    return key


T = TypeVar("T")


async def known_or_new(
    value: Any, known: Callable[[Any], T | None], new: Callable[[Any], Awaitable[T | None]]
) -> T | None:
    """From memory when it is there; otherwise after a look at what is stored by now."""
    found = known(value)
    return found if found is not None else await new(value)


async def _key_in_body(request: Request, rooms: Rooms) -> str | None:
    if request.method in ("GET", "OPTIONS"):
        return None
    try:
        if await rooms.bodies.size(request) > KEY_IN_BODY_BYTES:
            return None  # a stranger may not make us parse that much
        body = await rooms.bodies.value(request)
    except AppError as error:
        if error.status in (408, 413):
            raise
        return None  # a body that cannot be read carries no key; the endpoint will complain
    value = body.get("personal_api_key") if isinstance(body, dict) else None
    if isinstance(body, Form) and value:
        value = value[-1]
    return value if isinstance(value, str) else None


async def project_named(id: str, key: PersonalKey, directory: Directory) -> Project:
    """By its id or @current, if the key may see it."""
    project: Project | None = None
    if id == CURRENT:
        project = next(iter(directory.projects_for(key)), None)
    elif id.isascii() and id.isdecimal() and (number := int(id[:30])) <= INT64_MAX:
        project = await known_or_new(
            ProjectId(number), directory.project, directory.find_new_project
        )
    if project is None:
        raise NotFound("Project not found.")
    check_sight(key, project)
    return project


def check_sight(key: PersonalKey, project: Project) -> None:
    if not key.may_see(project.id):
        raise Forbidden(f"API key does not have access to the requested project: ID {project.id}.")


def check_scope(key: PersonalKey, scope: str) -> None:
    if not scope or allows(key.scopes, scope):
        return
    if scope == ALL:
        raise Forbidden(NO_KEY_ACCESS)
    raise Forbidden(f"API key missing required scope '{scope}'")
