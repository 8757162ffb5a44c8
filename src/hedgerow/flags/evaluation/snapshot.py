"""The compiled flags of a project at one generation. Evaluation does no I/O and never raises."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hedgerow.flags.evaluation.bucket import VARIANT, encode_identifier
from hedgerow.flags.evaluation.compile import (
    CompiledFlag,
    PredicateResults,
    VariantLimits,
    compile_flag,
    compile_missing_dependency,
)
from hedgerow.flags.evaluation.evaluation_context import (
    BudgetExceeded,
    EvaluationContext,
    NeedsStoredData,
)
from hedgerow.flags.evaluation.predicates import (
    CHECK_INTERVAL_US,
    ContextPredicate,
    PredicateTable,
    match_all,
)
from hedgerow.flags.model import FlagDefinitions, FlagId, FlagOutcome, Runtime
from hedgerow.flags.validate import condition_sets
from hedgerow.lib import jsonio
from hedgerow.persons.model import Cohort

# A simple flag: its index, hash prefix, rollout limit if any, outcomes in and out of the rollout,
# and variants.
SimpleFlag = tuple[int, bytes, bytes | None, FlagOutcome, FlagOutcome, VariantLimits]
# Simple flags with the same predicate, and how long the predicate can take at worst.
SimpleGroup = tuple[ContextPredicate, list[SimpleFlag], int]
# A flag and its place in the outcomes.
IndexedFlag = tuple[int, CompiledFlag]

T = TypeVar("T")


class FlagSnapshot:
    """`all_flags` are the flags that are not deleted, each after its dependencies.
    `compiled_weight` is the weight of all flags that `predicates` was ever used for."""

    def __init__(
        self,
        definitions: FlagDefinitions,
        flags: Mapping[FlagId, CompiledFlag],
        predicates: PredicateTable,
        compiled_weight: int,
    ) -> None:
        self.definitions = definitions
        self.predicates = predicates
        self.compiled_weight = compiled_weight
        self.compiled = flags
        self.all_flags = _order_by_dependency(flags.values())
        self._by_key = {each.flag.key: each for each in self.all_flags}
        self._by_id = {each.flag.id: each for each in self.all_flags}
        self._plan = EvaluationPlan(self.all_flags)
        self._needed = frozenset(id for each in self.all_flags for id in each.dependencies)
        self.has_static_cohorts = any(cohort.is_static for cohort in definitions.cohorts)
        self.uses_behaviors = predicates.uses_behaviors
        self.uses_geoip = any("geoip_" in key for key in predicates.property_keys)
        self.uses_groups = any(_uses_groups(each.flag.filters) for each in self.all_flags)
        self.has_runtime_or_context_limits = any(
            each.flag.evaluation_contexts or each.flag.evaluation_runtime is not Runtime.ALL
            for each in self.all_flags
        )
        self.continuity_keys = tuple(
            each.flag.key
            for each in self.all_flags
            if each.flag.active and each.flag.ensure_experience_continuity
        )

    def get(self, key: str) -> CompiledFlag | None:
        return self._by_key.get(key)

    def select(self, keys: Collection[str]) -> tuple[CompiledFlag, ...]:
        """Return the flags with these keys and their dependencies, in evaluation order."""
        waiting = [each for key in keys if (each := self._by_key.get(key)) is not None]
        wanted = {each.flag.id for each in waiting}
        while waiting:
            for id in waiting.pop().dependencies - wanted:
                wanted.add(id)
                waiting.append(self._by_id[id])
        return tuple(each for each in self.all_flags if each.flag.id in wanted)

    def plan(self, flags: Sequence[CompiledFlag]) -> "EvaluationPlan":
        return self._plan if flags is self.all_flags else EvaluationPlan(flags)

    def evaluate(
        self,
        flags: Sequence[CompiledFlag],
        context: EvaluationContext,
        *,
        stop_at_stored_data: bool = False,
    ) -> list[FlagOutcome]:
        """Return the outcome of each flag. Sets `context.has_errors` if a flag fails. A flag that
        needs stored data fails and sets `context.needs_stored_data`; `stop_at_stored_data` stops
        there."""
        return self.evaluate_plan(self.plan(flags), context, stop_at_stored_data)

    def evaluate_plan(
        self, plan: "EvaluationPlan", context: EvaluationContext, stop_at_stored_data: bool = False
    ) -> list[FlagOutcome]:
        outcomes = plan.defaults.copy()
        plan.evaluate_simple(plan.groups, context, outcomes, stop_at_stored_data)
        if context.needs_stored_data and stop_at_stored_data:
            return outcomes
        if self._needed:
            self._share_results(plan.flags, context, outcomes)
        if plan.others:
            self._evaluate_others(plan.others, context, {}, outcomes, stop_at_stored_data)
        return outcomes

    def evaluate_in_parts(
        self,
        plan: "EvaluationPlan",
        context: EvaluationContext,
        outcomes: list[FlagOutcome],
        *,
        stop_at_stored_data: bool,
    ) -> Iterator[int]:
        """Do the same as `evaluate` in parts. Yields before each part how long it can take at
        worst, in microseconds; with `context.is_refused` set, its flags fail. `outcomes` starts
        with the plan's defaults."""
        for groups, cost_us in _split(plan.groups, _group_cost_us):
            yield cost_us
            if context.is_refused:
                plan.fail_simple(groups, context, outcomes)
            else:
                plan.evaluate_simple(groups, context, outcomes, stop_at_stored_data)
            if context.needs_stored_data and stop_at_stored_data:
                return
        if self._needed:
            self._share_results(plan.flags, context, outcomes)
        results: PredicateResults = {}
        for others, cost_us in _split(plan.others, lambda each: each[1].cost_us):
            yield cost_us
            self._evaluate_others(others, context, results, outcomes, stop_at_stored_data)
            if context.needs_stored_data and stop_at_stored_data:
                return

    def _share_results(
        self,
        flags: Sequence[CompiledFlag],
        context: EvaluationContext,
        outcomes: Sequence[FlagOutcome],
    ) -> None:
        """Make the outcomes of simple flags available to the flags that depend on them."""
        for index, each in enumerate(flags):
            if each.simple_condition is not None and each.flag.id in self._needed:
                context.results[each.flag.id] = outcomes[index]

    def _evaluate_others(
        self,
        others: Sequence[IndexedFlag],
        context: EvaluationContext,
        results: PredicateResults,
        outcomes: list[FlagOutcome],
        stop_at_stored_data: bool,
    ) -> None:
        for index, each in others:
            try:
                if context.is_refused:
                    raise BudgetExceeded
                outcome = each.evaluate(context, results)
            except NeedsStoredData:
                context.needs_stored_data = True
                if stop_at_stored_data:
                    return
                outcome = each.failure
            except BudgetExceeded:
                context.is_over_budget = True
                outcome = each.failure
            except Exception:  # noqa: BLE001 - one failing flag must not affect the others
                outcome = each.failure
            outcomes[index] = outcome
            if outcome.error:
                context.has_errors = True
            if each.flag.id in self._needed:
                context.results[each.flag.id] = outcome


class EvaluationPlan:
    """Flags prepared for fast evaluation: simple flags are grouped by their predicate. `cost_us` is
    how long the evaluation can take at worst."""

    def __init__(self, flags: Sequence[CompiledFlag]) -> None:
        self.flags = flags
        self.others: list[IndexedFlag] = [
            (index, each) for index, each in enumerate(flags) if each.simple_condition is None
        ]
        self.defaults = [
            each.simple_condition.no_match if each.simple_condition else each.failure
            for each in flags
        ]
        self._failed = [each.failure for each in flags]
        by_predicate: dict[int, SimpleGroup] = {}
        for index, each in enumerate(flags):
            plain = each.simple_condition
            if plain is not None:
                group = by_predicate.get(plain.predicate_id)
                if group is None:
                    group = by_predicate[plain.predicate_id] = (plain.predicate, [], plain.cost_us)
                prefix = encode_identifier(f"{each.flag.key}.")
                group[1].append((index, prefix, plain.limit, plain.on, plain.out, plain.variants))
        # Flags without filters come last: they cost the most hashing, which is wasted if another
        # flag stops the evaluation because it needs stored data.
        self.groups = sorted(by_predicate.values(), key=lambda each: each[0] is match_all)
        self.cost_us = sum(map(_group_cost_us, self.groups))
        self.cost_us += sum(each.cost_us for _, each in self.others)

    def evaluate_simple(
        self,
        groups: Sequence[SimpleGroup],
        context: EvaluationContext,
        outcomes: list[FlagOutcome],
        stop_at_stored_data: bool,
    ) -> None:
        for predicate, members, _ in groups:
            try:
                if predicate(context):
                    _roll_out(members, context, outcomes)
            except NeedsStoredData:
                context.needs_stored_data = True
                if stop_at_stored_data:
                    break
                self._fail(members, context, outcomes)
            except BudgetExceeded:
                context.is_over_budget = True
                self._fail(members, context, outcomes)
            except Exception:  # noqa: BLE001 - one failing flag must not affect the others
                self._fail(members, context, outcomes)

    def fail_simple(
        self,
        groups: Sequence[SimpleGroup],
        context: EvaluationContext,
        outcomes: list[FlagOutcome],
    ) -> None:
        context.is_over_budget = True
        for _, members, _ in groups:
            self._fail(members, context, outcomes)

    def _fail(
        self, members: Sequence[SimpleFlag], context: EvaluationContext, outcomes: list[FlagOutcome]
    ) -> None:
        context.has_errors = True
        for member in members:
            outcomes[member[0]] = self._failed[member[0]]


def _uses_groups(filters: Any) -> bool:
    """Return whether stored filters, which may be invalid, need groups."""
    index = "aggregation_group_type_index"
    if isinstance(filters, Mapping) and filters.get(index) is not None:
        return True
    return any(
        condition.get(index) is not None or any(map(_is_group_filter, _list_filters(condition)))
        for condition in condition_sets(filters)
    )


def _list_filters(condition: Mapping[str, Any]) -> list[Any]:
    found = condition.get("properties")
    return found if isinstance(found, list) else []


def _is_group_filter(filter: Any) -> bool:
    return isinstance(filter, Mapping) and filter.get("type") == "group"


def _group_cost_us(group: SimpleGroup) -> int:
    return group[2] + len(group[1])


def _split(items: Sequence[T], cost_us: Callable[[T], int]) -> Iterator[tuple[list[T], int]]:
    """Split into parts with their cost. A costly item is a part of its own."""
    part: list[T] = []
    total_us = 0
    for item in items:
        item_us = cost_us(item)
        if part and total_us + item_us > CHECK_INTERVAL_US:
            yield part, total_us
            part, total_us = [], 0
        part.append(item)
        total_us += item_us
    if part:
        yield part, total_us


def _roll_out(
    members: Sequence[SimpleFlag], context: EvaluationContext, outcomes: list[FlagOutcome]
) -> None:
    """Set the outcomes of simple flags whose predicate is true."""
    hash, id = context.hasher, context.identifier
    for index, prefix, limit, on, out, variants in members:
        if limit is not None and hash(prefix + id).digest() >= limit:
            outcomes[index] = out
            continue
        outcomes[index] = on
        if variants:
            digest = hash(prefix + id + VARIANT).digest()
            for end, variant in variants:
                if digest < end:
                    outcomes[index] = variant
                    break


def build_snapshot(
    definitions: FlagDefinitions, before: FlagSnapshot | None = None
) -> FlagSnapshot:
    """Compile new and changed flags; reuse the others from the previous snapshot."""
    known: Mapping[FlagId, CompiledFlag] = {}
    compiled_weight = 0
    if before is not None and _can_reuse(before, definitions):
        known, predicates, compiled_weight = (
            before.compiled,
            before.predicates,
            before.compiled_weight,
        )
    else:
        zone = _zone(definitions.timezone)
        predicates = PredicateTable(definitions.cohorts, zone, definitions.behaviors)
    flags = {}
    for flag in definitions.flags:
        if flag.deleted:
            continue
        each = known.get(flag.id)
        if each is None or not (each.flag is flag or each.flag == flag):
            each = compile_flag(flag, predicates)
            compiled_weight += each.weight
        flags[flag.id] = each
    return FlagSnapshot(definitions, flags, predicates, compiled_weight)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _can_reuse(before: FlagSnapshot, definitions: FlagDefinitions) -> bool:
    """The predicate table keeps unused predicates, so it is rebuilt once they are half of it."""
    in_use = sum(each.weight for each in before.compiled.values())
    return before.compiled_weight <= 2 * in_use and _has_same_inputs(
        before.definitions, definitions
    )


def _has_same_inputs(before: FlagDefinitions, after: FlagDefinitions) -> bool:
    return (
        before.timezone == after.timezone
        and before.behaviors == after.behaviors
        and len(before.cohorts) == len(after.cohorts)
        and all(map(_is_same_cohort, before.cohorts, after.cohorts))
    )


def _is_same_cohort(one: Cohort, other: Cohort) -> bool:
    """Whether two cohorts have the same members, regardless of name and author."""
    return one == other or (
        (one.id, one.is_static, one.deleted) == (other.id, other.is_static, other.deleted)
        and jsonio.is_equal(one.definition, other.definition)
    )


def _order_by_dependency(flags: Collection[CompiledFlag]) -> tuple[CompiledFlag, ...]:
    """Order the flags by their dependencies. A flag with a missing, inactive or cyclic dependency
    cannot be evaluated."""
    dependants: defaultdict[FlagId, list[CompiledFlag]] = defaultdict(list)
    for each in flags:
        for id in each.dependencies:
            dependants[id].append(each)
    unmet = {each.flag.id: len(each.dependencies) for each in flags}
    placed = [each for each in flags if not each.dependencies]
    for each in placed:  # grows during iteration
        for dependant in dependants[each.flag.id] if each.flag.active else ():
            unmet[dependant.flag.id] -= 1
            if not unmet[dependant.flag.id]:
                placed.append(dependant)
    left = (each for each in flags if unmet[each.flag.id])
    return (*placed, *(compile_missing_dependency(each.flag) for each in left))
