"""Processes whose clock a test can set, as an administrator sets that of a machine.

The library libfaketime has no build for every platform, so a small library of ours is compiled.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock_shift.c")


class ShiftedClock:
    """The clock of all processes that start with these environment variables."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("needs a C compiler, such as that of Debian's package gcc")
        library, self._file = folder / "clock_shift.so", folder / "clock-shift"
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        self._file.write_bytes(struct.pack("q", 0))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the clock to this many seconds after the real time."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))
