"""Runs the commands of a documentation page as a reader runs them, and compares the answers that
the page shows.

The conventions of README.md, docs/start.md and docs/guides:

- A block fenced as `sh` is run as it stands. All blocks of a page run in one shell, in a folder
  that looks like a clone after `make run`: `.venv` and `hedgerow-data` are in it. A block that
  makes the clone (`git clone`) is left out, since the service already runs.
- A block fenced as `output` is the answer of the block before it. `…` stands for anything, and
  white space does not count. Commands must succeed, unless the answer shows their error. A block
  that only reads is repeated for a while, since events take a moment.
- `export NAME=…` of a name in `Reader.values` gets the value of this machine, such as a key.
- First lines with a meaning: `# In the terminal of the service` stops the service and starts it
  again with this block, `# Ctrl-C ends it` runs until the answer appears, and
  `# Not tested: REASON` is left out and counted.
- A block that calls `node` or `npm` needs the packages of tests/npm/install.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv"
FORK_CLIENT = ROOT / "tests" / "support" / "forks" / "client.py"
NODE_PACKAGES = VENV / "npm" / "node_modules"
ADDRESS = "http://127.0.0.1:8000"
BLOCK_TIMEOUT_S = 120
ANSWER_TIMEOUT_S = 30
POLL_INTERVAL_S = 0.05

_FENCE = re.compile(r"^```(\w*)$")
_EXPORT = re.compile(r"^export (\w+)=([^\s$\"'(]+)$", re.MULTILINE)
_CHANGES = re.compile(r"(^|\s)(-d|-F|-X|--json|--data-binary|>)(\s|$)|hedgerow (?!query)")
_NODE = re.compile(r"^(node|npm) ", re.MULTILINE)
_CURL_STATUS = re.compile(r"^curl: \(22\).*\n", re.MULTILINE)
_SHOWN_ERROR = re.compile(r'\{"type":|hedgerow: ')
_NOT_TESTED = re.compile(r"# Not tested: (.+)")
_SERVICE = "# In the terminal of the service"
_INTERRUPTED = "# Ctrl-C ends it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of commands, with the answer that the page shows for it."""

    page: str
    line: int
    code: str
    answer: str | None

    @property
    def not_tested(self) -> str | None:
        """The reason why the block cannot run in a test, if it says so."""
        reason = _NOT_TESTED.match(self.code)
        return reason[1] if reason else None

    @property
    def makes_clone(self) -> bool:
        return self.code.startswith("git clone ")

    @property
    def restarts_service(self) -> bool:
        return self.code.startswith(_SERVICE)

    @property
    def runs_until_interrupted(self) -> bool:
        return self.code.startswith(_INTERRUPTED)

    @property
    def needs_node(self) -> bool:
        return _NODE.search(self.code) is not None

    @property
    def only_reads(self) -> bool:
        return _CHANGES.search(self.code) is None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def guide_pages() -> list[str]:
    guides = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/guides").glob("*.md"))
    return ["README.md", "docs/start.md", *guides]


def blocks_of(page: str) -> list[Block]:
    blocks: list[Block] = []
    for line, language, text in _fenced(ROOT / page):
        if language == "sh":
            blocks.append(Block(page=page, line=line, code=text, answer=None))
        elif language == "output":
            last = blocks.pop()
            assert last.answer is None, f"{page}:{line}: a second answer for {last}"
            blocks.append(Block(page=page, line=last.line, code=last.code, answer=text))
    return blocks


def _fenced(path: Path) -> Iterator[tuple[int, str, str]]:
    language, start, lines = None, 0, list[str]()
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and language is None:
            language, start, lines = fence[1], number + 1, []
        elif fence and language is not None:
            yield start, language, "".join(f"{each}\n" for each in lines)
            language = None
        else:
            lines.append(line)
    assert language is None, f"{path.name}: the block at line {start} does not end"


def answer_matches(shown: str, actual: str) -> bool:
    parts = ["".join(part.split()) for part in shown.split("…")]
    pattern = ".*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, "".join(actual.split()), re.DOTALL) is not None


class PageFailed(AssertionError):
    """A block failed, or its answer is not the one that the page shows."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """A person with two terminals: one runs the service, the other one the commands of pages.
    With `forks_from`, the socket of a fork server, the program is forked: most of the time of a
    command is loading."""

    folder: Path
    port: str
    settings: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    run_node: bool = False
    forks_from: str = ""
    first_output: str = ""
    _service: "Service | None" = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_venv()
        for name in ("examples", "packages"):
            (self.folder / name).symlink_to(ROOT / name)
        if NODE_PACKAGES.exists():
            (self.folder / "node_modules").symlink_to(NODE_PACKAGES)
        self._home.mkdir()
        # curl draws a progress meter when it does not write to a terminal, and takes an error
        # response for a success.
        (self._home / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")

    def _make_venv(self) -> None:
        if not self.forks_from:
            (self.folder / ".venv").symlink_to(VENV)
            return
        programs = self.folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for each in (*VENV.iterdir(), *(VENV / "bin").iterdir()):
            if each.name not in ("bin", "hedgerow"):
                (self.folder / each.relative_to(ROOT)).symlink_to(each)
        run = f"{sys.executable} -IS {FORK_CLIENT} {self.forks_from}"
        (programs / "hedgerow").write_text(f'#!/bin/sh\nexec {run} "$0" "$@"\n')
        (programs / "hedgerow").chmod(0o755)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def service(self) -> "Service":
        assert self._service is not None
        return self._service

    @property
    def _home(self) -> Path:
        return self.folder.parent / f"{self.folder.name}-home"

    @property
    def _packages(self) -> Path:
        """Where `pip install ./folder` installs to, since `.venv` is not the reader's own."""
        return self.folder / "installed"

    @property
    def _environment(self) -> dict[str, str]:
        own = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        programs = [part for part in os.environ["PATH"].split(":") if Path(part) != VENV / "bin"]
        return {
            **own,
            "PATH": ":".join(programs),
            "HOME": str(self._home),
            "HEDGEROW_PORT": self.port,
            **self.settings,
            "PYTHONPATH": f"{self._packages}:{self.settings.get('PYTHONPATH', '')}",
        }

    def _pip_options(self, page: str) -> dict[str, str]:
        if "pip install ./" not in (ROOT / page).read_text():
            return {}
        options = ("NO_DEPS", "NO_INDEX", "DISABLE_PIP_VERSION_CHECK")
        own = {"PIP_TARGET": str(self._packages), "PIP_NO_BUILD_ISOLATION": "0"}
        return own | {f"PIP_{option}": "1" for option in options}

    def start_service(self) -> None:
        """Start the service for the first time, and keep the keys that it prints."""
        self._service = Service("exec .venv/bin/hedgerow serve", self.folder, self._environment)
        self.first_output = self.service.output
        keys = {key[:4]: key for key in re.findall(r"ph[cx]_\w{20,}", self.first_output)}
        self.values |= {"HOST": self.address, "PROJECT_KEY": keys["phc_"], "KEY": keys["phx_"]}

    def restart_service(self, code: str = "exec .venv/bin/hedgerow serve\n") -> None:
        self.stop_service()
        self._service = Service(code, self.folder, self._environment)

    def stop_service(self) -> None:
        if self._service is not None:
            self._service.stop()
            self._service = None

    def follow(self, page: str) -> None:
        """Run all blocks of a page in a new shell."""
        environment = self._environment | self._pip_options(page)
        shell = Shell(self.folder, environment, self._home)
        restarted = False
        try:
            for block in blocks_of(page):
                if block.not_tested or block.makes_clone:
                    self._compare_first_start(block)
                elif block.needs_node and not self.run_node:
                    continue
                elif block.restarts_service:
                    self.restart_service(shell.exports() + self._filled(block.code))
                    restarted = True
                else:
                    self._run(block, shell)
        finally:
            shell.close()
        if restarted:
            self.restart_service()

    def _filled(self, code: str) -> str:
        """The code with the values of this machine."""

        def value(export: re.Match[str]) -> str:
            return f"export {export[1]}={self.values.get(export[1], export[2])}"

        return _EXPORT.sub(value, code)

    def _compare_first_start(self, block: Block) -> None:
        if block.answer is not None and block.makes_clone:
            self._compare(block, self.first_output, 0)

    def _run(self, block: Block, shell: "Shell") -> None:
        code = self._filled(block.code)
        if block.runs_until_interrupted:
            shown = self._shown(block)
            self._compare(block, shell.run_until(code, lambda text: answer_matches(shown, text)), 0)
            return
        output, failures = shell.run(code)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not self._is_good(block, output, failures) and block.only_reads:
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_INTERVAL_S * 10)
            output, failures = shell.run(code)
        self._compare(block, output, failures)

    def _shown(self, block: Block) -> str:
        return (block.answer or "…").replace(ADDRESS, self.address)

    def _is_good(self, block: Block, output: str, failures: str | int) -> bool:
        has_failed = failures and not _SHOWN_ERROR.match(block.answer or "")
        return answer_matches(self._shown(block), output) and not has_failed

    def _compare(self, block: Block, output: str, failures: str | int) -> None:
        if not self._is_good(block, output, failures):
            shown = f"\nshown:\n{block.answer}" if block.answer else f"\nfailed:\n{failures}"
            raise PageFailed(f"{block}\n{block.code}{shown}\nactual:\n{output}")


class Service:
    """The service in its own terminal. Returns from the constructor when it is ready."""

    def __init__(self, code: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._out = folder.parent / f"{folder.name}-service.out"
        with self._out.open("w") as out, self._out.with_suffix(".err").open("a") as err:
            self._process = subprocess.Popen(
                ["bash", "-c", code],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while "API docs:" not in self.output:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise PageFailed(f"The service did not start: {code}\n{self.errors[-3000:]}")
            time.sleep(POLL_INTERVAL_S)
        time.sleep(POLL_INTERVAL_S)

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._out.with_suffix(".err").read_text()

    def stop(self) -> None:
        _interrupt(self._process)


class Shell:
    """A shell that keeps its variables from block to block, and notes every command that fails."""

    def __init__(self, folder: Path, environment: Mapping[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._count = 0
        self._failures = scratch / "failures"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        self._send("set -E -o pipefail")
        self._send(f"trap 'echo \"$BASH_COMMAND (status $?)\" >> {self._failures}' ERR")

    def run(self, code: str) -> tuple[str, str]:
        """The output of some commands, and those of them that failed."""
        script, out, done = self._files(code)
        self._failures.write_text("")
        self._send(f". {script} > {out} 2>&1 < /dev/null; touch {done}")
        self._wait_for(done, code)
        return _CURL_STATUS.sub("", out.read_text()), self._failures.read_text()

    def run_until(self, code: str, is_enough: Callable[[str], bool]) -> str:
        """The output of a command that goes on until it is interrupted."""
        script, out, pid = self._files(code)
        self._send(f"set -m; ( . {script} ) > {out} 2>&1 < /dev/null & echo $! > {pid}.new")
        self._send(f"mv {pid}.new {pid}; set +m")
        self._wait_for(pid, code)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not (out.exists() and is_enough(out.read_text())) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
        output = out.read_text()
        with suppress(ProcessLookupError):
            os.killpg(int(pid.read_text()), signal.SIGINT)
        return output

    def exports(self) -> str:
        """What a new shell needs to know as much as this one."""
        return self.run("export -p")[0]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _files(self, code: str) -> tuple[Path, Path, Path]:
        self._count += 1
        stem = self._scratch / f"{self._process.pid}-{self._count}"
        script = stem.with_suffix(".sh")
        script.write_text(code)
        return script, stem.with_suffix(".out"), stem.with_suffix(".done")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _wait_for(self, path: Path, code: str) -> None:
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while not path.exists():
            if time.monotonic() > deadline:
                raise PageFailed(f"Not done after {BLOCK_TIMEOUT_S} s:\n{code}")
            time.sleep(POLL_INTERVAL_S)


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def missing_programs() -> list[str]:
    return [name for name in ("bash", "curl", "python3") if shutil.which(name) is None]
