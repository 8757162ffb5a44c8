"""Install a wheel into an empty environment, start the service from there, and use it.

    python -m tools.try_wheel dist/hedgerow-0.2.0-py3-none-any.whl

Prints the size of the installation and the resident memory of its processes. An installation that
has no service, such as `hedgerow-slim` without extras, runs an edge process of this environment's
service.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

REPOSITORY = Path(__file__).parents[1]
MEGABYTE = 1e6
BLOCK_SIZE = 512  # the unit of `st_blocks`
TIMEOUT_S = 120.0
_PIN = re.compile(r"^[a-z0-9.-]+==\S+( ;[^\\\n]+)?", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningService:
    """A service that the wheel has started."""

    url: str
    project_key: str
    personal_key: str
    process: subprocess.Popen[str]

    def post(self, path: str, body: Any) -> Any:
        return self._send("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self._send("PATCH", path, body)

    def get(self, path: str) -> str:
        return str(self._send("GET", path, None))

    def _send(self, method: str, path: str, body: Any) -> Any:
        request = Request(  # noqa: S310 - an address of our own
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.personal_key}",
                "Content-Type": "application/json",
            },
            method=method,
        )
        with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - as above
            text = response.read().decode()
        return json.loads(text) if body is not None else text

    def measure_resident_mb(self) -> dict[str, float]:
        """Return the resident memory of the service and of its child processes."""
        sizes: dict[str, float] = {}
        for pid in (self.process.pid, *list_children(self.process.pid)):
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
            status = Path(f"/proc/{pid}/status").read_text()
            found = re.search(r"VmRSS:\s+(\d+) kB", status)
            name = "event engine" if "chdb_server" in command else "worker process"
            name = "service" if pid == self.process.pid else name
            sizes[f"{name} {pid}"] = int(found[1]) / 1000 if found else 0.0
        return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEdge:
    """An edge process that the wheel has started."""

    url: str
    process: subprocess.Popen[str]


def list_children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from list_children(int(child))


def install(wheel: str, folder: Path) -> Path:
    """Install a wheel into a new environment. Return its folder of programs. The environment gets
    no pip, which would take longer than most of its packages: the pip of this one serves it."""
    venv.create(folder, with_pip=False)
    install_into(folder, wheel)
    return folder / "bin"


def install_into(folder: Path, wheel: str, *options: str) -> None:
    """Install a wheel into an environment, with the pinned versions of what it needs, and with
    options of pip."""
    constraints = folder / "constraints.txt"
    pins = _PIN.finditer((REPOSITORY / "constraints.txt").read_text())
    constraints.write_text("\n".join(pin[0] for pin in pins))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    command = [*pip, "install", "-qq", "--constraint", str(constraints), *options, wheel]
    subprocess.run(command, check=True)  # noqa: S603 - pip


def measure_disk_mb(folder: Path) -> float:
    """Return what an environment uses of the disk, as `du` counts it, with the compiled files."""
    paths = (folder, *folder.rglob("*"))
    return sum(each.lstat().st_blocks * BLOCK_SIZE for each in paths) / MEGABYTE


@contextmanager
def run_service(programs: Path, data: Path, **variables: str) -> Iterator[RunningService]:
    """Run `hedgerow serve` on a free port, and end it."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [programs / "hedgerow", "serve", "--port", "0", "--data", data],
        stdout=subprocess.PIPE,
        text=True,
        cwd=data.parent,
        env={"PATH": os.environ["PATH"], "HEDGEROW_LOG_LEVEL": "warning", **variables},
    )
    try:
        yield _read_start_screen(process)
        process.send_signal(signal.SIGINT)
        if process.wait(TIMEOUT_S) != 0:
            sys.exit(f"The service ended with status {process.returncode}.")
    finally:
        process.kill()
        process.communicate()


def _read_start_screen(process: subprocess.Popen[str]) -> RunningService:
    assert process.stdout is not None
    screen = ""
    while "Data:" not in screen:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"The service did not start:\n{screen}")
        screen += line
    url, project, personal = (
        re.search(pattern, screen)
        for pattern in (r"ready at (\S+)", r"Project key +(\S+)", r"Personal key +(\S+)")
    )
    if url is None or project is None or personal is None:
        sys.exit(f"The first screen of the service lacks a key:\n{screen}")
    return RunningService(
        url=url[1], project_key=project[1], personal_key=personal[1], process=process
    )


@contextmanager
def run_edge(programs: Path, origin: str, secret: str, data: Path) -> Iterator[RunningEdge]:
    """Run `hedgerow edge` on a free port, and end it."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [programs / "hedgerow", "edge", "--from", origin, "--port", "0", "--data", data],
        stdout=subprocess.PIPE,
        text=True,
        cwd=data.parent,
        env={
            "PATH": os.environ["PATH"],
            "HEDGEROW_LOG_LEVEL": "warning",
            "HEDGEROW_EDGE_KEYS": secret,
        },
    )
    assert process.stdout is not None
    try:
        found = re.search(r"ready at (\S+)", process.stdout.readline())
        if found is None:
            sys.exit("The edge process did not start.")
        yield RunningEdge(url=found[1], process=process)
    finally:
        process.terminate()
        process.communicate()


def rotate_secret(service: RunningService) -> str:
    """Return a new secret key of the first project."""
    secret: str = service.patch("/api/projects/1/rotate_secret_token/", {})["secret_api_token"]
    return secret


def use_flags_and_capture(service: RunningService) -> None:
    """Create a flag, evaluate it and capture an event. Exits if a result is wrong."""
    create_flag(service)
    evaluate_and_capture(service)


def create_flag(service: RunningService) -> None:
    conditions = {"groups": [{"properties": [{"key": "plan", "value": "pro"}]}]}
    path = "/api/projects/@current/feature_flags/"
    service.post(path, {"key": "new-cart", "filters": conditions})


def evaluate_and_capture(service: RunningService) -> None:
    """Evaluate the flag and capture an event. Exits if a result is wrong."""
    who = {"api_key": service.project_key, "distinct_id": "ann"}
    flags = service.post("/decide?v=3", {**who, "person_properties": {"plan": "pro"}})
    if flags["featureFlags"] != {"new-cart": True}:
        sys.exit(f"The flag has the wrong value: {flags}")
    captured = service.post("/capture/", {**who, "event": "upgraded"})
    if captured != {"status": 1}:
        sys.exit(f"The event was not accepted: {captured}")


def query_events(service: RunningService) -> int:
    """Return the number of stored events, waiting for the first."""
    query = {"kind": "HogQLQuery", "query": "select count() from events"}
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        result = service.post("/api/projects/@current/query/", {"query": query})
        count = int(result["results"][0][0])
        if count or time.monotonic() > deadline:
            return count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.try_wheel")
    parser.add_argument("wheel", help="path of a wheel, with extras if needed: x.whl[embedded]")
    wheel = str(Path(parser.parse_args().wheel).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "venv")
        programs = install(wheel, folder)
        print(f"{measure_disk_mb(folder):7.0f} MB  on disk")
        if any(folder.glob("lib/python*/site-packages/sqlalchemy")):
            _try_service(programs, Path(scratch, "data"), has_events="hedgerow_slim" not in wheel)
        else:
            _try_edge(programs, Path(scratch))


def _try_service(programs: Path, data: Path, *, has_events: bool) -> None:
    with run_service(programs, data) as service:
        _print_memory(service, "after the start")
        use_flags_and_capture(service)
        if has_events and query_events(service) != 1:
            sys.exit("The event was not stored.")
        if "<title>" not in service.get("/"):
            sys.exit("The web console is missing.")
        _print_memory(service, "after flags, an event and a query")


def _try_edge(programs: Path, scratch: Path) -> None:
    here = Path(sys.executable).parent
    with run_service(here, scratch / "data") as service:
        create_flag(service)
        secret = rotate_secret(service)
        with run_edge(programs, service.url, secret, scratch / "edge") as edge:
            beside = replace(service, url=edge.url, process=edge.process)
            evaluate_and_capture(beside)
            _print_memory(beside, "after flags and an event")


def _print_memory(service: RunningService, moment: str) -> None:
    for name, size in service.measure_resident_mb().items():
        print(f"{size:7.0f} MB  resident {moment}: {name}")


if __name__ == "__main__":
    try:
        main()
    except HTTPError as error:
        sys.exit(f"{error.url} answers {error.code}: {error.read().decode()}")
