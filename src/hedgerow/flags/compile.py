"""A flag's definition as a function of a subject, made once for each change.

The function gets the subject and the answers it has given so far, and returns one of the outcomes
that were made beforehand. Most flags are one condition on distinct ids; the snapshot answers those
together, because they decide how many people a server can serve.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hedgerow.filters.values import MISSING
from hedgerow.flags.bucket import (
    HOLDOUT,
    VARIANT,
    hasher_for,
    identifier_bytes,
    limit_below,
    limit_up_to,
)
from hedgerow.flags.model import Bucketing, Flag, FlagId, Outcome, Reason
from hedgerow.flags.questions import Broken, Question, Questions, dependency_of
from hedgerow.flags.rules import super_groups
from hedgerow.flags.subject import Subject

Answers = dict[int, bool]
Run = Callable[[Subject, Answers], Outcome]
# The identifier by which somebody counts in a condition; None when there is none.
Identify = Callable[[Subject], bytes | None]
Variants = Sequence[tuple[bytes, Outcome]]

ENROLLMENT = "$feature_enrollment/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition set. `limit` is None when everybody is in; `variants` end with who is left."""

    index: int
    filters: Sequence[Mapping[str, Any]]
    number: int
    question: Question
    group_index: int | None
    identify: Identify
    needs_identifier: bool
    by_device: bool
    limit: bytes | None
    variants: Variants
    on: Outcome
    out: Outcome
    no_match: Outcome
    no_group: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A plain flag is one condition on distinct ids and nothing else: its run is `plain`, and
    those that ask the same question are answered together. `weight` is how much it asks."""

    flag: Flag
    run: Run
    failed: Outcome
    conditions: Sequence[Condition] = ()
    needs: frozenset[FlagId] = frozenset()
    plain: Condition | None = None
    weight: int = 1


def compiled(flag: Flag, questions: Questions) -> Compiled:
    """Never fails: a definition that cannot be read becomes a flag that fails alone."""
    failed = Outcome(flag, False, Reason.FAILED, error="evaluation_error")
    if not flag.active:
        return _constant(flag, Outcome(flag, False, Reason.DISABLED), failed)
    try:
        return _compiled(flag, questions, failed)
    except Broken as error:
        broken = Outcome(flag, False, Reason.FAILED, error=str(error))
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
        broken = Outcome(flag, False, Reason.FAILED, error="the definition cannot be read")
    return _constant(flag, broken, broken)


def missing_dependency(flag: Flag) -> Compiled:
    outcome = Outcome(flag, False, Reason.MISSING_DEPENDENCY)
    return _constant(flag, outcome, outcome)


def _constant(flag: Flag, outcome: Outcome, failed: Outcome) -> Compiled:
    return Compiled(flag=flag, run=lambda subject, answers: outcome, failed=failed)


def _compiled(flag: Flag, questions: Questions, failed: Outcome) -> Compiled:
    filters = with_groups(flag.filters)
    shares = variant_shares(filters)
    conditions = [
        _condition(flag, filters, index, group, shares, questions)
        for index, group in enumerate(filters["groups"])
    ]
    asked = [each for condition in conditions for each in condition.filters]
    for group in super_groups(filters):
        asked += group.get("properties") or []
    needs = frozenset(id for each in asked if (id := dependency_of(each)) is not None)
    general = _run_of(flag, conditions, bool(filters.get("early_exit")))
    run = general
    for wrap in (_with_holdout, _with_super_group, _with_enrollment):
        run = wrap(flag, filters, run, questions)
    is_plain = (
        run is general
        and len(conditions) == 1
        and not needs
        and conditions[0].group_index is None
        and flag.bucketing_identifier is Bucketing.DISTINCT_ID
        and not flag.ensure_experience_continuity
    )
    return Compiled(
        flag=flag,
        run=run,
        failed=failed,
        conditions=conditions,
        needs=needs,
        plain=conditions[0] if is_plain else None,
        weight=1 + len(conditions) + len(asked),
    )


def with_groups(filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Very old definitions are one condition."""
    if "groups" in filters:
        return filters
    condition = {
        "properties": filters.get("properties") or [],
        "rollout_percentage": filters.get("rollout_percentage"),
    }
    return {**filters, "groups": [condition]}


def variant_shares(filters: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Each variant with the share at which it ends."""
    variants = (filters.get("multivariate") or {}).get("variants") or []
    ends = accumulate(percentage_of(variant) / 100 for variant in variants)
    return [(str(variant["key"]), end) for variant, end in zip(variants, ends, strict=True)]


def percentage_of(holder: Mapping[str, Any]) -> float:
    percentage = holder.get("rollout_percentage")
    return 100.0 if percentage is None else float(percentage)


def _condition(
    flag: Flag,
    filters: Mapping[str, Any],
    index: int,
    group: Mapping[str, Any],
    shares: Sequence[tuple[str, float]],
    questions: Questions,
) -> Condition:
    group_index = group.get(
        "aggregation_group_type_index", filters.get("aggregation_group_type_index")
    )
    asked = [of_own_group(each, group_index) for each in group.get("properties") or []]
    number, question = questions.all_of(asked)
    percentage = percentage_of(group)
    forced = group.get("variant")
    on = Outcome(flag, True, Reason.MATCH, index)
    if forced in [key for key, _ in shares]:
        on, shares = Outcome(flag, str(forced), Reason.MATCH, index), ()
    limit = None if percentage == 100 else limit_up_to(percentage / 100)
    by_device = group_index is None and flag.bucketing_identifier is Bucketing.DEVICE_ID
    return Condition(
        index=index,
        filters=asked,
        number=number,
        question=question,
        group_index=group_index,
        identify=identifier_of(flag, group_index),
        needs_identifier=limit is not None or bool(shares),
        by_device=by_device,
        limit=limit,
        variants=[
            (limit_below(end), Outcome(flag, key, Reason.MATCH, index)) for key, end in shares
        ],
        on=on,
        out=Outcome(flag, False, Reason.OUT_OF_ROLLOUT, index),
        no_match=Outcome(flag, False, Reason.NO_MATCH, index),
        no_group=Outcome(flag, False, Reason.NO_GROUP_TYPE, index),
    )


def of_own_group(filter: Any, group_index: int | None) -> Any:
    """A group filter that names no group type is about the condition's own."""
    if not isinstance(filter, Mapping) or filter.get("type") != "group":
        return filter
    return {"group_type_index": group_index, **filter}


def identifier_of(flag: Flag, group_index: int | None) -> Identify:
    if group_index is not None:

        def by_group(subject: Subject) -> bytes | None:
            key = subject.groups.get(group_index)
            return None if key is None else identifier_bytes(key)

        return by_group
    if flag.bucketing_identifier is Bucketing.DEVICE_ID:
        return lambda subject: subject.device
    if flag.ensure_experience_continuity:
        return lambda subject: subject.hash_keys[flag.key]
    return lambda subject: subject.id


def _run_of(flag: Flag, conditions: Sequence[Condition], early_exit: bool) -> Run:
    if not conditions:
        nothing = Outcome(flag, False, Reason.NO_MATCH)
        return lambda subject, answers: nothing
    return _general_run(conditions, identifier_bytes(f"{flag.key}."), early_exit)


def _general_run(conditions: Sequence[Condition], prefix: bytes, early_exit: bool) -> Run:
    """Conditions in their order; the first that holds wins. Of those that do not, the highest
    reason is told: out of the rollout, then no match, then no group; of equals the last."""

    def run(subject: Subject, answers: Answers) -> Outcome:
        out = no_match = None
        for condition in conditions:
            index = condition.group_index
            if index is not None and not subject.groups.get(index):
                continue
            if condition.by_device and subject.device is None:
                out = condition.out
                continue
            matched = answers.get(condition.number)
            if matched is None:
                matched = answers[condition.number] = condition.question(subject)
            if not matched:
                no_match = condition.no_match
                continue
            outcome = _rolled_out(condition, subject, prefix)
            if outcome is not condition.out:
                return outcome
            out = outcome
            if early_exit:
                break
        return out or no_match or conditions[-1].no_group

    return run


def _rolled_out(condition: Condition, subject: Subject, prefix: bytes) -> Outcome:
    if not condition.needs_identifier:
        return condition.on
    identifier = condition.identify(subject)
    if identifier is None:
        return condition.out
    hash = hasher_for(identifier)
    limit = condition.limit
    if limit is not None and not hash(prefix + identifier).digest() < limit:
        return condition.out
    if condition.variants:
        digest = hash(prefix + identifier + VARIANT).digest()
        for end, variant in condition.variants:
            if digest < end:
                return variant
    return condition.on


def _with_enrollment(flag: Flag, filters: Mapping[str, Any], run: Run, _: Questions) -> Run:
    """Who enrolled or opted out has decided."""
    if filters.get("feature_enrollment") is not True:
        return run
    key = ENROLLMENT + flag.key
    enrolled = Outcome(flag, True, Reason.SUPER_CONDITION, 0)
    opted_out = Outcome(flag, False, Reason.SUPER_CONDITION, 0)

    def decide(subject: Subject, answers: Answers) -> Outcome:
        choice = subject.person[key]
        if choice is MISSING:
            return run(subject, answers)
        return enrolled if choice is True or choice == "true" else opted_out

    return decide


def _with_super_group(
    flag: Flag, filters: Mapping[str, Any], run: Run, questions: Questions
) -> Run:
    """The older form of enrolment: final for whoever has one of its properties."""
    groups = filters.get("super_groups")
    if not groups:
        return run
    group = groups[0]
    keys = [str(each["key"]) for each in group.get("properties") or []]
    _, question = questions.all_of(group.get("properties") or [])
    limit = limit_up_to(percentage_of(group) / 100)
    prefix = identifier_bytes(f"{flag.key}.")
    on = Outcome(flag, True, Reason.SUPER_CONDITION, 0)
    off = Outcome(flag, False, Reason.SUPER_CONDITION, 0)

    def decide(subject: Subject, answers: Answers) -> Outcome:
        if keys and all(subject.person[key] is MISSING for key in keys):
            return run(subject, answers)
        matched = question(subject) and subject.hash(prefix + subject.id).digest() < limit
        return on if matched else off

    return decide


def _with_holdout(flag: Flag, filters: Mapping[str, Any], run: Run, _: Questions) -> Run:
    """Who is held out is so in every flag of the holdout: its hash knows no flag."""
    holdout = holdout_of(filters)
    if holdout is None:
        return run
    percentage, variant = holdout
    limit = limit_up_to(min(max(percentage, 0.0), 100.0) / 100)
    held = Outcome(flag, variant, Reason.HOLDOUT)
    identify = identifier_of(flag, filters.get("aggregation_group_type_index"))

    def decide(subject: Subject, answers: Answers) -> Outcome:
        identifier = identify(subject)
        if identifier is not None:
            digest = hasher_for(identifier)(HOLDOUT + identifier).digest()
            if digest < limit:
                return held
        return run(subject, answers)

    return decide


def holdout_of(filters: Mapping[str, Any]) -> tuple[float, str] | None:
    holdout = filters.get("holdout")
    if holdout:
        return float(holdout.get("exclusion_percentage") or 0), f"holdout-{holdout['id']}"
    groups = filters.get("holdout_groups")
    if not groups or groups[0].get("properties"):
        return None
    return percentage_of(groups[0]), str(groups[0].get("variant") or "holdout")
