"""Flags as code: what goes out comes in again, also elsewhere, whole or not at all."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Conflict
from hedgerow.flags.document import composed
from hedgerow.flags.model import Bucketing, FlagId
from hedgerow.flags.rules import Surroundings, checked_filters
from hedgerow.lib.yamlio import decode, encode
from hedgerow.projects.activity import TERMINAL
from tests.unit.fake_time import START
from tests.unit.flags.documents import (
    JSON,
    LATER,
    Store,
    applied,
    asking,
    by_key,
    document,
    of_flags,
    planned,
    refused,
    room,
)
from tests.unit.flags.world import (
    EVERYBODY,
    PROJECT,
    a_cohort,
    a_flag,
    depends_on,
    in_cohort,
    of_groups,
    prop,
    variants,
)
from tests.unit.generated import thorough


def test_a_document_means_the_same_in_another_project() -> None:
    here = Store(
        a_flag(asking(depends_on(12, "a")), 1, key="child"),
        a_flag(of_groups({}, multivariate=variants(a=100)), 12, key="12"),
        a_flag(asking(in_cohort(7)), 3, key="cohort"),
        a_flag(
            of_groups(
                {"aggregation_group_type_index": 0},
                {"aggregation_group_type_index": None},
                aggregation_group_type_index=None,
            ),
            4,
            key="firm",
        ),
        cohorts=[a_cohort(7, name="注文")],
        group_types={"company": 0},
    )
    there = Store(
        a_flag(EVERYBODY, 12, key="kept"),
        cohorts=[a_cohort(7, name="Others"), a_cohort(70, name="注文")],
        group_types={"team": 0, "company": 2},
    )
    out = document(here).document
    plan = applied(there, decode(encode(out)))
    assert [step.after.key for step in plan.created] == ["12", "cohort", "firm", "child"]
    assert there.by_key("child").filters == asking(depends_on(there.by_key("12").id, "a"))
    assert there.by_key("cohort").filters == asking(in_cohort(70))
    assert there.by_key("firm").filters["groups"][0] == {"aggregation_group_type_index": 2}
    assert planned(there, out).is_empty
    applied(there, out, prune=True)
    assert document(there).document == out
    assert [(each.activity, each.item_name) for each in there.told] == [
        ("created", "12"),
        ("created", "cohort"),
        ("created", "firm"),
        ("created", "child"),
        ("deleted", "kept"),
    ]


def test_flags_may_stand_before_what_they_depend_on_and_old_ones_may_depend_on_new() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="old"))
    wanted = of_flags(
        {"key": "old", "filters": asking(by_key("c"))},
        {"key": "c", "filters": asking(by_key("b"), by_key("a", False))},
        {"key": "b", "filters": asking(by_key("a"))},
        {"key": "a"},
    )
    applied(store, wanted)
    ids = {flag.key: flag.id for flag in store.flags.values()}
    assert store.by_key("old").filters == asking(depends_on(ids["c"]))
    assert store.by_key("c").filters == asking(depends_on(ids["b"]), depends_on(ids["a"], False))
    assert ids["a"] < ids["b"] < ids["c"] < 10_000
    assert planned(store, wanted).is_empty


def test_a_change_keeps_what_is_not_the_documents_and_tells_who_made_it() -> None:
    before = a_flag(EVERYBODY, 1, key="f", version=4, created_by="ann", last_called_at=START)
    store = Store(before)
    plan = planned(store, of_flags({"key": "f", "active": False}))
    store.flags[before.id] = replace(before, last_called_at=LATER)  # moves no generation
    asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    assert store.by_key("f") == replace(
        before,
        active=False,
        version=5,
        last_called_at=LATER,
        last_modified_by=TERMINAL.name,
        updated_at=LATER,
    )
    [entry] = store.told
    assert (entry.activity, [each.field for each in entry.changes]) == ("updated", ["active"])


def test_payloads_may_be_written_as_they_are() -> None:
    item = {"key": "f", "filters": of_groups({}, payloads={"true": {"a": [1, "ü"]}})}
    applied(store := Store(), of_flags(item))
    assert store.by_key("f").filters["payloads"] == {"true": '{"a":[1,"ü"]}'}
    assert planned(store, of_flags(item)).is_empty


def test_what_is_not_in_the_document_is_kept_or_pruned() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"), a_flag(EVERYBODY, 2, key="b"))
    plan = planned(store, of_flags({"key": "a"}))
    assert (plan.is_empty, [flag.key for flag in plan.kept]) == (True, ["b"])
    applied(store, of_flags({"key": "a"}), prune=True)
    gone = store.flags[FlagId(2)]
    assert (gone.deleted, gone.active, gone.version) == (True, False, 2)
    applied(store, of_flags({"key": "a"}, {"key": "b"}))
    assert store.by_key("b").id == 1000


def test_flags_with_encrypted_payloads_are_left_alone() -> None:
    secret = a_flag(
        of_groups({}, payloads={"true": "sealed"}),
        1,
        key="secret",
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    store = Store(secret, a_flag(asking(depends_on(1)), 2, key="child"))
    made = document(store)
    assert [flag.key for flag in made.left_out] == ["secret"]
    assert [item["key"] for item in made.document["flags"]] == ["child"]
    assert "sealed" not in str(made.document)
    plan = planned(store, made.document, prune=True)
    assert (plan.is_empty, list(plan.kept)) == (True, [])
    assert "flags[0] (secret): Its payloads are encrypted" in refused(
        store, of_flags({"key": "secret"})
    )


def test_flags_of_surveys_are_left_alone() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="survey-targeting-1-custom"), a_flag(EVERYBODY, 2))
    made = document(store)
    assert [item["key"] for item in made.document["flags"]] == [store.flags[FlagId(2)].key]
    assert list(made.left_out) == []
    assert planned(store, of_flags(), prune=True).deleted == [store.flags[FlagId(2)]]


def test_what_something_else_needs_stays_and_the_plan_says_why() -> None:
    store = Store(
        a_flag(EVERYBODY, 1, key="held"),
        a_flag(asking(depends_on(1)), 2, key="child"),
        a_flag(EVERYBODY, 3, key="free"),
    )
    store.reasons = {FlagId(1): "it is needed."}
    child = {"key": "child", "filters": asking(by_key("held"))}
    assert not planned(store, of_flags()).held
    plan = applied(store, of_flags(child), prune=True)
    assert [flag.key for flag in plan.deleted] == ["free"]
    assert [(flag.key, plan.held[flag.id]) for flag in plan.kept] == [("held", "it is needed.")]
    assert not store.by_key("held").deleted


def test_a_plan_is_refused_once_something_changed() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"))
    plan = planned(store, of_flags({"key": "b"}))
    applied(store, of_flags({"key": "a", "name": "Mine"}))
    before = dict(store.flags)
    with pytest.raises(Conflict, match="changed meanwhile"):
        asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    assert store.flags == before


FILTERS = st.sampled_from(
    [
        prop("country", ["DE"]),
        prop("age", 40, "gt"),
        prop("seen", "-7d", "is_date_after"),
        in_cohort(7),
        in_cohort("8", "not_in"),
        depends_on(1, "a"),
        depends_on(2, False),
    ]
)
GROUPS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "properties": st.lists(FILTERS, max_size=3),
            "rollout_percentage": st.none() | st.integers(0, 100) | st.just(33.3),
            "x": JSON,
        },
    ),
    min_size=1,
    max_size=3,
)


@thorough
@given(
    groups=st.lists(GROUPS, max_size=3),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            "active": st.booleans(),
            "tags": st.lists(st.sampled_from(["1", "yes", "a: b", "ü"]), unique=True).map(tuple),
            "bucketing_identifier": st.sampled_from(Bucketing),
        },
    ),
)
def test_any_project_comes_out_and_goes_in_unchanged_here_and_elsewhere(
    groups: Any, fields: Any
) -> None:
    cohorts = [a_cohort(7, name="Seven"), a_cohort(8, name="8")]
    base = [
        a_flag(of_groups({}, multivariate=variants(a=100)), 1, key="base"),
        a_flag(EVERYBODY, 2, key="1"),
    ]
    around = Surroundings(
        cohorts={cohort.id: cohort for cohort in cohorts},
        flags={flag.id: flag for flag in base},
        own_id=None,
    )
    flags = [
        a_flag(checked_filters({"groups": each}, around, is_new=True), number, **fields)
        for number, each in enumerate(groups, 10)
    ]
    here = Store(*base, *flags, cohorts=cohorts)
    out = decode(encode(document(here).document))
    assert planned(here, out, prune=True).is_empty
    there = Store(cohorts=[a_cohort(70, name="8"), a_cohort(80, name="Seven")])
    applied(there, out)
    assert planned(there, out, prune=True).is_empty
    assert composed(asyncio.run(there.definitions(PROJECT, ""))).document == out
