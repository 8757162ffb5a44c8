"""Reads rows of CSV and JSON Lines files in batches, with bounded memory. A bad row does not stop
the others.
"""

import base64
import csv
import gzip
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Protocol, cast

from hedgerow.lib import jsonio
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
# Limits of a page.
PAGE_ROWS = 1000
PAGE_BYTES = 4 * 1024 * 1024
# Longer rows are bad rows: ingestion accepts no event of that size.
MAX_ROW_BYTES = 2 * 1024 * 1024
# The rest of a longer line is skipped, but not for ever.
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_COLUMNS = 10_000
# Between two signs of life while a position is sought.
SEEK_BYTES = 128 * 1024 * 1024
SEEK_CHUNK_BYTES = 1024 * 1024
GZIP = b"\x1f\x8b"

csv.field_size_limit(MAX_ROW_BYTES)


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
        return len(self.rows) + len(self.bad) >= PAGE_ROWS or self.size >= PAGE_BYTES


def decompress(file: BinaryIO) -> BinaryIO:
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
        raw = self._file.readline(MAX_ROW_BYTES)
        if not raw:
            raise StopIteration
        self.line += 1
        self.offset += len(raw)
        if len(raw) == MAX_ROW_BYTES and not raw.endswith(b"\n"):
            self._skip_line()
            raise _BadLine(f"The line is longer than {MAX_ROW_BYTES} bytes.")
        try:
            return raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _BadLine("The line is not UTF-8.") from None

    def _skip_line(self) -> None:
        raw, skipped = b"", 0
        while not raw.endswith(b"\n") and (raw := self._file.readline(MAX_ROW_BYTES)):
            skipped += len(raw)
            if skipped > MAX_LINE_BYTES:
                raise JobError(
                    f"Line {self.line} is longer than {MAX_LINE_BYTES} bytes: the file has no "
                    "lines, or is not text."
                )
        self.offset += skipped

    def seek(self, file: BinaryIO, position: Mapping[str, int]) -> Iterator[FileBatch]:
        """Go to a position. Yields empty batches meanwhile: a compressed file is unpacked again up
        to there."""
        offset = position["offset"]
        if isinstance(file, gzip.GzipFile):
            file.seek(0)
            left, reported = offset, offset
            while left and (chunk := file.read(min(left, SEEK_CHUNK_BYTES))):
                left -= len(chunk)
                if reported - left >= SEEK_BYTES:
                    reported = left
                    yield FileBatch(position=position)
        else:
            file.seek(offset)
        self.line, self.offset = position["line"], offset

    @property
    def position(self) -> dict[str, int]:
        return {"line": self.line, "offset": self.offset}


class _BadLine(Exception):
    """A line or row that cannot be imported."""


def read_csv(file: BinaryIO, name: str, position: Mapping[str, int] | None) -> Iterator[FileBatch]:
    lines = _Lines(file)
    columns, delimiter = _read_header(lines, name)
    if position:
        yield from lines.seek(file, position)
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
                identity = identify_row(name, first_line, jsonio.encode(cells))
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
    if len(columns) > MAX_COLUMNS:
        raise JobError(f"{name} has more than {MAX_COLUMNS} columns. Split it.")
    return columns, delimiter


def _zip_columns(columns: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        raise _BadLine(f"The row has {len(cells)} fields, but the header has {len(columns)}.")
    return dict(zip(columns, cells, strict=True))


def read_jsonl(
    file: BinaryIO, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    lines = _Lines(file)
    if position:
        yield from lines.seek(file, position)
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
                identity = identify_row(name, lines.line, text.strip().encode())
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


def identify_row(name: str, line: int, content: bytes) -> str:
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
