"""Processes whose writes to chosen files fail, as on a full or broken disk."""

import errno
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.preloads import compile_preload

SOURCE = Path(__file__).with_name("failing_writes.c")
# Instead of an errno: a write stores half of the bytes, or wrong ones and reports success.
SHORT, WRONG = 0, -1
ALWAYS = 1 << 30

_PLAN = struct.Struct("iiiii64s256s")
_FAILED = struct.Struct("i")
_FAILED_OFFSET = 16


class FailingWrites:
    """The writes of all processes that start with `environment`."""

    def __init__(self, folder: Path) -> None:
        library, file = compile_preload(SOURCE, folder), folder / "failing-writes"
        file.write_bytes(bytes(_PLAN.size))
        with file.open("r+b") as opened:
            self._plan = mmap.mmap(opened.fileno(), _PLAN.size)
        self.environment = {"LD_PRELOAD": str(library), "FAILING_WRITES_FILE": str(file)}

    @property
    def failed(self) -> int:
        """How many calls the current plan has let fail."""
        (failed,) = _FAILED.unpack_from(self._plan, _FAILED_OFFSET)
        return int(failed)

    def start(
        self,
        pattern: str,
        calls: str = "write pwrite",
        *,
        error: int = errno.ENOSPC,
        skipped: int = 0,
        failing: int = ALWAYS,
    ) -> None:
        """Let `failing` calls on files that match `pattern` fail, after `skipped` ones."""
        self.stop()
        names = f" {calls} ".encode()
        self._plan[:] = _PLAN.pack(0, error, skipped, failing, 0, names, pattern.encode())
        self._plan[:4] = struct.pack("i", 1)

    def stop(self) -> None:
        """Let all writes succeed from now on."""
        self._plan[:4] = bytes(4)

    @contextmanager
    def during(
        self, pattern: str, calls: str = "write pwrite", *, error: int = errno.ENOSPC
    ) -> Iterator[None]:
        self.start(pattern, calls, error=error)
        try:
            yield
        finally:
            self.stop()
