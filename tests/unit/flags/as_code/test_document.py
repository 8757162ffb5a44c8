"""The flag document: its format, and errors with their paths."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.as_code.document import parse_document
from hedgerow.flags.model import Runtime
from hedgerow.lib.yamlio import FromEnv
from tests.unit.flags.as_code.flag_documents import (
    Store,
    condition_with,
    export_document,
    make_plan,
)
from tests.unit.flags.factories import (
    MATCH_ALL,
    depends_on,
    group_prop,
    in_cohort,
    make_cohort,
    make_flag,
)


def test_defaults_are_omitted() -> None:
    full = make_flag(
        MATCH_ALL,
        2,
        key="full",
        name="All of it",
        active=False,
        archived=True,
        ensure_experience_continuity=True,
        is_remote_configuration=True,
        evaluation_runtime=Runtime.SERVER,
        evaluation_contexts=("web",),
        tags=("b", "a"),
    )
    made = export_document(Store(full, make_flag(MATCH_ALL, 3, key="bare")))
    assert made.document == {
        "version": 1,
        "flags": [
            {"key": "bare", "filters": MATCH_ALL},
            {
                "key": "full",
                "name": "All of it",
                "active": False,
                "archived": True,
                "tags": ["b", "a"],
                "ensure_experience_continuity": True,
                "is_remote_configuration": True,
                "evaluation_runtime": "server",
                "evaluation_contexts": ["web"],
                "filters": MATCH_ALL,
            },
        ],
    }


def test_references_are_exported_by_name() -> None:
    store = Store(
        make_flag(MATCH_ALL, 1, key="base"),
        make_flag(
            condition_with(depends_on(1), in_cohort(7), in_cohort("7", "not_in")), 2, key="child"
        ),
        make_flag(
            condition_with(group_prop(3, "plan", "pro"), aggregation_group_type_index=3),
            4,
            key="firm",
        ),
        cohorts=[make_cohort(7, name="Testers")],
        group_types={"company": 3},
    )
    made = export_document(store)
    _, child, firm = made.document["flags"]
    assert [filter["value"] for filter in child["filters"]["groups"][0]["properties"]] == [
        True,
        "Testers",
        "Testers",
    ]
    assert child["filters"]["groups"][0]["properties"][0]["key"] == "base"
    assert firm["filters"]["aggregation_group_type_index"] == "company"
    assert firm["filters"]["groups"][0]["properties"][0]["group_type_index"] == "company"
    assert list(made.unnamed_references) == []
    assert make_plan(store, made.document, prune=True).is_empty


def test_reference_without_a_unique_name_is_exported_as_an_id() -> None:
    filters = condition_with(in_cohort(1), in_cohort(3), depends_on(99))
    same = [make_cohort(1, name="Same"), make_cohort(2, name="Same")]
    store = Store(make_flag(filters, 5, key="odd"), cohorts=same)
    made = export_document(store)
    place = "flags[0] (odd): filters.groups[0].properties"
    assert list(made.unnamed_references) == [
        f"{place}[0].value: cohort 1",
        f"{place}[1].value: cohort 3",
        f"{place}[2].key: flag 99",
    ]
    [item] = made.document["flags"]
    written = item["filters"]["groups"][0]["properties"]
    assert [written[0]["value"], written[1]["value"], written[2]["key"]] == [1, 3, 99]
    assert make_plan(store, made.document).is_empty


WRONG_SHAPES: list[tuple[Any, str]] = [
    (None, "None: Expected an object"),
    ([], "None: Expected an object"),
    ({}, "flags: Expected a list of flags"),
    ({"flags": {}}, "flags: Expected a list of flags"),
    ({"version": 2, "flags": []}, "version: "),
    ({"version": True, "flags": []}, "version: "),
    ({"flags": [], "a\nb": 1}, "Unknown field `a\nb`"),
    ({"flags": ["x"]}, "flags[0]: Expected an object"),
    ({"flags": [{}]}, "flags[0]: key: "),
    ({"flags": [{"key": 5}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a b"}]}, "flags[0]: key: Only letters"),
    ({"flags": [{"key": "a" * 401}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a", "id": 5}]}, "flags[0] (a): Unknown field `id`"),
    ({"flags": [{"key": "a", "active": 1}]}, "flags[0] (a): active: Must be true"),
    ({"flags": [{"key": "a", "name": 1}]}, "flags[0] (a): name: Expected a string"),
    ({"flags": [{"key": "a", "name": "\x00"}]}, "flags[0] (a): name: Null"),
    ({"flags": [{"key": "a", "tags": "x"}]}, "flags[0] (a): tags: Expected a list"),
    ({"flags": [{"key": "a", "tags": [1]}]}, "flags[0] (a): tags: Expected a string"),
    ({"flags": [{"key": "a", "tags": [" "]}]}, "flags[0] (a): tags: "),
    ({"flags": [{"key": "a", "evaluation_runtime": "moon"}]}, "runtime: Expected one of"),
    ({"flags": [{"key": "a", "evaluation_runtime": FromEnv("X")}]}, "runtime: Expected one of"),
    ({"flags": [{"key": "a", "has_encrypted_payloads": True}]}, "Unknown field"),
    ({"flags": [{"key": "a", "filters": {"payloads": {"true": FromEnv("X")}}}]}, "`!env`"),
    ({"flags": [{"key": "a", "filters": {"\ud800": 1}}]}, "flags[0] (a): filters: Surrogate"),
    ({"flags": [{"key": "a"}, {"key": "b"}, {"key": "a"}]}, "flags[2] (a): flags[0] (a) has"),
]


@pytest.mark.parametrize(("value", "error"), WRONG_SHAPES)
def test_invalid_document_is_rejected_with_its_path(value: Any, error: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_document(value)
    assert error in f"{caught.value.attr}: {caught.value.detail}"


@pytest.mark.parametrize("stored", [False, True], ids=["new", "changed"])
def test_misspelled_field_in_filters_is_named(stored: bool) -> None:
    store = Store(*[make_flag(MATCH_ALL, 1, key="a")] * stored)
    document = {"flags": [{"key": "a", "filters": {"groups": [{"rollout_percentge": 5}]}}]}
    with pytest.raises(Invalid) as error:
        make_plan(store, document)
    assert error.value.attr == "flags[0] (a): filters.groups[0].rollout_percentge"
    assert error.value.detail.endswith("Did you mean `rollout_percentage`?")
