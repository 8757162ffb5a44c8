"""A policy by consequence counts the changes that it let pass together with later ones."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, insert, select

from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApprovalRequired,
    ApproverConfig,
    PolicyConditions,
)
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.flags.evaluation.comparison import (
    ComparedPerson,
    ComparisonCounts,
    FlagComparer,
    FlagComparison,
)
from hedgerow.flags.evaluation.flag_values import NO_PERSON
from hedgerow.flags.model import Flag
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import ProjectId
from hedgerow.storage.flags.approvals.approval_gate import encode_policy
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.tables import approval_policies, unapproved_changes
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores
from tests.contract.storage.flags.test_flags import PLAIN, build_flag_entry
from tests.contract.storage.persons.test_cohorts import build_entry, make_cohort

MINUTE = timedelta(minutes=1)
PEOPLE = 1_000


class Crowd:
    """A thousand persons in memory, numbered, whom the real engine evaluates."""

    async def compare_persons(
        self, project_id: ProjectId, comparison: FlagComparison
    ) -> ComparisonCounts:
        comparer = FlagComparer(comparison)
        for number in range(PEOPLE):
            person = ComparedPerson(person_id=str(number), distinct_id=f"user-{number}")
            comparer.add(person, replace(NO_PERSON, properties={"number": number}))
        return comparer.counts


class World:
    def __init__(self, stores: Stores) -> None:
        crowd: Any = Crowd()
        self.stores = stores
        self.flags = SqlFlagStore(stores.database, crowd)
        self.cohorts = SqlCohortStore(stores.database, self.flags)
        self.now = NOW

    async def require_approval(self, **conditions: Any) -> None:
        """A change for more than a tenth of the persons needs another person."""
        policy = ApprovalPolicy(
            id=str(uuid4()),
            project_id=DEFAULT_PROJECT,
            action_key=ActionKey.ANY,
            conditions=PolicyConditions(**{"changed_percent": 10, **conditions}),
            approvers=ApproverConfig(),
            expires_after=timedelta(hours=1),
            enabled=True,
            version=1,
            created_by="",
            created_at=NOW,
            updated_at=NOW,
        )
        rows = insert(approval_policies)
        await self.stores.database.write(
            lambda connection: connection.execute(rows, encode_policy(policy)).rowcount
        )

    async def put(self, flag: Flag, **fields: Any) -> Flag:
        after = replace(flag, **fields)
        write = FlagWrite(flag=after, build_entry=build_flag_entry)
        return await self.flags.write(DEFAULT_PROJECT, lambda *_: write, self.now)

    async def put_cohort(self, cohort: Cohort) -> Cohort:
        return await self.cohorts.write_cohort(
            DEFAULT_PROJECT, lambda *_: cohort, build_entry, self.now
        )

    async def count_rows(self) -> int:
        count = select(func.count()).select_from(unapproved_changes)
        return await self.stores.database.read(lambda c: int(c.execute(count).scalar_one()))

    async def refuse(self, flag: Flag, **fields: Any) -> str:
        with pytest.raises(ApprovalRequired) as refused:
            await self.put(flag, **fields)
        return refused.value.detail


@pytest.fixture
def world(stores: Stores) -> World:
    return World(stores)


def first(count: int) -> dict[str, Any]:
    """Filters that the first so many persons match."""
    below = {"key": "number", "type": "person", "operator": "lt", "value": count}
    return {"groups": [{"properties": [below], "rollout_percentage": 100}]}


def matching(**filter: Any) -> dict[str, Any]:
    return {"groups": [{"properties": [filter], "rollout_percentage": 100}]}


async def test_small_changes_add_up_for_a_day(world: World) -> None:
    flag = await world.put(PLAIN, filters=first(0))
    await world.require_approval()
    for minutes, count in ((0, 50), (20, 100)):
        world.now = NOW + minutes * MINUTE
        await world.put(flag, filters=first(count))
    detail = await world.refuse(flag, filters=first(150))
    assert "it is 15 % with the unapproved changes of the last 24 hours" in detail
    # Back is no way forward, and neither is another field.
    await world.put(flag, filters=first(60), name="Neutral")
    await world.refuse(flag, filters=first(120))
    world.now = NOW + timedelta(hours=24) + 10 * MINUTE
    await world.refuse(flag, filters=first(151))
    # The first change, to 50, does not count any more.
    world.now = NOW + timedelta(hours=24) + 15 * MINUTE
    await world.put(flag, filters=first(150))
    await world.refuse(flag, filters=first(160))


async def test_approval_ends_the_count(world: World) -> None:
    flag = await world.put(PLAIN, filters=first(0))
    await world.require_approval()
    await world.put(flag, filters=first(90))
    with break_glass(BreakGlass(reason="now", actor=ACTOR)):
        await world.put(flag, filters=first(500))
    assert await world.count_rows() == 0
    await world.put(flag, filters=first(590))
    await world.refuse(flag, filters=first(620))


async def test_many_changes_have_few_rows(world: World) -> None:
    flag = await world.put(PLAIN, filters=first(0))
    await world.require_approval()
    for number in range(1, 10):
        await world.put(flag, filters=first(number))
    assert await world.count_rows() == 1
    world.now = NOW + timedelta(hours=30)
    await world.put(flag, filters=first(20))
    assert await world.count_rows() == 1


async def test_new_and_replaced_flags_count_by_key(world: World) -> None:
    await world.require_approval()
    flag = await world.put(PLAIN, key="new", filters=first(90))
    await world.refuse(flag, filters=first(110))
    await world.put(flag, deleted=True)
    again = await world.put(PLAIN, key="new", filters=first(100))
    await world.refuse(again, filters=first(110))
    # Another key takes the flag from everyone who asks for the old one.
    assert "the number is not known" in await world.refuse(again, key="other")
    await world.put(PLAIN, key="unrelated", filters=first(100))


@pytest.mark.parametrize("is_dependency", [False, True])
async def test_what_the_flag_depends_on_counts(world: World, is_dependency: bool) -> None:
    cohort = await world.put_cohort(define(make_cohort(name="few"), 0))
    used: Mapping[str, Any] = {"key": "id", "type": "cohort", "value": cohort.id}
    if is_dependency:
        base = await world.put(PLAIN, key="base", filters=matching(**used))
        used = {
            "key": str(base.id),
            "type": "flag",
            "operator": "flag_evaluates_to",
            "value": True,
        }
    await world.put(PLAIN, key="top", filters=matching(**used))
    await world.require_approval()
    await world.put_cohort(define(cohort, 90))
    with pytest.raises(ApprovalRequired, match="unapproved changes"):
        await world.put_cohort(define(cohort, 110))
    if is_dependency:
        assert "unapproved" in await world.refuse(base, filters=first(110))


def define(cohort: Cohort, count: int) -> Cohort:
    values = first(count)["groups"][0]["properties"]
    return replace(cohort, definition={"type": "AND", "values": values})


async def test_tag_of_a_policy_by_consequence_cannot_be_shed(world: World) -> None:
    flag = await world.put(PLAIN, filters=first(0), tags=("live",))
    await world.require_approval(tags=["live"])
    await world.refuse(flag, tags=())
    await world.put(flag, tags=("live", "more"))


async def test_policies_count_apart(world: World) -> None:
    flag = await world.put(PLAIN, filters=first(0))
    await world.require_approval()
    await world.require_approval(changed_percent=25)
    await world.put(flag, filters=first(90))
    with break_glass(BreakGlass(reason="now", actor=ACTOR)):
        await world.put(flag, filters=first(200))  # lacks the approval of one policy only
    await world.put(flag, filters=first(250))
    detail = await world.refuse(flag, filters=first(260))
    assert "more than 25 % of persons get another value: it is 26 %" in detail
    assert "more than 10 %" not in detail
