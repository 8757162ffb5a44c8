"""Which changes a policy covers, and whose approvals count."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApproverConfig,
    PolicyConditions,
    Vote,
    Voter,
)
from hedgerow.flags.approvals.policies import (
    count_approvals,
    covers,
    describe_cohort_edit,
    describe_flag_edit,
    find_unmet,
    require,
)
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from tests.unit.flags.factories import make_flag

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLAG = make_flag(tags=("live",))
OTHER = {"groups": [{"properties": [], "rollout_percentage": 1}]}


def make_policy(action: str = "feature_flag.*", **conditions: Any) -> ApprovalPolicy:
    return ApprovalPolicy(
        id="p",
        project_id=ProjectId(1),
        action_key=ActionKey(action),
        conditions=PolicyConditions(**conditions),
        approvers=ApproverConfig(quorum=1),
        expires_after=timedelta(days=1),
        enabled=True,
        version=1,
        created_by="",
        created_at=NOW,
        updated_at=NOW,
    )


def is_covered(policy: ApprovalPolicy, *, is_new: bool = False, **changes: Any) -> bool:
    edit = describe_flag_edit(None if is_new else FLAG, replace(FLAG, **changes))
    return edit is not None and covers(policy, edit)


@pytest.mark.parametrize(
    ("action", "changes", "expected"),
    [
        ("feature_flag.*", {"name": "x"}, True),
        ("feature_flag.*", {"version": 2, "updated_at": NOW}, False),
        ("feature_flag.update", {"filters": OTHER}, True),
        ("feature_flag.update", {"deleted": True, "active": False}, True),
        ("feature_flag.update", {"active": False}, True),
        ("feature_flag.disable", {"active": False}, True),
        ("feature_flag.disable", {"deleted": True, "active": False}, True),
        ("feature_flag.disable", {"filters": OTHER}, False),
        ("feature_flag.enable", {"active": False}, False),
        ("feature_flag.delete", {"active": False}, False),
        ("feature_flag.delete", {"deleted": True}, True),
        ("feature_flag.create", {"filters": OTHER}, False),
    ],
)
def test_action_decides(action: str, changes: dict[str, Any], expected: bool) -> None:
    assert is_covered(make_policy(action), **changes) is expected


def test_new_flag_is_created_and_enabled() -> None:
    assert is_covered(make_policy("feature_flag.create"), is_new=True)
    assert is_covered(make_policy("feature_flag.enable"), is_new=True)
    assert not is_covered(make_policy("feature_flag.enable"), is_new=True, active=False)
    assert not is_covered(make_policy("feature_flag.update"), is_new=True)


def test_tags_and_fields_cannot_be_shed_first() -> None:
    by_tag = make_policy(tags=["live"], fields=["filters"])
    assert is_covered(by_tag, filters=OTHER)
    assert not is_covered(by_tag, name="x")
    assert not is_covered(by_tag, tags=("live", "more"))
    assert is_covered(by_tag, tags=())
    assert is_covered(by_tag, key="renamed")
    assert is_covered(by_tag, deleted=True)
    assert not is_covered(make_policy(tags=["other"]), filters=OTHER)
    assert is_covered(make_policy(tags=["other"]), tags=("other",))


def test_protected_and_disabled_policies_and_cohorts() -> None:
    edit = describe_cohort_edit(FLAG)
    assert covers(make_policy("feature_flag.update"), edit)
    assert covers(make_policy(fields=["cohorts"]), edit)
    assert not covers(make_policy(fields=["active"]), edit)
    assert covers(make_policy(protected=True), edit)
    assert not covers(replace(make_policy(), enabled=False), edit)


def test_only_values_are_measurable() -> None:
    def describe(**changes: Any) -> tuple[bool, bool]:
        edit = describe_flag_edit(FLAG, replace(FLAG, **changes))
        assert edit is not None
        return edit.is_neutral, edit.is_measurable

    assert describe(name="x", tags=()) == (True, True)
    assert describe(filters=OTHER) == (False, True)
    assert describe(filters={**FLAG.filters, "payloads": {"true": "1"}}) == (False, False)
    assert describe(evaluation_contexts=("web",)) == (False, False)


def make_vote(uuid: str, role: str | None = "editor", *, is_owner: bool = False) -> Vote:
    actor = Actor(kind="key", id=uuid, name=uuid)
    voter = Voter(uuid=uuid, user_id=int(uuid), actor=actor, role_id=role, is_owner=is_owner)
    return Vote(id=uuid, voter=voter, decision="approved", reason="", created_at=NOW)


def test_author_and_other_roles_do_not_count() -> None:
    votes = [make_vote("1"), make_vote("2"), make_vote("3", "admin"), make_vote("4", is_owner=True)]
    anyone = ApproverConfig(quorum=2)
    assert count_approvals(anyone, votes, "1") == 3
    assert count_approvals(ApproverConfig(roles=["admin"]), votes, "9") == 2
    assert count_approvals(ApproverConfig(users=[2]), votes, "9") == 1
    assert count_approvals(ApproverConfig(users=[2], roles=["admin"]), votes, "2") == 2
    rejected = [replace(each, decision="rejected") for each in votes]
    assert count_approvals(anyone, rejected, "9") == 0
    needed = [require(replace(make_policy(), approvers=anyone), None)]
    assert find_unmet(needed, votes[:2], "1") == needed
    assert find_unmet(needed, votes[:3], "1") == []
