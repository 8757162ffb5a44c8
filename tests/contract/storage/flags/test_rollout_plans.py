"""Rollout plans make each transition once, together with the change of the flag."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApproverConfig,
    PolicyConditions,
)
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.lib import jsonio
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.rollouts import transitions
from hedgerow.rollouts.evidence import judge
from hedgerow.rollouts.guides import GuideAuthor
from hedgerow.rollouts.model import (
    Evaluation,
    HarmAction,
    NoDataRule,
    PlanState,
    RolloutPlan,
)
from hedgerow.rollouts.parse import parse_metrics, parse_steps
from hedgerow.rollouts.rollout_plans import MakeTransition, RolloutPlans
from hedgerow.rollouts.runner import AUTHOR_GONE, CLAIM_DURATION, RolloutRunner
from hedgerow.rollouts.store import PlanFilter
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.flags.approvals.approval_gate import encode_policy
from hedgerow.storage.flags.rollouts.rollout_plans import SqlRolloutPlanStore
from hedgerow.storage.tables import approval_policies
from tests.contract.storage.conftest import ACTOR, NOW, NoCache, PlainCipher, Stores
from tests.contract.storage.flags.test_flags import put_flag
from tests.unit.rollouts.test_evidence import row

HOUR = timedelta(hours=1)
FILTERS = {"groups": [{"properties": [], "rollout_percentage": 1}]}
COMMAND = GuideAuthor(actor=ACTOR)
HARM = [row(1, 1_000, 300), row(2, 1_000, 100)]
FINE = [row(1, 1_000, 300), row(2, 1_000, 300)]


class RunnerWithSums(RolloutRunner):
    """A runner whose event store would return these sums."""

    rows: Sequence[Any] = FINE

    async def _measure(
        self, project: Project, plan: RolloutPlan, flag: Flag, now: datetime
    ) -> tuple[Any, str]:
        assert plan.step is not None
        return ([] if plan.step.percentage >= 100 else judge(plan, self.rows)), ""


class World:
    """A flag at 1 %, and the processes that check its plan at `now`."""

    def __init__(self, stores: Stores, project: Project, flag: Flag) -> None:
        self.stores, self.project, self.flag = stores, project, flag
        self.store = SqlRolloutPlanStore(stores.database, stores.flags)
        unused: Any = _NoQueries()
        cache: Any = NoCache()
        self.cache = cache
        self.plans = RolloutPlans(self.store, unused, cache, PlainCipher)
        self.now = NOW

    async def create(self, author: GuideAuthor = COMMAND, **fields: Any) -> RolloutPlan:
        steps = [{"rollout_percentage": p, "duration_seconds": 3600} for p in (10, 50, 100)]
        metric = {"type": "conversion", "event": "paid", "harm": "decrease"}
        values = {
            "flag_id": self.flag.id,
            "condition_index": 0,
            "name": "Checkout",
            "steps": parse_steps(steps),
            "metrics": parse_metrics([metric]),
            "alpha": 0.05,
            "window": timedelta(minutes=5),
            "on_harm": HarmAction.ROLL_BACK,
            "on_no_data": NoDataRule.WAIT,
            "destinations": (),
        }
        return await self.plans.create(self.project, values | fields, author, self.now)

    async def start(self, author: GuideAuthor = COMMAND, **fields: Any) -> RolloutPlan:
        plan = await self.create(author, **fields)
        return await self.make(plan, transitions.start, author)

    async def make(
        self, plan: RolloutPlan, step: MakeTransition, author: GuideAuthor = COMMAND
    ) -> RolloutPlan:
        return await self.plans.make(self.project, plan.id, step, author, self.now)

    def build_runner(self, rows: Sequence[Any]) -> RunnerWithSums:
        executor: Any = None
        directory = Directory(self.stores.directory, lambda: self.now, lambda: 0.0)
        runner = RunnerWithSums(
            self.store, executor, self.cache, directory, PlainCipher, lambda: self.now
        )
        runner.rows = rows
        return runner

    async def run_at(self, moment: datetime, rows: Sequence[Any] = FINE) -> None:
        self.now = moment
        await self.build_runner(rows).check_due()

    async def find(self, plan: RolloutPlan) -> RolloutPlan:
        return await self.plans.find(self.project, plan.id)

    async def percentage(self) -> Any:
        found = await self.stores.flags.flag(self.project.id, self.flag.id)
        assert found is not None
        return found.filters["groups"][0]["rollout_percentage"]

    async def history(self, plan: RolloutPlan) -> Sequence[Evaluation]:
        return (await self.plans.list_evaluations(plan, 100, 0))[0]

    async def require_approval(self) -> None:
        """Every change of a flag needs an approval from now on."""
        policy = ApprovalPolicy(
            id="00000000-0000-0000-0000-000000000001",
            project_id=self.project.id,
            action_key=ActionKey.ANY,
            conditions=PolicyConditions(),
            approvers=ApproverConfig(),
            expires_after=HOUR,
            enabled=True,
            version=1,
            created_by="",
            created_at=NOW,
            updated_at=NOW,
        )
        await self.stores.database.write(
            lambda connection: connection.execute(insert(approval_policies), encode_policy(policy))
        )


class _NoQueries:
    """Compiles no queries."""

    async def load_context(self, *_: object) -> None: ...

    async def run_compilation(self, *_: object) -> None: ...


@pytest.fixture
async def world(stores: Stores) -> World:
    project = await stores.new_project()
    return World(stores, project, await put_flag(stores, project_id=project.id, filters=FILTERS))


async def test_plan_runs_through_its_steps_by_the_clock(world: World) -> None:
    plan = await world.start()
    assert (plan.state, plan.percentage_before, await world.percentage()) == ("running", 1, 10)
    await world.run_at(NOW + HOUR - timedelta(seconds=1))
    assert await world.percentage() == 10
    await world.run_at(NOW + HOUR + timedelta(seconds=10))
    assert await world.percentage() == 50
    # After a downtime, one step begins. Its own duration counts from then.
    late = NOW + timedelta(days=9)
    await world.run_at(late)
    assert await world.percentage() == 100
    await world.run_at(late + timedelta(minutes=59))
    assert (await world.find(plan)).state is PlanState.RUNNING
    await world.run_at(late + HOUR)
    done = await world.find(plan)
    assert (done.state, done.ended_at) == ("completed", late + HOUR)
    kinds = [each.kind.value for each in await world.history(plan)]
    assert [k for k in kinds if k != "checked"] == ["completed", "advanced", "advanced", "started"]
    entries = await world.stores.list_entries()
    mine = [e.entry for e in entries if e.entry.scope == "RolloutPlan"]
    assert {e.activity for e in mine} == {"created", "started", "advanced", "completed"}
    flagged = [
        e.entry.detail["trigger"]["job_type"] for e in entries if "trigger" in e.entry.detail
    ]
    assert flagged == ["rollout_plan"] * 3


async def test_harm_is_rolled_back_once_by_many_processes(world: World) -> None:
    plan = await world.start()
    world.now = NOW + timedelta(minutes=10)
    await asyncio.gather(*(world.build_runner(HARM).check_due() for _ in range(6)))
    found = await world.find(plan)
    assert (found.state, await world.percentage()) == ("rolled_back", 1)
    assert found.reason.startswith("Harm found. persons with paid: 0.1 with the feature")
    kinds = [each.kind.value for each in await world.history(plan)]
    assert kinds == ["rolled_back", "started"]
    assert (await world.history(plan))[0].metrics[0]["verdict"] == "harm"


async def test_harm_pauses_if_the_plan_says_so(world: World) -> None:
    plan = await world.start(on_harm=HarmAction.PAUSE)
    await world.run_at(NOW + timedelta(minutes=10), HARM)
    found = await world.find(plan)
    assert (found.state, await world.percentage()) == ("paused", 10)
    assert (await world.history(plan))[0].kind == "harm_found"
    await world.run_at(NOW + timedelta(days=1))  # nothing happens to a paused plan
    assert await world.percentage() == 10
    resumed = await world.make(plan, transitions.resume)
    assert (resumed.state, resumed.step_started_at) == ("running", world.now)


async def test_what_happens_by_itself_is_told_to_destinations(world: World) -> None:
    record = await world.stores.new_record(project_id=world.project.id, enabled=True)
    deliveries = SqlDeliveryStore(world.stores.database)
    asked_for = await world.start(destinations=(record.id,))
    await world.make(asked_for, transitions.roll_back)
    assert not await deliveries.due(record.id, 100, 2**60)
    plan = await world.start(destinations=(record.id,))
    await world.run_at(NOW + timedelta(minutes=10), HARM)
    [delivery] = await deliveries.due(record.id, 100, 2**60)
    sent = jsonio.decode(delivery.event.properties.encode())
    assert delivery.event.event == "$rollout_plan_rolled_back"
    assert (sent["rollout_plan_id"], sent["metrics"][0]["verdict"]) == (plan.id, "harm")
    assert sent["message"].startswith("“Checkout” is rolled back. Harm found.")


async def test_plan_without_data_waits_or_goes_on(world: World) -> None:
    plan = await world.start()
    await world.run_at(NOW + 2 * HOUR, [])
    found = await world.find(plan)
    assert (found.state, await world.percentage()) == ("running", 10)
    assert "waits for data: persons with paid: 0 persons with the feature" in found.reason
    await world.run_at(NOW + 3 * HOUR)
    assert await world.percentage() == 50
    await world.make(plan, transitions.roll_back)
    assert await world.percentage() == 1
    other = await world.start(on_no_data=NoDataRule.ADVANCE)
    await world.run_at(world.now + HOUR, [])
    assert await world.percentage() == 50
    assert any("Without data" in each.why for each in await world.history(other))


async def test_flag_that_is_changed_by_others_pauses_the_plan(world: World) -> None:
    plan = await world.start()
    filters = {"groups": [{"properties": [], "rollout_percentage": 30}]}
    flag = await world.stores.flags.flag(world.project.id, world.flag.id)
    assert flag is not None
    await put_flag(world.stores, replace(flag, filters=filters))
    await world.run_at(NOW + HOUR)
    found = await world.find(plan)
    assert (found.state, await world.percentage()) == ("paused", 30)
    assert "condition 0 is at 30 %, and the plan is at 10 %" in found.reason
    await put_flag(world.stores, replace(flag, deleted=True))
    with pytest.raises(Conflict, match="deleted"):
        await world.make(plan, transitions.resume)


async def test_rollback_needs_no_approval_and_a_step_does(world: World) -> None:
    steps = await world.start()
    await world.require_approval()
    await world.run_at(NOW + HOUR)
    found = await world.find(steps)
    assert (found.state, await world.percentage()) == ("paused", 10)
    assert found.reason.startswith("The next step was refused: ")
    # The percentage is the same, so that there is nothing to approve.
    await world.make(steps, transitions.resume)
    await world.run_at(NOW + HOUR + timedelta(minutes=1), HARM)
    assert ((await world.find(steps)).state, await world.percentage()) == ("rolled_back", 1)
    entries = [e.entry for e in await world.stores.list_entries()]
    [glass] = [e for e in entries if e.activity == "break_glass"]
    assert (glass.actor.kind, glass.detail["reason"][:11]) == ("system", "Harm found.")


async def test_person_without_the_right_cannot_go_on(world: World) -> None:
    plan = await world.start(GuideAuthor(actor=ACTOR, user_uuid="has-left"))
    await world.run_at(NOW + HOUR)
    found = await world.find(plan)
    assert (found.state, await world.percentage()) == ("paused", 10)
    assert AUTHOR_GONE in found.reason


async def test_process_that_dies_leaves_the_plan_for_another(world: World) -> None:
    plan = await world.start()
    claimed = await world.store.claim_due(world.project.id, NOW, NOW + CLAIM_DURATION)
    assert claimed is not None
    assert claimed.id == plan.id
    assert not await world.store.claim_due(world.project.id, NOW, NOW + CLAIM_DURATION)
    await world.run_at(NOW + CLAIM_DURATION, HARM)
    assert (await world.find(plan)).state is PlanState.ROLLED_BACK


async def test_what_cannot_be_done_is_refused(world: World) -> None:
    plan = await world.start()
    other = await world.create()
    with pytest.raises(Conflict, match="has not ended"):
        await world.make(other, transitions.start)
    with pytest.raises(Conflict, match="Only a draft"):
        await world.plans.change(world.project, plan.id, {"name": "x"}, COMMAND, NOW)
    with pytest.raises(Conflict, match="Stop it"):
        await world.plans.delete(world.project, plan.id, ACTOR, NOW)
    with pytest.raises(Conflict, match="Only one that is paused"):
        await world.make(plan, transitions.resume)
    await world.make(plan, transitions.stop)
    low = await world.create(steps=parse_steps([{"rollout_percentage": 5, "duration_seconds": 1}]))
    with pytest.raises(Invalid, match="more than the first step"):
        await world.make(low, transitions.start)
    await world.plans.delete(world.project, plan.id, ACTOR, NOW)
    left, count = await world.plans.list_plans(world.project, PlanFilter(search="CHECK"))
    assert (len(left), count) == (2, 2)


async def test_clock_that_is_set_back_does_not_blind_a_plan(world: World) -> None:
    plan = await world.start()
    await world.run_at(NOW + timedelta(minutes=1))
    back = NOW - timedelta(hours=5)
    await world.run_at(back)
    found = await world.find(plan)
    assert (found.step_started_at, found.step_index) == (back, 0)
    assert any("clock was set back" in each.why for each in await world.history(plan))
    await world.run_at(back + timedelta(minutes=1), HARM)
    assert (await world.find(plan)).state is PlanState.ROLLED_BACK
    assert await world.percentage() == 1


async def test_clock_that_jumps_ahead_ends_one_step_at_a_time(world: World) -> None:
    plan = await world.start()
    await world.run_at(NOW + timedelta(days=400))
    found = await world.find(plan)
    assert (found.step_index, await world.percentage()) == (1, 50)
    await world.run_at(NOW + timedelta(days=400, seconds=10), HARM)
    assert await world.percentage() == 1


async def test_key_cannot_change_while_a_plan_runs(world: World) -> None:
    plan = await world.start()
    with pytest.raises(Invalid, match="Pause it first"):
        await rename(world)
    await world.make(plan, transitions.pause)
    await rename(world)
    found = await world.stores.flags.flag(world.project.id, world.flag.id)
    assert found is not None
    assert found.key == "renamed"


async def rename(world: World) -> None:
    def decide(_: FlagDefinitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
        flag = find(world.flag.id)
        assert flag is not None
        return FlagWrite(flag=replace(flag, key="renamed"), build_entry=lambda _: None)

    await world.stores.flags.write(world.project.id, decide, NOW)
