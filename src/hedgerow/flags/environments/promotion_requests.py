"""One change request for a whole promotion. It names the versions of all flags in both
environments, so that exactly what was approved is promoted, or nothing.

The last approval lets it be promoted, in a transaction of its own that also marks the request as
applied: a plan of thousands of flags is not made inside of a transaction. If the process ends in
between, the same promotion, sent again, goes on.
"""

from datetime import datetime
from typing import Any

from hedgerow.errors import AppError, NotFound
from hedgerow.filters.values import MISSING
from hedgerow.flags.approvals.change_requests import ChangeRequests, RequestAuthor
from hedgerow.flags.approvals.model import ChangeRequest, ProposedChange, RequestState, ResourceType
from hedgerow.flags.approvals.resources import PreparedEdit
from hedgerow.flags.as_code.plan import FlagChange
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.environments.promotion_plan import (
    FlagVersions,
    PromotionPlan,
    PromotionRequest,
)
from hedgerow.flags.environments.promotions import PromotionRefused, Promotions
from hedgerow.flags.environments.store import ApprovedRequest
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.products import Environment

ACTION_KEY = "feature_flag.promote"
# A request shows the differences of so many flags, and of others what is done with them.
MAX_SHOWN_FLAGS = 100


class PromotionRequests:
    def __init__(
        self, promotions: Promotions, requests: ChangeRequests, directory: Directory
    ) -> None:
        self._promotions = promotions
        self._requests = requests
        self._directory = directory

    async def request(
        self,
        source: EnvironmentProject,
        target: EnvironmentProject,
        wanted: PromotionRequest,
        refused: PromotionRefused,
        by: tuple[RequestAuthor, datetime],
    ) -> tuple[ChangeRequest, bool]:
        """Create a request for a promotion that was refused, or find the pending one. Return it,
        and whether it is new. An approved one that was interrupted is applied."""
        author, now = by
        change = _propose(source, target, wanted, refused)
        approved = await self._requests.find_approved(target.project, change)
        if approved is not None:
            return await self.apply(target.project, approved, now), False
        return await self._requests.create(target.project, change, author, now)

    async def apply(self, project: Project, request: ChangeRequest, now: datetime) -> ChangeRequest:
        """Promote what an approved request holds, and return the request after it."""
        if (request.resource_type, request.state) != (
            ResourceType.PROMOTION,
            RequestState.APPROVED,
        ):
            return request
        approval = ApprovedRequest(project_id=project.id, id=request.id)
        try:
            source = self._directory.get_project(ProjectId(request.fields["from_project"]))
            if source is None:
                raise NotFound("The first environment was deleted.")
            await self._promotions.promote(
                _describe(request.fields["from"], source),
                _describe(request.fields["to"], project),
                _parse_wanted(request),
                (request.author, now),
                is_rehearsal=False,
                approval=approval,
            )
        except AppError as error:
            if error.is_server_error:
                raise  # a database is away: the request stays approved
            return await self._requests.refuse_approved(project, request.id, error, now)
        return await self._requests.find(project, request.id)


def _describe(name: str, project: Project) -> EnvironmentProject:
    environment = Environment(name=name, project_id=project.id)
    return EnvironmentProject(environment=environment, project=project)


def _propose(
    source: EnvironmentProject,
    target: EnvironmentProject,
    wanted: PromotionRequest,
    refused: PromotionRefused,
) -> ProposedChange:
    plan = refused.plan
    fields: dict[str, Any] = {
        "from": source.name,
        "from_project": source.project.id,
        "to": target.name,
        "flags": None if wanted.keys is None else list(wanted.keys),
        "parts": list(wanted.parts),
        "with_cohorts": wanted.with_cohorts,
        "versions": {
            key: {"from": each.source, "to": each.target} for key, each in plan.versions.items()
        },
        "changes": _describe_changes(plan),
        "cohorts": [each.name for each in plan.cohorts],
    }
    edit = PreparedEdit(
        name=f"{source.name} to {target.name}",
        action_key=ACTION_KEY,
        fields=fields,
        original={},
        version=0,
        required=refused.required,
    )
    return ProposedChange(
        resource_type=ResourceType.PROMOTION,
        resource_id=str(source.project.id),
        fields=fields,
        seen=edit,
    )


def _describe_changes(plan: PromotionPlan) -> list[dict[str, Any]]:
    steps = [*plan.flags.created, *plan.flags.changed]
    return [
        _describe_step(step, is_shown=number < MAX_SHOWN_FLAGS) for number, step in enumerate(steps)
    ]


def _describe_step(step: FlagChange, *, is_shown: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key": step.after.key,
        "action": "create" if step.before is None else "update",
    }
    if is_shown:
        described["changes"] = [
            {
                "field": each.field,
                "from": None if each.before is MISSING else each.before,
                "to": None if each.after is MISSING else each.after,
            }
            for each in step.changes
        ]
    return described


def _parse_wanted(request: ChangeRequest) -> PromotionRequest:
    fields = request.fields
    return PromotionRequest(
        keys=fields["flags"],
        parts=fields["parts"],
        with_cohorts=fields["with_cohorts"],
        versions={
            key: FlagVersions(source=each["from"], target=each["to"])
            for key, each in fields["versions"].items()
        },
    )
