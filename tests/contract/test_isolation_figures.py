"""What an attack on a project takes of memory fits into the limits of the deployment."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SECURITY = ROOT / "docs" / "reference" / "security.md"
DEPLOYMENT = ROOT / "deploy" / "kubernetes"
MAX_MAIN_MIB = 512
MIB = {"Mi": 1, "Gi": 1024}


def _read_measured() -> list[tuple[int, int]]:
    """Return the memory of the main process and of all processes, in MiB, for each attack."""
    table = SECURITY.read_text().split("## What a project can do to another one")[1]
    rows = re.findall(r"^\|.*\| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    return [(int(main), int(all)) for main, all in rows]


def _read_limits() -> list[int]:
    """Return the limits of the containers that serve requests, in MiB."""
    limits = []
    for file in DEPLOYMENT.glob("*.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            template = ((document or {}).get("spec") or {}).get("template") or {}
            for container in (template.get("spec") or {}).get("containers", ()):
                if "serve" in container.get("args", container.get("command", ())):
                    size = container["resources"]["limits"]["memory"]
                    limits.append(int(size[:-2]) * MIB[size[-2:]])
    return limits


def test_attacks_fit_into_the_memory_of_the_deployment() -> None:
    measured, limits = _read_measured(), _read_limits()
    assert len(measured) > 10
    assert limits
    assert max(main for main, _ in measured) < MAX_MAIN_MIB
    assert max(all for _, all in measured) < min(limits)
