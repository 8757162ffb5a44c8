"""The two commands of the README and of CI, as far as they can be looked at without running."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def test_make_help_lists_the_targets_with_a_word_each() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed here, so its help cannot be shown")
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    listed = dict(re.findall(r"^  make (\w+) +(\S.+)$", done.stdout, re.MULTILINE))
    assert {"help", "setup", "run", "test", "check", "fix", "unit", "bench"} <= set(listed)


def test_ci_runs_make_test() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make test"
