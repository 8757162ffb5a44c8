"""Imports of one project from hostile sources: each ends with its reason, the service stays alive
and small, and another project gets all its answers."""

import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from hedgerow.pipelines.jobs.running import MAX_CRASHES
from hedgerow.plugin.component import Family
from tests.fault.test_payload_bombs import list_peaks_mib
from tests.support.hostile.files import HOSTILE_FILES
from tests.support.hostile.servers import HostileServer
from tests.support.hostile.sources import HOSTILE_SOURCES, HostileSource
from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import wait_until

RECORDS = "/api/environments/{project}/pipeline_import_apps_configs/"
COMPONENT_IDS = {component.key: id for id, component in BUILTIN_COMPONENTS.items()}
OVER = ("done", "failed", "cancelled")
# Its engine, which is a process of its own, is not part of it.
MAX_SERVICE_MIB = 512
MAX_WORKER_MIB = 400
# Longer than any attack of these tests, so that only their end is judged.
TIMEOUT_S = 300


class Project:
    """A project and its import apps."""

    def __init__(self, client: httpx.Client, id: int, key: str) -> None:
        self.client = client
        self.id = id
        self.key = key

    def start_import(self, component: str, settings: dict[str, Any]) -> str:
        """Return the path of a job."""
        records = RECORDS.format(project=self.id)
        added = self.client.post(records, json={"plugin": COMPONENT_IDS[component]})
        path = f"{records}{added.json()['id']}/"
        configured = self.client.put(f"{path}config/", json=settings)
        assert configured.status_code == 200, configured.text
        started = self.client.post(f"{path}job/", json={"job": {"type": "import"}})
        assert started.status_code == 200, started.text
        return f"{path}jobs/{started.headers['x-job-id']}/"

    def load_job(self, path: str) -> dict[str, Any]:
        job: dict[str, Any] = self.client.get(path).json()
        return job

    def wait_until_over(self, path: str) -> dict[str, Any]:
        wait_until(lambda: self.load_job(path)["status"] in OVER, TIMEOUT_S)
        return self.load_job(path)


class Victim:
    """Evaluates flags until it is stopped, and keeps the statuses."""

    def __init__(self, server: LiveServer, key: str) -> None:
        self.statuses: list[int] = []
        self._server = server
        self._key = key
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Victim":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _run(self) -> None:
        with self._server.client(key=None) as client:
            while not self._is_over.wait(0.05):
                body = {"api_key": self._key, "distinct_id": "d"}
                self.statuses.append(client.post("/decide?v=3", json=body).status_code)


@contextmanager
def open_projects(server: LiveServer) -> Iterator[tuple[Project, Project]]:
    """Yield the project of the attacker and that of the victim."""
    with server.client() as client:
        added = client.post("/api/projects/", json={"name": "Victim"}).json()
        attacker = Project(client, 1, PROJECT_KEY)
        yield attacker, Project(client, added["id"], added["api_token"])


@pytest.fixture(scope="module")
def ended_jobs(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresTestServer
) -> dict[str, dict[str, Any]]:
    """Start all hostile imports at once, and return how each ended, by its name."""
    data = tmp_path_factory.mktemp("hostile")
    folder = data / "imports" / "1"
    folder.mkdir(parents=True)
    for name, (build, _) in HOSTILE_FILES.items():
        (folder / name).write_bytes(build())
    database = urlsplit(postgres.create_database()).path
    with (
        HostileServer() as hostile,
        postgres.forward_port() as port,
        LiveServer(data, allow_private_destinations="true") as server,
        open_projects(server) as (attacker, other),
        Victim(server, other.key) as victim,
    ):
        places = {"server": hostile.url, "database": database, "port": str(port)}
        paths = {
            source.name: attacker.start_import(source.component, fill_in(source, places))
            for source in HOSTILE_SOURCES
        }
        ended = {name: attacker.wait_until_over(path) for name, path in paths.items()}
        peaks = list_peaks_mib(server)
        peaks.pop(server.find_engine() or 0, None)
        process = server.process.pid
        assert server.process.poll() is None
    assert peaks.pop(process) < MAX_SERVICE_MIB
    assert all(peak < MAX_WORKER_MIB for peak in peaks.values()), peaks
    assert len(victim.statuses) > 10
    assert set(victim.statuses) == {200}
    return ended


def fill_in(source: HostileSource, places: dict[str, str]) -> dict[str, Any]:
    return {name: value.format(**places) for name, value in source.settings.items()}


@pytest.mark.parametrize("source", HOSTILE_SOURCES, ids=lambda source: source.name)
def test_hostile_source_ends_its_own_import(
    ended_jobs: dict[str, dict[str, Any]], source: HostileSource
) -> None:
    job = ended_jobs[source.name]
    details = job["details"]
    counts = f"{details.get('imported', 0)} imported, {details.get('bad', 0)} bad"
    outcome = job["error"] if job["status"] == "failed" else counts
    assert re.search(source.ends, outcome), (job["status"], outcome, details)


def test_every_import_app_has_hostile_sources() -> None:
    """A new import app needs its own: add them to tests/support/hostile/sources.py."""
    import_apps = {
        component.key
        for component in BUILTIN_COMPONENTS.values()
        if component.family is Family.IMPORT_APP
    }
    assert {source.component for source in HOSTILE_SOURCES} == import_apps


def test_dripping_imports_of_a_project_leave_places_to_another(tmp_path: Path) -> None:
    with (
        HostileServer() as hostile,
        LiveServer(tmp_path, allow_private_destinations="true") as server,
        open_projects(server) as (attacker, other),
    ):
        drips = [
            attacker.start_import(
                "hedgerow/posthog-import",
                {
                    "host": f"{hostile.url}/drip",
                    "personal_key": "phx_attack",
                    "project_id": "1",
                    "date_from": "2026-01-01",
                },
            )
            for _ in range(24)
        ]
        wait_until(lambda: attacker.load_job(drips[0])["status"] == "running")
        folder = tmp_path / "imports" / str(other.id)
        folder.mkdir(parents=True)
        (folder / "small.csv").write_text("event,distinct_id\na,1\nb,2\nc,3\n")
        small = other.start_import("hedgerow/file-import", {"source": "small.csv"})
        ended = other.wait_until_over(small)
        statuses = [attacker.load_job(path)["status"] for path in drips]
    assert (ended["status"], ended["details"]["imported"]) == ("done", 3)
    # None of them has ended, so none of them made place.
    assert set(statuses) == {"running", "waiting"}
    assert statuses.count("running") <= 8


def test_job_that_ends_the_service_three_times_is_stopped(tmp_path: Path) -> None:
    """The service answers the other project after each start, before the job continues."""
    with HostileServer() as hostile:
        with open_server(tmp_path) as server, open_projects(server) as (attacker, other):
            settings = {"source": f"{hostile.url}/drip", "format": "jsonl"}
            path = attacker.start_import("hedgerow/file-import", settings)
            wait_until_running(attacker, path)
            kill(server)
        for _ in range(MAX_CRASHES - 1):
            with open_server(tmp_path) as server, server.client() as client:
                attacker = Project(client, 1, PROJECT_KEY)
                # The next start counts the crash and lets the job wait.
                wait_until(lambda: bool(read_jobs(tmp_path, "run_after")))
                assert attacker.load_job(path)["status"] == "waiting"
                with Victim(server, other.key) as victim:
                    wait_until(lambda: len(victim.statuses) > 3)
                assert set(victim.statuses) == {200}
                end_wait(tmp_path)
                wait_until_running(attacker, path)
                kill(server)
        with open_server(tmp_path) as server, server.client() as client:
            stopped = Project(client, 1, PROJECT_KEY).wait_until_over(path)
    assert stopped["status"] == "failed"
    assert "ended 3 times" in stopped["error"]


def open_server(data: Path) -> LiveServer:
    return LiveServer(data, allow_private_destinations="true")


def wait_until_running(project: Project, path: str) -> None:
    wait_until(lambda: project.load_job(path)["status"] == "running", TIMEOUT_S)


def kill(server: LiveServer) -> None:
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()


def read_jobs(data: Path, column: str) -> Any:
    with closing(sqlite3.connect(data / "hedgerow.db", timeout=60)) as database:
        return database.execute(f"SELECT {column} FROM pipeline_jobs").fetchone()[0]


def end_wait(data: Path) -> None:
    """Spare the test the wait, which is a minute after the second crash."""
    with closing(sqlite3.connect(data / "hedgerow.db", timeout=60)) as database:
        database.execute("UPDATE pipeline_jobs SET run_after = NULL")
        database.commit()


def test_import_waits_for_disk_space_and_capture_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "imports" / "1"
    folder.mkdir(parents=True)
    (folder / "rows.csv").write_text("event,distinct_id\na,1\n")
    enormous = str(1_000_000_000)
    with (
        LiveServer(tmp_path, import_min_free_disk_mb=enormous) as server,
        open_projects(server) as (project, _),
    ):
        job = project.start_import("hedgerow/file-import", {"source": "rows.csv"})
        wait_until(lambda: "disk is nearly full" in project.load_job(job)["error"])
        assert project.load_job(job)["status"] == "waiting"
        event = {"api_key": PROJECT_KEY, "event": "e", "distinct_id": "d"}
        assert project.client.post("/capture/", json=event).status_code == 200
    with LiveServer(tmp_path) as server, server.client() as client:
        project = Project(client, 1, PROJECT_KEY)
        ended = project.wait_until_over(job)
    assert (ended["status"], ended["details"]["imported"], ended["error"]) == ("done", 1, "")
