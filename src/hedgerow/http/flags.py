"""Feature flags: definitions, what becomes of them, and why somebody gets what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import ConfigDict
from starlette.responses import Response

from hedgerow.errors import Invalid, MethodNotAllowed, NotFound
from hedgerow.flags.decide import Asked
from hedgerow.flags.early_access import Feature
from hedgerow.flags.edits import FlagFields, Seen
from hedgerow.flags.flags import SCOPE, STALE, TYPES, FlagFilter, status_of
from hedgerow.flags.model import KEY_MAX, Bucketing, Flag, FlagId, Runtime
from hedgerow.flags.payloads import shown_filters
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.early_access import public_item
from hedgerow.http.fields import LEFT_OUT, Between, Boolean, Fields, Text, asked_truth
from hedgerow.http.local_evaluation import CACHING, older_audience
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.http.request_headers import has_answer
from hedgerow.http.sdk_access import SdkCall, for_sdks
from hedgerow.http.sdk_operations import COHORTS, TOKEN_OF_PROJECT
from hedgerow.http.sdk_shapes import Definitions, PublicFeature
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.lib.text import cut_short, why_unstorable
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.projects.store import ActivityQuery
from hedgerow.surveys.told import told

router = APIRouter(tags=["Feature flags"])

BASES = tuple(f"/api/{root}/{{project_id}}/feature_flags/" for root in ("projects", "environments"))
NAME_MAX = 10_000
# Words that are no key or id at the end of a path, with the method of their own.
RESERVED = {
    "activity": "GET, HEAD",
    "evaluation_reasons": "GET, HEAD",
    "local_evaluation": "GET, HEAD",
    "stream": "GET, HEAD",
    "user_blast_radius": "POST",
}
FILTERS = (
    Parameter("search", "Only those with this text in their key or name."),
    Parameter("active", "Only active (true), inactive (false) or stale (STALE) ones."),
    Parameter("type", f"Only those of this type: {', '.join(TYPES)}."),
)


class FlagItem(msgspec.Struct, kw_only=True):
    """A flag in PostHog's words. `name` is its description."""

    id: int
    name: str
    key: str
    filters: Any
    deleted: bool
    active: bool
    archived: bool
    created_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str
    version: int
    last_modified_by: Mapping[str, Any] | None
    ensure_experience_continuity: bool
    experiment_set: Sequence[int]
    surveys: Sequence[Any]
    features: Sequence[PublicFeature]
    rollback_conditions: Any
    performed_rollback: bool
    can_edit: bool
    tags: Sequence[str]
    evaluation_contexts: Sequence[str]
    usage_dashboard: int | None
    analytics_dashboards: Sequence[int]
    has_enriched_analytics: bool
    user_access_level: str
    is_remote_configuration: bool
    has_encrypted_payloads: bool
    status: str
    evaluation_runtime: str
    bucketing_identifier: str
    last_called_at: str | None


class FlagStatus(msgspec.Struct, kw_only=True):
    """`calls` says how often apps reported each answer, by `$feature_flag_called`."""

    status: str
    reason: str
    last_called_at: str | None
    calls: Mapping[str, int]


class FlagName(msgspec.Struct, kw_only=True):
    id: int
    key: str
    name: str


class FlagBody(Fields):
    """The writable fields. `version` and `original_flag` are what the editor saw before."""

    model_config = ConfigDict(str_strip_whitespace=False)

    key: Annotated[str, Text(KEY_MAX, blank=True)] = LEFT_OUT
    name: Annotated[str, Text(NAME_MAX, blank=True)] | None = None
    filters: Any = None
    active: Boolean = LEFT_OUT
    deleted: Boolean = LEFT_OUT
    archived: Boolean = LEFT_OUT
    ensure_experience_continuity: Boolean | None = None
    is_remote_configuration: Boolean | None = None
    has_encrypted_payloads: Boolean | None = None
    evaluation_runtime: Runtime | None = None
    bucketing_identifier: Bucketing | None = None
    evaluation_contexts: list[Annotated[str, Text(200)]] | None = None
    tags: list[Annotated[str, Text(200)]] | None = None
    version: Annotated[int, Between()] | None = None
    original_flag: Any = None

    def fields(self) -> FlagFields:
        given = {
            name: getattr(self, name)
            for name in FlagFields.__slots__
            if getattr(self, name) is not None
        }
        for name in ("evaluation_contexts", "tags"):
            if name in given:
                given[name] = tuple(dict.fromkeys(given[name]))
        return FlagFields(**given)

    def seen(self) -> Seen | None:
        if self.version is None:
            return None
        original = self.original_flag
        return Seen(version=self.version, fields=original if isinstance(original, dict) else None)


@dataclass(frozen=True, slots=True)
class Ties:
    """What else of the project has to do with its flags, by their ids."""

    features: Mapping[FlagId, Feature]
    experiments: Mapping[FlagId, Sequence[int]]


async def ties_of(call: ProjectCall) -> Ties:
    return Ties(
        await call.rooms.early_access.by_flag(call.project),
        await call.rooms.experiments.by_flag(call.project),
    )


def item(call: ProjectCall, flag: Flag, ties: Ties) -> FlagItem:
    feature = ties.features.get(flag.id)
    return FlagItem(
        id=flag.id,
        name=flag.name,
        key=flag.key,
        filters=shown_filters(flag),
        deleted=flag.deleted,
        active=flag.active,
        archived=flag.archived,
        created_by=person(call, flag.created_by),
        created_at=iso(flag.created_at),
        updated_at=iso(flag.updated_at),
        version=flag.version,
        last_modified_by=person(call, flag.last_modified_by),
        ensure_experience_continuity=flag.ensure_experience_continuity,
        experiment_set=ties.experiments.get(flag.id, ()),
        surveys=[told(found) for found in call.rooms.survey_board.linked_to(flag)],
        features=() if feature is None else (public_item(feature, flag),),
        rollback_conditions=None,
        performed_rollback=False,
        can_edit=True,
        tags=flag.tags,
        evaluation_contexts=flag.evaluation_contexts,
        usage_dashboard=None,
        analytics_dashboards=(),
        has_enriched_analytics=False,
        user_access_level="manager",
        is_remote_configuration=flag.is_remote_configuration,
        has_encrypted_payloads=flag.has_encrypted_payloads,
        status=status_of(flag, call.now)[0],
        evaluation_runtime=flag.evaluation_runtime.value,
        bucketing_identifier=flag.bucketing_identifier.value,
        last_called_at=iso(flag.last_called_at) if flag.last_called_at else None,
    )


def person(call: ProjectCall, email: str) -> Mapping[str, Any] | None:
    owner = call.rooms.directory.user(call.key.user_id)
    if email != owner.email:
        return {"first_name": email, "email": email}
    return {
        "id": owner.id,
        "uuid": owner.uuid,
        "distinct_id": owner.distinct_id,
        "first_name": owner.first_name,
        "email": owner.email,
    }


async def _answer(call: ProjectCall, flag: Flag, status: int = 200) -> Response:
    return JsonResponse(item(call, flag, await ties_of(call)), status_code=status)


async def _named(call: ProjectCall, flag_id: str, *, deleted_too: bool = False) -> Flag:
    """The flag whose path ends with its id or key."""
    if flag_id in RESERVED:  # a path of its own, which does not take this method
        raise MethodNotAllowed(call.request.method, [RESERVED[flag_id], "OPTIONS"])
    return await _found(call, flag_id, deleted_too=deleted_too)


async def _found(call: ProjectCall | SdkCall, flag_id: str, *, deleted_too: bool = False) -> Flag:
    return await call.rooms.flags.find(call.project, flag_id, deleted_too=deleted_too)


@describes(answer=Page[FlagItem], query=WINDOW + FILTERS)
async def list_flags(call: Annotated[ProjectCall, in_project("feature_flag:read")]) -> Response:
    """The project's flags that are not deleted, newest first."""
    asked = call.window
    search = call.asked("search") or ""
    if unstorable := why_unstorable(search):
        raise Invalid(unstorable[1], attr="search", code=unstorable[0])
    kind = call.asked("type") or None
    if kind is not None and kind not in TYPES:
        detail = f'"{cut_short(kind)}" is not a valid choice.'
        raise Invalid(detail, attr="type", code="invalid_choice")
    active = call.asked("active") or ""
    wants_stale = active.upper() == STALE
    ties = await ties_of(call)
    wanted = FlagFilter(
        search=search.strip()[:200],
        active=None if wants_stale else asked_truth(active, "active"),
        type=kind,
        experimental=ties.experiments.keys(),
        stale_at=call.now if wants_stale else None,
    )
    # As with PostHog, what surveys keep for themselves is not listed.
    owned = await call.rooms.surveys.owned_flags(call.project)
    found = await call.rooms.flags.listing(call.project, wanted)
    flags = [flag for flag in found if flag.id not in owned]
    listed = [item(call, flag, ties) for flag in asked.of(flags)]
    return JsonResponse(page(call.request, call.rooms.origins, asked, len(flags), listed))


@describes(answer=FlagItem, status=201, body=FlagBody)
async def create_flag(call: Annotated[ProjectCall, in_project("feature_flag:write")]) -> Response:
    """Make a flag."""
    fields = (await call.body(FlagBody)).fields()
    flag = await call.rooms.flags.create(call.project, fields, call.actor, call.now)
    return await _answer(call, flag, 201)


@describes(answer=FlagItem)
async def retrieve_flag(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:read")]
) -> Response:
    """One flag, by its id or its key."""
    return await _answer(call, await _named(call, flag_id))


@describes(answer=FlagItem, body=FlagBody)
async def change_flag(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:write")]
) -> Response:
    """Change some fields. `deleted: false` restores a deleted flag."""
    found = await _named(call, flag_id, deleted_too=True)
    body = await call.body(FlagBody)
    flag = await call.rooms.flags.change(
        call.project, found.id, body.fields(), seen=body.seen(), actor=call.actor, now=call.now
    )
    return await _answer(call, flag)


@describes(status=204)
async def delete_flag(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:write")]
) -> Response:
    """Delete a flag. It is disabled and hidden, and can be restored by its id."""
    found = await _named(call, flag_id)
    await call.rooms.flags.change(
        call.project,
        found.id,
        FlagFields(deleted=True),
        seen=None,
        actor=call.actor,
        now=call.now,
    )
    return no_content()


@describes(answer=FlagStatus)
async def flag_status(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:read")]
) -> Response:
    """Whether the flag is of use: ACTIVE, STALE or DELETED, and why."""
    found = await _found(call, flag_id, deleted_too=True)
    status, reason = status_of(found, call.now)
    return JsonResponse(
        FlagStatus(
            status=status,
            reason=reason,
            last_called_at=iso(found.last_called_at) if found.last_called_at else None,
            calls=await call.rooms.flags.calls(found),
        )
    )


@describes(answer=list[FlagName])
async def dependent_flags(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:read")]
) -> Response:
    """The flags that depend on this one."""
    found = await _found(call, flag_id)
    flags = await call.rooms.flags.dependent(call.project, found.id)
    return JsonResponse([FlagName(id=flag.id, key=flag.key, name=flag.name) for flag in flags])


@describes(answer=ActivityPage, query=PAGE)
async def flag_activity(
    flag_id: str, call: Annotated[ProjectCall, in_project("feature_flag:read")]
) -> Response:
    """Who changed what in this flag, newest first."""
    found = await _found(call, flag_id, deleted_too=True)
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=str(found.id))
    return await activity_page(call, query)


@describes(answer=ActivityPage, query=PAGE)
async def flags_activity(
    call: Annotated[ProjectCall, in_project("feature_flag:read")],
) -> Response:
    """Who changed what in any flag, newest first."""
    return await activity_page(call, ActivityQuery(project_id=call.project.id, scope=SCOPE))


@describes(answer=Any)
async def remote_config(flag_id: str, call: Annotated[SdkCall, for_sdks()]) -> Response:
    """The payload of a remote configuration flag, decrypted. A secret key of the project will
    do."""
    found = await _found(call, flag_id)
    if not found.is_remote_configuration:
        raise NotFound
    return JsonResponse(call.rooms.flags.payload(found))


@describes(answer=Definitions, query=(TOKEN_OF_PROJECT, COHORTS))
async def local_evaluation(call: Annotated[SdkCall, for_sdks()]) -> Response:
    """The definitions of all flags, for SDKs that evaluate them by themselves. A secret key of the
    project will do. `If-None-Match` with the `ETag` of the last answer gives 304 if it is still
    right."""
    scope = call.request.scope
    told = await call.rooms.local_board.told(call.project, older_audience(scope))
    headers = {"ETag": told.etag, "Cache-Control": CACHING[1].decode()}
    if has_answer(scope, told.etag):
        return Response(status_code=304, headers=headers)
    return Response(told.body, media_type="application/json", headers=headers)


REASONS = (
    Parameter("distinct_id", "Whom the flags are evaluated for."),
    Parameter("groups", "The groups they belong to, as a JSON object."),
)


@describes(answer=dict[str, Any], query=REASONS)
async def evaluation_reasons(
    call: Annotated[ProjectCall, in_project("feature_flag:read")],
) -> Response:
    """What somebody gets from every flag, and why."""
    distinct_id = call.asked("distinct_id")
    if not distinct_id:
        raise Invalid("This field is required.", attr="distinct_id", code="required")
    asked = Asked(
        distinct_id=distinct_id,
        groups=_groups(call.asked("groups")),
        runtime=lambda: Runtime.ALL,
    )
    decision = await call.rooms.decider.decide(call.project, asked, call.now)
    return JsonResponse(
        {
            outcome.flag.key: {
                "value": outcome.value,
                "evaluation": {
                    "reason": "disabled" if not outcome.flag.active else outcome.reason.value,
                    "condition_index": outcome.condition_index,
                },
            }
            for outcome in decision.outcomes
        }
    )


class Radius(msgspec.Struct, kw_only=True):
    users_affected: int
    total_users: int


class RadiusBody(Fields):
    """A condition set as in `filters.groups`, and the group type that it counts by."""

    condition: dict[str, Any]
    group_type_index: Annotated[int, Between(0, MAX_GROUP_TYPES - 1)] | None = None


@describes(answer=Radius, body=RadiusBody)
async def user_blast_radius(
    call: Annotated[ProjectCall, in_project("feature_flag:read")],
) -> Response:
    """How many of the stored persons or groups a condition would reach."""
    body = await call.body(RadiusBody)
    reach = await call.rooms.reaches.of(
        call.project, body.condition, body.group_type_index, call.now
    )
    return JsonResponse(Radius(users_affected=reach.affected, total_users=reach.total))


def _groups(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        value = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError as error:
        raise Invalid(str(error), attr="groups") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value.values()):
        raise Invalid("An object of group types and keys is required.", attr="groups")
    return value


for base in BASES:
    router.get(base)(list_flags)
    router.post(base)(create_flag)
    router.get(base + "activity/")(flags_activity)
    router.get(base + "evaluation_reasons/")(evaluation_reasons)
    router.post(base + "user_blast_radius/")(user_blast_radius)
    router.get(base + "local_evaluation/")(local_evaluation)
    router.get(base + "{flag_id}/")(retrieve_flag)
    router.patch(base + "{flag_id}/")(change_flag)
    router.delete(base + "{flag_id}/")(delete_flag)
    router.get(base + "{flag_id}/activity/")(flag_activity)
    router.get(base + "{flag_id}/status/")(flag_status)
    router.get(base + "{flag_id}/remote_config/")(remote_config)
    router.get(base + "{flag_id}/dependent_flags/")(dependent_flags)
