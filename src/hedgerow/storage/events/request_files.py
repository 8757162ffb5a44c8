"""Requests to the process that has an embedded event store open: files in the store's folder, which
only its owner can write.

A command submits a request; the service takes it, does the work and reports the result. Each
request has its own files, so that several commands can wait at once.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

# Files of commands that were killed are deleted after this time.
MAX_AGE_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """`action` names the work, `fields` its arguments."""

    id: str
    action: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestFiles:
    folder: Path

    def submit(self, action: str, fields: Mapping[str, Any]) -> str:
        """Write a request and return its id."""
        self._delete_old_files()
        id = uuid4().hex
        _write(self._request_file(id), {"action": action, "fields": fields})
        return id

    def is_pending(self, id: str) -> bool:
        """Return whether no process has taken the request yet."""
        return self._request_file(id).exists()

    def cancel(self, id: str) -> None:
        self._request_file(id).unlink(missing_ok=True)

    def poll_result(self, id: str) -> Mapping[str, Any] | None:
        """Return the result once, None if there is none yet."""
        with suppress(FileNotFoundError):
            result: Mapping[str, Any] = json.loads(self._result_file(id).read_bytes())
            self._result_file(id).unlink()
            return result
        return None

    def take(self) -> StoreRequest | None:
        """Take a pending request, if there is one."""
        for file in sorted(self.folder.glob("request-*.json")):
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
                content = file.read_bytes()
                file.unlink()
                request = json.loads(content)
                id = file.stem.removeprefix("request-")
                return StoreRequest(id=id, action=request["action"], fields=request["fields"])
        return None

    def report(self, id: str, result: Mapping[str, Any]) -> None:
        _write(self._result_file(id), result)

    def _request_file(self, id: str) -> Path:
        return self.folder / f"request-{id}.json"

    def _result_file(self, id: str) -> Path:
        return self.folder / f"result-{id}.json"

    def _delete_old_files(self) -> None:
        for pattern in ("request-*.json", "result-*.json"):
            for file in self.folder.glob(pattern):
                with suppress(FileNotFoundError):
                    if time.time() - file.stat().st_mtime > MAX_AGE_S:
                        file.unlink()


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write the file atomically, readable only by its owner."""
    draft = file.with_name(f".{file.name}-{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(content))
    draft.replace(file)
