from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.mapping import check_mapping, compile_mapping
from hedgerow.plugin.imports import SourceRow


def event(mapping: dict[str, Any], is_text: bool = False, **values: Any) -> dict[str, Any]:
    check_mapping(mapping)
    row = SourceRow(identity="a.csv 1", location="line 1", values=values, is_text=is_text)
    return compile_mapping(mapping)(row)


def test_fields_come_from_columns_and_constants() -> None:
    mapped = event({"event": "=signup", "distinct_id": "who"}, who="ann", timestamp="t", price=3)
    assert mapped.pop("uuid")
    assert mapped == {
        "event": "signup",
        "distinct_id": "ann",
        "timestamp": "t",
        "properties": {"price": 3},
    }


def test_properties_are_mapped_and_extra_columns_can_be_excluded() -> None:
    mapping = {"properties": {"cost": "price", "source": "=csv"}}
    mapped = event(mapping, event="e", distinct_id="d", price=3, colour="red")
    assert mapped["properties"] == {"colour": "red", "cost": 3, "source": "csv"}
    mapped = event(mapping | {"rest": False}, event="e", distinct_id="d", price=3, colour="red")
    assert mapped["properties"] == {"cost": 3, "source": "csv"}


def test_properties_column_excludes_other_columns() -> None:
    for own in ({"a": 1}, '{"a": 1}'):
        mapped = event({}, event="e", distinct_id="d", properties=own, person_id="p")
        assert mapped["properties"] == {"a": 1}
    mapped = event({"rest": True}, event="e", distinct_id="d", properties={"a": 1}, more=2)
    assert mapped["properties"] == {"a": 1, "more": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-1.50", -1.5),
        ("0", 0),
        ("007", "007"),
        ("+44", "+44"),
        ("1e5", "1e5"),
        ("true", True),
        ("True", "True"),
        ("12345678901234567890", "12345678901234567890"),
        ("-0", "-0"),
        ("٣", "٣"),
    ],
)
def test_numbers_and_booleans_are_recognized_in_text(text: str, value: Any) -> None:
    mapped = event({}, is_text=True, event="e", distinct_id="7", p=text)
    assert (mapped["properties"], mapped["distinct_id"]) == ({"p": value}, "7")
    assert type(mapped["properties"]["p"]) is type(value)
    assert event({}, event="e", distinct_id="7", p=text)["properties"] == {"p": text}


def test_empty_values_are_omitted_and_a_row_is_always_the_same_event() -> None:
    mapped = event({}, is_text=True, event="e", distinct_id="", p="", timestamp="")
    assert mapped == {"event": "e", "uuid": mapped["uuid"], "properties": {}}
    assert event({}, event="other")["uuid"] == mapped["uuid"]
    assert event({"uuid": "id"}, id="given")["uuid"] == "given"


@pytest.mark.parametrize(
    "mapping",
    [
        [],
        {"event": 1},
        {"event": ""},
        {"who": "x"},
        {"properties": []},
        {"properties": {"a": 1}},
        {"rest": "yes"},
    ],
)
def test_invalid_mapping_is_refused(mapping: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        check_mapping(mapping)
    assert refusal.value.attr == "config__mapping"
