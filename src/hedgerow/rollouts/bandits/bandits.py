"""Operations on bandits: create, change, delete, and what persons do with running ones."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hedgerow.errors import AppError, Invalid, NotFound
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.experiments.model import ExperimentId
from hedgerow.experiments.store import ExperimentStore
from hedgerow.flags.approvals.change_requests import ChangeRequests
from hedgerow.flags.approvals.model import ChangeRequest, RequestState, ResourceType
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import Project
from hedgerow.rollouts.bandits import transitions
from hedgerow.rollouts.bandits.evidence import compile_evidence, parse_exposure, parse_goal
from hedgerow.rollouts.bandits.model import (
    Allocation,
    Bandit,
    BanditId,
    BanditState,
)
from hedgerow.rollouts.bandits.store import BanditContext, BanditFilter, BanditStore, BanditWrite
from hedgerow.rollouts.bandits.transitions import KIND
from hedgerow.rollouts.guides import GuideAuthor, Transition
from hedgerow.rollouts.operations import GuideOperations

MakeBanditTransition = Callable[[BanditContext, Bandit, Transition], BanditWrite]


class Bandits(GuideOperations[BanditId, Bandit, BanditContext, BanditWrite]):
    kind = KIND

    def __init__(
        self,
        store: BanditStore,
        experiments: ExperimentStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        super().__init__(store, flag_cache, load_cipher)
        self._store = store
        self._experiments = experiments
        self._executor = executor

    async def list_bandits(
        self, project: Project, wanted: BanditFilter
    ) -> tuple[Sequence[Bandit], int]:
        return await self._store.bandits(project.id, wanted)

    async def find(self, project: Project, id: BanditId) -> Bandit:
        found = await self._store.bandit(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def list_allocations(
        self, bandit: Bandit, limit: int, offset: int
    ) -> tuple[Sequence[Allocation], int]:
        return await self._store.allocations(bandit, limit, offset)

    async def read_experiment(self, project: Project, id: ExperimentId) -> dict[str, Any]:
        """Return the flag, the first metric and the exposure criteria of an experiment, as fields
        of a bandit."""
        found = await self._experiments.experiment(project.id, id)
        if found is None or found[0].deleted:
            detail = f'There is no experiment with the id "{id}".'
            raise Invalid(detail, attr="experiment", code="does_not_exist")
        experiment = found[0]
        if not experiment.metrics:
            raise Invalid("The experiment has no metric.", attr="experiment")
        return {
            "flag_id": experiment.flag_id,
            "metric": experiment.metrics[0],
            "exposure_criteria": dict(experiment.exposure_criteria),
        }

    async def start_approved(
        self, project: Project, requests: ChangeRequests, request: ChangeRequest, now: datetime
    ) -> ChangeRequest:
        """Start or resume the bandit of a request that has got its last approval, and return the
        request after it. Others are returned as they are."""
        wanted = (ResourceType.BANDIT, RequestState.APPROVED)
        if (request.resource_type, request.state) != wanted or request.resource_id is None:
            return request
        author = GuideAuthor(actor=request.author, user_uuid=request.author_uuid)
        try:
            bandit = await self.find(project, BanditId(int(request.resource_id)))
            is_paused = bandit.state is BanditState.PAUSED
            step = transitions.resume if is_paused else transitions.start
            await self.make(project, bandit.id, step, author, now)
        except AppError as error:
            if error.is_server_error:
                raise  # a database is away: the request stays approved
            return await requests.refuse_approved(project, request.id, error, now)
        return await requests.find(project, request.id)

    def _build(self, fields: Mapping[str, Any]) -> Bandit:
        return Bandit(id=BanditId(0), **fields)

    def _build_write(
        self,
        guide: Bandit,
        build_entry: Callable[[Bandit], ActivityEntry | None],
        *,
        is_deleted: bool = False,
    ) -> BanditWrite:
        return BanditWrite(bandit=guide, build_entry=build_entry, is_deleted=is_deleted)

    async def _check_query(self, project: Project, guide: Bandit, now: datetime) -> None:
        flag = await self.find_flag(project, guide)
        parse_goal(guide.metric)
        parse_exposure(guide.exposure_criteria, flag.key)
        context = await self._executor.load_context(project, now, list_documents(guide))
        # Any period will do: the query is only compiled.
        since = now - timedelta(days=1)
        await self._executor.run_compilation(
            context, partial(compile_evidence, guide, flag, since, context)
        )


def list_documents(bandit: Bandit) -> list[Any]:
    """Return what the query depends on: filters and HogQL."""
    return [True, bandit.metric, bandit.exposure_criteria]
