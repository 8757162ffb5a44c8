"""What a caller may see and do: the scopes of the key, cut by the role of its person."""

from dataclasses import replace

import pytest

from hedgerow.projects.caller import call_with_key, call_with_session
from hedgerow.projects.model import LoginSession
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.scopes import ACTIONS, SCOPE_OBJECTS, is_scope
from tests.unit.fake_time import START
from tests.unit.projects.factories import ONE, OWNER, TWO, make_key

MEMBER = replace(
    OWNER, id=2, organization_role="member", project_roles={ONE: BUILT_IN_ROLES["editor"]}
)
SESSION = LoginSession(
    id="s1",
    user_id=2,
    hash="",
    created_at=START,
    last_used_at=START,
    expires_at=START,
    address="",
    user_agent="",
)


def test_owner_with_a_plain_key_may_do_everything() -> None:
    caller = call_with_key(make_key(), OWNER)
    assert caller.is_unrestricted
    assert caller.may_see(ONE)
    assert caller.may_see(TWO)
    assert caller.find_lack("project:write", TWO) is None
    assert caller.find_lack("*", None) is None


def test_key_with_projects_has_access_to_those_only() -> None:
    caller = call_with_key(make_key(project_ids=(TWO,)), OWNER)
    assert not caller.is_unrestricted
    assert caller.find_lack_of_sight(ONE) == "scope"
    assert caller.find_lack_of_sight(TWO) is None


@pytest.mark.parametrize("with_session", [False, True])
def test_member_is_limited_to_its_role(with_session: bool) -> None:
    caller = (
        call_with_session(SESSION, MEMBER) if with_session else call_with_key(make_key(), MEMBER)
    )
    assert not caller.is_unrestricted
    assert caller.may_see(ONE)
    assert caller.find_lack_of_sight(TWO) == "role"
    assert caller.find_lack("feature_flag:write", ONE) is None
    assert caller.find_lack("person:read", ONE) is None
    assert caller.find_lack("person:write", ONE) == "role"
    assert caller.find_lack("feature_flag:read", TWO) == "role"


def test_key_of_a_member_needs_the_scope_and_the_role() -> None:
    caller = call_with_key(replace(make_key(), scopes=("person:write", "cohort:read")), MEMBER)
    assert caller.find_lack("cohort:read", ONE) is None
    assert caller.find_lack("cohort:write", ONE) == "scope"
    assert caller.find_lack("person:write", ONE) == "role"


def test_activity_names_the_person() -> None:
    actor = call_with_session(SESSION, MEMBER).actor
    assert (actor.kind, actor.id, actor.name, actor.email) == (
        "user",
        MEMBER.uuid,
        MEMBER.first_name,
        MEMBER.email,
    )


def test_built_in_roles_include_each_other() -> None:
    viewer, editor, admin = (BUILT_IN_ROLES[id].scopes for id in ("viewer", "editor", "admin"))
    assert viewer < editor < admin
    assert all(map(is_scope, admin))
    assert admin == {f"{each}:{action}" for each in SCOPE_OBJECTS for action in ACTIONS}
    assert not any(scope.endswith(":write") for scope in viewer)
    # Pipelines run code on web pages; the audit trail is for administrators.
    assert not editor & {"plugin:write", "person:write", "project:write", "activity_log:read"}
