"""Backup requests between processes: files in the event store's folder, writable only by its owner.

`hedgerow backup` submits a request; the process that has the event store open makes the copy.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BackupRequestFiles:
    folder: Path

    @property
    def _request_file(self) -> Path:
        return self.folder / "backup-request"

    @property
    def _result_file(self) -> Path:
        return self.folder / "backup-result"

    def submit(self, target: Path) -> None:
        self._result_file.unlink(missing_ok=True)
        _write(self._request_file, str(target))

    def is_pending(self) -> bool:
        """Return whether no process has taken the request yet."""
        return self._request_file.exists()

    def cancel(self) -> None:
        self._request_file.unlink(missing_ok=True)

    def poll_result(self) -> str | None:
        """Return the result: empty on success, otherwise the problem. None if there is none yet."""
        with suppress(FileNotFoundError):
            text = self._result_file.read_text()
            self._result_file.unlink()
            return text
        return None

    def take(self) -> Path | None:
        """Take the pending request, if any, and return its target folder."""
        with suppress(FileNotFoundError):
            target = Path(self._request_file.read_text())
            self._request_file.unlink()
            return target
        return None

    def report_result(self, problem: str) -> None:
        _write(self._result_file, problem)


def _write(file: Path, text: str) -> None:
    """Write the file atomically."""
    draft = file.with_name(f".{file.name}-{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o600)
    draft.replace(file)
