"""A real `hedgerow serve` process to talk to, with keys that a test knows."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx

PROJECT_KEY = "phc_known-project-key-for-tests"
PERSONAL_KEY = "phx_known-personal-key-for-tests"
HEDGEROW = str(Path(sys.executable).parent / "hedgerow")


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without its own HEDGEROW_* settings, and with these."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEDGEROW_")}
    return own | {
        "HEDGEROW_BOOTSTRAP_PROJECT_KEY": PROJECT_KEY,
        "HEDGEROW_BOOTSTRAP_PERSONAL_KEY": PERSONAL_KEY,
        **{f"HEDGEROW_{name.upper()}": value for name, value in settings.items()},
    }


class LiveServer:
    """Starts on construction; `wait_ready` returns once it printed its first screen."""

    def __init__(self, data: Path, *arguments: str, **settings: str) -> None:
        self.data = data
        self._output: list[str] = []
        self._errors: list[str] = []
        self.process = subprocess.Popen(
            [HEDGEROW, "serve", "--port", "0", "--data", str(data), *arguments],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            _collect(self.process.stdout, self._output),
            _collect(self.process.stderr, self._errors),
        ]

    @property
    def output(self) -> str:
        return "".join(self._output)

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def wait_ready(self, timeout_s: float = 30) -> Self:
        deadline = time.monotonic() + timeout_s
        while not re.search(r"is ready at \S+\n", self.output):
            if self.process.poll() is not None:
                raise AssertionError(f"hedgerow ended: {self.errors}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"hedgerow did not get ready: {self.errors}")
            time.sleep(0.02)
        return self

    @property
    def address(self) -> str:
        found = re.search(r"is ready at (\S+)", self.output)
        assert found is not None, self.errors
        return found[1]

    def client(self, key: str | None = PERSONAL_KEY) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=30)

    def stop(self, number: signal.Signals = signal.SIGINT, timeout_s: float = 10) -> int:
        """Ask the process to end and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return status

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self.wait_ready()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


def _collect(stream: IO[str], lines: list[str]) -> threading.Thread:
    def run() -> None:
        for line in stream:
            lines.append(line)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def run_hedgerow(
    *arguments: str, data: Path | None = None, timeout_s: float = 60, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run one verb to its end."""
    place = ["--data", str(data)] if data is not None else []
    return subprocess.run(
        [HEDGEROW, *arguments, *place],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
