"""Operations on bandits: create, change, delete, and what persons do with running ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hedgerow.errors import AppError, Conflict, Invalid, NotFound
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.experiments.model import ExperimentId
from hedgerow.experiments.store import ExperimentStore
from hedgerow.flags.approvals.change_requests import ChangeRequests
from hedgerow.flags.approvals.model import ChangeRequest, RequestState, ResourceType
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag, FlagId
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from hedgerow.rollouts.bandits import transitions
from hedgerow.rollouts.bandits.evidence import compile_evidence, parse_exposure, parse_goal
from hedgerow.rollouts.bandits.model import (
    MAX_BANDITS,
    Allocation,
    Bandit,
    BanditId,
    BanditState,
)
from hedgerow.rollouts.bandits.store import BanditContext, BanditFilter, BanditStore, BanditWrite
from hedgerow.rollouts.bandits.transitions import KIND
from hedgerow.rollouts.guides import (
    GuideAuthor,
    Transition,
    build_asked_transition,
    get_known_flag,
)

SERVER_ERROR = 500

MakeBanditTransition = Callable[[BanditContext, Bandit, Transition], BanditWrite]


class Bandits:
    def __init__(
        self,
        store: BanditStore,
        experiments: ExperimentStore,
        executor: QueryExecutor,
        flag_cache: FlagCache,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        self._store = store
        self._experiments = experiments
        self._executor = executor
        self._flag_cache = flag_cache
        self._load_cipher = load_cipher

    async def list_bandits(
        self, project: Project, wanted: BanditFilter
    ) -> tuple[Sequence[Bandit], int]:
        return await self._store.bandits(project.id, wanted)

    async def find(self, project: Project, id: BanditId) -> Bandit:
        found = await self._store.bandit(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def find_flag(self, project: Project, bandit: Bandit) -> Flag:
        return get_known_flag(await self._store.flag(project.id, bandit.flag_id), bandit.flag_id)

    async def find_flag_keys(
        self, project: Project, bandits: Sequence[Bandit]
    ) -> Mapping[FlagId, str]:
        return await self._store.flag_keys(project.id, {each.flag_id for each in bandits})

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

    async def create(
        self, project: Project, fields: Mapping[str, Any], author: GuideAuthor, now: datetime
    ) -> Bandit:
        new = Bandit(
            id=BanditId(0),
            project_id=project.id,
            author=author.actor,
            author_uuid=author.user_uuid,
            created_at=now,
            updated_at=now,
            **fields,
        )
        await self._check_query(project, new, now)

        def decide(context: BanditContext) -> BanditWrite:
            if context.count >= MAX_BANDITS:
                detail = f"A project can have at most {MAX_BANDITS} bandits. Delete some first."
                raise Invalid(detail)
            _check_flag(context, new)
            return BanditWrite(
                bandit=new,
                build_entry=lambda made: KIND.build_entry("created", None, made, author.actor),
            )

        return await self._store.create(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: BanditId,
        fields: Mapping[str, Any],
        author: GuideAuthor,
        now: datetime,
    ) -> Bandit:
        """Change a draft."""
        await self._check_query(project, replace(await self.find(project, id), **fields), now)

        def decide(context: BanditContext, before: Bandit) -> BanditWrite:
            after = KIND.change_draft(before, fields, author, now)
            _check_flag(context, after)
            if after is before:
                return BanditWrite(bandit=before, build_entry=lambda _: None)
            entry = KIND.build_entry("updated", before, after, author.actor)
            return BanditWrite(bandit=after, build_entry=lambda _: entry)

        return await self._change(project, id, decide, now)

    async def delete(self, project: Project, id: BanditId, actor: Actor, now: datetime) -> None:
        def decide(_: BanditContext, bandit: Bandit) -> BanditWrite:
            if bandit.state.is_active:
                raise Conflict(f"The bandit is {bandit.state}. Stop it first.")
            entry = KIND.build_entry("deleted", bandit, None, actor)
            return BanditWrite(bandit=bandit, build_entry=lambda _: entry, is_deleted=True)

        await self._change(project, id, decide, now)

    async def make(
        self,
        project: Project,
        id: BanditId,
        step: MakeBanditTransition,
        author: GuideAuthor,
        now: datetime,
    ) -> Bandit:
        """Make a transition that a person asks for."""
        by = build_asked_transition(author, now, self._load_cipher)
        made = await self._change(project, id, lambda context, own: step(context, own, by), now)
        await self._flag_cache.refresh(project)
        return made

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
            if error.status >= SERVER_ERROR:
                raise  # a database is away: the request stays approved
            return await requests.refuse_approved(project, request.id, error, now)
        return await requests.find(project, request.id)

    async def _change(
        self,
        project: Project,
        id: BanditId,
        decide: Callable[[BanditContext, Bandit], BanditWrite],
        now: datetime,
    ) -> Bandit:
        changed = await self._store.change(project.id, id, decide, now)
        if changed is None:
            raise NotFound
        return changed

    async def _check_query(self, project: Project, bandit: Bandit, now: datetime) -> None:
        """Raise Invalid if the metric cannot be computed."""
        flag = await self.find_flag(project, bandit)
        parse_goal(bandit.metric)
        parse_exposure(bandit.exposure_criteria, flag.key)
        context = await self._executor.load_context(project, now, list_documents(bandit))
        # Any period will do: the query is only compiled.
        since = now - timedelta(days=1)
        await self._executor.run_compilation(
            context, partial(compile_evidence, bandit, flag, since, context)
        )


def list_documents(bandit: Bandit) -> list[Any]:
    """Return what the query depends on: filters and HogQL."""
    return [True, bandit.metric, bandit.exposure_criteria]


def _check_flag(context: BanditContext, bandit: Bandit) -> None:
    get_known_flag(context.find_flag(bandit.flag_id), bandit.flag_id)
