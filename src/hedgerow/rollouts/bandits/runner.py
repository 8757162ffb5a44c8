"""Reallocate running bandits: compute the probability of each variant to be best, and write the
split of the flag.

A bandit is claimed by one process, and each reallocation is stored in one transaction with the
change of the flag, if the bandit is still as it was claimed. So it is made once with any number of
processes, and a process that ends in the middle leaves it for another. After a downtime there is
one reallocation, not those that were missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from hedgerow.errors import AppError, Invalid
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.experiments.analysis import VariantMeasurement
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.runner import may_change_flags
from hedgerow.lib.clock import Clock
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.optional_packages import MissingPackage
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.due_work import DueWork
from hedgerow.rollouts.bandits.allocation import (
    choose_split,
    compute_chances,
    describe_variant,
    explain_split,
    find_lack,
)
from hedgerow.rollouts.bandits.bandits import MakeBanditTransition, list_documents
from hedgerow.rollouts.bandits.evidence import (
    compile_evidence,
    find_ripe_time,
    parse_goal,
    read_measurements,
)
from hedgerow.rollouts.bandits.model import Allocation, AllocationKind, Bandit
from hedgerow.rollouts.bandits.store import BanditCheck, BanditContext, BanditStore, BanditWrite
from hedgerow.rollouts.bandits.transitions import (
    check_unchanged,
    learn_again,
    pause,
    reallocate,
    stop,
)
from hedgerow.rollouts.guides import CLOCK_TOLERANCE, Found, Transition

QUERY_TIMEOUT_S = 30.0
# Longer than a reallocation may take, with a measurement of its consequence. The bandit of a
# process that dies waits this long.
CLAIM_DURATION = timedelta(seconds=90)
# A bandit whose query takes long is checked less often, so that it uses a fifth of a query slot.
REST_FACTOR = 4
AUTHOR_GONE = (
    "The person who started the bandit may no longer change flags in this project. Resume it."
)
CLOCK_SET_BACK = "The clock was set back, so that it learns from now on."
LIMITS = replace(DEFAULT_LIMITS, timeout_s=QUERY_TIMEOUT_S)


class BanditRunner:
    def __init__(
        self,
        store: BanditStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        directory: Directory,
        load_cipher: Callable[[], Cipher],
        clock: Clock,
    ) -> None:
        self._store = store
        self._executor = executor
        self._flag_cache = flag_cache
        self._directory = directory
        self._load_cipher = load_cipher
        self._clock = clock
        self._work = DueWork(lambda: store.list_due_projects(clock()), self._check_next)

    async def reallocate_due(self) -> None:
        """Reallocate all bandits that are due. Projects take turns."""
        await self._work.run()

    async def _check_next(self, project_id: ProjectId) -> None:
        now = self._clock()
        bandit = await self._store.claim_due(project_id, now, now + CLAIM_DURATION)
        if bandit is None:
            return
        await self._directory.refresh()
        project = self._directory.get_project(project_id)
        if project is not None:  # else deleted, and so are its bandits soon
            await self._check(project, bandit)

    async def _check(self, project: Project, bandit: Bandit) -> None:
        flag = await self._store.flag(project.id, bandit.flag_id)
        try:
            check_unchanged(bandit, flag)
        except AppError as error:
            is_gone = flag is None or flag.deleted
            await self._make(project, bandit, stop if is_gone else pause, error.detail)
            return
        assert flag is not None
        started = self._clock()
        since = bandit.learning_since
        if since is not None and since > started + CLOCK_TOLERANCE:
            await self._make(project, bandit, learn_again, CLOCK_SET_BACK)
            return
        try:
            measured = await self._measure(project, bandit, flag, started)
            found, lack = await run_in_thread(partial(allocate, bandit, measured))
        except (AppError, MissingPackage) as error:
            detail = error.detail if isinstance(error, AppError) else str(error)
            found, lack = (), f"The metric could not be computed: {detail}"
        if lack or all(each["rollout_percentage"] == bandit.split[each["key"]] for each in found):
            why = f"The split stays. {lack or explain_split(found)}"
            await self._save_check(bandit, found, why, self._clock() - started)
            return
        await self._reallocate(project, bandit, found)

    async def _measure(
        self, project: Project, bandit: Bandit, flag: Flag, now: datetime
    ) -> Sequence[VariantMeasurement]:
        """Return what the people did whose conversion window is over."""
        since = bandit.learning_since
        assert since is not None
        if find_ripe_time(bandit, now) <= since:
            return read_measurements(bandit, flag, ())
        context = await self._executor.build_context(project, now, list_documents(bandit))
        work = partial(compile_evidence, bandit, flag, since, context)
        printed = await self._executor.run_compilation(context, work)
        result = await self._executor.run(context, printed, LIMITS)
        return read_measurements(bandit, flag, result.rows)

    async def _reallocate(self, project: Project, bandit: Bandit, found: Found) -> None:
        try:
            if not may_change_flags(self._directory, project, bandit.author_uuid):
                raise Invalid(AUTHOR_GONE)
            await self._make(project, bandit, reallocate, explain_split(found), found)
        except AppError as error:
            if error.is_server_error:
                raise  # a database is away: the bandit stays due
            why = f"The reallocation was refused: {error.detail}"
            await self._make(project, bandit, pause, why)

    async def _make(
        self,
        project: Project,
        bandit: Bandit,
        step: MakeBanditTransition,
        why: str,
        found: Found = (),
    ) -> None:
        """Make a transition, unless the bandit has changed since it was claimed."""
        now = self._clock()
        actor = bandit.author if step is reallocate else SYSTEM
        by = Transition(actor=actor, now=now, load_cipher=self._load_cipher, why=why, found=found)

        def decide(context: BanditContext, current: Bandit) -> BanditWrite | None:
            return step(context, current, by) if current.version == bandit.version else None

        if await self._store.change(project.id, bandit.id, decide, now) is not None:
            await self._flag_cache.refresh(project)

    async def _save_check(self, bandit: Bandit, found: Found, why: str, took: timedelta) -> None:
        now = self._clock()
        check = BanditCheck(
            reason=why,
            allocation=Allocation(
                kind=AllocationKind.CHECKED, created_at=now, why=why, variants=found
            ),
            next_check_at=now + max(bandit.interval, REST_FACTOR * took),
        )
        await self._store.save_check(bandit, check)


def allocate(bandit: Bandit, measured: Sequence[VariantMeasurement]) -> tuple[Found, str]:
    """Return the evidence with the new split, and why the split must stay, "" if it need not."""
    lack = find_lack(measured, bandit.min_persons)
    is_lower_better = parse_goal(bandit.metric).is_lower_better
    chances = None if lack else compute_chances(measured, is_lower_better=is_lower_better)
    if chances is None:
        lack = lack or "The values are too large"
        found = [
            describe_variant(each, None, bandit.split[each.key], bandit.split[each.key])
            for each in measured
        ]
        return found, f"{lack}."
    split = choose_split(chances, bandit.floor_percent)
    found = [
        describe_variant(each, chance, bandit.split[each.key], percentage)
        for each, chance, percentage in zip(measured, chances, split, strict=True)
    ]
    return found, ""
