"""CSV columns and cells."""

import csv
import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events.listing import csv_writer
from hedgerow.events.listing.csv_writer import MAX_COLUMNS, EventCsv, format_cell, format_csv_rows
from hedgerow.events.listing.record import EventPerson, EventRecord
from hedgerow.lib import jsonio
from tests.unit.generated import bounded

OWN = ["distinct_id", "elements_chain", "event", "id"]


def record(properties: Any) -> EventRecord:
    return EventRecord(
        id="1",
        distinct_id="ann",
        properties=msgspec.Raw(jsonio.encode(properties)),
        event="e",
        timestamp="t",
        person=None,
        elements=(),
        elements_chain="",
    )


def format_records(*records: EventRecord) -> list[list[str]]:
    sheet = EventCsv(include_person=False)
    for each in records:
        sheet.collect_columns([each])
    text = (sheet.format_header() + sheet.format_rows(records)).decode()
    return list(csv.reader(io.StringIO(text)))


def test_rows_have_the_columns_of_all_records() -> None:
    heading, *rows = format_records(
        record({"b": 1}), record({"a": {"x": [True, None]}}), record({})
    )
    assert heading == [*OWN, "properties.a.x.0", "properties.a.x.1", "properties.b", "timestamp"]
    assert [row[4:7] for row in rows] == [["", "", "1"], ["true", "", ""], ["", "", ""]]


def test_too_many_columns_collapse_to_json() -> None:
    vast = {f"p{number}": number for number in range(MAX_COLUMNS)}
    heading, first, second = format_records(record(vast), record({"a": [1]}))
    assert heading == sorted(EventRecord.__struct_fields__)
    assert jsonio.decode(first[heading.index("properties")]) == vast
    assert second[heading.index("properties")] == '{"a":[1]}'


def test_person_columns_are_fixed() -> None:
    sheet = EventCsv(include_person=True)
    assert [name for name in sheet.columns if name.startswith("person")] == [
        "person.distinct_ids.0",
        "person.is_identified",
        "person.properties.email",
        "person.properties.name",
        "person.properties.username",
    ]
    person = EventPerson(is_identified=True, distinct_ids=["a"], properties={"name": "=A"})
    known = msgspec.structs.replace(record({}), person=person)
    assert (
        sheet.format_rows([known, record({})]).decode()
        == "ann,,e,1,a,true,,'=A,,t\r\nann,,e,1,,,,,,t\r\n"
    )


def test_uncollected_values_have_no_column() -> None:
    sheet = EventCsv(include_person=False)
    sheet.collect_columns([record({"a": 1})])
    assert sheet.format_rows([record({"a": 2, "b": 3})]).decode() == "ann,,e,1,2,t\r\n"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"])
def test_formulas_are_escaped(text: str) -> None:
    assert format_cell(text) == f"'{text}"
    assert format_records(record({text: text}))[0][4] == f"properties.{text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-1, "-1"), (1.5, "1.5"), (True, "true"), (None, ""), ("", ""), ("a=1", "a=1")],
)
def test_other_values_are_formatted_as_json(value: Any, shown: str) -> None:
    assert format_cell(value) == shown


@given(st.lists(st.lists(st.text(), min_size=1, max_size=3), max_size=5))
@bounded
def test_any_text_round_trips(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(format_csv_rows(rows).decode(), newline="")))
    assert read == [[format_cell(each) for each in row] for row in rows]
    assert not any(cell.startswith(csv_writer._FORMULA_PREFIXES) for row in read for cell in row)
