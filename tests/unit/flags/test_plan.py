"""From flags to those that a document asks for: what changes, and what cannot be asked for."""

from typing import Any

import pytest
from hypothesis import given

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.model import MAX_FLAGS
from tests.unit.flags.documents import (
    JSON,
    Store,
    asking,
    by_key,
    changes,
    of_flags,
    planned,
    refused,
)
from tests.unit.flags.world import (
    EVERYBODY,
    a_cohort,
    a_flag,
    depends_on,
    group_prop,
    in_cohort,
    of_groups,
    prop,
    variants,
)
from tests.unit.generated import thorough


def test_changes_are_told_by_their_path_in_the_words_of_the_document() -> None:
    stored = of_groups(
        {"properties": [prop("country", ["DE"]), in_cohort(7)], "rollout_percentage": 10},
        {"variant": None},
    )
    store = Store(
        a_flag(stored, 1, key="f", name="Old", tags=("a",)),
        a_flag(EVERYBODY, 2, key="same"),
        cohorts=[a_cohort(7, name="One"), a_cohort(8, name="Two")],
    )
    filters = of_groups(
        {"properties": [prop("country", ["DE", "FR"]), in_cohort("Two")], "rollout_percentage": 50}
    )
    plan = planned(store, of_flags({"key": "f", "filters": filters}, {"key": "same"}))
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
    (of_groups({}, multivariate=5), "flags[1] (f): filters.multivariate: "),
    (of_groups({"rollout_percentage": 101}), "filters.groups[0].rollout_percentage: "),
    (asking(prop("age", "x", "gt")), f"{AT}.value: A number is required."),
    (asking(5), f"{AT}: "),  # type: ignore[arg-type]
    (asking(in_cohort("Nobody")), f'{AT}.value: There is no cohort "Nobody" in this project'),
    (asking(in_cohort("7")), f'{AT}.value: There is no cohort "7" in this project'),
    (asking(in_cohort(404)), f"{AT}.value: Cohort 404 does not exist."),
    (asking(in_cohort("Twice")), f'{AT}.value: 2 cohorts are called "Twice"'),
    (asking(by_key("nobody")), f'{AT}.key: There is no flag "nobody", neither in the file'),
    (asking(by_key("off")), f"{AT}.key: The flag off is not active."),
    (asking(by_key("f")), "flags[1] (f): A flag cannot depend on itself"),
    (asking(by_key(404)), f"{AT}.key: There is no active flag with the id 404."),
    (asking(by_key("first", "no-variant")), f"{AT}.value: True, false or a variant"),
    (asking(group_prop("moon", "a", "b")), f'{AT}.group_type_index: There is no group type "moon"'),  # type: ignore[arg-type]
    (of_groups({}, aggregation_group_type_index="moon"), "filters.aggregation_group_type_index: "),
]


@pytest.mark.parametrize(("filters", "complaint"), WRONG_FILTERS)
def test_filters_are_checked_by_the_rules_and_refused_by_place(
    filters: Any, complaint: str
) -> None:
    store = Store(
        a_flag(EVERYBODY, 1, key="off", active=False),
        cohorts=[a_cohort(id, name=name) for id, name in ((7, "Testers"), (8, TWO), (9, TWO))],
        group_types={"company": 0},
    )
    wanted = of_flags({"key": "first"}, {"key": "f", "filters": filters})
    assert complaint in refused(store, wanted)


def test_a_circle_is_refused_where_it_is() -> None:
    wanted = of_flags(
        {"key": "outside", "filters": asking(by_key("a"))},
        {"key": "a", "filters": asking(by_key("b"))},
        {"key": "b", "filters": asking(by_key("a"))},
    )
    assert refused(Store(), wanted).startswith("flags[1] (a): A flag cannot depend on itself")


def test_a_circle_through_a_flag_that_is_not_in_the_document_is_refused() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"), a_flag(asking(depends_on(1)), 2, key="b"))
    complaint = refused(store, of_flags({"key": "a", "filters": asking(by_key("b"))}))
    assert "flags[0] (a): filters.groups[0].properties[0].key: A flag cannot depend" in complaint


def test_nonsense_in_one_flag_is_named_before_another_asks_about_it() -> None:
    wanted = of_flags(
        {"key": "child", "filters": asking(by_key("base", "a"))},
        {"key": "base", "filters": {"groups": 7, "multivariate": 5}},
    )
    assert "flags[1] (base): filters.groups: " in refused(Store(), wanted)


def test_settings_that_exclude_each_other_are_refused() -> None:
    both = {"bucketing_identifier": "device_id", "ensure_experience_continuity": True}
    complaint = refused(Store(), of_flags({"key": "f", **both}))
    assert complaint.startswith("flags[0] (f): bucketing_identifier: A flag that counts")


def test_keys_of_surveys_are_given_by_surveys_alone() -> None:
    complaint = refused(Store(), of_flags({"key": "survey-targeting-mine"}))
    assert complaint.startswith('flags[0] (survey-targeting-mine): key: Keys that begin with "surv')
    theirs = a_flag(EVERYBODY, 1, key="survey-targeting-theirs")
    assert planned(Store(theirs), of_flags({"key": theirs.key})).is_empty


def needy_store(**fields: Any) -> Store:
    return Store(
        a_flag(of_groups({}, multivariate=variants(a=100)), 1, key="base"),
        a_flag(asking(depends_on(1, "a")), 2, key="child", **fields),
    )


@pytest.mark.parametrize("base", [{"key": "base", "active": False}, {"key": "base"}])
def test_what_others_depend_on_cannot_be_taken_away(base: dict[str, Any]) -> None:
    said = refused(needy_store(), of_flags(base))
    assert said.startswith("child, which is not in the file: It depends on base, which must stay")
    child = {"key": "child", "filters": asking(by_key("base", "a"))}
    complaint = refused(needy_store(), of_flags(base, child))
    assert complaint.startswith("flags[1] (child): It depends on base")
    assert planned(needy_store(active=False), of_flags(base)).changed


def test_what_is_pruned_must_not_be_needed() -> None:
    child = {"key": "child", "filters": asking(by_key("base", "a"))}
    with pytest.raises(Invalid, match="There is no flag"):
        planned(
            needy_store(), of_flags({"key": "new", "filters": asking(by_key("base"))}), prune=True
        )
    assert "It depends on base" in refused(needy_store(), of_flags(child), prune=True)


def test_a_project_has_room_for_so_many() -> None:
    store = Store(*(a_flag(EVERYBODY, id) for id in range(1, MAX_FLAGS + 1)))
    assert "at most" in refused(store, of_flags({"key": "one-more"}))
    assert len(planned(store, of_flags({"key": "one-more"}), prune=True).deleted) == MAX_FLAGS


@thorough
@given(first=JSON, second=JSON)
def test_whatever_the_filters_are_the_answer_is_a_plan_or_a_place(first: Any, second: Any) -> None:
    wanted = of_flags(
        {"key": "a", "filters": {"groups": first, "multivariate": second}},
        {"key": "b", "filters": asking(by_key("a", "x"))},
        {"key": "c", "filters": first},
    )
    places = []
    try:
        planned(Store(), wanted)
    except Invalid as error:
        places.append(error.attr or "")
    assert all(place.startswith("flags[") for place in places)
