"""Small libraries in C that change what the operating system tells a process."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compile_preload(source: Path, folder: Path) -> Path:
    """Compile a library for the environment variable LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, such as that of Debian's package gcc")
    library = folder / source.with_suffix(".so").name
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library
