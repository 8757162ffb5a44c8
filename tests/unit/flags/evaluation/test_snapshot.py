from dataclasses import replace
from datetime import timedelta

from hedgerow.flags.evaluation import snapshot as snapshot_module
from tests.support.call_counter import count_calls
from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    MATCH_ALL,
    MATCH_NONE,
    build_filters,
    depends_on,
    evaluate_all,
    in_cohort,
    loaded_context,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
    summarize,
)

DE = prop("country", "DE")
GERMAN = {"country": "DE"}


def test_deleted_flags_are_excluded() -> None:
    snapshot = make_snapshot(make_flag(id=1, deleted=True), make_flag(id=2))
    assert [each.flag.id for each in snapshot.all_flags] == [2]
    assert snapshot.get("flag-1") is None
    assert snapshot.select(["flag-1"]) == ()


def test_reused_key_finds_the_flag_that_is_not_deleted() -> None:
    snapshot = make_snapshot(
        make_flag(MATCH_NONE, 1, key="key", deleted=True), make_flag(id=2, key="key")
    )
    found = snapshot.get("key")
    assert found is not None
    assert found.flag.id == 2


def test_inactive_flags_are_included_and_off() -> None:
    snapshot = make_snapshot(make_flag(id=1, active=False), make_flag(id=2))
    assert {id: each.value for id, each in evaluate_all(snapshot, loaded_context()).items()} == {
        1: False,
        2: True,
    }


def test_empty_snapshot_has_no_outcomes() -> None:
    snapshot = make_snapshot()
    assert snapshot.evaluate(snapshot.all_flags, loaded_context()) == []


def test_unchanged_flags_are_reused() -> None:
    kept, old = make_flag(build_filters({"properties": [DE]}), 1), make_flag(MATCH_ALL, 2)
    first = make_snapshot(kept, old)
    second = make_snapshot(kept, replace(old, filters=MATCH_NONE, version=2), before=first)
    assert second.get("flag-1") is first.get("flag-1")
    assert second.get("flag-2") is not first.get("flag-2")
    found = evaluate_all(second, loaded_context(GERMAN))
    assert [found[1].value, found[2].value] == [True, False]
    # The previous snapshot is unchanged.
    assert evaluate_all(first, loaded_context(GERMAN))[2].value is True


def test_new_predicates_do_not_affect_reused_ones() -> None:
    first = make_snapshot(make_flag(build_filters({"properties": [DE]}), 1))
    second = make_snapshot(
        make_flag(build_filters({"properties": [prop("age", 5)]}), 3),
        make_flag(build_filters({"properties": [DE]}), 1),
        make_flag(build_filters({"properties": [DE, prop("age", 5)]}), 2),
        before=first,
    )
    found = evaluate_all(second, loaded_context(GERMAN))
    assert [found[id].value for id in (1, 2, 3)] == [True, False, False]
    found = evaluate_all(second, loaded_context(GERMAN | {"age": 5}))
    assert [found[id].value for id in (1, 2, 3)] == [True, True, True]


def test_changed_cohort_changes_the_flags_that_use_it() -> None:
    flag = make_flag(build_filters({"properties": [in_cohort(1)]}))
    cohort = make_cohort(1, {"type": "AND", "values": [DE]})
    first = make_snapshot(flag, cohorts=[cohort])
    changed = replace(cohort, definition={"type": "AND", "values": [prop("country", "FR")]})
    second = make_snapshot(flag, cohorts=[changed], before=first)
    assert evaluate_all(first, loaded_context(GERMAN))[1].value is True
    assert evaluate_all(second, loaded_context(GERMAN))[1].value is False
    assert evaluate_all(make_snapshot(flag, before=second), loaded_context(GERMAN))[1].has_failed


def test_cohort_with_an_equal_definition_changes_no_flag() -> None:
    flag = make_flag(build_filters({"properties": [in_cohort(1)]}))
    cohort = make_cohort(1, {"type": "AND", "values": [prop("x", 1)]})
    first = make_snapshot(flag, cohorts=[cohort])
    renamed = replace(cohort, name="Other", updated_at=START + timedelta(1))
    second = make_snapshot(flag, cohorts=[renamed], before=first)
    assert second.get("flag-1") is first.get("flag-1")
    with_true = replace(renamed, definition={"type": "AND", "values": [prop("x", True)]})
    third = make_snapshot(
        flag, cohorts=[replace(with_true, updated_at=START + timedelta(2))], before=second
    )
    assert evaluate_all(second, loaded_context({"x": "1"}))[1].value is True
    assert evaluate_all(third, loaded_context({"x": "1"}))[1].value is False


def test_unused_predicates_are_dropped() -> None:
    kept = [make_flag(build_filters({"properties": [prop("kept", id)]}), id) for id in range(2, 12)]
    snapshot = make_snapshot(*kept)
    sizes = []
    for version in range(200):
        changing = make_flag(build_filters({"properties": [prop(f"key-{version}", 1)]}), 1)
        snapshot = make_snapshot(replace(changing, version=version), *kept, before=snapshot)
        sizes.append(len(snapshot.predicates.property_keys))
        assert evaluate_all(snapshot, loaded_context({f"key-{version}": 1}))[1].value is True
    assert max(sizes) <= 30
    assert sizes[-1] < max(sizes)


def test_long_chain_is_ordered_in_linear_time() -> None:
    chain = [
        make_flag(build_filters({"properties": [depends_on(id - 1)]}), id) for id in range(2, 2001)
    ]
    flags = [*reversed(chain), make_flag(id=1)]
    snapshot = make_snapshot(*flags)
    assert [each.flag.id for each in snapshot.all_flags] == list(range(1, 2001))
    compiled = list(snapshot.compiled.values())
    assert count_calls(lambda: snapshot_module._order_by_dependency(compiled)) < 20 * len(flags)


def test_changed_timezone_changes_date_comparisons() -> None:
    flag = make_flag(build_filters({"properties": [prop("at", "2024-07-01", "is_date_after")]}))
    context = loaded_context({"at": "2024-06-30T23:00:00Z"})
    first = make_snapshot(flag)
    assert evaluate_all(first, context)[1].value is False
    second = make_snapshot(flag, timezone="Europe/Berlin", before=first)
    assert evaluate_all(second, context)[1].value is True


def test_added_and_removed_dependencies_are_detected() -> None:
    needs, needed = make_flag(build_filters({"properties": [depends_on(2)]}), 1), make_flag(id=2)
    without = make_snapshot(needs)
    assert summarize(evaluate_all(without, loaded_context())[1])[1] == "missing_dependency"
    both = make_snapshot(needs, needed, before=without)
    assert evaluate_all(both, loaded_context())[1].value is True
    switched_off = make_snapshot(needs, replace(needed, active=False), before=both)
    assert summarize(evaluate_all(switched_off, loaded_context())[1])[1] == "missing_dependency"
    again = make_snapshot(needs, needed, before=switched_off)
    assert evaluate_all(again, loaded_context())[1].value is True


def test_one_and_true_are_different_predicates() -> None:
    """They are equal in Python, but they are different filter values."""
    flags = [make_flag(build_filters({"properties": [prop("x", value)]}), id) for id, value in ONES]
    found = evaluate_all(make_snapshot(*flags), loaded_context({"x": "1"}))
    assert [found[id].value for id, _ in ONES] == [True, False, False]
    before = make_snapshot(flags[0])
    changed = replace(flags[0], filters=build_filters({"properties": [prop("x", True)]}), version=2)
    assert (
        evaluate_all(make_snapshot(changed, before=before), loaded_context({"x": "1"}))[1].value
        is False
    )


ONES = [(1, 1), (2, True), (3, 1.0)]


def test_snapshot_lists_continuity_flags() -> None:
    snapshot = make_snapshot(
        make_flag(id=1, ensure_experience_continuity=True),
        make_flag(id=2),
        make_flag(id=3, ensure_experience_continuity=True, active=False),
        make_flag(id=4, ensure_experience_continuity=True, deleted=True),
    )
    assert snapshot.continuity_keys == ("flag-1",)


def test_constant_outcomes_are_shared() -> None:
    snapshot = make_snapshot(make_flag(id=1), make_flag(MATCH_NONE, 2))
    first, second = (
        evaluate_all(snapshot, loaded_context(id="a")),
        evaluate_all(snapshot, loaded_context(id="b")),
    )
    assert all(first[id] is second[id] for id in (1, 2))
