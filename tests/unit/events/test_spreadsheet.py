"""Records as CSV: which columns, and what stands in them."""

import csv
import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import spreadsheet
from hedgerow.events.record import EventPerson, EventRecord
from hedgerow.events.spreadsheet import MAX_COLUMNS, Sheet, cell_text, lines
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


def sheet_of(*records: EventRecord) -> list[list[str]]:
    sheet = Sheet(include_person=False)
    for each in records:
        sheet.see([each])
    text = (sheet.heading() + sheet.rows(records)).decode()
    return list(csv.reader(io.StringIO(text)))


def test_all_records_have_the_columns_of_each() -> None:
    heading, *rows = sheet_of(record({"b": 1}), record({"a": {"x": [True, None]}}), record({}))
    assert heading == [*OWN, "properties.a.x.0", "properties.a.x.1", "properties.b", "timestamp"]
    assert [row[4:7] for row in rows] == [["", "", "1"], ["true", "", ""], ["", "", ""]]


def test_too_many_columns_stay_together() -> None:
    vast = {f"p{number}": number for number in range(MAX_COLUMNS)}
    heading, first, second = sheet_of(record(vast), record({"a": [1]}))
    assert heading == sorted(EventRecord.__struct_fields__)
    assert jsonio.decode(first[heading.index("properties")]) == vast
    assert second[heading.index("properties")] == '{"a":[1]}'


def test_the_columns_of_a_person_are_always_there() -> None:
    sheet = Sheet(include_person=True)
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
        sheet.rows([known, record({})]).decode() == "ann,,e,1,a,true,,'=A,,t\r\nann,,e,1,,,,,,t\r\n"
    )


def test_what_nobody_saw_has_no_column() -> None:
    sheet = Sheet(include_person=False)
    sheet.see([record({"a": 1})])
    assert sheet.rows([record({"a": 2, "b": 3})]).decode() == "ann,,e,1,2,t\r\n"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"])
def test_no_text_begins_as_a_formula(text: str) -> None:
    assert cell_text(text) == f"'{text}"
    assert sheet_of(record({text: text}))[0][4] == f"properties.{text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-1, "-1"), (1.5, "1.5"), (True, "true"), (None, ""), ("", ""), ("a=1", "a=1")],
)
def test_what_is_no_text_is_as_in_json(value: Any, shown: str) -> None:
    assert cell_text(value) == shown


@given(st.lists(st.lists(st.text(), min_size=1, max_size=3), max_size=5))
@bounded
def test_any_text_is_read_again(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(lines(rows).decode(), newline="")))
    assert read == [[cell_text(each) for each in row] for row in rows]
    assert not any(cell.startswith(spreadsheet._FORMULA) for row in read for cell in row)
