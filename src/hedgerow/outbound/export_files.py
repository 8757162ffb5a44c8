"""Export files in JSON Lines, CSV and Parquet. A file gets its final name once it is complete."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hedgerow.errors import OperatorError
from hedgerow.events.listing.csv_writer import format_csv_rows
from hedgerow.lib.clock import format_iso
from hedgerow.lib.parquet import ParquetFile
from hedgerow.queries.export import COLUMNS, ExportManifest

MANIFEST_FILE = "export.json"
UNFINISHED_SUFFIX = ".part"
TIMESTAMP_COLUMNS = ("timestamp", "created_at")

Row = Sequence[Any]


class EventFile(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...
    def close(self) -> None: ...


class ExportFolder:
    """The folder of an export: its files and its manifest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_manifest(self) -> ExportManifest | None:
        """Load the progress of an earlier export, and delete incomplete files."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            manifest_file = self._folder / MANIFEST_FILE
            manifest_file.with_suffix(UNFINISHED_SUFFIX).unlink(missing_ok=True)
            for left in self._folder.glob(f"events-*{UNFINISHED_SUFFIX}"):
                left.unlink()
            if not manifest_file.exists():
                self._check_empty()
                return None
            return msgspec.json.decode(manifest_file.read_bytes(), type=ExportManifest)
        except OSError as error:
            raise OperatorError(
                f"{self._folder} cannot be used: {error.strerror or error}."
            ) from None
        except msgspec.MsgspecError:
            raise OperatorError(
                f"{self._folder / MANIFEST_FILE} is not an export manifest."
            ) from None

    def save_manifest(self, manifest: ExportManifest) -> None:
        path = self._folder / MANIFEST_FILE
        fresh = path.with_suffix(UNFINISHED_SUFFIX)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        _sync(fresh)
        fresh.replace(path)
        _sync(self._folder)

    def begin(self, name: str, format: str) -> EventFile:
        return FORMATS[format](self._folder / f"{name}{UNFINISHED_SUFFIX}")

    def finish(self, name: str) -> None:
        unfinished = self._folder / f"{name}{UNFINISHED_SUFFIX}"
        _sync(unfinished)
        unfinished.replace(self._folder / name)
        _sync(self._folder)

    def _check_empty(self) -> None:
        if any(self._folder.iterdir()):
            raise OperatorError(f"{self._folder} is not empty: an export needs an empty folder.")


class JsonLinesFile:
    """One event per line, with its properties as an object."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(msgspec.json.Encoder().encode_lines(_encode_records(rows)))

    def close(self) -> None:
        self._file.close()


class CsvFile:
    """A header line, then one event per line; properties are JSON in one column."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._file.write(format_csv_rows([COLUMNS]))

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(format_csv_rows([_format_row(row) for row in rows]))

    def close(self) -> None:
        self._file.close()


def _open_parquet(path: Path) -> ParquetFile:
    """One row group per page; properties are JSON text."""
    return ParquetFile(path, COLUMNS, TIMESTAMP_COLUMNS)


FORMATS: dict[str, Callable[[Path], EventFile]] = {
    "jsonl": JsonLinesFile,
    "csv": CsvFile,
    "parquet": _open_parquet,
}


def _format_row(row: Row) -> list[Any]:
    return [
        format_iso(value) if name in TIMESTAMP_COLUMNS else value
        for name, value in zip(COLUMNS, row, strict=True)
    ]


def _encode_records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    records = [dict(zip(COLUMNS, _format_row(row), strict=True)) for row in rows]
    for record in records:
        record["properties"] = msgspec.Raw(record["properties"].encode())
    return records


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
