"""The progress file of an import from another service: which id became which, and where each list
continues. It contains no API keys.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.errors import OperatorError


class ImportProgress(msgspec.Struct):
    """Progress of one list. `cursor` is where to continue, None for the beginning; `done` counts
    sent items; `seed` is random per list."""

    cursor: Any = None
    done: int = 0
    is_complete: bool = False
    seed: str = ""


class ImportLedger(msgspec.Struct):
    """`source` and `target` identify the projects. The mappings hold target ids by source id, for
    objects that have no key."""

    source: str
    target: str
    cohorts: dict[int, int] = msgspec.field(default_factory=dict)
    surveys: dict[str, str] = msgspec.field(default_factory=dict)
    experiments: dict[str, int] = msgspec.field(default_factory=dict)
    walks: dict[str, ImportProgress] = msgspec.field(default_factory=dict)


class ImportLedgerFile:
    def __init__(self, path: Path, source: str, target: str) -> None:
        self._path = path
        self.ledger = self._read() or ImportLedger(source=source, target=target)
        if (self.ledger.source, self.ledger.target) != (source, target):
            raise OperatorError(
                f"{path} belongs to the import of {self.ledger.source} into {self.ledger.target}: "
                "choose another file with --state."
            )

    def get_progress(self, name: str) -> ImportProgress:
        return self.ledger.walks.setdefault(name, ImportProgress())

    def save(self) -> None:
        """Write the file atomically; durable when this returns."""
        fresh = self._path.with_name(f"{self._path.name}.part")
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.ledger)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            raise OperatorError(
                f"{self._path} cannot be written: {error.strerror or error}."
            ) from None

    def _read(self) -> ImportLedger | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ImportLedger)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OperatorError(
                f"{self._path} cannot be read: {error.strerror or error}."
            ) from None
        except msgspec.MsgspecError:
            raise OperatorError(f"{self._path} is not an import progress file.") from None
