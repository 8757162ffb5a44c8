"""Packages of extras are imported on first use, and a missing one is a clear error."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import signature

import pytest
from tools.dist import read_project

from hedgerow.cli.commands import COMMANDS, Entry, GroupEntry
from hedgerow.lib.optional_packages import EXTRAS, LazyPackage, MissingPackage, import_package

# What the service imports at its start.
AT_THE_START = {"cryptography", "maxminddb", "sqlalchemy", "ttf_opensans"}
# Large packages that neither flag evaluation nor the start of the service needs.
ON_DEMAND = {*EXTRAS, "aiohttp", "nats", "pandas", "urllib3"} - AT_THE_START
FRAMEWORKS = {"pydantic", "sqlalchemy", "uvicorn"}


def list_imports(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_flag_evaluation_needs_no_framework() -> None:
    assert list_imports("hedgerow.flags.evaluation.decide") & (ON_DEMAND | FRAMEWORKS) == set()


@pytest.mark.parametrize("module", ["http.sdk.decide", "cli.installation.serve"])
def test_a_start_imports_no_large_package(module: str) -> None:
    assert list_imports(f"hedgerow.{module}") & ON_DEMAND == set()


@pytest.mark.parametrize("module", ["edge.run", "cli.installation.edge"])
def test_an_edge_process_imports_no_package_of_an_extra(module: str) -> None:
    assert list_imports(f"hedgerow.{module}") & EXTRAS.keys() == set()


def list_remote_commands(entries: Mapping[str, Entry] = COMMANDS) -> Iterator[str]:
    """Yield the modules of commands that can call a service."""
    for entry in entries.values():
        if isinstance(entry, GroupEntry):
            yield from list_remote_commands(entry.entries)
            continue
        module, name = entry.target.split(":")
        command = getattr(import_module(f"hedgerow.cli.{module}"), name)
        if {"server", "key", "personal_key"} & signature(command).parameters.keys():
            yield f"hedgerow.cli.{module}"


def test_commands_that_call_a_service_import_no_package_of_an_extra() -> None:
    modules = set(list_remote_commands())
    assert {"hedgerow.cli.people.users", "hedgerow.cli.importers.posthog"} < modules
    assert list_imports(", ".join(sorted(modules))) & EXTRAS.keys() == set()


def test_a_command_imports_no_rich() -> None:
    """structlog imports it if it is there."""
    program = (
        "import sys; from hedgerow.cli.commands import COMMANDS, load_command\n"
        "load_command('serve', COMMANDS['serve'])\n"
        "print('structlog' in sys.modules, 'rich' in sys.modules)\n"
        "import rich.console"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


def test_every_extra_that_an_error_names_exists() -> None:
    assert set(EXTRAS.values()) <= read_project()["optional-dependencies"].keys()


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "awscrt", raising=False)
    monkeypatch.delitem(sys.modules, "awscrt.http", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingPackage, match=r"pip install 'hedgerow\[s3\]'"):
        import_package("awscrt.http")
    with pytest.raises(MissingPackage, match="awscrt"):
        _ = LazyPackage("awscrt.http").HttpRequest
    with pytest.raises(ModuleNotFoundError, match="hedgerow_unknown"):
        import_package("hedgerow_unknown")
