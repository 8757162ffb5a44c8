"""The files in deploy/: real linters accept them, and what they run works as plain processes."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hedgerow import __version__
from hedgerow.lib.encryption import generate_encryption_key
from hedgerow.settings import Settings, find_unknown_variables
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import LiveServer, LiveWorker, find_free_port, run_hedgerow, wait_for
from tests.support.postgres import PostgresTestServer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
LINTERS = ROOT / ".venv" / "deploy" / ".installed"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = [
    document
    for file in sorted((DEPLOY / "kubernetes").iterdir())
    for document in yaml.safe_load_all(file.read_text())
]
FILES = [path for path in DEPLOY.rglob("*") if path.is_file() and path.name != "linters.txt"]


def list_containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in MANIFESTS:
        template = document.get("spec", {}).get("template")
        if template is not None:
            (container,) = template["spec"]["containers"]
            yield document["metadata"]["name"], container


def list_service_links(name: str) -> set[str]:
    """Return the variables that Kubernetes sets in the containers of a namespace for a Service of
    this name, unless `enableServiceLinks` is false. They take precedence over those of an image.
    https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables"""
    prefix = name.upper().replace("-", "_")
    return {f"{prefix}_SERVICE_HOST", f"{prefix}_SERVICE_PORT", f"{prefix}_PORT"}


CONTAINERS = dict(list_containers())
WEB, WORKER = CONTAINERS["hedgerow-web"], CONTAINERS["hedgerow-worker"]
INIT = CONTAINERS[f"hedgerow-init-{__version__}"]


def test_linters_accept_all_files() -> None:
    if not LINTERS.exists():
        pytest.skip("linters missing: `deploy/lint install` installs them")
    done = subprocess.run([DEPLOY / "lint"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_images_have_the_version_of_the_package() -> None:
    images = {each["image"] for each in CONTAINERS.values()}
    images |= {COMPOSE["services"][name]["image"] for name in ("init", "web", "worker")}
    assert images == {f"hedgerow:{__version__}"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_name_known_settings(path: Path) -> None:
    names = re.findall(r"HEDGEROW_[A-Z_]+", path.read_text())
    assert find_unknown_variables(dict.fromkeys(names, "")) == {}


def test_compose_and_kubernetes_run_the_same_commands() -> None:
    services = COMPOSE["services"]
    assert services["init"]["command"] == INIT["args"]
    assert services["web"]["command"] == WEB["args"]
    # The health check of the image needs a port.
    assert services["worker"]["command"] == [*WORKER["args"], "--metrics-port", "8000"]
    assert 'ENTRYPOINT ["hedgerow"]' in DOCKERFILE


def test_no_container_runs_as_root_or_writes_to_its_image() -> None:
    assert re.search(r"^USER 10001$", DOCKERFILE, re.M)
    assert all(COMPOSE["services"][name]["read_only"] for name in ("init", "web", "worker"))
    for container in CONTAINERS.values():
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"]


def test_the_service_does_not_set_the_port_of_its_containers() -> None:
    (service,) = (each for each in MANIFESTS if each["kind"] == "Service")
    links = list_service_links(service["metadata"]["name"])
    settings = {f"HEDGEROW_{field.name.upper()}" for field in fields(Settings)}
    assert links & settings == {"HEDGEROW_PORT"}
    pods = [
        each["spec"]["template"]["spec"] for each in MANIFESTS if "template" in each.get("spec", {})
    ]
    assert [pod["enableServiceLinks"] for pod in pods] == [False] * len(CONTAINERS)


def test_commands_and_probes_work_as_plain_processes(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    settings = {
        "database_url": postgres.create_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
    }
    created = run_hedgerow(*INIT["args"], data=tmp_path / "init", **settings)
    assert (created.returncode, "Created project 1" in created.stdout) == (0, True)
    again = run_hedgerow(*INIT["args"], data=tmp_path / "init", **settings)
    assert again.returncode == 0
    assert WEB["args"][0] == "serve"
    assert WORKER["args"] == ["worker"]
    worker = LiveWorker(tmp_path / "worker", "--metrics-port", "0", **settings)
    port = find_free_port()
    try:
        with LiveServer(tmp_path / "web", *WEB["args"][1:], metrics_port=port, **settings) as web:
            check_probes(WEB, f"http://127.0.0.1:{port}")
            assert run_health_check(web.address) == 0
            worker.wait_ready()
        check_probes(WORKER, worker.metrics_address)
        assert run_health_check(worker.metrics_address) == 0
    finally:
        worker.stop()


def check_probes(container: dict[str, Any], address: str) -> None:
    """Send the probes of a container to another address of the port that they name."""
    assert {"name": "metrics", "containerPort": 9000} in container["ports"]
    for probe in container.keys() & {"startupProbe", "livenessProbe", "readinessProbe"}:
        request = container[probe]["httpGet"]
        assert request["port"] == "metrics"
        wait_for(partial(is_successful, address + request["path"]), 120)


def is_successful(url: str) -> bool:
    return httpx.get(url, timeout=60, verify=False).is_success


def run_health_check(address: str) -> int:
    """Run the command of HEALTHCHECK against another address."""
    found = re.search(r"^  CMD (\[.+\])$", DOCKERFILE, re.M)
    assert found is not None
    program, option, code = json.loads(found[1])
    assert program == "python"
    code = code.replace("http://127.0.0.1:8000", address)
    return subprocess.run([sys.executable, option, code], check=False).returncode
