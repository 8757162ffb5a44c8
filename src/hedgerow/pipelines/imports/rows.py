"""Rows of files: CSV, lines of JSON and Parquet, some at a time, in bounded memory. What is wrong
with one row is no reason to leave out another.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Protocol, cast

from hedgerow.lib import jsonio
from hedgerow.pipelines.imports.model import BadRow, SourceRow
from hedgerow.pipelines.imports.values import plain
from hedgerow.pipelines.model import JobProblem

AUTO, CSV, JSONL, PARQUET = "auto", "csv", "jsonl", "parquet"
ENDINGS = {
    ".csv": CSV,
    ".tsv": CSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSONL,
    ".parquet": PARQUET,
}
DELIMITERS = ",;\t|"
# A portion has so many rows and bytes at most.
PORTION = 1000
PORTION_BYTES = 8 * 1024 * 1024
# A longer line is no event: capture takes none of that size.
MAX_LINE = 2 * 1024 * 1024
GZIP = b"\x1f\x8b"

csv.field_size_limit(MAX_LINE)


def format_of(name: str, said: str) -> str | None:
    """By the ending of a file's name, unless it is said; None for what is no such file."""
    if said != AUTO:
        return said
    path = PurePosixPath(name.lower())
    return ENDINGS.get(PurePosixPath(path.stem).suffix if path.suffix == ".gz" else path.suffix)


class Reads(Protocol):
    """Of a file that is read, as much as is needed here."""

    def readline(self, limit: int = -1, /) -> bytes: ...


@dataclass(slots=True, kw_only=True)
class Portion:
    """Some rows of one file. `position` is where the next one begins."""

    rows: list[SourceRow] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    position: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None
    size: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.rows) + len(self.bad) >= PORTION or self.size >= PORTION_BYTES


def portions(
    file: BinaryIO, format: str, name: str, position: Mapping[str, int] | None
) -> Iterator[Portion]:
    """The rows of a file from a position on. JobProblem if it cannot be read at all."""
    try:
        if format == PARQUET:
            yield from _parquet(file, name, position)
        elif format == CSV:
            yield from _csv(_unpacked(file), name, position)
        else:
            yield from _jsonl(_unpacked(file), name, position)
    except (OSError, EOFError, zlib.error) as error:
        raise JobProblem(f"{name} cannot be read: {_said(error)}") from None


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200].rstrip(".") + "."


def _unpacked(file: BinaryIO) -> BinaryIO:
    start = file.read(len(GZIP))
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == GZIP else file


class _Lines:
    """Lines of text, with where they are. One that cannot be read raises `_BadLine`, and the next
    one follows."""

    def __init__(self, file: Reads) -> None:
        self._file = file
        self.line = 0
        self.offset = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        raw = self._file.readline(MAX_LINE)
        if not raw:
            raise StopIteration
        self.line += 1
        self.offset += len(raw)
        if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = self._file.readline(MAX_LINE)
                self.offset += len(raw)
            raise _BadLine(f"The line is longer than {MAX_LINE} bytes.")
        try:
            return raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _BadLine("The line is not UTF-8.") from None

    def go_to(self, file: BinaryIO, position: Mapping[str, int]) -> None:
        file.seek(position["offset"])
        self.line, self.offset = position["line"], position["offset"]

    @property
    def position(self) -> dict[str, int]:
        return {"line": self.line, "offset": self.offset}


class _BadLine(Exception):
    """What is wrong with a row."""


def _csv(file: BinaryIO, name: str, position: Mapping[str, int] | None) -> Iterator[Portion]:
    lines = _Lines(file)
    columns, delimiter = _header(lines, name)
    if position:
        lines.go_to(file, position)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    portion = Portion()
    while True:
        began, at = lines.line + 1, lines.offset
        place = f"{name} line {began}"
        try:
            cells = next(reader, None)
            if cells is None:
                break
            if any(cells):
                values = _columns(columns, cells)
                identity = _identity(name, began, jsonio.encode(cells))
                portion.rows.append(
                    SourceRow(identity=identity, place=place, values=values, is_text=True)
                )
        except _BadLine as problem:
            portion.bad.append(BadRow(place=place, reason=str(problem)))
        except csv.Error as problem:
            reason = f"The row is not CSV: {problem}."
            portion.bad.append(BadRow(place=place, reason=reason))
        portion.size += lines.offset - at
        if portion.is_full:
            portion.position = lines.position
            yield portion
            portion = Portion()
    portion.position = lines.position
    yield portion


def _header(lines: _Lines, name: str) -> tuple[list[str], str]:
    """The columns' names, and what stands between them."""
    try:
        header = next(lines, "")
    except _BadLine as problem:
        raise JobProblem(f"{name} has no header: {problem}") from None
    delimiter = max(DELIMITERS, key=header.count)
    columns = next(csv.reader([header], delimiter=delimiter), [])
    if not all(columns) or not columns or len(set(columns)) != len(columns):
        raise JobProblem(f"{name}: the first line must name the columns, each once.")
    return columns, delimiter


def _columns(columns: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        raise _BadLine(f"The row has {len(cells)} fields, and the header {len(columns)}.")
    return dict(zip(columns, cells, strict=True))


def _jsonl(file: BinaryIO, name: str, position: Mapping[str, int] | None) -> Iterator[Portion]:
    lines = _Lines(file)
    if position:
        lines.go_to(file, position)
    portion = Portion()
    while True:
        at = lines.offset
        place = f"{name} line {lines.line + 1}"
        try:
            text = next(lines, None)
            if text is None:
                break
            if text.strip():
                values = _object(text)
                identity = _identity(name, lines.line, text.strip().encode())
                portion.rows.append(SourceRow(identity=identity, place=place, values=values))
        except (_BadLine, jsonio.JsonError) as problem:
            portion.bad.append(BadRow(place=place, reason=str(problem)))
        portion.size += lines.offset - at
        if portion.is_full:
            portion.position = lines.position
            yield portion
            portion = Portion()
    portion.position = lines.position
    yield portion


def _object(text: str) -> dict[str, Any]:
    value = jsonio.parse(text.encode())
    if not isinstance(value, dict):
        raise _BadLine("The line is no JSON object.")
    return value


def _parquet(file: BinaryIO, name: str, position: Mapping[str, int] | None) -> Iterator[Portion]:
    # Takes half a second to load, and only here.
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        yield from _parquet_rows(parquet.ParquetFile(file), name, position)
    except arrow.ArrowException as error:
        raise JobProblem(f"{name} cannot be read: {_said(error)}") from None


def _parquet_rows(opened: Any, name: str, position: Mapping[str, int] | None) -> Iterator[Portion]:
    total = opened.metadata.num_rows
    done = position["line"] if position else 0
    row = 0
    for group in range(opened.metadata.num_row_groups):
        rows_in_group = opened.metadata.row_group(group).num_rows
        if row + rows_in_group <= done:
            row += rows_in_group
            continue
        for batch in opened.iter_batches(batch_size=PORTION, row_groups=[group]):
            if row + batch.num_rows <= done:
                row += batch.num_rows
                continue
            portion = Portion(total=total)
            for values in batch.to_pylist():
                row += 1
                if row > done:
                    plain_values = plain(values)
                    identity = _identity(name, row, jsonio.encode(plain_values))
                    place = f"{name} row {row}"
                    portion.rows.append(
                        SourceRow(identity=identity, place=place, values=plain_values)
                    )
            portion.position = {"line": row, "offset": 0}
            yield portion
    yield Portion(total=total, position={"line": row, "offset": 0})


def _identity(name: str, line: int, content: bytes) -> str:
    """The same row of the same file is the same event; a row that was changed is another."""
    return f"{name}\n{line}\n{sha256(content).hexdigest()}"
