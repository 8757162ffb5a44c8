"""Architecture rules: sizes of files and folders, names, docstrings, handlers, imports, tables."""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.apply import migrate
from hedgerow.storage.tables import metadata
from tests.contract.api.cases import check_all

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

# Functions that may catch every exception, and why. Elsewhere an `except` names its error.
PACKAGE_CODE = "code of a component package may raise anything"
ONE_RECORD = "one record must not stop others"
CATCH_ALLS = {
    "app/periodic_tasks.py _run_forever": "a failing background task must run again",
    "app/serve.py _run": "the caller reports why the service cannot start",
    "flags/evaluation/snapshot.py EvaluationPlan.evaluate_simple": "one flag must not break others",
    "flags/evaluation/snapshot.py FlagSnapshot._evaluate_others": "one flag must not break others",
    "http/api/events.py _mark_failure": "the last line of a file says that it is incomplete",
    "http/server/gateway.py Gateway._serve_app": "an unexpected error becomes a 500",
    "http/server/gateway.py Gateway._serve_fast": "an unexpected error becomes a 500",
    "ingestion/poison_isolation.py BatchBisector.run": "one event must not block others",
    "lib/eager.py _continue": "passed on to the coroutine",
    "lib/workers/function_host.py run_function": "raised again in the service",
    "lib/sync_bridge.py _drive": "passed on to the coroutine",
    "lib/sync_bridge.py run_bridged": "passed on to the coroutine",
    "lib/text.py describe_error": PACKAGE_CODE,
    "lib/threads.py ThreadLimiter._run.call": "raised again in the awaiting task",
    "pipelines/catalogue.py load_components": PACKAGE_CODE,
    "pipelines/deliveries/deliverer.py Deliverer._run_lane": "one destination must not stop others",
    "dashboards/refresher.py Refresher._run_one": "those who wait for the result must learn of it",
    "pipelines/destinations/attempt.py _attempt": PACKAGE_CODE,
    "pipelines/destinations/registry.py DestinationRegistry._replace": ONE_RECORD,
    "pipelines/destinations/registry.py DestinationRegistry._settings": ONE_RECORD,
    "pipelines/event_filters.py _check_by_component": PACKAGE_CODE,
    "pipelines/jobs/runner.py JobRunner._run_job": "one job must not stop others",
    "pipelines/jobs/runner.py JobRunner._run_until_ended": "any failure ends this job only",
    "pipelines/records/records.py Records._migrate_settings": PACKAGE_CODE,
    "pipelines/transformations/chain.py TransformationChain.apply": PACKAGE_CODE,
    "pipelines/transformations/registry.py TransformationRegistry._build_transform": PACKAGE_CODE,
    "pipelines/transformations/registry.py TransformationRegistry.build_step": ONE_RECORD,
    "pipelines/transformations/sandbox_host.py SandboxHost._build_transform": PACKAGE_CODE,
    "pipelines/transformations/sandbox_host.py SandboxHost.handle": PACKAGE_CODE,
    "plugin/liquid_texts.py LiquidText.render": "filters raise anything for odd values",
    "storage/engine/append_groups.py AppendGroups._insert_group": "passed on to the callers",
    "storage/engine/batch_writer.py BatchWriter._commit": "passed on to the waiting callers",
    "storage/engine/batch_writer.py BatchWriter._run_batch": "one caller must not fail others",
    "storage/engine/batch_writer.py _insert_rows": "one caller must not fail others",
    "storage/ingestion/jetstream.py InboxStream._run": "the next connection may work",
    "storage/ingestion/jetstream.py InboxStream._send": "passed on to the waiting callers",
    "storage/events/native_results.py decode_native": "the driver raises many kinds of errors",
    "surveys/lifecycle.py SurveyLifecycle._advance_next": "one survey must not stop others",
}

# Folders with more entries than this are split. Migrations only ever grow.
MAX_FOLDER_ENTRIES = 20
GROWING_FOLDERS = {"src/hedgerow/storage/migrations/versions"}
# Class names that several modules define on purpose.
SHARED_CLASS_NAMES: set[str] = set()


def find_python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


ALL_FILES = find_python_files("src", "tests", "benchmarks")
SOURCE_FILES = find_python_files("src")


def iter_nodes(node: ast.AST, place: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield every node of a module with the qualified name of its enclosing function or class."""
    for child in ast.iter_child_nodes(node):
        inner = place
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{place}.{child.name}".removeprefix(".")
        yield inner, child
        yield from iter_nodes(child, inner)


def catches_everything(node: ast.AST) -> bool:
    """Match `except Exception`, `except BaseException`, a bare `except`, and suppress()."""
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


@check_all("path", ALL_FILES)
def test_file_is_short_enough(path: Path) -> None:
    assert count_lines(path) <= MAX_LINES


def test_most_source_files_are_short() -> None:
    counts = [count_lines(path) for path in SOURCE_FILES]
    assert statistics.quantiles(counts, n=10)[-1] <= P90_LINES


def test_no_catch_all_file_names() -> None:
    names = {part for path in ALL_FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert names & BANNED_NAMES == set()


@check_all("path", SOURCE_FILES)
def test_module_has_a_docstring(path: Path) -> None:
    docstring = ast.get_docstring(parse(path))
    assert docstring
    assert docstring.split("\n")[0].strip()


def test_catch_alls_are_listed() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()} {place}"
        for path in SOURCE_FILES
        for place, node in iter_nodes(parse(path))
        if catches_everything(node)
    }
    assert found == CATCH_ALLS.keys()


@check_all("path", SOURCE_FILES)
def test_no_import_inside_functions(path: Path) -> None:
    hidden = [
        ast.unparse(statement)
        for function in ast.walk(parse(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_import_contracts_hold() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout


def test_folders_are_small_enough() -> None:
    folders = {path.parent for path in SOURCE_FILES} - {ROOT / name for name in GROWING_FOLDERS}
    counts = {
        relative_name(folder): sum(each.name != "__pycache__" for each in folder.iterdir())
        for folder in folders - {SOURCE}
    }
    assert {name: count for name, count in counts.items() if count > MAX_FOLDER_ENTRIES} == {}


def test_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCE_FILES:
        for _, node in iter_nodes(parse(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(relative_name(path))
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert repeated.keys() == SHARED_CLASS_NAMES, repeated


def test_migrations_match_the_tables(tmp_path: Path) -> None:
    """Indexes and unique constraints are defined in migrations only."""
    location = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=5)
    migrate(location)
    with create_sync_engine(location).connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _is_compared})
        differences = compare_metadata(context, metadata)
    assert differences == []


def _is_compared(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
    return kind not in ("index", "unique_constraint") and name != "alembic_version"
