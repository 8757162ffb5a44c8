from typing import Any

import pytest

from hedgerow.lib.shape import (
    ByName,
    Shape,
    find_unknown_fields,
    remove_unknown_fields,
    suggest_name,
)

LEAF = Shape("key", "value", unused=("label",))
NODE = Shape("type", leaf=LEAF, leaves=LEAF, named=ByName(LEAF))
NODE.fields["values"] = NODE


def find_paths(value: Any, place: str = "doc") -> list[str]:
    return [found.path for found in find_unknown_fields(value, NODE, place)]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({}, []),
        ({"type": 1, "leaf": {"key": 1, "label": 2}}, []),
        ({"typ": 1}, ["doc.typ"]),
        ({"leaf": {"label": 1, "kye": 2}}, ["doc.leaf.kye"]),
        ({"leaves": [{}, {"x": 1}]}, ["doc.leaves[1].x"]),
        ({"named": {"any": {"x": 1}, "name": {}}}, ["doc.named.any.x"]),
        ({"values": [{"values": [{"x": 1}]}]}, ["doc.values[0].values[0].x"]),
        ({"leaf": 5, "leaves": "x", "values": {"x": None}}, ["doc.values.x"]),
        (5, []),
        ([{"x": 1}], ["doc[0].x"]),
    ],
)
def test_unknown_fields_are_found_with_their_path(value: Any, paths: list[str]) -> None:
    assert find_paths(value) == paths


def test_fields_are_reported_in_document_order() -> None:
    value = {"b": 1, "values": [{"c": 1}, {"d": 1}], "leaf": {"e": 1}, "a": 1}
    expected = ["doc.b", "doc.a", "doc.values[0].c", "doc.values[1].d", "doc.leaf.e"]
    assert find_paths(value) == expected


def test_whole_body_has_no_place() -> None:
    [found] = find_unknown_fields({"tpye": 1}, NODE, "")
    assert (found.path, found.detail) == ("tpye", "Unknown field `tpye`. Did you mean `type`?")


def test_field_without_a_similar_one_gets_the_list() -> None:
    [found] = find_unknown_fields({"leaf": {"colour": 1}}, NODE, "doc")
    assert found.detail == "Unknown field `colour` in doc.leaf. Expected one of: key, value."


def test_long_and_unstorable_names_are_shortened_and_replaced() -> None:
    [found] = find_unknown_fields({"\ud800" + "x" * 100_000: 1}, NODE, "")
    assert (found.name[0], len(found.name)) == ("\ufffd", 100)
    found.detail.encode()


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("rollout_percentge", "rollout_percentage"),
        ("rolloutPercentage", "rollout_percentage"),
        ("rollout-percentage", "rollout_percentage"),
        ("ROLLOUT", "rollout_percentage"),
        ("xyz", None),
    ],
)
def test_suggestion_ignores_case_and_separators(name: str, known: str | None) -> None:
    assert suggest_name(name, ("properties", "rollout_percentage", "variant")) == known


def test_removing_unknown_fields_keeps_everything_else() -> None:
    value = {
        "type": 1,
        "x": 2,
        "leaves": [{"key": 1, "label": 2, "y": 3}],
        "named": {"a": {"z": 1}},
    }
    kept = {"type": 1, "leaves": [{"key": 1, "label": 2}], "named": {"a": {}}}
    assert remove_unknown_fields(value, NODE) == kept
    assert find_paths(kept) == []
