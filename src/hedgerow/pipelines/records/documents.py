"""Pipeline records as a document: export, plan and apply it."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.as_code import RecordsAsCode
from hedgerow.pipelines.records.document import SECTIONS
from hedgerow.pipelines.records.plan import FamilyPlan, RecordPlan
from hedgerow.projects.activity import MASK, Actor
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    PlanSummary,
    format_change,
    format_kept,
)
from hedgerow.projects.model import Project

# Fields that the heading of a record or the line about the order shows.
FIELDS_SHOWN_ELSEWHERE = ("plugin", "version", "order", "deleted", "name")


class RecordDocuments:
    def __init__(self, as_code: RecordsAsCode, catalogue: Catalogue) -> None:
        self._as_code = as_code
        self._catalogue = catalogue

    async def export(self, project: Project) -> ExportedDocument:
        document, missing = await self._as_code.document(project.id)
        count = sum(len(document[name]) for name in SECTIONS)
        return ExportedDocument(
            title="Pipeline records",
            document=document,
            count=f"{count} record(s)",
            notes=[
                f"left out: record {record.id} {json.dumps(record.name)}, because its component "
                "is not installed"
                for record in missing
            ],
        )

    async def plan(self, project: Project, request: DocumentRequest) -> DocumentPlan:
        plan = await self._as_code.plan(
            project.id,
            request.document,
            environment=request.environment,
            prune=request.prune,
            now=request.now,
        )
        return DocumentPlan(
            summary=self._summarize(plan),
            lines=list(self._describe(plan, request.actor)),
            apply=partial(self._as_code.apply, plan, request.actor, request.now),
        )

    def _summarize(self, plan: RecordPlan) -> PlanSummary:
        families = plan.families
        return PlanSummary(
            created=[self._name(record) for each in families for record in each.created],
            changed=[self._name(before) for each in families for before, _ in each.changed],
            deleted=[self._name(record) for each in families for record in each.deleted],
            kept=[self._name(record) for each in families for record in each.kept],
        )

    def _describe(self, plan: RecordPlan, actor: Actor) -> Iterator[str]:
        for family in plan.families:
            if not family.is_empty:
                yield next(name for name, its in SECTIONS.items() if its is family.family)
                yield from self._describe_family(family, actor)
            if family.kept:
                yield format_kept(self._format_name(record) for record in family.kept)

    def _describe_family(self, family: FamilyPlan, actor: Actor) -> Iterator[str]:
        for record in family.created:
            yield f"  + {self._format_name(record)}, new {self._component(record)}"
            yield from _describe_fields(self._as_code.changes(None, record, actor))
        for before, after in family.changed:
            changes = self._as_code.changes(before, after, actor)
            if set(changes) != {"order"}:
                yield f"  ~ {self._format_name(before)}"
                if "plugin" in changes:
                    old, new = self._component(before), self._component(after)
                    yield f"      component: {old} -> {new}"
                yield from _describe_fields(changes)
        for record in family.deleted:
            yield f"  - {self._format_name(record)}"
        if family.sequence is not None:
            names = (self._format_name(record) for record in family.sequence)
            yield f"  order: {', '.join(names)}"

    def _format_name(self, record: Record) -> str:
        quoted = json.dumps(record.name, ensure_ascii=False)
        return quoted if record.name else self._component(record)

    def _name(self, record: Record) -> str:
        return record.name or self._component(record)

    def _component(self, record: Record) -> str:
        component = self._catalogue.component(record.component_id)
        return component.key if component else f"component {record.component_id}, not installed"


def _describe_fields(changes: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for field, (before, after) in changes.items():
        if field in FIELDS_SHOWN_ELSEWHERE or (before is None and (after == "" or after is False)):
            continue
        label = field.replace("config.", "settings.", 1)
        if MASK in (before, after):
            change = "cleared" if after is None else "set" if before is None else "changed"
            yield f"      {label}: (secret) {change}"
        else:
            yield format_change(label, before, after)
