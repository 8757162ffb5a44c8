"""Records as CSV: one column for each thing that is in some record, its place written with dots
(`properties.$browser`, `elements.0.tag_name`), in the order of their names.

A text that a spreadsheet would take for a formula gets an apostrophe in front, in headings too:
names of properties are anybody's to choose.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hedgerow.events.answers import encoded
from hedgerow.events.record import TOLD_PROPERTIES, EventRecord
from hedgerow.lib import jsonio

# Beyond so many columns, what has parts stays whole, as JSON in one column each.
MAX_COLUMNS = 2_000

_PLAIN = ("id", "distinct_id", "event", "timestamp", "elements_chain")
_OF_PERSON = (
    "person.distinct_ids.0",
    "person.is_identified",
    *(f"person.properties.{name}" for name in TOLD_PROPERTIES),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Sheet:
    """Sees all records once for the columns, and once more to write them. Those of a person are
    always the same, so the first time nobody need be known."""

    def __init__(self, *, include_person: bool) -> None:
        self._include_person = include_person
        self._names = {*_PLAIN, *(_OF_PERSON if include_person else ())}
        self._is_whole = False

    @property
    def columns(self) -> Sequence[str]:
        return sorted(self._names)

    def see(self, records: Iterable[EventRecord]) -> None:
        if self._is_whole:
            return
        for record in records:
            self._names.update(_parts(record))
        if len(self._names) > MAX_COLUMNS:
            self._is_whole = True
            self._names = set(EventRecord.__struct_fields__)

    def heading(self) -> bytes:
        return lines([self.columns])

    def rows(self, records: Iterable[EventRecord]) -> bytes:
        columns = self.columns
        cells = map(self._cells, records)
        return lines([each.get(name) for name in columns] for each in cells)

    def _cells(self, record: EventRecord) -> dict[str, Any]:
        plain = {name: getattr(record, name) for name in _PLAIN}
        if self._is_whole:
            return {name: getattr(record, name) for name in EventRecord.__struct_fields__}
        cells = {**plain, **_parts(record)}
        if record.person is not None:
            _flatten(cells, "person", msgspec.to_builtins(record.person))
        return cells


def lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([cell_text(each) for each in row])
    return text.getvalue().encode("utf-8", "replace")


def cell_text(value: Any) -> str:
    """A text as it is, anything else as JSON writes it, without the quotes of a moment or an id."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    shown = encoded(value).decode()
    return cell_text(jsonio.decode(shown)) if shown.startswith('"') else shown


def _parts(record: EventRecord) -> dict[str, Any]:
    """What its properties and elements have in them."""
    cells: dict[str, Any] = {}
    _flatten(cells, "properties", jsonio.decode(record.properties))
    if record.elements:
        _flatten(cells, "elements", msgspec.to_builtins(record.elements))
    return cells


def _flatten(cells: dict[str, Any], place: str, value: Any) -> None:
    """Every part that has no parts of its own, with its place."""
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
