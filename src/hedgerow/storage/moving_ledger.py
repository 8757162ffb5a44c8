"""How far a move from another service came, in a file of its own: what was given which number, and
where each walk through the source goes on. It holds no keys.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.errors import Unready


class Walk(msgspec.Struct):
    """`cursor` is where to go on, None from the beginning; `done` how many were sent. `seed` is of
    this walk alone."""

    cursor: Any = None
    done: int = 0
    is_complete: bool = False
    seed: str = ""


class Ledger(msgspec.Struct):
    """`source` and `target` say which project is copied into which. Of what has no key of its own,
    the numbers of here by those of there."""

    source: str
    target: str
    cohorts: dict[int, int] = msgspec.field(default_factory=dict)
    surveys: dict[str, str] = msgspec.field(default_factory=dict)
    experiments: dict[str, int] = msgspec.field(default_factory=dict)
    walks: dict[str, Walk] = msgspec.field(default_factory=dict)


class LedgerFile:
    def __init__(self, path: Path, source: str, target: str) -> None:
        self._path = path
        self.ledger = self._read() or Ledger(source=source, target=target)
        if (self.ledger.source, self.ledger.target) != (source, target):
            raise Unready(
                f"{path} is about {self.ledger.source} into {self.ledger.target}: name another "
                "file with --state."
            )

    def walk(self, name: str) -> Walk:
        return self.ledger.walks.setdefault(name, Walk())

    def keep(self) -> None:
        """On the disk when this returns: whatever happens next, the file is whole."""
        fresh = self._path.with_name(f"{self._path.name}.part")
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.ledger)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            raise Unready(f"{self._path} cannot be written: {error.strerror or error}.") from None

    def _read(self) -> Ledger | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Ledger)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unready(f"{self._path} cannot be read: {error.strerror or error}.") from None
        except msgspec.MsgspecError:
            raise Unready(f"{self._path} is no record of an import.") from None
