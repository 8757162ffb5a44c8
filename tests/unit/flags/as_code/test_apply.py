"""Flags as code: export and import round-trip, also into another project, all or nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Conflict
from hedgerow.flags.as_code.document import build_document
from hedgerow.flags.model import Bucketing, FlagId
from hedgerow.flags.validate import ValidationContext, validate_filters
from hedgerow.lib.yamlio import decode, encode
from hedgerow.projects.activity import COMMAND_LINE
from tests.unit.fake_time import START
from tests.unit.flags.as_code.flag_documents import (
    JSON,
    LATER,
    Store,
    apply_document,
    build_flags_as_code,
    condition_with,
    export_document,
    flag_reference,
    make_document,
    make_plan,
    plan_error,
)
from tests.unit.flags.factories import (
    MATCH_ALL,
    PROJECT,
    build_filters,
    depends_on,
    in_cohort,
    make_cohort,
    make_flag,
    prop,
    variants,
)
from tests.unit.generated import thorough


def test_document_has_the_same_effect_in_another_project() -> None:
    source = Store(
        make_flag(condition_with(depends_on(12, "a")), 1, key="child"),
        make_flag(build_filters({}, multivariate=variants(a=100)), 12, key="12"),
        make_flag(condition_with(in_cohort(7)), 3, key="cohort"),
        make_flag(
            build_filters(
                {"aggregation_group_type_index": 0},
                {"aggregation_group_type_index": None},
                aggregation_group_type_index=None,
            ),
            4,
            key="firm",
        ),
        cohorts=[make_cohort(7, name="注文")],
        group_types={"company": 0},
    )
    target = Store(
        make_flag(MATCH_ALL, 12, key="kept"),
        cohorts=[make_cohort(7, name="Others"), make_cohort(70, name="注文")],
        group_types={"team": 0, "company": 2},
    )
    out = export_document(source).document
    plan = apply_document(target, decode(encode(out)))
    assert [step.after.key for step in plan.created] == ["12", "cohort", "firm", "child"]
    assert target.by_key("child").filters == condition_with(depends_on(target.by_key("12").id, "a"))
    assert target.by_key("cohort").filters == condition_with(in_cohort(70))
    assert target.by_key("firm").filters["groups"][0] == {"aggregation_group_type_index": 2}
    assert make_plan(target, out).is_empty
    apply_document(target, out, prune=True)
    assert export_document(target).document == out
    assert [(each.activity, each.item_name) for each in target.entries] == [
        ("created", "12"),
        ("created", "cohort"),
        ("created", "firm"),
        ("created", "child"),
        ("deleted", "kept"),
    ]


def test_order_of_flags_in_a_document_does_not_matter() -> None:
    store = Store(make_flag(MATCH_ALL, 1, key="old"))
    content = make_document(
        {"key": "old", "filters": condition_with(flag_reference("c"))},
        {"key": "c", "filters": condition_with(flag_reference("b"), flag_reference("a", False))},
        {"key": "b", "filters": condition_with(flag_reference("a"))},
        {"key": "a"},
    )
    apply_document(store, content)
    ids = {flag.key: flag.id for flag in store.flags.values()}
    assert store.by_key("old").filters == condition_with(depends_on(ids["c"]))
    assert store.by_key("c").filters == condition_with(
        depends_on(ids["b"]), depends_on(ids["a"], False)
    )
    assert ids["a"] < ids["b"] < ids["c"] < 10_000
    assert make_plan(store, content).is_empty


def test_change_keeps_other_fields_and_records_the_actor() -> None:
    before = make_flag(MATCH_ALL, 1, key="f", version=4, created_by="ann", last_called_at=START)
    store = Store(before)
    plan = make_plan(store, make_document({"key": "f", "active": False}))
    store.flags[before.id] = replace(before, last_called_at=LATER)  # moves no generation
    asyncio.run(build_flags_as_code(store).apply(plan, COMMAND_LINE, LATER))
    assert store.by_key("f") == replace(
        before,
        active=False,
        version=5,
        last_called_at=LATER,
        last_modified_by=COMMAND_LINE.name,
        updated_at=LATER,
    )
    [entry] = store.entries
    assert (entry.activity, [each.field for each in entry.changes]) == ("updated", ["active"])


def test_payloads_may_be_json_values() -> None:
    item = {"key": "f", "filters": build_filters({}, payloads={"true": {"a": [1, "ü"]}})}
    apply_document(store := Store(), make_document(item))
    assert store.by_key("f").filters["payloads"] == {"true": '{"a":[1,"ü"]}'}
    assert make_plan(store, make_document(item)).is_empty


def test_flags_missing_in_the_document_are_kept_or_pruned() -> None:
    store = Store(make_flag(MATCH_ALL, 1, key="a"), make_flag(MATCH_ALL, 2, key="b"))
    plan = make_plan(store, make_document({"key": "a"}))
    assert (plan.is_empty, [flag.key for flag in plan.kept]) == (True, ["b"])
    apply_document(store, make_document({"key": "a"}), prune=True)
    gone = store.flags[FlagId(2)]
    assert (gone.deleted, gone.active, gone.version) == (True, False, 2)
    apply_document(store, make_document({"key": "a"}, {"key": "b"}))
    assert store.by_key("b").id == 1000


def test_flags_with_encrypted_payloads_are_not_changed() -> None:
    secret = make_flag(
        build_filters({}, payloads={"true": "sealed"}),
        1,
        key="secret",
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    store = Store(secret, make_flag(condition_with(depends_on(1)), 2, key="child"))
    exported = export_document(store)
    assert [flag.key for flag in exported.left_out] == ["secret"]
    assert [item["key"] for item in exported.document["flags"]] == ["child"]
    assert "sealed" not in str(exported.document)
    plan = make_plan(store, exported.document, prune=True)
    assert (plan.is_empty, list(plan.kept)) == (True, [])
    assert "flags[0] (secret): A flag with encrypted payloads cannot" in plan_error(
        store, make_document({"key": "secret"})
    )


def test_survey_flags_are_not_changed() -> None:
    store = Store(make_flag(MATCH_ALL, 1, key="survey-targeting-1-custom"), make_flag(MATCH_ALL, 2))
    exported = export_document(store)
    assert [item["key"] for item in exported.document["flags"]] == [store.flags[FlagId(2)].key]
    assert list(exported.left_out) == []
    assert make_plan(store, make_document(), prune=True).deleted == [store.flags[FlagId(2)]]


def test_flags_in_use_are_kept_with_a_reason() -> None:
    store = Store(
        make_flag(MATCH_ALL, 1, key="held"),
        make_flag(condition_with(depends_on(1)), 2, key="child"),
        make_flag(MATCH_ALL, 3, key="free"),
    )
    store.reasons = {FlagId(1): "it is needed."}
    child = {"key": "child", "filters": condition_with(flag_reference("held"))}
    assert not make_plan(store, make_document()).deletion_blockers
    plan = apply_document(store, make_document(child), prune=True)
    assert [flag.key for flag in plan.deleted] == ["free"]
    assert [(flag.key, plan.deletion_blockers[flag.id]) for flag in plan.kept] == [
        ("held", "it is needed.")
    ]
    assert not store.by_key("held").deleted


def test_plan_is_refused_after_a_change() -> None:
    store = Store(make_flag(MATCH_ALL, 1, key="a"))
    plan = make_plan(store, make_document({"key": "b"}))
    apply_document(store, make_document({"key": "a", "name": "Mine"}))
    before = dict(store.flags)
    with pytest.raises(Conflict, match="have changed since"):
        asyncio.run(build_flags_as_code(store).apply(plan, COMMAND_LINE, LATER))
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
            "sort_key": JSON,
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
def test_any_project_round_trips(groups: Any, fields: Any) -> None:
    cohorts = [make_cohort(7, name="Seven"), make_cohort(8, name="8")]
    base = [
        make_flag(build_filters({}, multivariate=variants(a=100)), 1, key="base"),
        make_flag(MATCH_ALL, 2, key="1"),
    ]
    context = ValidationContext(
        cohorts={cohort.id: cohort for cohort in cohorts},
        flags={flag.id: flag for flag in base},
        own_id=None,
    )
    flags = [
        make_flag(validate_filters({"groups": each}, context, is_new=True), number, **fields)
        for number, each in enumerate(groups, 10)
    ]
    source = Store(*base, *flags, cohorts=cohorts)
    out = decode(encode(export_document(source).document))
    assert make_plan(source, out, prune=True).is_empty
    target = Store(cohorts=[make_cohort(70, name="8"), make_cohort(80, name="Seven")])
    apply_document(target, out)
    assert make_plan(target, out, prune=True).is_empty
    assert build_document(asyncio.run(target.definitions(PROJECT, ""))).document == out
