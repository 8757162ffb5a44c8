"""Pipeline records as code: export a project's records as a document, and apply a document."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.lib.encryption import Cipher
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.audit import RecordAudit
from hedgerow.pipelines.records.document import build_document, parse_document
from hedgerow.pipelines.records.plan import RecordPlan, RecordPlanner
from hedgerow.pipelines.store import RecordChanges, RecordEdit, RecordStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId


class RecordsAsCode:
    def __init__(self, store: RecordStore, catalogue: Catalogue, cipher: Cipher) -> None:
        self._store = store
        self._catalogue = catalogue
        self._cipher = cipher
        self._audit = RecordAudit(catalogue)

    async def document(self, project_id: ProjectId) -> tuple[dict[str, Any], list[Record]]:
        """Return the document, and the records it omits because their component is missing."""
        records = await self._store.all_records(project_id)
        missing = [
            record for record in records if self._catalogue.component(record.component_id) is None
        ]
        return build_document(records, self._catalogue), missing

    async def plan(
        self,
        project_id: ProjectId,
        document: Any,
        *,
        environment: Mapping[str, str],
        prune: bool,
        now: datetime,
    ) -> RecordPlan:
        """Return what the document would change. Raises Invalid with the place of an error."""
        planner = RecordPlanner(
            project_id=project_id,
            cipher=self._cipher,
            environment=environment,
            is_installed=lambda record: self._catalogue.component(record.component_id) is not None,
            prune=prune,
            now=now,
        )
        specs = parse_document(document, self._catalogue)
        return planner.plan(await self._store.all_records(project_id), specs)

    async def apply(self, plan: RecordPlan, actor: Actor, now: datetime) -> None:
        """Apply the whole plan, or raise Conflict if a record has changed since it was made."""
        batch = self._batch(plan, actor)

        def decide(present: Sequence[Record]) -> RecordChanges:
            if list(present) != list(plan.records):
                raise Conflict(
                    "The records have changed since the plan was made. Review the new plan first."
                )
            return batch

        await self._store.write_all(
            plan.project_id, decide, lambda record: self._audit.build_created(record, actor), now
        )

    def changes(
        self, before: Record | None, after: Record, actor: Actor
    ) -> Mapping[str, tuple[Any, Any]]:
        """Return each field that differs, before and after, with secrets masked."""
        entry = (
            self._audit.build_created(after, actor)
            if before is None
            else self._audit.build_change(before, after, actor)
        )
        changes = entry.changes if entry else ()
        return {change.field: (change.before, change.after) for change in changes}

    def _batch(self, plan: RecordPlan, actor: Actor) -> RecordChanges:
        pairs = [pair for family in plan.families for pair in family.changed]
        pairs += [
            (record, replace(record, deleted=True, enabled=False))
            for family in plan.families
            for record in family.deleted
        ]
        return RecordChanges(
            added=[record for family in plan.families for record in family.created],
            edited=[
                RecordEdit(record=after, entry=self._audit.build_change(before, after, actor))
                for before, after in pairs
            ],
        )
