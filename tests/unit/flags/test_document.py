"""Flags as a document: what is written, and what is wrong in one is named by its place."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.document import parsed
from hedgerow.flags.model import Runtime
from hedgerow.lib.yamlio import FromEnv
from tests.unit.flags.documents import Store, asking, document, planned
from tests.unit.flags.world import (
    EVERYBODY,
    a_cohort,
    a_flag,
    depends_on,
    group_prop,
    in_cohort,
)


def test_only_what_is_not_at_its_default_is_written() -> None:
    full = a_flag(
        EVERYBODY,
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
    made = document(Store(full, a_flag(EVERYBODY, 3, key="bare")))
    assert made.document == {
        "version": 1,
        "flags": [
            {"key": "bare", "filters": EVERYBODY},
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
                "filters": EVERYBODY,
            },
        ],
    }


def test_flags_cohorts_and_group_types_are_named() -> None:
    store = Store(
        a_flag(EVERYBODY, 1, key="base"),
        a_flag(asking(depends_on(1), in_cohort(7), in_cohort("7", "not_in")), 2, key="child"),
        a_flag(asking(group_prop(3, "plan", "pro"), aggregation_group_type_index=3), 4, key="firm"),
        cohorts=[a_cohort(7, name="Testers")],
        group_types={"company": 3},
    )
    made = document(store)
    _, child, firm = made.document["flags"]
    assert [filter["value"] for filter in child["filters"]["groups"][0]["properties"]] == [
        True,
        "Testers",
        "Testers",
    ]
    assert child["filters"]["groups"][0]["properties"][0]["key"] == "base"
    assert firm["filters"]["aggregation_group_type_index"] == "company"
    assert firm["filters"]["groups"][0]["properties"][0]["group_type_index"] == "company"
    assert list(made.nameless) == []
    assert planned(store, made.document, prune=True).is_empty


def test_what_has_no_name_of_its_own_is_written_as_an_id_and_told() -> None:
    filters = asking(in_cohort(1), in_cohort(3), depends_on(99))
    same = [a_cohort(1, name="Same"), a_cohort(2, name="Same")]
    store = Store(a_flag(filters, 5, key="odd"), cohorts=same)
    made = document(store)
    place = "flags[0] (odd): filters.groups[0].properties"
    assert list(made.nameless) == [
        f"{place}[0].value: cohort 1",
        f"{place}[1].value: cohort 3",
        f"{place}[2].key: flag 99",
    ]
    [item] = made.document["flags"]
    written = item["filters"]["groups"][0]["properties"]
    assert [written[0]["value"], written[1]["value"], written[2]["key"]] == [1, 3, 99]
    assert planned(store, made.document).is_empty


WRONG_SHAPES: list[tuple[Any, str]] = [
    (None, "None: A document has"),
    ([], "None: A document has"),
    ({}, "flags: A list of flags"),
    ({"flags": {}}, "flags: A list of flags"),
    ({"version": 2, "flags": []}, "version: "),
    ({"version": True, "flags": []}, "version: "),
    ({"flags": [], "a\nb": 1}, '"a\\nb" means nothing here'),
    ({"flags": ["x"]}, "flags[0]: A flag has"),
    ({"flags": [{}]}, "flags[0]: key: "),
    ({"flags": [{"key": 5}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a b"}]}, "flags[0]: key: Only letters"),
    ({"flags": [{"key": "a" * 401}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a", "id": 5}]}, 'flags[0] (a): "id" means nothing here'),
    ({"flags": [{"key": "a", "active": 1}]}, "flags[0] (a): active: Must be true"),
    ({"flags": [{"key": "a", "name": 1}]}, "flags[0] (a): name: Not text"),
    ({"flags": [{"key": "a", "name": "\x00"}]}, "flags[0] (a): name: Null"),
    ({"flags": [{"key": "a", "tags": "x"}]}, "flags[0] (a): tags: A list"),
    ({"flags": [{"key": "a", "tags": [1]}]}, "flags[0] (a): tags: Not text"),
    ({"flags": [{"key": "a", "tags": [" "]}]}, "flags[0] (a): tags: "),
    ({"flags": [{"key": "a", "evaluation_runtime": "moon"}]}, "runtime: One of these"),
    ({"flags": [{"key": "a", "evaluation_runtime": FromEnv("X")}]}, "runtime: One of these"),
    ({"flags": [{"key": "a", "has_encrypted_payloads": True}]}, "means nothing here"),
    ({"flags": [{"key": "a", "filters": {"payloads": {"true": FromEnv("X")}}}]}, "`!env`"),
    ({"flags": [{"key": "a", "filters": {"\ud800": 1}}]}, "flags[0] (a): filters: Surrogate"),
    ({"flags": [{"key": "a"}, {"key": "b"}, {"key": "a"}]}, "flags[2] (a): flags[0] (a) is"),
]


@pytest.mark.parametrize(("value", "complaint"), WRONG_SHAPES)
def test_what_is_no_document_is_refused_by_place(value: Any, complaint: str) -> None:
    with pytest.raises(Invalid) as caught:
        parsed(value)
    assert complaint in f"{caught.value.attr}: {caught.value.detail}"
