"""Promote flags from one environment of a product to another."""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal

import msgspec
from annotated_types import MaxLen
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.approvals.model import ChangeRequest, RequestState
from hedgerow.flags.as_code.plan import FlagChange
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.environments.parts import PARTS, Part, find_part
from hedgerow.flags.environments.promotion_plan import (
    FlagVersions,
    PromotionPlan,
    PromotionRequest,
)
from hedgerow.flags.environments.promotion_requests import PromotionRequests
from hedgerow.flags.environments.promotions import PromotionRefused, Promotions
from hedgerow.flags.model import KEY_MAX_CHARS, MAX_FLAGS
from hedgerow.http.api.environments.access import WRITE_SCOPE, check_may_act, find_environment
from hedgerow.http.api.environments.matrix import FieldDifference, render_difference
from hedgerow.http.api.environments.products import PRODUCT, ProductFinder
from hedgerow.http.api.flags.change_request_items import build_author, build_refusal
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call, ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import INT32_MAX, OMITTED, Boolean, Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.shape import Shape, find_unknown_fields
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.projects.products import MAX_PRODUCT_NAME_CHARS

WRITE_FLAGS = anywhere("feature_flag:write", restricted_keys=True)

Action = Literal["create", "update", "none"]
EnvironmentName = Annotated[str, Text(MAX_PRODUCT_NAME_CHARS)]
_VERSIONS = Shape("from", "to")


def _check_versions(value: Any) -> Any:
    """Versions are those that a rehearsal has returned: `{"from": 3, "to": null}`."""
    for found in find_unknown_fields(value, _VERSIONS, ""):
        context = {"detail": found.detail, "code": "unknown_field", "path": found.path}
        raise PydanticCustomError("unknown_field", "{detail}", context)
    if isinstance(value, dict):
        for version in value.values():
            is_whole = isinstance(version, int) and not isinstance(version, bool)
            if version is not None and not (is_whole and 0 <= version <= INT32_MAX):
                raise PydanticCustomError("versions", "A version is a whole number, or null.")
    return value


Versions = Annotated[dict[str, int | None], BeforeValidator(_check_versions)]


class PromotionBody(Fields):
    """The environments by name, and the flags: their keys, or `all` for all of them. `parts` limits
    what is promoted; without it, a flag is promoted whole. A flag that the target lacks is created
    whole, and inactive if `active` is not among the parts. With `with_cohorts`, cohorts that the
    target lacks are created there. `versions` are those of a `dry_run`: the request is refused if a
    flag has another one."""

    ignored_fields = frozenset()

    source: EnvironmentName = Field(alias="from")
    target: EnvironmentName = Field(alias="to")
    flags: Annotated[list[Annotated[str, Text(KEY_MAX_CHARS)]], MaxLen(MAX_FLAGS)] = OMITTED
    all: Boolean = False
    parts: Annotated[list[Part], MaxLen(len(PARTS))] = OMITTED
    with_cohorts: Boolean = False
    dry_run: Boolean = False
    versions: Annotated[dict[str, Versions], MaxLen(MAX_FLAGS)] = OMITTED

    def to_request(self) -> PromotionRequest:
        sent = self.model_fields_set
        if self.all and "flags" in sent:
            raise Invalid("Send `flags` or `all`, not both.", attr="flags")
        if not self.all and not ("flags" in sent and self.flags):
            detail = "Send the keys of the flags, or `all` for all of them."
            raise Invalid(detail, attr="flags", code="required")
        if "parts" in sent and not self.parts:
            raise Invalid("This list may not be empty.", attr="parts", code="empty")
        return PromotionRequest(
            keys=None if self.all else self.flags,
            parts=self.parts if "parts" in sent else PARTS,
            with_cohorts=self.with_cohorts,
            versions={key: _parse_versions(each) for key, each in self.versions.items()}
            if "versions" in sent
            else None,
        )


def _parse_versions(value: Mapping[str, int | None]) -> FlagVersions:
    return FlagVersions(source=value.get("from") or 0, target=value.get("to"))


class VersionItem(msgspec.Struct, kw_only=True, rename={"source": "from", "target": "to"}):
    """The versions of a flag before the promotion; `to` is null if the target lacks the flag."""

    source: int
    target: int | None


class PromotedFlag(msgspec.Struct, kw_only=True):
    """What happens to a flag of the target. In `changes`, `from` is the value before and `to` the
    value after."""

    key: str
    action: Action
    parts: Sequence[str]
    changes: Sequence[FieldDifference]


class CarriedCohort(msgspec.Struct, kw_only=True):
    """A cohort that is created in the target. A static one is created without members."""

    name: str
    is_static: bool


class LeftOutFlag(msgspec.Struct, kw_only=True):
    """A flag that `all` does not include, with the reason."""

    key: str
    reason: str


class PromotionItem(msgspec.Struct, kw_only=True, rename={"source": "from", "target": "to"}):
    """What was promoted, or with `dry_run` what would be, and what `required_approvals` it lacks.
    Flags that are the same already have the action `none`."""

    source: str
    target: str
    dry_run: bool
    created: int
    updated: int
    flags: Sequence[PromotedFlag]
    cohorts: Sequence[CarriedCohort]
    left_out: Sequence[LeftOutFlag]
    versions: Mapping[str, VersionItem]
    required_approvals: Sequence[str] = ()


class PromotionEndpoints:
    tag = "Environments"

    def __init__(
        self,
        directory: Directory,
        finder: ProductFinder,
        promotions: Promotions,
        requests: PromotionRequests,
    ) -> None:
        self._directory = directory
        self._finder = finder
        self._promotions = promotions
        self._requests = requests

    @endpoint(
        "POST",
        PRODUCT + "promote/",
        access=WRITE_FLAGS,
        response=PromotionItem,
        body=PromotionBody,
    )
    async def promote_flags(self, call: Call) -> Response:
        """Promote flags from one environment to another: all of them, or none if one is refused.
        Cohorts, other flags and group types are found by name in the target. Encrypted payloads
        stay in their environment. Needs to read flags in the first and to write flags in the
        second environment. If a flag requires approval, the response is 409 with one change request
        for the whole promotion; its last approval promotes exactly these versions."""
        product = await self._finder.find(call)
        body = await call.body(PromotionBody)
        source = find_environment(call, self._directory, product, body.source, "from")
        target = find_environment(call, self._directory, product, body.target, "to")
        if source.project.id == target.project.id:
            raise Invalid("Choose two different environments.", attr="to")
        check_may_act(call, target.project, WRITE_SCOPE)
        if body.with_cohorts:
            check_may_act(call, source.project, "cohort:read")
            check_may_act(call, target.project, "cohort:write")
        wanted = body.to_request()
        by, required = (call.actor, call.now), list[str]()
        if body.dry_run:
            plan, lacking = await self._promotions.rehearse(source, target, wanted, by)
            required = [each.describe() for each in lacking]
        else:
            plan = await self._promote(call, source, target, wanted)
        # The differences of thousands of flags take a while to render.
        return await run_in_thread(
            lambda: JsonResponse(
                msgspec.structs.replace(
                    _render_plan(plan, source.name, target.name, body.dry_run),
                    required_approvals=required,
                )
            )
        )

    async def _promote(
        self,
        call: Call,
        source: EnvironmentProject,
        target: EnvironmentProject,
        wanted: PromotionRequest,
    ) -> PromotionPlan:
        try:
            return await self._promotions.promote(
                source, target, wanted, (call.actor, call.now), is_rehearsal=False
            )
        except PromotionRefused as refused:
            own = enter_project(call, target.project)
            asked = self._requests.request(
                source, target, wanted, refused, (build_author(own), call.now)
            )
            await finish_promotion_request(own, asked, refused)
            return refused.plan


def enter_project(call: Call, project: Project) -> ProjectCall:
    """Return the call as one of a project."""
    return ProjectCall(
        **{each.name: getattr(call, each.name) for each in fields(call)}, project=project
    )


async def finish_promotion_request(
    call: ProjectCall,
    asked: Coroutine[Any, Any, tuple[ChangeRequest, bool]],
    refused: PromotionRefused,
) -> None:
    """Raise ApprovalRequired with the change request for a whole promotion, unless it was approved
    before, and is applied now."""
    request, is_new = await asked
    if request.state is not RequestState.APPLIED:
        raise build_refusal(call, request, refused, is_new)


def _render_plan(plan: PromotionPlan, source: str, target: str, dry_run: bool) -> PromotionItem:
    created = {step.after.key: step for step in plan.flags.created}
    updated = {step.after.key: step for step in plan.flags.changed}
    return PromotionItem(
        source=source,
        target=target,
        dry_run=dry_run,
        created=len(created),
        updated=len(updated),
        flags=[_render_flag(key, created.get(key), updated.get(key)) for key in plan.versions],
        cohorts=[CarriedCohort(name=each.name, is_static=each.is_static) for each in plan.cohorts],
        left_out=[LeftOutFlag(key=key, reason=reason) for key, reason in plan.left_out.items()],
        versions={
            key: VersionItem(source=each.source, target=each.target)
            for key, each in plan.versions.items()
        },
    )


def _render_flag(key: str, created: FlagChange | None, updated: FlagChange | None) -> PromotedFlag:
    action: Action = "create" if created else "update" if updated else "none"
    step = created or updated
    changes = () if step is None else step.changes
    found = {find_part(each.field) for each in changes}
    return PromotedFlag(
        key=key,
        action=action,
        parts=[part for part in PARTS if part in found],
        changes=[render_difference(each) for each in changes],
    )
