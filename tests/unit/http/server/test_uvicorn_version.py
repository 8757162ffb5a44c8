"""http/server/uvicorn_protocol.py relies on uvicorn's internals, so its version is pinned."""

import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hedgerow.http.server.uvicorn_protocol import UVICORN_VERSIONS

PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"


def test_installed_uvicorn_is_in_the_supported_range() -> None:
    assert version("uvicorn") in SpecifierSet(UVICORN_VERSIONS), (
        f"uvicorn {version('uvicorn')} is not in {UVICORN_VERSIONS}: "
        "see the docstring of http/server/uvicorn_protocol.py before you widen the range"
    )


def test_pyproject_pins_the_supported_range() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    requirements = [Requirement(each) for each in project["dependencies"]]
    [uvicorn] = [each for each in requirements if each.name == "uvicorn"]
    assert uvicorn.specifier == SpecifierSet(UVICORN_VERSIONS)
