"""The public API of component packages: complete, documented, and all that examples import."""

import ast
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow import plugin
from hedgerow.plugin import testing

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(
    path for folder in ("examples", "packages") for path in (ROOT / folder).rglob("*.py")
)
PUBLIC_MODULES = {"hedgerow.plugin", "hedgerow.plugin.testing"}


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_only_the_public_api(path: Path) -> None:
    ours = {name for name in imported_modules(path) if name.split(".")[0] == "hedgerow"}
    assert ours <= PUBLIC_MODULES


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_every_public_name_exists() -> None:
    assert [name for name in plugin.__all__ if not hasattr(plugin, name)] == []
    assert len(set(plugin.__all__)) == len(plugin.__all__)


def test_every_imported_name_is_public() -> None:
    imported = {
        name
        for name, value in vars(plugin).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert imported == set(plugin.__all__)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in plugin.__all__
        if inspect.isclass(getattr(plugin, name)) or inspect.isfunction(getattr(plugin, name))
    ],
)
def test_every_public_class_and_function_has_a_docstring(name: str) -> None:
    value = getattr(plugin, name)
    doc = inspect.getdoc(value) or ""
    # A dataclass without a docstring gets its signature as one.
    assert doc
    assert not doc.startswith(f"{name}(")


def test_every_helper_for_tests_has_a_docstring() -> None:
    own = [
        value
        for name, value in vars(testing).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == testing.__name__
    ]
    undocumented = [
        value.__name__
        for value in own
        if not isinstance(value, typing.TypeVar) and not inspect.getdoc(value)
    ]
    assert undocumented == []
