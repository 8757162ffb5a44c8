"""Operations on approval policies. A change of one needs the approvals that it requires."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.approvals.model import (
    DEFAULT_EXPIRY,
    MAX_POLICIES,
    ActionKey,
    ApprovalPolicy,
    ApproverConfig,
    PolicyConditions,
)
from hedgerow.flags.approvals.resources import build_policy_entry, change_policy, find_policy
from hedgerow.flags.approvals.store import ApprovalStore, ApprovalTransaction
from hedgerow.flags.flags import describe_actor
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project


class ApprovalPolicies:
    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    async def list_policies(self, project: Project) -> Sequence[ApprovalPolicy]:
        return await self._store.policies(project.id)

    async def find(self, project: Project, id: str) -> ApprovalPolicy:
        for each in await self._store.policies(project.id):
            if each.id == id:
                return each
        raise NotFound

    async def create(
        self, project: Project, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> ApprovalPolicy:
        """Create a policy. That needs no approval: a policy only adds to what others require."""

        def work(transaction: ApprovalTransaction) -> ApprovalPolicy:
            if len(transaction.list_policies()) >= MAX_POLICIES:
                raise Invalid(f"A project can have at most {MAX_POLICIES} approval policies.")
            blank = ApprovalPolicy(
                id=str(uuid4()),
                project_id=project.id,
                action_key=ActionKey.ANY,
                conditions=PolicyConditions(),
                approvers=ApproverConfig(),
                expires_after=DEFAULT_EXPIRY,
                enabled=True,
                version=0,
                created_by=describe_actor(actor),
                created_at=now,
                updated_at=now,
            )
            made = change_policy(blank, fields, now)
            transaction.store_policy(None, made, build_policy_entry(None, made, actor), None)
            return made

        return await self._store.write(project.id, work, actor, now)

    async def change(
        self, project: Project, id: str, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> ApprovalPolicy:
        """Raises ApprovalRequired if the policy is in force."""

        def work(transaction: ApprovalTransaction) -> ApprovalPolicy:
            before = find_policy(transaction, id)
            after = change_policy(before, fields, now)
            if after != before:
                entry = build_policy_entry(before, after, actor)
                transaction.store_policy(before, after, entry, None)
            return after

        return await self._store.write(project.id, work, actor, now)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """Raises ApprovalRequired if the policy is in force."""

        def work(transaction: ApprovalTransaction) -> None:
            before = find_policy(transaction, id)
            entry = build_policy_entry(before, None, actor)
            transaction.store_policy(before, None, entry, None)

        await self._store.write(project.id, work, actor, now)
