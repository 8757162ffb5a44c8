"""Reads rows of CSV, JSON Lines and Parquet files in batches, with bounded memory. A bad row does
not stop the others.
"""

import base64
import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Protocol, cast

from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import import_package
from hedgerow.plugin.imports import BadRow, JobError, SourceRow

AUTO, CSV, JSONL, PARQUET = "auto", "csv", "jsonl", "parquet"
FORMATS_BY_SUFFIX = {
    ".csv": CSV,
    ".tsv": CSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSONL,
    ".parquet": PARQUET,
}
DELIMITERS = ",;\t|"
# Limits of a batch.
BATCH_ROWS = 1000
BATCH_BYTES = 8 * 1024 * 1024
# Longer lines are bad rows: ingestion accepts no event of that size.
MAX_LINE_BYTES = 2 * 1024 * 1024
GZIP = b"\x1f\x8b"

csv.field_size_limit(MAX_LINE_BYTES)


def detect_format(name: str, format: str) -> str | None:
    """Return the format by the suffix of the name, unless one is set; None if it is unknown."""
    if format != AUTO:
        return format
    path = PurePosixPath(name.lower())
    return FORMATS_BY_SUFFIX.get(
        PurePosixPath(path.stem).suffix if path.suffix == ".gz" else path.suffix
    )


class LineReader(Protocol):
    """The part of a binary file that is used here."""

    def readline(self, limit: int = -1, /) -> bytes: ...


@dataclass(slots=True, kw_only=True)
class FileBatch:
    """Rows of one file. `position` is where the next batch begins."""

    rows: list[SourceRow] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    position: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None
    size: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.rows) + len(self.bad) >= BATCH_ROWS or self.size >= BATCH_BYTES


def read_batches(
    file: BinaryIO, format: str, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    """Yield the rows of a file from a position on. Raises JobError if it cannot be read."""
    try:
        if format == PARQUET:
            yield from _read_parquet(file, name, position)
        elif format == CSV:
            yield from _read_csv(_decompress(file), name, position)
        else:
            yield from _read_jsonl(_decompress(file), name, position)
    except (OSError, EOFError, zlib.error) as error:
        raise JobError(f"{name} cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200].rstrip(".") + "."


def _decompress(file: BinaryIO) -> BinaryIO:
    start = file.read(len(GZIP))
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == GZIP else file


class _Lines:
    """Iterates over lines and tracks the position. A bad line raises `_BadLine`; iteration may
    continue behind it."""

    def __init__(self, file: LineReader) -> None:
        self._file = file
        self.line = 0
        self.offset = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        raw = self._file.readline(MAX_LINE_BYTES)
        if not raw:
            raise StopIteration
        self.line += 1
        self.offset += len(raw)
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = self._file.readline(MAX_LINE_BYTES)
                self.offset += len(raw)
            raise _BadLine(f"The line is longer than {MAX_LINE_BYTES} bytes.")
        try:
            return raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _BadLine("The line is not UTF-8.") from None

    def seek(self, file: BinaryIO, position: Mapping[str, int]) -> None:
        file.seek(position["offset"])
        self.line, self.offset = position["line"], position["offset"]

    @property
    def position(self) -> dict[str, int]:
        return {"line": self.line, "offset": self.offset}


class _BadLine(Exception):
    """A line or row that cannot be imported."""


def _read_csv(file: BinaryIO, name: str, position: Mapping[str, int] | None) -> Iterator[FileBatch]:
    lines = _Lines(file)
    columns, delimiter = _read_header(lines, name)
    if position:
        lines.seek(file, position)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    batch = FileBatch()
    while True:
        first_line, start = lines.line + 1, lines.offset
        location = f"{name} line {first_line}"
        try:
            cells = next(reader, None)
            if cells is None:
                break
            if any(cells):
                values = _zip_columns(columns, cells)
                identity = _identity(name, first_line, jsonio.encode(cells))
                batch.rows.append(
                    SourceRow(identity=identity, location=location, values=values, is_text=True)
                )
        except _BadLine as error:
            batch.bad.append(BadRow(location=location, reason=str(error)))
        except csv.Error as error:
            reason = f"The row is not CSV: {error}."
            batch.bad.append(BadRow(location=location, reason=reason))
        batch.size += lines.offset - start
        if batch.is_full:
            batch.position = lines.position
            yield batch
            batch = FileBatch()
    batch.position = lines.position
    yield batch


def _read_header(lines: _Lines, name: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter."""
    try:
        header = next(lines, "")
    except _BadLine as error:
        raise JobError(f"{name} has no header: {error}") from None
    delimiter = max(DELIMITERS, key=header.count)
    columns = next(csv.reader([header], delimiter=delimiter), [])
    if not all(columns) or not columns or len(set(columns)) != len(columns):
        raise JobError(f"{name}: the first line must contain the column names, each once.")
    return columns, delimiter


def _zip_columns(columns: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        raise _BadLine(f"The row has {len(cells)} fields, but the header has {len(columns)}.")
    return dict(zip(columns, cells, strict=True))


def _read_jsonl(
    file: BinaryIO, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    lines = _Lines(file)
    if position:
        lines.seek(file, position)
    batch = FileBatch()
    while True:
        start = lines.offset
        location = f"{name} line {lines.line + 1}"
        try:
            text = next(lines, None)
            if text is None:
                break
            if text.strip():
                values = _parse_object(text)
                identity = _identity(name, lines.line, text.strip().encode())
                batch.rows.append(SourceRow(identity=identity, location=location, values=values))
        except (_BadLine, jsonio.JsonError) as error:
            batch.bad.append(BadRow(location=location, reason=str(error)))
        batch.size += lines.offset - start
        if batch.is_full:
            batch.position = lines.position
            yield batch
            batch = FileBatch()
    batch.position = lines.position
    yield batch


def _parse_object(text: str) -> dict[str, Any]:
    value = jsonio.parse(text.encode())
    if not isinstance(value, dict):
        raise _BadLine("The line is not a JSON object.")
    return value


def _read_parquet(
    file: BinaryIO, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    # Loaded on first use: it takes half a second.
    arrow, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
    try:
        yield from _read_parquet_rows(parquet.ParquetFile(file), name, position)
    except arrow.ArrowException as error:
        raise JobError(f"{name} cannot be read: {_first_line(error)}") from None


def _read_parquet_rows(
    parquet_file: Any, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    total = parquet_file.metadata.num_rows
    done = position["line"] if position else 0
    row = 0
    for group in range(parquet_file.metadata.num_row_groups):
        rows_in_group = parquet_file.metadata.row_group(group).num_rows
        if row + rows_in_group <= done:
            row += rows_in_group
            continue
        for rows in parquet_file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
            if row + rows.num_rows <= done:
                row += rows.num_rows
                continue
            batch = FileBatch(total=total)
            for values in rows.to_pylist():
                row += 1
                if row > done:
                    plain_values = to_json_value(values)
                    identity = _identity(name, row, jsonio.encode(plain_values))
                    location = f"{name} row {row}"
                    batch.rows.append(
                        SourceRow(identity=identity, location=location, values=plain_values)
                    )
            batch.position = {"line": row, "offset": 0}
            yield batch
    yield FileBatch(total=total, position={"line": row, "offset": 0})


def _identity(name: str, line: int, content: bytes) -> str:
    """Identify a row by file, line and content, so that a changed row is another event."""
    return f"{name}\n{line}\n{sha256(content).hexdigest()}"


def to_json_value(value: Any) -> Any:
    """Convert a value to JSON: times to ISO text (UTC without a zone), bytes to base64, and unknown
    types to text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _convert_decimal(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [to_json_value(inner) for inner in value]
    return str(value)


def _convert_decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return None
    return int(value) if value == value.to_integral_value() and abs(value) < 2**63 else float(value)
