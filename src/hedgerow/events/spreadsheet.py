"""Records as CSV: one column for each thing that is in some record, its place written with dots
(`properties.$browser`, `elements.0.tag_name`), in the order of their names.

A text that a spreadsheet would take for a formula gets an apostrophe in front, in headings too:
names of properties are anybody's to choose.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hedgerow.events.record import EventRecord
from hedgerow.kit import jsonio

# Beyond so many columns, what has parts stays whole, as JSON in one column each.
MAX_COLUMNS = 2_000

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Sheet:
    """Sees all records once for the columns, and once more to write them."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._is_whole = False

    @property
    def columns(self) -> Sequence[str]:
        return sorted(self._names)

    def see(self, records: Iterable[EventRecord]) -> None:
        for record in records:
            self._names.update(name for name, _ in self._cells(record))
        if len(self._names) > MAX_COLUMNS:
            self._is_whole = True
            self._names = {name.partition(".")[0] for name in self._names}

    def heading(self) -> bytes:
        return lines([self.columns])

    def rows(self, records: Iterable[EventRecord]) -> bytes:
        columns = self.columns
        cells = (dict(self._cells(record)) for record in records)
        return lines([each.get(name) for name in columns] for each in cells)

    def _cells(self, record: EventRecord) -> Iterable[tuple[str, Any]]:
        value: dict[str, Any] = jsonio.decode(jsonio.encode(record))
        return value.items() if self._is_whole else _flat(value, "")


def lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([cell_text(each) for each in row])
    return text.getvalue().encode("utf-8", "replace")


def cell_text(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if value is None else jsonio.encode(value).decode()


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every part that has no parts of its own, with its place."""
    if isinstance(value, dict):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        yield place, value
        return
    for name, part in parts:
        yield from _flat(part, f"{place}.{name}" if place else str(name))
