"""Compile a flag's definition to a function of an evaluation context, once for each change.

The function gets the context and the predicate results so far, and returns one of the outcomes that
were created at compile time. Most flags are one condition on distinct ids; the snapshot results
those together, because they decide how many people a server can serve.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hedgerow.filters.values import MISSING
from hedgerow.flags.evaluation.bucket import (
    HOLDOUT,
    VARIANT,
    encode_identifier,
    limit_below,
    limit_up_to,
    select_hasher,
)
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.predicates import (
    CHECK_INTERVAL_US,
    ContextPredicate,
    InvalidDefinition,
    PredicateTable,
    parse_dependency,
)
from hedgerow.flags.model import Bucketing, Flag, FlagId, FlagOutcome, Reason
from hedgerow.flags.validate import super_groups

PredicateResults = dict[int, bool]
Evaluate = Callable[[EvaluationContext, PredicateResults], FlagOutcome]
# Returns the identifier that a condition buckets by, None if the context has none.
Identify = Callable[[EvaluationContext], bytes | None]
VariantLimits = Sequence[tuple[bytes, FlagOutcome]]

ENROLLMENT = "$feature_enrollment/"
# A condition without filters: its identifier is hashed.
CONDITION_COST_US = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCondition:
    """One condition set. `limit` is None for a full rollout. `variants` holds the upper limit and
    the outcome of each variant. `cost_us` is how long it can take at worst."""

    index: int
    filters: Sequence[Mapping[str, Any]]
    predicate_id: int
    predicate: ContextPredicate
    cost_us: int
    group_index: int | None
    identify: Identify
    needs_identifier: bool
    is_by_device: bool
    limit: bytes | None
    variants: VariantLimits
    on: FlagOutcome
    out: FlagOutcome
    no_match: FlagOutcome
    no_group: FlagOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFlag:
    """A simple flag is one condition on distinct ids and nothing else; the snapshot evaluates
    simple flags with the same predicate together. `weight` is the number of its filters and
    conditions, `cost_us` how long an evaluation can take at worst."""

    flag: Flag
    evaluate: Evaluate
    failure: FlagOutcome
    conditions: Sequence[CompiledCondition] = ()
    dependencies: frozenset[FlagId] = frozenset()
    simple_condition: CompiledCondition | None = None
    weight: int = 1
    cost_us: int = 1


def compile_flag(flag: Flag, predicates: PredicateTable) -> CompiledFlag:
    """Compile a flag. Never raises: an invalid definition becomes a flag whose evaluation fails."""
    failed = FlagOutcome(flag, False, Reason.FAILED, error="evaluation_error")
    if not flag.active:
        return _compile_constant(flag, FlagOutcome(flag, False, Reason.DISABLED), failed)
    try:
        return _compile_active(flag, predicates, failed)
    except InvalidDefinition as error:
        broken = FlagOutcome(flag, False, Reason.FAILED, error=str(error))
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
        broken = FlagOutcome(flag, False, Reason.FAILED, error="the definition is invalid")
    return _compile_constant(flag, broken, broken)


def compile_missing_dependency(flag: Flag) -> CompiledFlag:
    outcome = FlagOutcome(flag, False, Reason.MISSING_DEPENDENCY)
    return _compile_constant(flag, outcome, outcome)


def _compile_constant(flag: Flag, outcome: FlagOutcome, failed: FlagOutcome) -> CompiledFlag:
    return CompiledFlag(flag=flag, evaluate=lambda context, results: outcome, failure=failed)


def _compile_active(flag: Flag, predicates: PredicateTable, failed: FlagOutcome) -> CompiledFlag:
    filters = wrap_legacy_filters(flag.filters)
    shares = cumulative_variant_shares(filters)
    conditions = [
        _compile_condition(flag, filters, index, group, shares, predicates)
        for index, group in enumerate(filters["groups"])
    ]
    all_filters = [each for condition in conditions for each in condition.filters]
    for group in super_groups(filters):
        all_filters += group.get("properties") or []
    dependencies = frozenset(
        id for each in all_filters if (id := parse_dependency(each)) is not None
    )
    cost_us = 1 + sum(each.cost_us for each in conditions)
    for group in super_groups(filters):
        cost_us += predicates.cost_us(predicates.compile_all(group.get("properties") or [])[1])
    general = _compile_conditions(flag, conditions, bool(filters.get("early_exit")))
    run = general
    for wrap in (_wrap_holdout, _wrap_super_group, _wrap_enrollment):
        run = wrap(flag, filters, run, predicates)
    is_simple = (
        run is general
        and len(conditions) == 1
        and not dependencies
        and conditions[0].group_index is None
        and flag.bucketing_identifier is Bucketing.DISTINCT_ID
        and not flag.ensure_experience_continuity
    )
    return CompiledFlag(
        flag=flag,
        evaluate=run,
        failure=failed,
        conditions=conditions,
        dependencies=dependencies,
        simple_condition=conditions[0] if is_simple else None,
        weight=1 + len(conditions) + len(all_filters),
        cost_us=cost_us,
    )


def wrap_legacy_filters(filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wrap a legacy definition, which is a single condition."""
    if "groups" in filters:
        return filters
    condition = {
        "properties": filters.get("properties") or [],
        "rollout_percentage": filters.get("rollout_percentage"),
    }
    return {**filters, "groups": [condition]}


def cumulative_variant_shares(filters: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return each variant with the upper end of its range."""
    variants = (filters.get("multivariate") or {}).get("variants") or []
    ends = accumulate(rollout_percentage_of(variant) / 100 for variant in variants)
    return [(str(variant["key"]), end) for variant, end in zip(variants, ends, strict=True)]


def rollout_percentage_of(holder: Mapping[str, Any]) -> float:
    percentage = holder.get("rollout_percentage")
    return 100.0 if percentage is None else float(percentage)


def _compile_condition(
    flag: Flag,
    filters: Mapping[str, Any],
    index: int,
    group: Mapping[str, Any],
    shares: Sequence[tuple[str, float]],
    predicates: PredicateTable,
) -> CompiledCondition:
    group_index = group.get(
        "aggregation_group_type_index", filters.get("aggregation_group_type_index")
    )
    own_filters = [resolve_group_index(each, group_index) for each in group.get("properties") or []]
    number, predicate = predicates.compile_all(own_filters)
    percentage = rollout_percentage_of(group)
    forced = group.get("variant")
    on = FlagOutcome(flag, True, Reason.MATCH, index)
    if forced in [key for key, _ in shares]:
        on, shares = FlagOutcome(flag, str(forced), Reason.MATCH, index), ()
    limit = None if percentage == 100 else limit_up_to(percentage / 100)
    by_device = group_index is None and flag.bucketing_identifier is Bucketing.DEVICE_ID
    return CompiledCondition(
        index=index,
        filters=own_filters,
        predicate_id=number,
        predicate=predicate,
        cost_us=CONDITION_COST_US + predicates.cost_us(predicate),
        group_index=group_index,
        identify=select_identifier(flag, group_index),
        needs_identifier=limit is not None or bool(shares),
        is_by_device=by_device,
        limit=limit,
        variants=[
            (limit_below(end), FlagOutcome(flag, key, Reason.MATCH, index)) for key, end in shares
        ],
        on=on,
        out=FlagOutcome(flag, False, Reason.OUT_OF_ROLLOUT, index),
        no_match=FlagOutcome(flag, False, Reason.NO_MATCH, index),
        no_group=FlagOutcome(flag, False, Reason.NO_GROUP_TYPE, index),
    )


def resolve_group_index(filter: Any, group_index: int | None) -> Any:
    """Add the group type of the condition to a group filter that has none."""
    if not isinstance(filter, Mapping) or filter.get("type") != "group":
        return filter
    return {"group_type_index": group_index, **filter}


def select_identifier(flag: Flag, group_index: int | None) -> Identify:
    if group_index is not None:

        def by_group(context: EvaluationContext) -> bytes | None:
            key = context.groups.get(group_index)
            return None if key is None else encode_identifier(key)

        return by_group
    if flag.bucketing_identifier is Bucketing.DEVICE_ID:
        return lambda context: context.device_identifier
    if flag.ensure_experience_continuity:
        return lambda context: context.hash_keys[flag.key]
    return lambda context: context.identifier


def _compile_conditions(
    flag: Flag, conditions: Sequence[CompiledCondition], early_exit: bool
) -> Evaluate:
    if not conditions:
        nothing = FlagOutcome(flag, False, Reason.NO_MATCH)
        return lambda context, results: nothing
    return _compile_sequence(conditions, encode_identifier(f"{flag.key}."), early_exit)


def _compile_sequence(
    conditions: Sequence[CompiledCondition], prefix: bytes, early_exit: bool
) -> Evaluate:
    """Evaluate the conditions in their order; the first match wins. Without a match, the outcome
    has the highest reason: out of rollout, then no match, then no group. Of equals, the last
    one."""

    checkpoints = _place_checkpoints(conditions)

    def run(context: EvaluationContext, results: PredicateResults) -> FlagOutcome:
        out = no_match = None
        for condition in conditions:
            if condition.index in checkpoints:
                context.budget.check()
            index = condition.group_index
            if index is not None and not context.groups.get(index):
                continue
            if condition.is_by_device and context.device_identifier is None:
                out = condition.out
                continue
            matched = results.get(condition.predicate_id)
            if matched is None:
                matched = results[condition.predicate_id] = condition.predicate(context)
            if not matched:
                no_match = condition.no_match
                continue
            outcome = _roll_out(condition, context, prefix)
            if outcome is not condition.out:
                return outcome
            out = outcome
            if early_exit:
                break
        return out or no_match or conditions[-1].no_group

    return run


def _place_checkpoints(conditions: Sequence[CompiledCondition]) -> frozenset[int]:
    """Return the conditions before which the budget is checked."""
    found = set()
    cost_us = 0
    for condition in conditions:
        if cost_us >= CHECK_INTERVAL_US:
            found.add(condition.index)
            cost_us = 0
        cost_us += condition.cost_us
    return frozenset(found)


def _roll_out(
    condition: CompiledCondition, context: EvaluationContext, prefix: bytes
) -> FlagOutcome:
    if not condition.needs_identifier:
        return condition.on
    identifier = condition.identify(context)
    if identifier is None:
        return condition.out
    hash = select_hasher(identifier)
    limit = condition.limit
    if limit is not None and not hash(prefix + identifier).digest() < limit:
        return condition.out
    if condition.variants:
        digest = hash(prefix + identifier + VARIANT).digest()
        for end, variant in condition.variants:
            if digest < end:
                return variant
    return condition.on


def _wrap_enrollment(
    flag: Flag, filters: Mapping[str, Any], run: Evaluate, _: PredicateTable
) -> Evaluate:
    """An early access enrollment or opt-out takes precedence over the conditions."""
    if filters.get("feature_enrollment") is not True:
        return run
    key = ENROLLMENT + flag.key
    enrolled = FlagOutcome(flag, True, Reason.SUPER_CONDITION, 0)
    opted_out = FlagOutcome(flag, False, Reason.SUPER_CONDITION, 0)

    def evaluate(context: EvaluationContext, results: PredicateResults) -> FlagOutcome:
        choice = context.person[key]
        if choice is MISSING:
            return run(context, results)
        return enrolled if choice is True or choice == "true" else opted_out

    return evaluate


def _wrap_super_group(
    flag: Flag, filters: Mapping[str, Any], run: Evaluate, predicates: PredicateTable
) -> Evaluate:
    """The legacy form of enrollment: final for persons that have one of its properties."""
    groups = filters.get("super_groups")
    if not groups:
        return run
    group = groups[0]
    keys = [str(each["key"]) for each in group.get("properties") or []]
    _, predicate = predicates.compile_all(group.get("properties") or [])
    limit = limit_up_to(rollout_percentage_of(group) / 100)
    prefix = encode_identifier(f"{flag.key}.")
    on = FlagOutcome(flag, True, Reason.SUPER_CONDITION, 0)
    off = FlagOutcome(flag, False, Reason.SUPER_CONDITION, 0)

    def evaluate(context: EvaluationContext, results: PredicateResults) -> FlagOutcome:
        if keys and all(context.person[key] is MISSING for key in keys):
            return run(context, results)
        matched = (
            predicate(context) and context.hasher(prefix + context.identifier).digest() < limit
        )
        return on if matched else off

    return evaluate


def _wrap_holdout(
    flag: Flag, filters: Mapping[str, Any], run: Evaluate, _: PredicateTable
) -> Evaluate:
    """Persons in a holdout are in it for every flag: the hash does not include the flag key."""
    holdout = parse_holdout(filters)
    if holdout is None:
        return run
    percentage, variant = holdout
    limit = limit_up_to(min(max(percentage, 0.0), 100.0) / 100)
    held_out = FlagOutcome(flag, variant, Reason.HOLDOUT)
    identify = select_identifier(flag, filters.get("aggregation_group_type_index"))

    def evaluate(context: EvaluationContext, results: PredicateResults) -> FlagOutcome:
        identifier = identify(context)
        if identifier is not None:
            digest = select_hasher(identifier)(HOLDOUT + identifier).digest()
            if digest < limit:
                return held_out
        return run(context, results)

    return evaluate


def parse_holdout(filters: Mapping[str, Any]) -> tuple[float, str] | None:
    holdout = filters.get("holdout")
    if holdout:
        return float(holdout.get("exclusion_percentage") or 0), f"holdout-{holdout['id']}"
    groups = filters.get("holdout_groups")
    if not groups or groups[0].get("properties"):
        return None
    return rollout_percentage_of(groups[0]), str(groups[0].get("variant") or "holdout")
