from dataclasses import replace
from datetime import timedelta

from hedgerow.flags import snapshot as snapshot_module
from tests.effort import calls_made_by
from tests.unit.fake_time import START
from tests.unit.flags.world import (
    EVERYBODY,
    NOBODY,
    a_cohort,
    a_flag,
    a_snapshot,
    depends_on,
    in_cohort,
    known,
    of_groups,
    outcomes,
    prop,
    told,
)

DE = prop("country", "DE")
GERMAN = {"country": "DE"}


def test_deleted_flags_are_not_there() -> None:
    snapshot = a_snapshot(a_flag(id=1, deleted=True), a_flag(id=2))
    assert [each.flag.id for each in snapshot.everything] == [2]
    assert snapshot.of("flag-1") is None
    assert snapshot.chosen(["flag-1"]) == ()


def test_a_key_that_was_used_before_is_the_living_flags() -> None:
    snapshot = a_snapshot(a_flag(NOBODY, 1, key="key", deleted=True), a_flag(id=2, key="key"))
    found = snapshot.of("key")
    assert found is not None
    assert found.flag.id == 2


def test_inactive_flags_are_there_and_off() -> None:
    snapshot = a_snapshot(a_flag(id=1, active=False), a_flag(id=2))
    assert {id: each.value for id, each in outcomes(snapshot, known()).items()} == {
        1: False,
        2: True,
    }


def test_no_flags_are_no_outcomes() -> None:
    snapshot = a_snapshot()
    assert snapshot.evaluate(snapshot.everything, known()) == []


def test_what_did_not_change_is_taken_over() -> None:
    kept, old = a_flag(of_groups({"properties": [DE]}), 1), a_flag(EVERYBODY, 2)
    first = a_snapshot(kept, old)
    second = a_snapshot(kept, replace(old, filters=NOBODY, version=2), before=first)
    assert second.of("flag-1") is first.of("flag-1")
    assert second.of("flag-2") is not first.of("flag-2")
    found = outcomes(second, known(GERMAN))
    assert [found[1].value, found[2].value] == [True, False]
    # The snapshot before still answers as before.
    assert outcomes(first, known(GERMAN))[2].value is True


def test_new_questions_do_not_disturb_old_ones() -> None:
    first = a_snapshot(a_flag(of_groups({"properties": [DE]}), 1))
    second = a_snapshot(
        a_flag(of_groups({"properties": [prop("age", 5)]}), 3),
        a_flag(of_groups({"properties": [DE]}), 1),
        a_flag(of_groups({"properties": [DE, prop("age", 5)]}), 2),
        before=first,
    )
    found = outcomes(second, known(GERMAN))
    assert [found[id].value for id in (1, 2, 3)] == [True, False, False]
    found = outcomes(second, known(GERMAN | {"age": 5}))
    assert [found[id].value for id in (1, 2, 3)] == [True, True, True]


def test_a_changed_cohort_changes_the_flags_that_ask_for_it() -> None:
    flag = a_flag(of_groups({"properties": [in_cohort(1)]}))
    cohort = a_cohort(1, {"type": "AND", "values": [DE]})
    first = a_snapshot(flag, cohorts=[cohort])
    changed = replace(cohort, definition={"type": "AND", "values": [prop("country", "FR")]})
    second = a_snapshot(flag, cohorts=[changed], before=first)
    assert outcomes(first, known(GERMAN))[1].value is True
    assert outcomes(second, known(GERMAN))[1].value is False
    assert outcomes(a_snapshot(flag, before=second), known(GERMAN))[1].failed


def test_a_cohort_that_asks_the_same_changes_no_flag() -> None:
    flag = a_flag(of_groups({"properties": [in_cohort(1)]}))
    cohort = a_cohort(1, {"type": "AND", "values": [prop("x", 1)]})
    first = a_snapshot(flag, cohorts=[cohort])
    renamed = replace(cohort, name="Other", updated_at=START + timedelta(1))
    second = a_snapshot(flag, cohorts=[renamed], before=first)
    assert second.of("flag-1") is first.of("flag-1")
    asks_true = replace(renamed, definition={"type": "AND", "values": [prop("x", True)]})
    third = a_snapshot(
        flag, cohorts=[replace(asks_true, updated_at=START + timedelta(2))], before=second
    )
    assert outcomes(second, known({"x": "1"}))[1].value is True
    assert outcomes(third, known({"x": "1"}))[1].value is False


def test_questions_that_nobody_asks_any_more_are_forgotten() -> None:
    kept = [a_flag(of_groups({"properties": [prop("kept", id)]}), id) for id in range(2, 12)]
    snapshot = a_snapshot(*kept)
    sizes = []
    for version in range(200):
        changing = a_flag(of_groups({"properties": [prop(f"key-{version}", 1)]}), 1)
        snapshot = a_snapshot(replace(changing, version=version), *kept, before=snapshot)
        sizes.append(len(snapshot.questions.keys))
        assert outcomes(snapshot, known({f"key-{version}": 1}))[1].value is True
    assert max(sizes) <= 30
    assert sizes[-1] < max(sizes)


def test_a_long_chain_of_dependencies_is_put_in_order_at_once() -> None:
    chain = [a_flag(of_groups({"properties": [depends_on(id - 1)]}), id) for id in range(2, 2001)]
    flags = [*reversed(chain), a_flag(id=1)]
    snapshot = a_snapshot(*flags)
    assert [each.flag.id for each in snapshot.everything] == list(range(1, 2001))
    compiled = list(snapshot.compiled.values())
    assert calls_made_by(lambda: snapshot_module._evaluable(compiled)) < 20 * len(flags)


def test_a_changed_timezone_changes_what_a_date_is() -> None:
    flag = a_flag(of_groups({"properties": [prop("at", "2024-07-01", "is_date_after")]}))
    subject = known({"at": "2024-06-30T23:00:00Z"})
    first = a_snapshot(flag)
    assert outcomes(first, subject)[1].value is False
    second = a_snapshot(flag, timezone="Europe/Berlin", before=first)
    assert outcomes(second, subject)[1].value is True


def test_a_dependency_that_comes_and_goes_is_seen() -> None:
    needs, needed = a_flag(of_groups({"properties": [depends_on(2)]}), 1), a_flag(id=2)
    without = a_snapshot(needs)
    assert told(outcomes(without, known())[1])[1] == "missing_dependency"
    both = a_snapshot(needs, needed, before=without)
    assert outcomes(both, known())[1].value is True
    switched_off = a_snapshot(needs, replace(needed, active=False), before=both)
    assert told(outcomes(switched_off, known())[1])[1] == "missing_dependency"
    again = a_snapshot(needs, needed, before=switched_off)
    assert outcomes(again, known())[1].value is True


def test_one_and_true_are_not_the_same_question() -> None:
    """They are equal in Python; a snapshot must not take one for the other."""
    flags = [a_flag(of_groups({"properties": [prop("x", value)]}), id) for id, value in ONES]
    found = outcomes(a_snapshot(*flags), known({"x": "1"}))
    assert [found[id].value for id, _ in ONES] == [True, False, False]
    before = a_snapshot(flags[0])
    changed = replace(flags[0], filters=of_groups({"properties": [prop("x", True)]}), version=2)
    assert outcomes(a_snapshot(changed, before=before), known({"x": "1"}))[1].value is False


ONES = [(1, 1), (2, True), (3, 1.0)]


def test_the_flags_that_outlast_a_login_are_named() -> None:
    snapshot = a_snapshot(
        a_flag(id=1, ensure_experience_continuity=True),
        a_flag(id=2),
        a_flag(id=3, ensure_experience_continuity=True, active=False),
        a_flag(id=4, ensure_experience_continuity=True, deleted=True),
    )
    assert snapshot.asks_continuity == ("flag-1",)


def test_outcomes_are_made_once() -> None:
    snapshot = a_snapshot(a_flag(id=1), a_flag(NOBODY, 2))
    first, second = outcomes(snapshot, known(id="a")), outcomes(snapshot, known(id="b"))
    assert all(first[id] is second[id] for id in (1, 2))
