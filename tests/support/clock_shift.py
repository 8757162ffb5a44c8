"""Processes whose clock a test can set, as an administrator sets that of a machine.

The library libfaketime has no build for every platform, so a small library of ours is compiled.
"""

import struct
from pathlib import Path

from tests.support.preloads import compile_preload

SOURCE = Path(__file__).with_name("clock_shift.c")


class ShiftedClock:
    """The clock of all processes that start with these environment variables."""

    def __init__(self, folder: Path) -> None:
        library, self._file = compile_preload(SOURCE, folder), folder / "clock-shift"
        self._file.write_bytes(struct.pack("q", 0))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the clock to this many seconds after the real time."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))
