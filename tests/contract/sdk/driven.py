"""PostHog's own packages, each in a process of its own, told what to do and asked what they got."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.live import environment

HERE = Path(__file__).parent
ENVIRONMENT = Path(__file__).parents[3] / ".venv"
# Folders that tests/npm/install fills, or others that these variables name: Node packages, and the
# last posthog-python that calls /decide?v=3.
NODE_FOLDER = "HEDGEROW_TEST_NPM", ENVIRONMENT / "npm"
OLD_PYTHON_FOLDER = "HEDGEROW_TEST_POSTHOG_3", ENVIRONMENT / "posthog-3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """`version` begins so. Older ones call /decide and the older path of local evaluation. One that
    sends `per_event` wants each event answered by itself. `entry` is another way into the package
    than the usual one."""

    name: str
    version: str
    is_old: bool = False
    per_event: bool = False
    entry: str = ""

    @property
    def is_python(self) -> bool:
        return self.name.startswith("python")

    @property
    def sends_uuids(self) -> bool:
        """Else the server gives an event its uuid, another each time that it comes."""
        return not (self.is_python and self.is_old)

    @property
    def library(self) -> str:
        """What it calls itself in its events."""
        return f"posthog-{self.entry.lstrip('/') or self.name.split()[0]}"

    @property
    def captures_at(self) -> str:
        return "/i/v1/analytics/events" if self.per_event else "/batch/"

    def driven(self) -> "Driven":
        return Driven(self._command(), self._environment())

    def _command(self) -> list[str]:
        if self.is_python:
            return [sys.executable, str(HERE / "driven_python.py")]
        package = "posthog-node-4" if self.is_old else "posthog-node"
        return [*in_node("driven_node.cjs", package), self.entry]

    def _environment(self) -> dict[str, str]:
        given = environment()
        if self.per_event:
            given["POSTHOG_CAPTURE_MODE"] = "v1"
        if self.is_python and self.is_old:
            given["PYTHONPATH"] = str(_folder(*OLD_PYTHON_FOLDER, "posthog"))
        return given


SDKS = (
    Sdk(name="python", version="7."),
    Sdk(name="python of old", version="3.21", is_old=True),
    Sdk(name="node", version="5."),
    Sdk(name="node of old", version="4.10.2", is_old=True),
)
# What runs where there is no Node, such as in workers of a content network.
EDGE = Sdk(name="node at the edge", version="5.", entry="/edge")
# The same clients, told to use the newer door for events.
PER_EVENT = (
    Sdk(name="python per event", version="7.", per_event=True),
    Sdk(name="node per event", version="5.", per_event=True),
)


def all_driven(open_: ExitStack, sdks: Sequence[Sdk]) -> dict[Sdk, "Driven"]:
    """All of them that are here. Tests with each of them say which are not."""
    found = {}
    for sdk in sdks:
        with suppress(pytest.skip.Exception):
            found[sdk] = open_.enter_context(sdk.driven())
    return found


def in_node(script: str, package: str) -> list[str]:
    """The command for a script beside this one, with a package that tests/npm/install brings."""
    folder = _folder(*NODE_FOLDER, f"node_modules/{package}")
    if shutil.which("node") is None:
        pytest.skip(f"node is not installed: tests with {package} need it")
    return ["node", str(HERE / script), str(folder), package]


def _folder(variable: str, usual: Path, holds: str) -> Path:
    folder = Path(os.environ.get(variable) or usual)
    if not (folder / holds).exists():
        pytest.skip(f"there is no {holds} in {folder}: run tests/npm/install, or set {variable}")
    return folder


class Driven:
    """A process that has a client open. `client.flag(key="beta", id="ann")` is what it answers."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __getattr__(self, action: str) -> Any:
        return lambda **arguments: self.does(action, arguments)

    def does(self, action: str, arguments: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([action, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the client ended at {action}"
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
