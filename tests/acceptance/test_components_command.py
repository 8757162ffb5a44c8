"""`hedgerow components`: built-in components and those of packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from tests.support.live import Installation

GOOD = """
from hedgerow.plugin.component import Component
from hedgerow.pipelines.model import Family

COMPONENT = Component(
    key="acme/pigeon",
    family=Family.DESTINATION,
    name="Pigeon",
    description="Carries events.",
    version="0.1",
)
"""
BROKEN = "raise RuntimeError('[bold]no[/bold] such luck')\n"
EXITS = "import sys\nsys.exit(3)\n"


def install(folder: Path, name: str, source: str) -> None:
    """Put a package with one component entry point where PYTHONPATH finds it."""
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[hedgerow.components]\n{name} = {name}:COMPONENT\n")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """On SQLite only: tests/contract/stores runs component ids on both engines."""
    made = Installation(data=tmp_path_factory.mktemp("installation") / "data", settings={})
    assert made.run_in_process("init").returncode == 0
    return made


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory whose packages every process of the test has installed."""
    folder = tmp_path / "packages"
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def listed_with_packages(installation: Installation) -> list[dict[str, Any]]:
    """Return the components that a new process lists."""
    done = installation.run("components", "--json")
    assert done.returncode == 0, done.stderr
    listed: list[dict[str, Any]] = json.loads(done.stdout)
    return listed


def test_the_table_shows_every_built_in_component(installation: Installation) -> None:
    shown = installation.run_in_process("components")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    for id, component in BUILTIN_COMPONENTS.items():
        [line] = [line for line in lines if line.split()[0] == str(id)]
        for fact in (component.family.value, component.name, component.version):
            assert fact in line


def test_json_lists_settings_and_jobs(installation: Installation) -> None:
    listed = installation.run_json("components")
    assert [item["id"] for item in listed] == sorted(BUILTIN_COMPONENTS)
    webhook = BUILTIN_COMPONENTS[1]
    assert listed[0] == {
        "id": 1,
        "key": "hedgerow/webhook",
        "kind": "destination",
        "name": "Webhook",
        "version": webhook.version,
        "settings": [field.key for field in webhook.settings],
        "jobs": [job.type for job in webhook.jobs],
    }


def test_a_package_is_listed_and_keeps_its_id(installation: Installation, packages: Path) -> None:
    install(packages, "acme_pigeon", GOOD)
    first = listed_with_packages(installation)[-1]
    assert (first["key"], first["name"]) == ("acme/pigeon", "Pigeon")
    install(packages, "acme_early", GOOD.replace("acme/pigeon", "acme/a-dove"))
    again = {item["key"]: item["id"] for item in listed_with_packages(installation)}
    assert again["acme/pigeon"] == first["id"]
    assert again["acme/a-dove"] == first["id"] + 1


def test_a_broken_package_is_a_warning(installation: Installation, packages: Path) -> None:
    broken = (BROKEN, EXITS, "COMPONENT = 5\n", "this is no python\n")
    for number, source in enumerate(broken):
        install(packages, f"acme_broken_{number}", source)
    install(packages, "acme_pigeon", GOOD)
    shown = installation.run("components")
    assert shown.returncode == 0
    for number in range(len(broken)):
        assert f"component acme_broken_{number} cannot be loaded: " in shown.stderr
    assert "RuntimeError: [bold]no[/bold] such luck" in " ".join(shown.stderr.split())
    assert "Pigeon" in shown.stdout
    assert "Traceback" not in shown.stderr
    assert "acme/pigeon" in {item["key"] for item in listed_with_packages(installation)}


def test_without_an_installation_the_error_says_how_to_create_one(tmp_path: Path) -> None:
    refused = Installation(data=tmp_path / "none", settings={}).run_in_process("components")
    assert refused.returncode == 1
    assert "There is no installation" in refused.stderr
    assert not (tmp_path / "none").exists()
