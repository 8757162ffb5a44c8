"""People in both databases: what works once, what is limited, and what ends with a person."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid
from hedgerow.lib.tokens import hash_token
from hedgerow.people.logins import build_link
from hedgerow.people.model import Invite, NewMember
from hedgerow.projects.directory import SESSION_IDLE_TIME
from hedgerow.projects.model import KeyId, LoginSession, ProjectId, Role, User
from hedgerow.storage.people.identities import SqlIdentityStore
from hedgerow.storage.people.logins import MAX_SESSIONS, SqlLoginStore
from hedgerow.storage.people.members import SqlMemberStore
from hedgerow.storage.people.outgoing_mail import SqlMailStore
from hedgerow.storage.tables import password_links, personal_keys, sessions
from tests.contract.storage.conftest import ACTOR, LATER, NOW, Stores

MEMBER = NewMember(
    email="bob@example.com",
    first_name="Bob",
    organization_role="member",
    project_roles={ProjectId(1): "viewer"},
)
INVITE = Invite(
    id="i1",
    hash="hash",
    email="bob@example.com",
    first_name="",
    organization_role="member",
    project_roles={ProjectId(1): "viewer", ProjectId(404): "admin"},
    created_by="owner@example.com",
    created_at=NOW,
    expires_at=LATER,
)


async def load_user(stores: Stores, id: int) -> User:
    return (await stores.directory.snapshot()).users[id]


async def add_member(stores: Stores, member: NewMember = MEMBER) -> User:
    id = await SqlMemberStore(stores.database).add_user(member, ACTOR, NOW)
    return await load_user(stores, id)


def make_session(user: User, number: int) -> LoginSession:
    return LoginSession(
        id=f"s{number}",
        user_id=user.id,
        hash=f"hash {number}",
        created_at=NOW + timedelta(seconds=number),
        last_used_at=NOW,
        expires_at=LATER,
        address="",
        user_agent="",
    )


async def test_owner_of_an_existing_installation_keeps_keys_and_rights(stores: Stores) -> None:
    snapshot = await stores.directory.snapshot()
    [key] = snapshot.keys_by_hash.values()
    assert snapshot.users[key.user_id].is_owner


async def test_parallel_attempts_do_not_exceed_the_limit(
    stores: Stores, other_stores: Stores
) -> None:
    both = [SqlLoginStore(each.database) for each in (stores, other_stores)]
    limits = {"account a": 3, "address b": 100}
    counted = await asyncio.gather(
        *(both[n % 2].count_attempt(limits, LATER, NOW) for n in range(20))
    )
    assert counted.count(None) == 3
    assert {each for each in counted if each} == {LATER}
    # A refused attempt does not count for the address, and a window ends.
    assert await both[0].count_attempt({"address b": 4}, LATER, NOW) is None
    assert await both[0].count_attempt({"address b": 4}, LATER, NOW) == LATER
    assert await both[0].count_attempt(limits, LATER + timedelta(hours=1), LATER) is None
    await both[0].forgive_attempt(["account a"], ["address b"])
    assert await both[0].count_attempt({"account a": 1}, LATER, NOW) is None


async def test_link_works_once_and_until_it_expires(stores: Stores, other_stores: Stores) -> None:
    store, user = SqlLoginStore(stores.database), await load_user(stores, 1)
    link = build_link("token", user.id, "reset", NOW)
    setup = build_link("setup", user.id, "setup", NOW)
    await store.add_link(setup)
    await store.add_link(build_link("earlier", user.id, "reset", NOW))
    await store.add_link(link)
    assert await store.find_link(hash_token("earlier"), NOW) is None
    assert await store.find_link(setup.hash, NOW) == setup
    assert await store.find_link(link.hash, link.expires_at) is None
    assert await store.find_link(link.hash, NOW) == link
    used = await asyncio.gather(
        *(
            SqlLoginStore(each.database).use_link(link, user, "new", None, NOW)
            for each in (stores, other_stores)
        )
    )
    assert sorted(used) == [False, True]
    assert (await load_user(stores, 1)).has_password


async def test_code_and_recovery_code_work_once(stores: Stores, other_stores: Stores) -> None:
    store, user = SqlLoginStore(stores.database), await load_user(stores, 1)
    assert not await store.enable_totp(user, 5, ["a"], ACTOR, NOW)
    await store.set_pending_totp(user.id, "encrypted")
    assert await store.enable_totp(user, 5, ["a", "b"], ACTOR, NOW)
    both = [SqlLoginStore(each.database) for each in (stores, other_stores)]
    assert not await store.use_totp_step(user.id, 5)
    assert sorted(await asyncio.gather(*(each.use_totp_step(user.id, 6) for each in both))) == [
        False,
        True,
    ]
    assert sorted(
        await asyncio.gather(*(each.use_recovery_code(user.id, "a") for each in both))
    ) == [False, True]
    assert await store.count_recovery_codes(user.id) == 1


async def test_sessions_are_bounded_and_expire(stores: Stores) -> None:
    store, user = SqlLoginStore(stores.database), await load_user(stores, 1)
    for number in range(MAX_SESSIONS + 2):
        await store.start_session(make_session(user, number), None, user)
    await store.start_session(make_session(user, 100), "s50", user)
    kept = {each.id for each in (await stores.directory.snapshot()).sessions_by_hash.values()}
    assert len(kept) == MAX_SESSIONS - 1
    assert kept & {"s0", "s1", "s2", "s50"} == set()
    before = await stores.directory.generation()
    await store.delete_expired(LATER + timedelta(seconds=1), SESSION_IDLE_TIME)
    assert await stores.fetch_scalar(select(func.count()).select_from(sessions)) == 0
    assert await stores.directory.generation() > before


async def test_invite_works_once_and_gives_roles_in_existing_projects(
    stores: Stores, other_stores: Stores
) -> None:
    await SqlMemberStore(stores.database).add_invite(INVITE, ACTOR)
    [listed] = await SqlMemberStore(stores.database).list_invites()
    assert listed == INVITE
    member = replace(MEMBER, project_roles=INVITE.project_roles)
    ids = await asyncio.gather(
        *(
            SqlMemberStore(each.database).accept_invite(INVITE, member, NOW)
            for each in (stores, other_stores)
        )
    )
    [id] = [each for each in ids if each is not None]
    assert list((await load_user(stores, id)).project_roles) == [1]
    with pytest.raises(Invalid, match="exists already"):
        await SqlMemberStore(stores.database).add_invite(replace(INVITE, id="i2"), ACTOR)


async def test_two_owners_cannot_leave_at_the_same_time(
    stores: Stores, other_stores: Stores
) -> None:
    first = await load_user(stores, 1)
    second = await add_member(stores, replace(MEMBER, organization_role="owner"))
    results = await asyncio.gather(
        SqlMemberStore(stores.database).remove_user(first, ACTOR, NOW),
        SqlMemberStore(other_stores.database).remove_user(second, ACTOR, NOW),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(Invalid) == 1
    [left] = (await stores.directory.snapshot()).users.values()
    assert left.is_owner


async def test_everything_of_a_person_ends_with_it(stores: Stores) -> None:
    logins, members = SqlLoginStore(stores.database), SqlMemberStore(stores.database)
    user = await add_member(stores)
    await logins.start_session(make_session(user, 1), None, user)
    await logins.add_link(build_link("token", user.id, "reset", NOW))
    key = replace(await stores.new_key("of bob"), id=KeyId("k2"), hash="x", user_id=user.id)
    await stores.keys.add_key(key, ACTOR, NOW)
    await members.remove_user(user, ACTOR, NOW)
    snapshot = await stores.directory.snapshot()
    assert list(snapshot.users) == [1]
    assert snapshot.sessions_by_hash == {}
    for table in (personal_keys, password_links):
        own = select(func.count()).select_from(table).where(table.c.user_id == user.id)
        assert await stores.fetch_scalar(own) == 0
    entry = (await stores.list_entries(scope="User"))[0].entry
    assert (entry.activity, entry.item_name) == ("deleted", "bob@example.com")


async def test_role_in_use_stays_and_names_are_unique(stores: Stores) -> None:
    members = SqlMemberStore(stores.database)
    role = Role(id="r1", name="Surveyor", scopes=frozenset({"survey:write"}))
    await members.add_role(role, ACTOR, NOW)
    with pytest.raises(Invalid, match="this name"):
        await members.add_role(replace(role, id="r2"), ACTOR, NOW)
    user = await add_member(stores, replace(MEMBER, project_roles={ProjectId(1): "r1"}))
    assert user.project_roles[ProjectId(1)] == role
    wider = frozenset({"survey:write", "query:read"})
    await members.edit_role("r1", lambda each: replace(each, scopes=wider), ACTOR, NOW)
    assert (await load_user(stores, user.id)).project_roles[ProjectId(1)].scopes == wider


async def test_change_of_a_name_keeps_roles_that_were_taken_away_meanwhile(stores: Stores) -> None:
    store = SqlMemberStore(stores.database)
    user = await add_member(stores)
    await store.edit_user(user, project_roles={}, actor=ACTOR, now=LATER)
    await store.edit_user(user, first_name="Eve", actor=ACTOR, now=LATER)
    changed = await load_user(stores, user.id)
    assert (changed.first_name, dict(changed.project_roles)) == ("Eve", {})
    await store.edit_user(user, organization_role="owner", actor=ACTOR, now=LATER)
    assert (await load_user(stores, user.id)).is_owner


async def test_identity_belongs_to_one_person(stores: Stores) -> None:
    identities = SqlIdentityStore(stores.database)
    user = await add_member(stores)
    other = await add_member(stores, replace(MEMBER, email="eve@example.com"))
    assert await identities.add("issuer", "subject", user, NOW)
    assert await identities.find_user_id("issuer", "subject") == user.id
    assert await identities.find_user_id("other", "subject") is None
    assert not await identities.add("issuer", "subject", other, NOW)
    assert not await identities.add("issuer", "another", user, NOW)
    assert await identities.remove(user, NOW)
    assert not await identities.remove(user, NOW)
    assert await identities.add("issuer", "subject", other, NOW)
    await SqlMemberStore(stores.database).remove_user(other, ACTOR, NOW)
    assert await identities.find_user_id("issuer", "subject") is None


async def test_mail_is_claimed_once_and_expires(stores: Stores) -> None:
    store = SqlMailStore(stores.database)
    for number in range(3):
        await store.add("invite", f"{number}@example.com", "secret", NOW, LATER)
    claims = await asyncio.gather(*(store.claim(NOW, LATER, 2) for _ in range(4)))
    # On PostgreSQL those that waited found nothing.
    claims = [*claims, await store.claim(NOW, LATER, 2)]
    found = [each.recipient for claim in claims for each in claim]
    assert sorted(found) == ["0@example.com", "1@example.com", "2@example.com"]
    [first, *_] = [each for claim in claims for each in claim]
    await store.postpone(first.id, 1, NOW)
    [again] = await store.claim(NOW, LATER, 5)
    assert (again.id, again.attempts, again.details) == (first.id, 1, "secret")
    await store.remove(first.id)
    assert await store.count() == 2
    over = LATER + timedelta(days=1)
    await SqlLoginStore(stores.database).delete_expired(over, SESSION_IDLE_TIME)
    assert await store.count() == 0
