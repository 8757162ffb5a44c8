"""The flags of a product as code: one document for all environments."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.flags.as_code.apply import FlagsAsCode, PlanWriter, Rehearsed
from hedgerow.flags.as_code.document import FlagDocument, build_product_document
from hedgerow.flags.as_code.overrides import EnvironmentChoice
from hedgerow.flags.as_code.plan import FlagPlan
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.environments.store import EnvironmentStore, ProjectWriter
from hedgerow.flags.flags import Authorship
from hedgerow.flags.store import FlagStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project, ProjectId


class ProductAsCode:
    def __init__(self, flags: FlagStore, environments: EnvironmentStore) -> None:
        self._flags = flags
        self._as_code = FlagsAsCode(flags)
        self._environments = environments

    async def export(self, environments: Sequence[EnvironmentProject]) -> FlagDocument:
        return build_product_document(
            {
                each.name: await self._flags.definitions(each.project.id, each.project.timezone)
                for each in environments
            }
        )

    async def plan(
        self,
        targets: tuple[Mapping[str, Project], Sequence[str]],
        document: Any,
        *,
        prune: bool,
        actor: Actor,
        now: datetime,
    ) -> Mapping[str, FlagPlan]:
        """Plan the changes that the document requires. `targets` are projects by the name of their
        environment, and the names of all environments; none for a project without a product."""
        projects, known = targets
        return {
            name: await self._as_code.plan(
                project,
                document,
                choice=EnvironmentChoice(name=name, known=known) if known else None,
                prune=prune,
                actor=actor,
                now=now,
            )
            for name, project in projects.items()
        }

    async def rehearse(self, plans: Mapping[str, FlagPlan], actor: Actor, now: datetime) -> None:
        """Raise the error that `apply` would raise. Nothing is stored."""

        def end() -> None:
            raise Rehearsed

        with suppress(Rehearsed):
            await self._write(plans, Authorship(actor=actor, at=now), end)

    async def apply(self, plans: Mapping[str, FlagPlan], actor: Actor, now: datetime) -> None:
        """Apply the plans of all environments, or none of them."""
        await self._write(plans, Authorship(actor=actor, at=now), lambda: None)

    async def _write(
        self, plans: Mapping[str, FlagPlan], by: Authorship, end: Callable[[], None]
    ) -> None:
        def work(writers: Mapping[ProjectId, ProjectWriter]) -> None:
            for name, plan in plans.items():
                writer = writers[plan.project_id]
                if writer.definitions.generation != plan.base.generation:
                    raise Conflict(
                        f"The flags of {name} have changed since the plan was made. Make a new "
                        "plan first."
                    )
                PlanWriter(writer.store_flag, by).write(plan, writer.definitions)
            end()

        ids = [plan.project_id for plan in plans.values()]
        await self._environments.write_projects(ids, work, by.at)
