"""PostHog's own SDKs, each in its own process, controlled through JSON lines."""

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

from tests.support.live import build_environment

FOLDER = Path(__file__).parent
VIRTUAL_ENVIRONMENT = Path(__file__).parents[3] / ".venv"
# Directories that tests/npm/install fills, or those in these variables: Node packages, and the last
# posthog-python that calls /decide?v=3.
NODE_PACKAGES = "HEDGEROW_TEST_NPM", VIRTUAL_ENVIRONMENT / "npm"
LEGACY_PYTHON_PACKAGES = "HEDGEROW_TEST_POSTHOG_3", VIRTUAL_ENVIRONMENT / "posthog-3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """`version` is a prefix. Older SDKs call /decide and the legacy path of local evaluation.
    `per_event` SDKs use the v1 capture endpoint. `entry` is an alternative entry point of the
    package."""

    name: str
    version: str
    is_legacy: bool = False
    per_event: bool = False
    entry: str = ""

    @property
    def is_python(self) -> bool:
        return self.name.startswith("python")

    @property
    def sends_uuids(self) -> bool:
        """Without a uuid, the server generates a new one for each resent event."""
        return not (self.is_python and self.is_legacy)

    @property
    def library(self) -> str:
        """The value of $lib in its events."""
        return f"posthog-{self.entry.lstrip('/') or self.name.split()[0]}"

    @property
    def capture_path(self) -> str:
        return "/i/v1/analytics/events" if self.per_event else "/batch/"

    def start(self) -> "SdkProcess":
        return SdkProcess(self._command(), self._environment())

    def _command(self) -> list[str]:
        if self.is_python:
            return [sys.executable, str(FOLDER / "python_driver.py")]
        package = "posthog-node-4" if self.is_legacy else "posthog-node"
        return [*node_command("node_driver.cjs", package), self.entry]

    def _environment(self) -> dict[str, str]:
        variables = build_environment()
        if self.per_event:
            variables["POSTHOG_CAPTURE_MODE"] = "v1"
        if self.is_python and self.is_legacy:
            variables["PYTHONPATH"] = str(find_folder(*LEGACY_PYTHON_PACKAGES, "posthog"))
        return variables


SDKS = (
    Sdk(name="python", version="7."),
    Sdk(name="python legacy", version="3.21", is_legacy=True),
    Sdk(name="node", version="5."),
    Sdk(name="node legacy", version="4.10.2", is_legacy=True),
)
# The edge build, for runtimes without Node such as CDN workers.
EDGE = Sdk(name="node at the edge", version="5.", entry="/edge")
# The same clients, configured for the newer capture endpoint.
PER_EVENT = (
    Sdk(name="python per event", version="7.", per_event=True),
    Sdk(name="node per event", version="5.", per_event=True),
)


def start_installed(open_: ExitStack, sdks: Sequence[Sdk]) -> dict[Sdk, "SdkProcess"]:
    """Start the installed SDKs. Tests of each SDK report the missing ones."""
    running = {}
    for sdk in sdks:
        with suppress(pytest.skip.Exception):
            running[sdk] = open_.enter_context(sdk.start())
    return running


def node_command(script: str, package: str) -> list[str]:
    """Return the command for a script of this directory, with a package of tests/npm/install."""
    folder = find_folder(*NODE_PACKAGES, f"node_modules/{package}")
    if shutil.which("node") is None:
        pytest.skip(f"node is not installed: tests with {package} need it")
    return ["node", str(FOLDER / script), str(folder), package]


def find_folder(variable: str, default: Path, content: str) -> Path:
    folder = Path(os.environ.get(variable) or default)
    if not (folder / content).exists():
        pytest.skip(f"{content} is missing in {folder}: run tests/npm/install, or set {variable}")
    return folder


class SdkProcess:
    """A process with an open client. `client.flag(key="beta", id="ann")` returns its result."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __getattr__(self, action: str) -> Any:
        return lambda **arguments: self.send(action, arguments)

    def send(self, action: str, arguments: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([action, arguments]) + "\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        assert response, f"the client process ended in {action}"
        return json.loads(response)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
