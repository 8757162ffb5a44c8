"""The shape of the house, held by tests: sizes, names, docstrings, catches, imports, tables."""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.migrate import migrate
from hedgerow.storage.tables import metadata

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hedgerow"

MAX_LINES = 600
P90_LINES = 350
BANNED_NAMES = {
    "service",
    "manager",
    "utils",
    "helpers",
    "common",
    "misc",
    "base",
    "types",
    "constants",
}

# The functions in which everything may be caught, and why. Elsewhere an error has a name.
CATCH_ALLS = {
    "ingestion/care.py Careful.attempt": "one event's defect is not another's",
    "app/serve.py _live": "whoever started the service is told why it cannot go on",
    "flags/snapshot.py Plan.answer_plain": "what breaks one flag must leave the others right",
    "flags/snapshot.py Snapshot._answer_others": "what breaks one flag must leave the others right",
    "http/door.py FrontDoor._serve_lean": "the HTTP edge: a defect becomes a 500",
    "http/door.py FrontDoor._serve_rest": "the HTTP edge: a defect becomes a 500",
    "lib/eager.py _rest": "carried to the coroutine that waits for it",
    "lib/threads.py in_daemon_thread.run": "carried to whoever awaits",
    "lib/telling.py said": "somebody else's error may fail to tell what it is",
    "pipelines/deliver.py Deliverer._lane": "one destination's defect is not another's",
    "pipelines/attempt.py attempted": "somebody else's component may raise anything",
    "surveys/keeping.py Keeping.keep": "one survey's defect is not another's; raised at the end",
    "pipelines/job_runner.py JobRunner._one": "one job's defect is not another's",
    "pipelines/job_runner.py JobRunner._outcome": "whatever a job does ends that job alone",
    "pipelines/filters.py _check_by_component": "somebody else's check may raise anything",
    "pipelines/records.py Records._adopted": "somebody else's migration rule may raise anything",
    "pipelines/catalogue.py load_components": "somebody else's package may raise anything",
    "pipelines/destinations.py Destinations._replace": "one record's defect stops no other",
    "pipelines/destinations.py Destinations._settings": "one record's defect stops no other",
    "pipelines/foreign_host.py Host.answer": "somebody else's component may raise anything",
    "pipelines/foreign_host.py Host._transform": "somebody else's component may raise anything",
    "pipelines/transform.py Chain.passed": "somebody else's component may raise anything",
    "pipelines/transformations.py Transformations.step": "one record's defect stops no project",
    "pipelines/transformations.py Transformations._made": "somebody else's may here, too",
    "storage/group_commit.py GroupWriter._commit": "carried to the callers who wait for it",
    "storage/group_commit.py GroupWriter._run_group": "one caller's error is not another's",
    "storage/group_commit.py _insert_rows": "bad rows fail their own caller alone",
    "worker.py _repeat": "the worker loop: one chore's defect does not stop the others",
}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


ALL_FILES = python_files("src", "tests", "benchmarks")
SOURCE_FILES = python_files("src")


def placed_nodes(node: ast.AST, place: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node of a module with the qualified name of the function that it stands in, if any."""
    for child in ast.iter_child_nodes(node):
        inner = place
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{place}.{child.name}".removeprefix(".")
        yield inner, child
        yield from placed_nodes(child, inner)


def catches_everything(node: ast.AST) -> bool:
    """`except Exception`, `except BaseException`, a bare `except`, or the same by suppress()."""
    caught: list[ast.expr]
    if isinstance(node, ast.ExceptHandler):
        if node.type is None:
            return True
        caught = list(node.type.elts) if isinstance(node.type, ast.Tuple) else [node.type]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        caught = node.args
    else:
        return False
    return any(ast.unparse(one) in ("Exception", "BaseException") for one in caught)


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_no_file_is_too_long(path: Path) -> None:
    assert line_count(path) <= MAX_LINES


def test_nine_of_ten_source_files_are_short() -> None:
    counts = [line_count(path) for path in SOURCE_FILES]
    assert statistics.quantiles(counts, n=10)[-1] <= P90_LINES


def test_no_file_or_folder_has_a_name_that_takes_anything() -> None:
    names = {part for path in ALL_FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert names & BANNED_NAMES == set()


@pytest.mark.parametrize("path", SOURCE_FILES, ids=name_of)
def test_every_module_opens_with_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.split("\n")[0].strip()


def test_everything_is_caught_only_where_that_is_meant() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()} {place}"
        for path in SOURCE_FILES
        for place, node in placed_nodes(ast.parse(path.read_text()))
        if catches_everything(node)
    }
    assert found == CATCH_ALLS.keys()


@pytest.mark.parametrize("path", SOURCE_FILES, ids=name_of)
def test_no_import_hides_in_a_function(path: Path) -> None:
    hidden = [
        ast.unparse(statement)
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_the_import_contracts_hold() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout


def test_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    """Indexes and unique constraints are the migrations' own: tables.py does not repeat them."""
    place = Place(url="", path=tmp_path / "hedgerow.db", timeout_s=5)
    migrate(place)
    with plain_engine(place).connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _is_compared})
        differences = compare_metadata(context, metadata)
    assert differences == []


def _is_compared(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
    return kind not in ("index", "unique_constraint") and name != "alembic_version"
