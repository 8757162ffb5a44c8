"""Events as CSV: one column for each nested value, named by its path (`properties.$browser`,
`elements.0.tag_name`), sorted by name.

Text that a spreadsheet would run as a formula gets a leading apostrophe, also in headings: anyone
can choose the name of a property.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hedgerow.events.listing.record import PERSON_SUMMARY_PROPERTIES, EventRecord
from hedgerow.events.query.encoded_rows import check_size
from hedgerow.events.query.result_json import encode_result
from hedgerow.lib import jsonio

# With more columns, nested values stay JSON in one column each.
MAX_COLUMNS = 2_000
INCOMPLETE = "ERROR: this file is incomplete."

_EVENT_COLUMNS = ("id", "distinct_id", "event", "timestamp", "elements_chain")
_PERSON_COLUMNS = (
    "person.distinct_ids.0",
    "person.is_identified",
    *(f"person.properties.{name}" for name in PERSON_SUMMARY_PROPERTIES),
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


class EventCsv:
    """A CSV file in two passes over the records: `collect_columns`, then `format_rows`. Person
    columns are fixed, so the first pass needs no persons."""

    def __init__(self, *, include_person: bool) -> None:
        self._include_person = include_person
        self._columns = {*_EVENT_COLUMNS, *(_PERSON_COLUMNS if include_person else ())}
        self._is_collapsed = False

    @property
    def columns(self) -> Sequence[str]:
        return sorted(self._columns)

    def collect_columns(self, records: Iterable[EventRecord]) -> None:
        if self._is_collapsed:
            return
        for record in records:
            self._columns.update(_flatten_details(record))
        if len(self._columns) > MAX_COLUMNS:
            self._is_collapsed = True
            self._columns = set(EventRecord.__struct_fields__)

    def format_header(self) -> bytes:
        return format_csv_rows([self.columns])

    def format_rows(self, records: Iterable[EventRecord]) -> bytes:
        columns = self.columns
        cells = map(self._build_cells, records)
        return format_csv_rows([each.get(name) for name in columns] for each in cells)

    def _build_cells(self, record: EventRecord) -> dict[str, Any]:
        plain = {name: getattr(record, name) for name in _EVENT_COLUMNS}
        if self._is_collapsed:
            return {name: getattr(record, name) for name in EventRecord.__struct_fields__}
        cells = {**plain, **_flatten_details(record)}
        if record.person is not None:
            _flatten(cells, "person", msgspec.to_builtins(record.person))
        return cells


def format_csv_rows(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([format_cell(each) for each in row])
    return text.getvalue().encode("utf-8", "replace")


def format_failure(detail: str) -> bytes:
    """Format the last line of a file that is incomplete."""
    return format_csv_rows([[f"{INCOMPLETE} {detail}"]])


def encode_csv_rows(rows: Iterable[Sequence[Any]]) -> bytes:
    """Format rows whose size a client has chosen. Raises ResultTooLarge."""
    return check_size(format_csv_rows(rows))


def format_cell(value: Any) -> str:
    """Format a value: text as it is, other values as JSON, without the quotes of times and ids."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_PREFIXES) else value
    shown = encode_result(value).decode()
    return format_cell(jsonio.decode(shown)) if shown.startswith('"') else shown


def _flatten_details(record: EventRecord) -> dict[str, Any]:
    """Return the values in the properties and elements of a record."""
    cells: dict[str, Any] = {}
    _flatten(cells, "properties", jsonio.decode(record.properties))
    if record.elements:
        _flatten(cells, "elements", msgspec.to_builtins(record.elements))
    return cells


def _flatten(cells: dict[str, Any], place: str, value: Any) -> None:
    """Add every leaf value with its path."""
    if isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, dict | list):
                _flatten(cells, f"{place}.{name}", part)
            else:
                cells[f"{place}.{name}"] = part
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _flatten(cells, f"{place}.{number}", part)
    else:
        cells[place] = value
