"""Plans from stored flags to a document: the changes, and the rejected documents."""

from typing import Any

import pytest
from hypothesis import given

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.model import MAX_FLAGS
from tests.unit.flags.as_code.flag_documents import (
    JSON,
    Store,
    changes,
    condition_with,
    flag_reference,
    make_document,
    make_plan,
    plan_error,
)
from tests.unit.flags.factories import (
    MATCH_ALL,
    build_filters,
    depends_on,
    group_prop,
    in_cohort,
    make_cohort,
    make_flag,
    prop,
    variants,
)
from tests.unit.generated import thorough


def test_changes_have_paths_and_names_of_the_document() -> None:
    stored = build_filters(
        {"properties": [prop("country", ["DE"]), in_cohort(7)], "rollout_percentage": 10},
        {"variant": None},
    )
    store = Store(
        make_flag(stored, 1, key="f", name="Old", tags=("a",)),
        make_flag(MATCH_ALL, 2, key="same"),
        cohorts=[make_cohort(7, name="One"), make_cohort(8, name="Two")],
    )
    filters = build_filters(
        {"properties": [prop("country", ["DE", "FR"]), in_cohort("Two")], "rollout_percentage": 50}
    )
    plan = make_plan(store, make_document({"key": "f", "filters": filters}, {"key": "same"}))
    assert (list(plan.created), list(plan.deleted), list(plan.kept)) == ([], [], [])
    [step] = plan.changed
    at = "filters.groups[0]"
    assert changes(step.changes) == {
        "name": ("Old", MISSING),
        "tags": (["a"], MISSING),
        f"{at}.properties[0].value": (["DE"], ["DE", "FR"]),
        f"{at}.properties[1].value": ("One", "Two"),
        f"{at}.rollout_percentage": (10, 50),
        "filters.groups[1]": ({"variant": None}, MISSING),
    }


TWO = "Twice"
AT = "flags[1] (f): filters.groups[0].properties[0]"
WRONG_FILTERS: list[tuple[Any, str]] = [
    (None, "flags[1] (f): filters: "),
    ({}, "flags[1] (f): filters.groups: A flag needs"),
    ({"groups": 5}, "flags[1] (f): filters.groups: "),
    (build_filters({}, multivariate=5), "flags[1] (f): filters.multivariate: "),
    (build_filters({"rollout_percentage": 101}), "filters.groups[0].rollout_percentage: "),
    (condition_with(prop("age", "x", "gt")), f"{AT}.value: A number is required."),
    (condition_with(5), f"{AT}: "),  # type: ignore[arg-type]
    (
        condition_with(in_cohort("Nobody")),
        f'{AT}.value: There is no cohort "Nobody" in this project',
    ),
    (condition_with(in_cohort("7")), f'{AT}.value: There is no cohort "7" in this project'),
    (condition_with(in_cohort(404)), f"{AT}.value: Cohort 404 does not exist."),
    (condition_with(in_cohort("Twice")), f'{AT}.value: 2 cohorts are called "Twice"'),
    (
        condition_with(flag_reference("nobody")),
        f'{AT}.key: There is no flag "nobody", neither in the file',
    ),
    (condition_with(flag_reference("off")), f"{AT}.key: The flag off is not active."),
    (condition_with(flag_reference("f")), "flags[1] (f): A flag cannot depend on itself"),
    (condition_with(flag_reference(404)), f"{AT}.key: There is no active flag with the id 404."),
    (
        condition_with(flag_reference("first", "no-variant")),
        f"{AT}.value: Expected true, false or a variant",
    ),
    (
        condition_with(group_prop("moon", "a", "b")),  # type: ignore[arg-type]
        f'{AT}.group_type_index: There is no group type "moon"',
    ),
    (
        build_filters({}, aggregation_group_type_index="moon"),
        "filters.aggregation_group_type_index: ",
    ),
]


@pytest.mark.parametrize(("filters", "error"), WRONG_FILTERS)
def test_invalid_filters_are_refused_with_their_path(filters: Any, error: str) -> None:
    store = Store(
        make_flag(MATCH_ALL, 1, key="off", active=False),
        cohorts=[make_cohort(id, name=name) for id, name in ((7, "Testers"), (8, TWO), (9, TWO))],
        group_types={"company": 0},
    )
    content = make_document({"key": "first"}, {"key": "f", "filters": filters})
    assert error in plan_error(store, content)


def test_cycle_is_refused_with_its_path() -> None:
    content = make_document(
        {"key": "outside", "filters": condition_with(flag_reference("a"))},
        {"key": "a", "filters": condition_with(flag_reference("b"))},
        {"key": "b", "filters": condition_with(flag_reference("a"))},
    )
    assert plan_error(Store(), content).startswith("flags[1] (a): A flag cannot depend on itself")


def test_cycle_through_a_stored_flag_is_refused() -> None:
    store = Store(
        make_flag(MATCH_ALL, 1, key="a"), make_flag(condition_with(depends_on(1)), 2, key="b")
    )
    error = plan_error(
        store, make_document({"key": "a", "filters": condition_with(flag_reference("b"))})
    )
    assert "flags[0] (a): A flag cannot depend on itself" in error


def test_invalid_flag_is_reported_before_its_dependents() -> None:
    content = make_document(
        {"key": "child", "filters": condition_with(flag_reference("base", "a"))},
        {"key": "base", "filters": {"groups": 7, "multivariate": 5}},
    )
    assert "flags[1] (base): filters.groups: " in plan_error(Store(), content)


def test_conflicting_settings_are_refused() -> None:
    both = {"bucketing_identifier": "device_id", "ensure_experience_continuity": True}
    error = plan_error(Store(), make_document({"key": "f", **both}))
    assert error.startswith("flags[0] (f): bucketing_identifier: A flag with device")


def test_survey_keys_are_reserved() -> None:
    error = plan_error(Store(), make_document({"key": "survey-targeting-mine"}))
    assert error.startswith('flags[0] (survey-targeting-mine): key: Keys that begin with "surv')
    theirs = make_flag(MATCH_ALL, 1, key="survey-targeting-theirs")
    assert make_plan(Store(theirs), make_document({"key": theirs.key})).is_empty


def store_with_dependency(**fields: Any) -> Store:
    return Store(
        make_flag(build_filters({}, multivariate=variants(a=100)), 1, key="base"),
        make_flag(condition_with(depends_on(1, "a")), 2, key="child", **fields),
    )


@pytest.mark.parametrize("base", [{"key": "base", "active": False}, {"key": "base"}])
def test_dependency_of_another_flag_cannot_be_removed(base: dict[str, Any]) -> None:
    error = plan_error(store_with_dependency(), make_document(base))
    assert error.startswith("child, which is not in the file: It depends on base, which must stay")
    child = {"key": "child", "filters": condition_with(flag_reference("base", "a"))}
    error = plan_error(store_with_dependency(), make_document(base, child))
    assert error.startswith("flags[1] (child): It depends on base")
    assert make_plan(store_with_dependency(active=False), make_document(base)).changed


def test_pruned_flag_must_not_have_dependents() -> None:
    child = {"key": "child", "filters": condition_with(flag_reference("base", "a"))}
    with pytest.raises(Invalid, match="There is no flag"):
        make_plan(
            store_with_dependency(),
            make_document({"key": "new", "filters": condition_with(flag_reference("base"))}),
            prune=True,
        )
    assert "It depends on base" in plan_error(
        store_with_dependency(), make_document(child), prune=True
    )


def test_flags_per_project_are_limited() -> None:
    store = Store(*(make_flag(MATCH_ALL, id) for id in range(1, MAX_FLAGS + 1)))
    assert "at most" in plan_error(store, make_document({"key": "one-more"}))
    assert (
        len(make_plan(store, make_document({"key": "one-more"}), prune=True).deleted) == MAX_FLAGS
    )


@thorough
@given(first=JSON, second=JSON)
def test_any_filters_give_a_plan_or_an_error_with_path(first: Any, second: Any) -> None:
    content = make_document(
        {"key": "a", "filters": {"groups": first, "multivariate": second}},
        {"key": "b", "filters": condition_with(flag_reference("a", "x"))},
        {"key": "c", "filters": first},
    )
    paths = []
    try:
        make_plan(Store(), content)
    except Invalid as error:
        paths.append(error.attr or "")
    assert all(path.startswith("flags[") for path in paths)
