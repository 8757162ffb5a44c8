"""Flags with cohorts by behavior: they need stored data, and fail while events are counted."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from hedgerow.flags.evaluation.evaluation_context import EvaluationContext, PersonBehaviors
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.persons.behaviors.filters import parse_behavioral_filter
from hedgerow.persons.behaviors.times import add_occurrences, pack_end, pack_occurrence
from tests.unit.flags.factories import build_filters, make_cohort, make_flag
from tests.unit.persons.behaviors.test_filters import MANY

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = pack_end(NOW)
REFERENCE = parse_behavioral_filter(MANY).event.reference


def build(behaviors: dict[str, int], *, negation: bool = False) -> FlagSnapshot:
    cohort = make_cohort(1, {"type": "AND", "values": [{**MANY, "negation": negation}]})
    condition = {"properties": [{"key": "id", "type": "cohort", "value": 1}]}
    return build_snapshot(
        FlagDefinitions(
            generation=1,
            flags=[make_flag(build_filters(condition)), make_flag(build_filters({}), 2)],
            cohorts=[cohort],
            group_types={},
            timezone="UTC",
            behaviors=behaviors,
        )
    )


def evaluate(
    snapshot: FlagSnapshot, behaviors: PersonBehaviors | None, days: int = 0
) -> tuple[list[Any], EvaluationContext]:
    context = EvaluationContext(distinct_id="ann", now=NOW + timedelta(days=days))
    context.add_stored_data({}, groups={}, cohorts=frozenset(), hash_keys={}, behaviors=behaviors)
    outcomes = snapshot.evaluate(snapshot.all_flags, context)
    return [None if each.has_failed else each.value for each in outcomes], context


def occurrences(count: int) -> bytes:
    packed = [pack_occurrence(NOW - timedelta(days=each), str(uuid4())) for each in range(count)]
    return add_occurrences(b"", packed, 10, END)


def test_a_flag_needs_stored_data_and_follows_the_clock() -> None:
    snapshot = build({REFERENCE: 7})
    assert snapshot.uses_behaviors
    context = EvaluationContext(distinct_id="ann", now=NOW, person_properties={"plan": "pro"})
    snapshot.evaluate(snapshot.all_flags, context, stop_at_stored_data=True)
    assert context.needs_stored_data
    three = {7: [occurrences(2), occurrences(1)], 8: [occurrences(9)]}
    assert evaluate(snapshot, three)[0] == [True, True]
    assert evaluate(snapshot, three, days=30)[0] == [False, True]
    assert evaluate(snapshot, {})[0] == [False, True]
    assert evaluate(build({REFERENCE: 7}, negation=True), {})[0] == [True, True]


def test_a_flag_fails_while_events_are_counted() -> None:
    snapshot = build({})
    assert snapshot.predicates.is_counting
    values, context = evaluate(snapshot, {7: [occurrences(3)]})
    assert (values, context.has_errors) == ([None, True], True)


def test_a_flag_fails_for_a_person_with_too_many_distinct_ids() -> None:
    values, context = evaluate(build({REFERENCE: 7}), None)
    assert (values, context.has_errors) == ([None, True], True)


def test_counted_behaviors_replace_the_snapshot() -> None:
    before = build({})
    after = build_snapshot(build({REFERENCE: 7}).definitions, before)
    assert not after.predicates.is_counting
