"""A small file system that can be filled up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def mount_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of that size. Skips the test if mounting is not permitted."""
    folder.mkdir(mode=0o700)
    mounted = mount("-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=20)


def fill_up(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def mount(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["mount", *map(str, arguments)], capture_output=True, text=True, timeout=20, check=False
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess([], 127, "", "there is no mount command")
