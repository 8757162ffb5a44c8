"""The constraints files pin everything that pyproject.toml needs, with the hashes of all files.

`make constraints` writes both. `make run` installs the first, `make setup` both.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
FILES = ("constraints.txt", "constraints-dev.txt")
PIN = re.compile(
    r"^([a-z0-9.-]+)==(\S+)( ;[^\\]+)?((?: *\\\n +--hash=sha256:[0-9a-f]{64})+)\n", re.M
)


def read_pins(name: str) -> dict[str, str]:
    """Return the versions in a file by package. Fails if the file holds anything else."""
    text = (REPOSITORY / name).read_text()
    rest = [line for line in PIN.sub("", text).splitlines() if line and line[0] != "#"]
    assert rest == []
    return {str(canonicalize_name(pin[1])): pin[2] for pin in PIN.finditer(text)}


RUN, DEV = map(read_pins, FILES)


def parse_requirements(*texts: str) -> list[Requirement]:
    return [Requirement(text) for text in texts]


RUN_REQUIREMENTS = parse_requirements(
    *PYPROJECT["project"]["dependencies"], *PYPROJECT["build-system"]["requires"]
)
DEV_REQUIREMENTS = parse_requirements(*PYPROJECT["project"]["optional-dependencies"]["dev"])


def test_every_package_is_in_one_file() -> None:
    assert len(RUN) > 50
    assert RUN.keys() & DEV.keys() == set()


@pytest.mark.parametrize("requirement", RUN_REQUIREMENTS, ids=str)
def test_service_and_build_requirement_is_pinned_in_its_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains(RUN[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("requirement", DEV_REQUIREMENTS, ids=str)
def test_development_requirement_is_pinned_in_its_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains((RUN | DEV)[canonicalize_name(requirement.name)])


def test_requirements_of_requirements_are_pinned() -> None:
    assert set(list_needed(RUN_REQUIREMENTS)) - RUN.keys() == set()
    assert set(list_needed(RUN_REQUIREMENTS + DEV_REQUIREMENTS)) - (RUN | DEV).keys() == set()


def list_needed(requirements: list[Requirement]) -> Iterator[str]:
    """Yield the names of all packages that the requirements need in this environment."""
    seen: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in requirements for extra in ("", *each.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        yield name
        for inner in parse_requirements(*(metadata.requires(name) or ())):
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                waiting += [(inner, each) for each in ("", *inner.extras)]


def test_no_file_names_a_package_registry() -> None:
    for name in FILES:
        text = (REPOSITORY / name).read_text()
        assert re.search(r"://|--index-url|--find-links", text) is None
