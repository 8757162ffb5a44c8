"""Component packages of the repository, installed for the processes that tests start."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def install_packages(folder: Path, *packages: Path) -> Iterator[None]:
    """Install packages into a folder on the path of all processes that tests start."""
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *offline]
    done = subprocess.run(
        [*pip, "--target", str(folder), *map(str, packages)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(folder))
        yield
