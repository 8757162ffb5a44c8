"""Evaluate a flag before it is saved: for one person with the reasons, and for many stored persons
with counts."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.edits import NEW, FlagFields, apply_fields, drop_unchanged_filters
from hedgerow.flags.evaluation.blast_radius import check_counted
from hedgerow.flags.evaluation.bucket import bucket_position, encode_identifier
from hedgerow.flags.evaluation.compile import CompiledFlag, rollout_percentage_of
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import Explanation
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.flag_values import list_property_keys
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.flags import new_flag
from hedgerow.flags.model import Flag, FlagId, FlagOutcome
from hedgerow.flags.store import (
    EvaluatedPerson,
    EvaluatedPersonStore,
    EvaluationDataStore,
    PersonPage,
)
from hedgerow.flags.validate import referenced_flag_ids
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project

MAX_PERSONS = 10_000
# A small page first: a busy machine must count some persons in time.
FIRST_PAGE_PERSONS = 500
PAGE_PERSONS = 2_000
# A preview ends with what it has then.
MAX_PREVIEW_S = 0.3
# The longest that one person may take at worst.
MAX_PERSON_COST_US = 20_000

Evaluate = Callable[[EvaluationContext], FlagOutcome]


@dataclass(slots=True, kw_only=True)
class ConditionCounts:
    """The persons whose properties match, those of them in the rollout, and those whom no earlier
    condition decides."""

    matches: int = 0
    gets: int = 0
    decides: int = 0


@dataclass(slots=True, kw_only=True)
class Preview:
    """`values` counts the persons by the value that they get; so does `changes` by the saved and
    the new value, for those who get another one."""

    total: int
    sampled: int = 0
    conditions: Sequence[ConditionCounts] = ()
    values: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A flag as it would be saved, among those that it depends on. `saved` is None for a new
    flag."""

    flag: Flag
    snapshot: FlagSnapshot
    saved: FlagSnapshot | None


class DraftEvaluation:
    def __init__(
        self, flag_cache: FlagCache, data: EvaluationDataStore, persons: EvaluatedPersonStore
    ) -> None:
        self._flag_cache = flag_cache
        self._data = data
        self._persons = persons

    async def explain(
        self,
        project: Project,
        draft: "DraftFields",
        request: EvaluationRequest,
        actor: Actor,
        now: datetime,
    ) -> Explanation:
        """Explain the value that a person would get. Unknown group types are ignored."""
        built = await self._build_existing(project, draft, actor, now)
        types = built.snapshot.definitions.group_types
        groups = {name: key for name, key in request.groups.items() if name in types}
        distinct_id = request.distinct_id[:DISTINCT_ID_MAX_CHARS]
        stored = await self._data.load(
            project.id, distinct_id, {types[name]: key for name, key in groups.items()}
        )
        keys = frozenset((built.flag.key,))
        wanted = EvaluationRequest(
            distinct_id=distinct_id,
            person_properties=request.person_properties,
            groups=groups,
            group_properties={
                name: each for name, each in request.group_properties.items() if name in groups
            },
            flag_keys=keys,
        )
        found = await run_in_thread(lambda: explain_flags(built.snapshot, wanted, stored, now))
        return found[0]

    async def preview(
        self, project: Project, draft: "DraftFields", actor: Actor, now: datetime
    ) -> Preview:
        """Evaluate the draft and the saved flag for the newest persons, as many as time allows."""
        ends_at_s = time.monotonic() + MAX_PREVIEW_S
        built = await self._build_existing(project, draft, actor, now)
        _check_cost(_find_compiled(built.snapshot, built.flag.id))
        check_counted(built.snapshot.predicates)
        preview = Preview(total=await self._persons.count_persons(project.id))
        counter = _Counter(built, preview, now)
        page = PersonPage(
            project_id=project.id,
            limit=FIRST_PAGE_PERSONS,
            older_than=None,
            property_keys=counter.property_keys,
            cohorts=counter.needs_cohorts,
            hash_keys=counter.needs_hash_keys,
            behaviors=counter.needs_behaviors,
        )
        while persons := await self._persons.load_page(page):
            await run_in_thread(partial(counter.count, persons, ends_at_s))
            left = MAX_PERSONS - preview.sampled
            if left <= 0 or time.monotonic() > ends_at_s:
                break
            page = replace(page, older_than=persons[-1].id, limit=min(left, PAGE_PERSONS))
        return preview

    async def _build_existing(
        self, project: Project, draft: "DraftFields", actor: Actor, now: datetime
    ) -> Draft:
        built = await self.build(project, draft, actor, now)
        if built.flag.deleted:
            raise Invalid(
                "A deleted flag has no value. Leave this field out, or ask what_if/ who would get "
                "another value.",
                attr="deleted",
                code="not_supported",
            )
        return built

    async def build(
        self, project: Project, draft: "DraftFields", actor: Actor, now: datetime
    ) -> Draft:
        """Compile a draft, which may delete the flag, and the saved flag. Raises NotFound and
        Invalid."""
        snapshot = await self._flag_cache.refresh(project)
        flags = {each.id: each for each in snapshot.definitions.flags if not each.deleted}
        if draft.id is not None and draft.id not in flags:
            raise NotFound
        before = new_flag(project, actor, now) if draft.id is None else flags[draft.id]
        fields = drop_unchanged_filters(before, draft.fields)
        after = apply_fields(before, fields, snapshot.definitions)
        saved = None if before.id == NEW else before
        return await run_in_thread(lambda: _build_draft(snapshot, after, saved))


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFields:
    """The edited fields of the flag with this id; of a new flag without."""

    id: FlagId | None
    fields: FlagFields


class _Counter:
    """`property_keys` are the properties that the saved or the new value depends on."""

    def __init__(self, draft: Draft, preview: Preview, now: datetime) -> None:
        self._preview = preview
        self._now = now
        compiled = _find_compiled(draft.snapshot, draft.flag.id)
        self._conditions = compiled.conditions
        groups = draft.flag.filters.get("groups") or []
        self._limits = [rollout_percentage_of(groups[each.index]) for each in self._conditions]
        self._evaluate = _build_evaluation(draft.snapshot, draft.flag.id)
        self._evaluate_saved = None
        snapshots = [draft.snapshot]
        # An unchanged flag changes nothing for any person.
        if (
            draft.saved is not None
            and _find_compiled(draft.saved, draft.flag.id).flag != draft.flag
        ):
            self._evaluate_saved = _build_evaluation(draft.saved, draft.flag.id)
            snapshots.append(draft.saved)
        self._prefix = encode_identifier(f"{draft.flag.key}.")
        self.property_keys = frozenset[str]().union(*map(list_property_keys, snapshots))
        self.needs_cohorts = any(each.has_static_cohorts for each in snapshots)
        self.needs_hash_keys = any(each.continuity_keys for each in snapshots)
        self.needs_behaviors = any(each.uses_behaviors for each in snapshots)
        preview.conditions = [ConditionCounts() for _ in self._conditions]

    def count(self, persons: Sequence[EvaluatedPerson], ends_at_s: float) -> None:
        for person in persons:
            self._count_one(person)
            if time.monotonic() > ends_at_s:
                break

    def _count_one(self, person: EvaluatedPerson) -> None:
        preview = self._preview
        context = self._build_context(person)
        outcome = self._evaluate(context)
        preview.sampled += 1
        value = _format_value(outcome)
        preview.values[value] += 1
        self._count_conditions(context, outcome)
        if self._evaluate_saved is not None:
            context.results, context.cohort_results = {}, {}
            before = _format_value(self._evaluate_saved(context))
            if before != value:
                preview.changes[before, value] += 1

    def _count_conditions(self, context: EvaluationContext, outcome: FlagOutcome) -> None:
        place = bucket_position(self._prefix, context.identifier)
        for counts, condition, limit in zip(
            self._preview.conditions, self._conditions, self._limits, strict=True
        ):
            if not condition.predicate(context):
                continue
            counts.matches += 1
            is_in = place <= limit / 100
            counts.gets += is_in
            counts.decides += is_in and outcome.condition_index == condition.index

    def _build_context(self, person: EvaluatedPerson) -> EvaluationContext:
        context = EvaluationContext(distinct_id=person.distinct_id, now=self._now)
        context.add_stored_data(
            person.properties,
            groups={},
            cohorts=person.cohorts,
            hash_keys=person.hash_keys,
            behaviors=person.behaviors,
        )
        return context


def _build_draft(snapshot: FlagSnapshot, flag: Flag, saved: Flag | None) -> Draft:
    return Draft(
        flag=flag,
        snapshot=build_with(snapshot, flag),
        saved=None if saved is None else build_with(snapshot, saved),
    )


def build_with(snapshot: FlagSnapshot, flag: Flag) -> FlagSnapshot:
    """Compile a flag with those that it depends on."""
    ids = referenced_flag_ids(flag.filters)
    keys = [each.key for each in snapshot.definitions.flags if each.id in ids]
    others = [each.flag for each in snapshot.select(keys) if each.flag.id != flag.id]
    return build_snapshot(replace(snapshot.definitions, flags=[*others, flag]))


def _find_compiled(snapshot: FlagSnapshot, id: FlagId) -> CompiledFlag:
    return snapshot.compiled[id]


def _check_cost(compiled: CompiledFlag) -> None:
    if any(each.group_index is not None for each in compiled.conditions):
        raise Invalid(
            "A preview counts persons, and a condition of this flag is about groups. Explain the "
            "flag for one person and its groups instead.",
            attr="filters",
            code="not_supported",
        )
    if compiled.cost_us > MAX_PERSON_COST_US:
        raise Invalid(
            "The filters of this flag take too long for a preview. Use shorter patterns or fewer "
            "values.",
            attr="filters",
        )


def _build_evaluation(snapshot: FlagSnapshot, id: FlagId) -> Evaluate:
    plan = snapshot.plan(snapshot.all_flags)

    def evaluate(context: EvaluationContext) -> FlagOutcome:
        outcomes = snapshot.evaluate_plan(plan, context)
        context.results = {each.flag.id: each for each in outcomes}
        return context.results[id]

    return evaluate


def _format_value(outcome: FlagOutcome) -> str:
    value: Any = outcome.value
    return value if isinstance(value, str) else str(bool(value)).lower()
