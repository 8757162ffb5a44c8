"""Which policies a change falls under, and whether its approvals suffice. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hedgerow.flags.approvals.model import (
    DEFAULT_EXPIRY,
    ActionKey,
    ApprovalPolicy,
    ApproverConfig,
    PolicyConditions,
    RequiredApproval,
    Vote,
    Voter,
)
from hedgerow.flags.edits import public_value
from hedgerow.flags.flags import AUDITED
from hedgerow.flags.model import Flag
from hedgerow.flags.payloads import get_payloads
from hedgerow.lib import jsonio
from hedgerow.lib.dates import EPOCH
from hedgerow.projects.model import ProjectId

COHORTS = "cohorts"
FLAGS = "flags"
PROTECTION_ID = "protected-environment"
# For how long a change that a policy by consequence let pass counts with later ones.
COUNTED_HOURS = 24
# The fields that a policy can name. `cohorts` are the definitions of cohorts that the flag uses,
# `flags` the flags that it depends on. Both decide who matches the filters, so that a policy for
# `filters` includes them.
GATED_FIELDS = (*AUDITED, COHORTS, FLAGS)
_IN_FILTERS = frozenset((COHORTS, FLAGS))
# A policy for some fields of a flag also holds for these: without them, the flag could be replaced.
_REPLACING_FIELDS = frozenset(("key", "deleted"))
# The fields that have no effect on what people get.
_NEUTRAL_FIELDS = frozenset(("name", "tags", "owners", "archived"))
# The fields whose effect a comparison of values shows. That of others is not measured.
# To give a flag another key is to delete one and to create another.
_MEASURED_FIELDS = frozenset(
    ("filters", "active", "deleted", "ensure_experience_continuity", COHORTS, FLAGS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedEdit:
    """A change of a flag. `before` is None for a new one."""

    before: Flag | None
    after: Flag
    kinds: frozenset[ActionKey]
    fields: frozenset[str]

    @property
    def is_neutral(self) -> bool:
        """Whether it cannot change what people get."""
        return self.fields <= _NEUTRAL_FIELDS

    @property
    def is_measurable(self) -> bool:
        """Whether a comparison of values shows all that people would notice. It does not show
        payloads, and where a flag is evaluated."""
        if self.before is None:
            return True
        is_same_payload = jsonio.is_equal(
            get_payloads(self.before.filters), get_payloads(self.after.filters)
        )
        return is_same_payload and self.fields - _NEUTRAL_FIELDS <= _MEASURED_FIELDS


def describe_flag_edit(before: Flag | None, after: Flag) -> GatedEdit | None:
    """Return None if nothing changes that a policy can name."""
    if before is None:
        kinds = {ActionKey.ANY, ActionKey.CREATE} | ({ActionKey.ENABLE} if after.active else set())
        return GatedEdit(
            before=None, after=after, kinds=frozenset(kinds), fields=frozenset(AUDITED)
        )
    fields = frozenset(name for name in AUDITED if not _is_same(before, after, name))
    if not fields:
        return None
    kinds = {ActionKey.ANY, ActionKey.UPDATE, *_list_kinds(before, after)}
    return GatedEdit(before=before, after=after, kinds=frozenset(kinds), fields=fields)


def _list_kinds(before: Flag, after: Flag) -> Iterator[ActionKey]:
    """A flag is on if it is active and not deleted. To give it another key is to delete the one
    and to create the other."""
    was_on, is_on = (each.active and not each.deleted for each in (before, after))
    is_renamed = before.key != after.key
    if is_on and (is_renamed or not was_on):
        yield ActionKey.ENABLE
    if (before.active and not after.active) or (was_on and (is_renamed or not is_on)):
        yield ActionKey.DISABLE
    if not after.deleted and (is_renamed or before.deleted):
        yield ActionKey.CREATE
    if not before.deleted and (is_renamed or after.deleted):
        yield ActionKey.DELETE


def _is_same(before: Flag, after: Flag, name: str) -> bool:
    if name == "filters":  # encrypted payloads look alike in public
        return jsonio.is_equal(before.filters, after.filters)
    return jsonio.is_equal(public_value(before, name), public_value(after, name))


def describe_cohort_edit(flag: Flag) -> GatedEdit:
    """Return the change of a flag whose cohort changes."""
    kinds = frozenset((ActionKey.ANY, ActionKey.UPDATE))
    return GatedEdit(before=flag, after=flag, kinds=kinds, fields=frozenset((COHORTS,)))


def describe_dependency_edit(flag: Flag) -> GatedEdit:
    """Return the change of a flag when one that it depends on changes."""
    return replace(describe_cohort_edit(flag), fields=frozenset((FLAGS,)))


def covers(policy: ApprovalPolicy, edit: GatedEdit) -> bool:
    """Whether a change falls under a policy, apart from the number of persons it affects and the
    protection of the environment."""
    conditions = policy.conditions
    if not policy.enabled or policy.action_key not in edit.kinds:
        return False
    if conditions.tags and not _has_tag(edit, conditions.tags):
        return False
    if not conditions.fields:
        return True
    named = {*conditions.fields, *_REPLACING_FIELDS}
    if "filters" in named:
        named |= _IN_FILTERS
    return bool(edit.fields & named) or loses_tag(edit, conditions.tags)


def _has_tag(edit: GatedEdit, tags: Sequence[str]) -> bool:
    own = {*edit.after.tags, *(edit.before.tags if edit.before else ())}
    return not own.isdisjoint(tags)


def loses_tag(edit: GatedEdit, tags: Sequence[str]) -> bool:
    """A flag that loses the tag of a policy would not fall under it any more."""
    before = set(edit.before.tags if edit.before else ())
    return bool(before.intersection(tags) - set(edit.after.tags))


def covers_everything(policy: ApprovalPolicy) -> bool:
    """Whether no change of a flag can evade a policy, in a protected environment."""
    conditions = policy.conditions
    return policy.action_key is ActionKey.ANY and not (
        conditions.tags or conditions.fields or conditions.changed_percent is not None
    )


def build_protection(project_id: ProjectId) -> ApprovalPolicy:
    """Return what holds in a protected environment without a policy for all changes."""
    return ApprovalPolicy(
        id=PROTECTION_ID,
        project_id=project_id,
        action_key=ActionKey.ANY,
        conditions=PolicyConditions(protected=True),
        approvers=ApproverConfig(),
        expires_after=DEFAULT_EXPIRY,
        enabled=True,
        version=1,
        created_by="",
        created_at=EPOCH,
        updated_at=EPOCH,
    )


def require(
    policy: ApprovalPolicy, changed_percent: float | None, *, is_total: bool = False
) -> RequiredApproval:
    """Return what a policy requires. `changed_percent` is None if it could not be measured, and
    `is_total` says that it includes earlier changes."""
    return RequiredApproval(
        policy_id=policy.id,
        action_key=policy.action_key.value,
        approvers=policy.approvers,
        reason=_explain(policy, changed_percent, is_total),
        expires_after=policy.expires_after,
    )


def _explain(policy: ApprovalPolicy, changed_percent: float | None, is_total: bool) -> str:
    conditions = policy.conditions
    parts = [f"policy for {policy.action_key.value}"]
    if conditions.protected:
        parts.append("in a protected environment")
    if conditions.tags:
        parts.append(f"of flags tagged {', '.join(conditions.tags)}")
    if conditions.fields:
        parts.append(f"that change {', '.join(conditions.fields)}")
    if conditions.changed_percent is not None:
        whom = "these persons" if conditions.properties else "persons"
        measured = (
            "the number is not known"
            if changed_percent is None
            else f"it is {round(changed_percent, 2):g} %"
        )
        parts.append(
            f"if more than {conditions.changed_percent:g} % of {whom} get another value: {measured}"
        )
        if is_total:
            parts.append(f"with the unapproved changes of the last {COUNTED_HOURS} hours")
    return " ".join(parts)


def may_approve(approvers: ApproverConfig, voter: Voter) -> bool:
    if not approvers.users and not approvers.roles:
        return True
    if voter.user_id in approvers.users:
        return True
    return bool(approvers.roles) and (voter.is_owner or voter.role_id in approvers.roles)


def count_approvals(approvers: ApproverConfig, votes: Iterable[Vote], author_uuid: str) -> int:
    """Count the people who have approved and may; the author does not count."""
    return len(
        {
            vote.voter.uuid
            for vote in votes
            if vote.decision == "approved"
            and vote.voter.uuid != author_uuid
            and may_approve(approvers, vote.voter)
        }
    )


def find_unmet(
    required: Iterable[RequiredApproval], votes: Sequence[Vote], author_uuid: str
) -> list[RequiredApproval]:
    """Return the requirements for which approvals are missing."""
    return [
        each
        for each in required
        if count_approvals(each.approvers, votes, author_uuid) < each.approvers.quorum
    ]
