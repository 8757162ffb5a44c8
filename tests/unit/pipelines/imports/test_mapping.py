from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.mapping import check_mapping, mapped_by
from hedgerow.pipelines.imports.model import SourceRow


def event(mapping: dict[str, Any], is_text: bool = False, **values: Any) -> dict[str, Any]:
    check_mapping(mapping)
    row = SourceRow(identity="a.csv 1", place="line 1", values=values, is_text=is_text)
    return mapped_by(mapping)(row)


def test_columns_are_found_by_name_constant_and_their_own_name() -> None:
    made = event({"event": "=signup", "distinct_id": "who"}, who="ann", timestamp="t", price=3)
    assert made.pop("uuid")
    assert made == {
        "event": "signup",
        "distinct_id": "ann",
        "timestamp": "t",
        "properties": {"price": 3},
    }


def test_properties_are_named_and_the_rest_may_stay_away() -> None:
    mapping = {"properties": {"cost": "price", "source": "=csv"}}
    made = event(mapping, event="e", distinct_id="d", price=3, colour="red")
    assert made["properties"] == {"colour": "red", "cost": 3, "source": "csv"}
    made = event(mapping | {"rest": False}, event="e", distinct_id="d", price=3, colour="red")
    assert made["properties"] == {"cost": 3, "source": "csv"}


def test_a_row_with_properties_of_its_own_says_what_they_are() -> None:
    for own in ({"a": 1}, '{"a": 1}'):
        made = event({}, event="e", distinct_id="d", properties=own, person_id="p")
        assert made["properties"] == {"a": 1}
    made = event({"rest": True}, event="e", distinct_id="d", properties={"a": 1}, more=2)
    assert made["properties"] == {"a": 1, "more": 2}


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
def test_numbers_among_texts_are_told_by_their_form(text: str, value: Any) -> None:
    made = event({}, is_text=True, event="e", distinct_id="7", p=text)
    assert (made["properties"], made["distinct_id"]) == ({"p": value}, "7")
    assert type(made["properties"]["p"]) is type(value)
    assert event({}, event="e", distinct_id="7", p=text)["properties"] == {"p": text}


def test_what_is_empty_is_left_out_and_the_same_row_is_the_same_event() -> None:
    made = event({}, is_text=True, event="e", distinct_id="", p="", timestamp="")
    assert made == {"event": "e", "uuid": made["uuid"], "properties": {}}
    assert event({}, event="other")["uuid"] == made["uuid"]
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
def test_what_is_no_mapping_is_refused(mapping: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        check_mapping(mapping)
    assert refusal.value.attr == "config__mapping"
