"""How whoever makes a backup asks the process that has the event store open for a copy of it: by
files in the store's folder, which only their owner can write.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BackupDesk:
    folder: Path

    @property
    def _wish(self) -> Path:
        return self.folder / "backup-wish"

    @property
    def _answer(self) -> Path:
        return self.folder / "backup-answer"

    def ask(self, target: Path) -> None:
        self._answer.unlink(missing_ok=True)
        _write(self._wish, str(target))

    def is_waiting(self) -> bool:
        """Whether nobody has seen the wish yet."""
        return self._wish.exists()

    def withdraw(self) -> None:
        self._wish.unlink(missing_ok=True)

    def answer(self) -> str | None:
        """What became of the wish: empty if all went well. None as long as it is not known."""
        with suppress(FileNotFoundError):
            text = self._answer.read_text()
            self._answer.unlink()
            return text
        return None

    def taken(self) -> Path | None:
        """Where a copy is wished, once for each wish."""
        with suppress(FileNotFoundError):
            target = Path(self._wish.read_text())
            self._wish.unlink()
            return target
        return None

    def reply(self, problem: str) -> None:
        _write(self._answer, problem)


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    draft = file.with_name(f".{file.name}-{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o600)
    draft.replace(file)
