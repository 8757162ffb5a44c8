"""Pipeline records as code: a project's records as a document, and a document applied to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.pipelines.audit import Audit
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.document import composed, parsed
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.plan import Plan, Planner
from hedgerow.pipelines.store import Batch, Edited, RecordStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId


class AsCode:
    def __init__(self, store: RecordStore, catalogue: Catalogue, sealer: Sealer) -> None:
        self._store = store
        self._catalogue = catalogue
        self._sealer = sealer
        self._audit = Audit(catalogue)

    async def document(self, project_id: ProjectId) -> tuple[dict[str, Any], list[Record]]:
        """The document, and the records that are not in it because their component is gone."""
        records = await self._store.all_records(project_id)
        missing = [
            record for record in records if self._catalogue.component(record.component_id) is None
        ]
        return composed(records, self._catalogue), missing

    async def plan(
        self,
        project_id: ProjectId,
        document: Any,
        *,
        environment: Mapping[str, str],
        prune: bool,
        now: datetime,
    ) -> Plan:
        """What applying the document would do. Invalid names the place that cannot be applied."""
        planner = Planner(
            project_id=project_id,
            sealer=self._sealer,
            environment=environment,
            is_installed=lambda record: self._catalogue.component(record.component_id) is not None,
            prune=prune,
            now=now,
        )
        wanted = parsed(document, self._catalogue)
        return planner.plan(await self._store.all_records(project_id), wanted)

    async def apply(self, plan: Plan, actor: Actor, now: datetime) -> None:
        """Do all of it, or nothing if somebody changed a record since the plan was made."""
        batch = self._batch(plan, actor)

        def decide(present: Sequence[Record]) -> Batch:
            if list(present) != list(plan.seen):
                raise Conflict("The records were changed meanwhile. Look at the new plan first.")
            return batch

        await self._store.write_all(
            plan.project_id, decide, lambda record: self._audit.created(record, actor), now
        )

    def changes(
        self, before: Record | None, after: Record, actor: Actor
    ) -> Mapping[str, tuple[Any, Any]]:
        """Each field that differs: before and after, secrets masked."""
        entry = (
            self._audit.created(after, actor)
            if before is None
            else self._audit.change(before, after, actor)
        )
        changes = entry.changes if entry else ()
        return {change.field: (change.before, change.after) for change in changes}

    def _batch(self, plan: Plan, actor: Actor) -> Batch:
        pairs = [pair for family in plan.families for pair in family.changed]
        pairs += [
            (record, replace(record, deleted=True, enabled=False))
            for family in plan.families
            for record in family.deleted
        ]
        return Batch(
            added=[record for family in plan.families for record in family.created],
            edited=[
                Edited(record=after, entry=self._audit.change(before, after, actor))
                for before, after in pairs
            ],
        )
