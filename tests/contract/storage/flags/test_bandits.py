"""Bandits reallocate once, together with the change of the flag, and never past the gate."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert

from hedgerow.errors import Conflict, Invalid
from hedgerow.experiments.analysis import VariantMeasurement
from hedgerow.flags.approvals.change_requests import ChangeRequests, RequestAuthor
from hedgerow.flags.approvals.model import (
    ActionKey,
    ApprovalPolicy,
    ApprovalRequired,
    ApproverConfig,
    ChangeRequest,
    PolicyConditions,
    Voter,
)
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.flags.model import Flag
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.rollouts.bandits import transitions
from hedgerow.rollouts.bandits.approvals import propose_start
from hedgerow.rollouts.bandits.bandits import Bandits, MakeBanditTransition
from hedgerow.rollouts.bandits.model import MAX_ALLOCATIONS, Allocation, Bandit
from hedgerow.rollouts.bandits.runner import AUTHOR_GONE, CLAIM_DURATION, BanditRunner
from hedgerow.rollouts.bandits.store import BanditFilter
from hedgerow.rollouts.guides import GuideAuthor
from hedgerow.storage.flags.approvals.approval_gate import encode_policy
from hedgerow.storage.flags.approvals.approval_store import SqlApprovalStore
from hedgerow.storage.flags.experiments import SqlExperimentStore
from hedgerow.storage.flags.rollouts.bandits import SqlBanditStore
from hedgerow.storage.tables import approval_policies, bandit_allocations
from tests.contract.storage.conftest import ACTOR, NOW, NoCache, PlainCipher, Stores
from tests.contract.storage.flags.test_flags import put_flag

HOUR = timedelta(hours=1)
METRIC = {"kind": "ExperimentMetric", "metric_type": "funnel", "series": [{"event": "paid"}]}
COMMAND = GuideAuthor(actor=ACTOR)
# Persons and conversions of each variant.
BETTER = {"control": (1_000, 100), "blue": (1_000, 130), "red": (1_000, 60)}
FEW = {"control": (20, 1), "blue": (20, 9), "red": (20, 0)}


def build_filters(**split: float) -> dict[str, Any]:
    variants = [{"key": key, "rollout_percentage": share} for key, share in split.items()]
    groups = [{"properties": [], "rollout_percentage": 100}]
    return {"groups": groups, "multivariate": {"variants": variants}}


class RunnerWithCounts(BanditRunner):
    """A runner whose event store would count these people."""

    counts: Mapping[str, tuple[int, int]] = BETTER

    async def _measure(
        self, project: Project, bandit: Bandit, flag: Flag, now: datetime
    ) -> Sequence[VariantMeasurement]:
        return [VariantMeasurement.from_funnel(key, *self.counts[key]) for key in bandit.split]


class World:
    """A flag of three variants, and the processes that reallocate its bandit at `now`."""

    def __init__(self, stores: Stores, project: Project, flag: Flag) -> None:
        self.stores, self.project, self.flag = stores, project, flag
        self.store = SqlBanditStore(stores.database, stores.flags)
        unused: Any = _NoQueries()
        cache: Any = NoCache()
        self.cache = cache
        experiments = SqlExperimentStore(stores.database, stores.flags)
        self.bandits = Bandits(self.store, experiments, unused, cache, PlainCipher)
        approvals = SqlApprovalStore(stores.database, stores.flags)
        self.requests = ChangeRequests(approvals, cache, PlainCipher())
        self.now = NOW

    async def create(self, author: GuideAuthor = COMMAND, **fields: Any) -> Bandit:
        values = {
            "flag_id": self.flag.id,
            "name": "Colours",
            "metric": METRIC,
            "exposure_criteria": {},
            "floor_percent": 5,
            "interval": HOUR,
            "min_persons": 100,
        }
        return await self.bandits.create(self.project, values | fields, author, self.now)

    async def start(self, author: GuideAuthor = COMMAND, **fields: Any) -> Bandit:
        return await self.make(await self.create(author, **fields), transitions.start, author)

    async def make(
        self, bandit: Bandit, step: MakeBanditTransition, author: GuideAuthor = COMMAND
    ) -> Bandit:
        return await self.bandits.make(self.project, bandit.id, step, author, self.now)

    def build_runner(self, counts: Mapping[str, tuple[int, int]]) -> RunnerWithCounts:
        executor: Any = None
        directory = Directory(self.stores.directory, lambda: self.now, lambda: 0.0)
        runner = RunnerWithCounts(
            self.store, executor, self.cache, directory, PlainCipher, lambda: self.now
        )
        runner.counts = counts
        return runner

    async def run_at(
        self, moment: datetime, counts: Mapping[str, tuple[int, int]] = BETTER
    ) -> None:
        self.now = moment
        await self.build_runner(counts).reallocate_due()

    async def find(self, bandit: Bandit) -> Bandit:
        return await self.bandits.find(self.project, bandit.id)

    async def read_flag(self) -> Flag:
        found = await self.stores.flags.flag(self.project.id, self.flag.id)
        assert found is not None
        return found

    async def split(self) -> dict[str, float]:
        return transitions.read_split(await self.read_flag())

    async def change_flag(self, **fields: Any) -> None:
        present = await self.read_flag()
        changed = {"version": present.version + 1, "active": True, **fields}
        with break_glass(BreakGlass(reason="By someone else", actor=ACTOR)):
            self.flag = await put_flag(self.stores, present, **changed)

    async def history(self, bandit: Bandit) -> Sequence[Allocation]:
        return (await self.bandits.list_allocations(bandit, 100, 0))[0]

    async def require_approval(self, **conditions: Any) -> None:
        """Every change of a flag needs an approval from now on."""
        policy = ApprovalPolicy(
            id=str(uuid4()),
            project_id=self.project.id,
            action_key=ActionKey.ANY,
            conditions=PolicyConditions(**conditions),
            approvers=ApproverConfig(),
            expires_after=timedelta(days=1),
            enabled=True,
            version=1,
            created_by="",
            created_at=NOW,
            updated_at=NOW,
        )
        await self.stores.database.write(
            lambda connection: connection.execute(insert(approval_policies), encode_policy(policy))
        )

    async def request_start(self, bandit: Bandit) -> ChangeRequest:
        with pytest.raises(ApprovalRequired) as refused:
            await self.make(bandit, transitions.start)
        change = propose_start(bandit, await self.read_flag(), refused.value)
        author = RequestAuthor(actor=ACTOR, uuid="")
        request, _ = await self.requests.create(self.project, change, author, self.now)
        return request

    async def approve(self, request: ChangeRequest) -> ChangeRequest:
        voter = Voter(uuid="other", user_id=2, actor=ACTOR, role_id=None, is_owner=True)
        done = await self.requests.approve(self.project, request.id, voter, "", self.now)
        return await self.bandits.start_approved(self.project, self.requests, done, self.now)


class _NoQueries:
    """Compiles no queries."""

    async def load_context(self, *_: object) -> None: ...

    async def run_compilation(self, *_: object) -> None: ...


@pytest.fixture
async def world(stores: Stores) -> World:
    project = await stores.new_project()
    filters = build_filters(control=34, blue=33, red=33)
    return World(stores, project, await put_flag(stores, project_id=project.id, filters=filters))


async def test_split_follows_the_best_variant_and_says_why(world: World) -> None:
    bandit = await world.start()
    assert (bandit.state, bandit.reason) == (
        "running",
        f"It begins with control 34 %, blue 33 %, red 33 %. By {ACTOR.email or ACTOR.name}.",
    )
    await world.run_at(NOW + HOUR - timedelta(seconds=1))
    assert await world.split() == {"control": 34, "blue": 33, "red": 33}
    await world.run_at(NOW + HOUR)
    # Blue is best with 98.2 %: 5 % each, and 85 % in proportion.
    assert await world.split() == {"control": 7, "blue": 88, "red": 5}
    [entry, started] = await world.history(bandit)
    assert (entry.kind, started.kind) == ("reallocated", "started")
    blue = entry.variants[1]
    assert (blue["key"], blue["persons"], blue["total"]) == ("blue", 1_000, 130)
    assert blue["probability_best"] == pytest.approx(0.982, abs=0.004)
    assert blue["posterior"]["mean"] == pytest.approx(131 / 1_002)
    assert (blue["rollout_percentage_before"], blue["rollout_percentage"]) == (33, 88)
    # The same evidence again: no write, and an entry of the history.
    version = (await world.read_flag()).version
    await world.run_at(NOW + 2 * HOUR)
    assert (await world.read_flag()).version == version
    assert (await world.history(bandit))[0].kind == "checked"
    entries = await world.stores.list_entries()
    mine = [e.entry.activity for e in entries if e.entry.scope == "Bandit"]
    assert sorted(mine) == ["created", "reallocated", "started"]
    [trigger] = [e.entry.detail["trigger"] for e in entries if "trigger" in e.entry.detail]
    assert (trigger["job_type"], trigger["job_id"]) == ("bandit", str(bandit.id))


async def test_reallocation_is_made_once_by_many_processes(world: World) -> None:
    bandit = await world.start()
    world.now = NOW + 9 * HOUR  # after a downtime there is one, not nine
    await asyncio.gather(*(world.build_runner(BETTER).reallocate_due() for _ in range(6)))
    assert [each.kind for each in await world.history(bandit)] == ["reallocated", "started"]
    assert (await world.read_flag()).version == world.flag.version + 1
    # A process that ends in the middle leaves the bandit for another, later.
    world.now = NOW + 10 * HOUR
    claimed = await world.store.claim_due(world.project.id, world.now, world.now + CLAIM_DURATION)
    assert claimed is not None
    assert (
        await world.store.claim_due(world.project.id, world.now, world.now + CLAIM_DURATION) is None
    )
    again = await world.store.claim_due(
        world.project.id, world.now + CLAIM_DURATION, world.now + 2 * CLAIM_DURATION
    )
    assert again == claimed


async def test_split_waits_for_persons(world: World) -> None:
    bandit = await world.start()
    await world.run_at(NOW + HOUR, FEW)
    assert await world.split() == {"control": 34, "blue": 33, "red": 33}
    found = await world.find(bandit)
    assert found.reason == (
        "The split stays. 100 persons of each variant are needed, and 20 of control, 20 of blue, "
        "20 of red are known."
    )
    assert [each["persons"] for each in found.variants_found] == [20, 20, 20]
    await world.make(bandit, transitions.pause)
    await world.run_at(NOW + 2 * HOUR)
    assert await world.split() == {"control": 34, "blue": 33, "red": 33}
    resumed = await world.make(bandit, transitions.resume)
    assert resumed.learning_since == NOW
    await world.run_at(world.now + HOUR)
    assert (await world.split())["blue"] == 88


async def test_split_below_the_floor_begins_evenly(world: World) -> None:
    await world.change_flag(filters=build_filters(control=100, blue=0, red=0))
    await world.start()
    assert await world.split() == {"control": 34, "blue": 33, "red": 33}


async def test_flag_that_someone_changes_pauses_its_bandit(world: World) -> None:
    bandit = await world.start()
    await world.change_flag(filters=build_filters(control=50, blue=25, red=25))
    await world.run_at(NOW + HOUR)
    found = await world.find(bandit)
    assert (found.state, found.reason) == (
        "paused",
        "The flag was changed: its split is control 50 %, blue 25 %, red 25 %.",
    )
    # With other variants, it learns anew.
    await world.change_flag(filters=build_filters(control=50, green=50))
    resumed = await world.make(bandit, transitions.resume)
    assert (resumed.learning_since, dict(resumed.split)) == (
        world.now,
        {"control": 50, "green": 50},
    )
    await world.change_flag(filters=build_filters(control=50, green=50), active=False)
    await world.run_at(world.now + HOUR)
    assert "The flag is disabled" in (await world.find(bandit)).reason
    await world.change_flag(filters=build_filters(control=50, green=50))
    await world.make(bandit, transitions.resume)
    await world.change_flag(filters=build_filters(control=50, green=50), deleted=True)
    await world.run_at(world.now + HOUR)
    assert (await world.find(bandit)).state == "stopped"


async def test_what_a_bandit_cannot_move_is_refused(world: World) -> None:
    bandit = await world.start()
    with pytest.raises(Conflict, match="of the same flag has not ended"):
        await world.start()
    await world.make(bandit, transitions.stop)
    with pytest.raises(Invalid, match="more than 100 %"):
        await world.start(floor_percent=40)
    forced = build_filters(control=50, blue=50)
    forced["groups"][0]["variant"] = "blue"
    await world.change_flag(filters=forced)
    with pytest.raises(Invalid, match="gives all its people one variant"):
        await world.start()
    await world.change_flag(filters={"groups": [{"properties": [], "rollout_percentage": 1}]})
    with pytest.raises(Invalid, match="2 to 20 variants"):
        await world.start()


async def test_author_who_may_no_longer_change_flags_pauses_it(world: World) -> None:
    bandit = await world.start(GuideAuthor(actor=ACTOR, user_uuid=str(uuid4())))
    await world.run_at(NOW + HOUR)
    found = await world.find(bandit)
    assert (found.state, AUTHOR_GONE in found.reason) == ("paused", True)
    assert (await world.split())["blue"] == 33


@pytest.mark.parametrize("conditions", [{}, {"changed_percent": 99.0}])
async def test_approval_of_the_start_holds_for_all_reallocations(
    world: World, conditions: dict[str, Any]
) -> None:
    await world.require_approval(**conditions)
    bandit = await world.create()
    request = await world.request_start(bandit)
    assert (await world.find(bandit)).state == "draft"
    approved = await world.approve(request)
    assert (approved.state, (await world.find(bandit)).state) == ("approved", "running")
    await world.run_at(NOW + HOUR)
    assert (await world.split())["blue"] == 88
    # A flag with other conditions is not what was approved.
    filters = build_filters(**await world.split())
    filters["groups"][0]["rollout_percentage"] = 50
    await world.change_flag(filters=filters)
    await world.run_at(NOW + 2 * HOUR, {"control": (9, 9), "blue": (9, 9), "red": (9, 9)})
    assert (await world.find(bandit)).state == "running"  # no write, so that none is refused
    await world.run_at(NOW + 3 * HOUR, {**BETTER, "red": (1_000, 500)})
    found = await world.find(bandit)
    assert found.state == "paused"
    assert found.reason.startswith("The reallocation was refused: This change requires approval")
    assert (await world.split())["blue"] == 88
    await world.make(bandit, transitions.stop)
    assert (await world.requests.find(world.project, request.id)).state == "applied"


async def test_policy_that_comes_later_pauses_a_bandit(world: World) -> None:
    bandit = await world.start()
    await world.require_approval()
    await world.run_at(NOW + HOUR)
    found = await world.find(bandit)
    assert (found.state, (await world.split())["blue"]) == ("paused", 33)
    with pytest.raises(ApprovalRequired):
        await world.make(bandit, transitions.resume)


async def test_another_goal_than_the_approved_one_needs_another_approval(world: World) -> None:
    await world.require_approval()
    bandit = await world.create()
    request = await world.request_start(bandit)
    other = {"floor_percent": 1}
    await world.bandits.change(world.project, bandit.id, other, COMMAND, world.now)
    assert (await world.requests.find(world.project, request.id)).state == "withdrawn"
    with pytest.raises(ApprovalRequired):
        await world.make(bandit, transitions.start)


async def test_history_is_bounded_and_deleted_with_the_bandit(world: World) -> None:
    bandit = await world.start()
    rows = [
        {"bandit_id": bandit.id, "kind": "checked", "created_at": NOW, "why": "", "variants": []}
        for _ in range(MAX_ALLOCATIONS)
    ]
    await world.stores.database.write(
        lambda connection: connection.execute(insert(bandit_allocations), rows)
    )
    await world.run_at(NOW + HOUR)
    _, count = await world.bandits.list_allocations(bandit, 1, 0)
    assert count == MAX_ALLOCATIONS
    with pytest.raises(Conflict, match="Stop it first"):
        await world.bandits.delete(world.project, bandit.id, ACTOR, world.now)
    await world.make(bandit, transitions.stop)
    await world.bandits.delete(world.project, bandit.id, ACTOR, world.now)
    assert await world.bandits.list_bandits(world.project, BanditFilter()) == ([], 0)


async def test_clock_that_is_set_back_does_not_blind_a_bandit(world: World) -> None:
    bandit = await world.start()
    ahead = NOW + timedelta(days=1)
    await world.run_at(ahead, FEW)
    # A process dies with a claim.
    assert (
        await world.store.claim_due(world.project.id, ahead + HOUR, ahead + HOUR + CLAIM_DURATION)
        is not None
    )
    await world.run_at(NOW + 2 * HOUR, FEW)
    found = await world.find(bandit)
    assert found.last_checked_at == NOW + 2 * HOUR
    assert found.next_check_at == NOW + 3 * HOUR
    await world.run_at(NOW + 2 * HOUR + timedelta(minutes=1))
    assert [each.kind for each in await world.history(bandit)] == ["checked", "checked", "started"]
    await world.run_at(NOW + 3 * HOUR)
    assert (await world.history(bandit))[0].kind == "reallocated"


async def test_bandit_that_begins_ahead_of_the_clock_learns_from_now_on(world: World) -> None:
    bandit = await world.start()
    before = NOW - timedelta(days=1)
    await world.run_at(before)
    found = await world.find(bandit)
    assert (found.state, found.learning_since) == ("running", before)
    assert found.reason == "The clock was set back, so that it learns from now on."
    assert [each.kind for each in await world.history(bandit)] == ["resumed", "started"]
    await world.run_at(before + HOUR)
    assert (await world.history(bandit))[0].kind == "reallocated"
