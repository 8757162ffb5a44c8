"""Files of events: lines of JSON, CSV, Parquet. One is there under its name once it is complete."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hedgerow.errors import Unready
from hedgerow.events.spreadsheet import lines
from hedgerow.lib.clock import iso
from hedgerow.lib.parquet import Parquet
from hedgerow.queries.export import COLUMNS, Ledger

LEDGER = "export.json"
UNFINISHED = ".part"
MOMENTS = ("timestamp", "created_at")

Row = Sequence[Any]


class EventFile(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...
    def close(self) -> None: ...


class ExportFolder:
    """`format` is one of FORMATS."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ledger(self) -> Ledger | None:
        """What was written before. Files that are not complete are removed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f"events-*{UNFINISHED}"):
                left.unlink()
            kept = self._folder / LEDGER
            if not kept.exists():
                self._check_empty()
                return None
            return msgspec.json.decode(kept.read_bytes(), type=Ledger)
        except OSError as error:
            raise Unready(f"{self._folder} cannot be used: {error.strerror or error}.") from None
        except msgspec.MsgspecError:
            raise Unready(f"{self._folder / LEDGER} is no record of an export.") from None

    def keep(self, ledger: Ledger) -> None:
        path = self._folder / LEDGER
        fresh = path.with_suffix(UNFINISHED)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(ledger)) + b"\n")
        _sync(fresh)
        fresh.replace(path)
        _sync(self._folder)

    def begin(self, name: str, format: str) -> EventFile:
        return FORMATS[format](self._folder / f"{name}{UNFINISHED}")

    def finish(self, name: str) -> None:
        unfinished = self._folder / f"{name}{UNFINISHED}"
        _sync(unfinished)
        unfinished.replace(self._folder / name)
        _sync(self._folder)

    def _check_empty(self) -> None:
        if any(self._folder.iterdir()):
            raise Unready(f"{self._folder} is not empty: an export needs a folder of its own.")


class JsonLines:
    """An event a line, its properties as an object."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(msgspec.json.Encoder().encode_lines(_records(rows)))

    def close(self) -> None:
        self._file.close()


class Csv:
    """With a line of names first; properties are JSON in one column."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._file.write(lines([COLUMNS]))

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(lines([_plain(row) for row in rows]))

    def close(self) -> None:
        self._file.close()


def _parquet(path: Path) -> Parquet:
    """A row group for each page; properties are JSON text."""
    return Parquet(path, COLUMNS, MOMENTS)


FORMATS: dict[str, Callable[[Path], EventFile]] = {
    "jsonl": JsonLines,
    "csv": Csv,
    "parquet": _parquet,
}


def _plain(row: Row) -> list[Any]:
    return [
        iso(value) if name in MOMENTS else value for name, value in zip(COLUMNS, row, strict=True)
    ]


def _records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    records = [dict(zip(COLUMNS, _plain(row), strict=True)) for row in rows]
    for record in records:
        record["properties"] = msgspec.Raw(record["properties"].encode())
    return records


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
