"""`hedgerow flags scan`: where source code names flags."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.options import DryRunOption, JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json
from hedgerow.cli.service_client import connect_service
from hedgerow.errors import Invalid, OperatorError
from hedgerow.flags.code_references.source_files import SourceScan, scan_folder
from hedgerow.lib.text import escape_control_characters

if TYPE_CHECKING:
    from hedgerow.cli.service_client import ServiceClient

SCOPE = "feature_flag:write"
GIT_TIMEOUT_S = 10
SHOWN_KEYS = 20
PAGE_SIZE = 1000


def scan_flags(  # noqa: PLR0913 - the options of a command
    path: Annotated[Path, typer.Argument(help="Folder or file with source code.")],
    repository: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the repository. Default: that of the folder."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="SHA", help="Commit. Default: what git says.")
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Find the flags that source code names, and upload where.

    Finds keys in calls of PostHog SDKs and of OpenFeature, without files that .gitignore names.
    The upload replaces that of the repository from before. Then shows flags that no code names,
    and keys that no flag has. Needs a personal API key with the scope feature_flag:write, unless
    you use --dry-run.

    Example: hedgerow flags scan . --server https://flags.example.com
    """
    if not path.exists():
        raise OperatorError(f"There is no folder or file {path}.")
    service = None if dry_run else connect_service(server, key, project, SCOPE)
    scan = scan_folder(path)
    body = {
        "repository": repository or path.resolve().name or "root",
        "commit": _find_commit(path) if commit is None else commit,
        "references": [
            {"key": each.key, "file": each.file, "line": each.line} for each in scan.references
        ],
    }
    if not scan.is_complete:
        raise OperatorError(
            f"{path} has too much source code: the scan ended after {scan.files} files and "
            f"{len(scan.references)} references. Scan parts of it, each with its --repository."
        )
    report = _describe_scan(scan, body)
    if service is not None:
        report |= _upload(service, body)
    if as_json:
        print_json(report)
    else:
        _print_report(report, is_dry_run=dry_run)


def _find_commit(path: Path) -> str:
    """Return the commit that is checked out, "" without git or outside of a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    folder = path if path.is_dir() else path.parent
    try:
        done = subprocess.run(  # noqa: S603 - git itself, without a shell
            [git, "-C", str(folder), "rev-parse", "--verify", "HEAD"],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _describe_scan(scan: SourceScan, body: dict[str, Any]) -> dict[str, Any]:
    return {
        **body,
        "files": scan.files,
        "large_files": scan.large_files,
        "uploaded": False,
    }


def _upload(service: ServiceClient, body: dict[str, Any]) -> dict[str, Any]:
    try:
        service.request("POST", "code_references/", body)
    except Invalid as error:
        field = f"{error.attr}: " if error.attr else ""
        raise OperatorError(field + error.detail) from None
    return {
        "uploaded": True,
        "unused_flags": [each["key"] for each in _fetch(service, "unused_flags")],
        "unknown_keys": _fetch(service, "unknown_keys"),
    }


def _fetch(service: ServiceClient, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        path = f"code_references/{name}/?limit={PAGE_SIZE}&offset={len(found)}"
        page = service.request("GET", path)
        found += page["results"]
        if not page["next"] or not page["results"]:
            return found


def _print_report(report: dict[str, Any], *, is_dry_run: bool) -> None:
    references = report["references"]
    if is_dry_run:
        for each in references:
            print(escape_control_characters(f"{each['file']}:{each['line']}: {each['key']}"))
    for name in report["large_files"]:
        print(escape_control_characters(f"left out, because it is large: {name}"), file=sys.stderr)
    keys = {each["key"] for each in references}
    print(
        f"{len(references)} reference(s) to {len(keys)} flag(s) in {report['files']} file(s)."
        + ("" if is_dry_run else " Uploaded.")
    )
    if not is_dry_run:
        unknown = [
            f"{each['key']} ({each['repository']}: {each['file']}:{each['line']})"
            for each in report["unknown_keys"]
        ]
        _print_keys("flag(s) that no code names", report["unused_flags"])
        _print_keys("key(s) in code that no flag has", unknown)


def _print_keys(title: str, keys: list[str]) -> None:
    if not keys:
        return
    print(f"{len(keys)} {title}:")
    for key in keys[:SHOWN_KEYS]:
        print(escape_control_characters(f"  {key}"))
    if len(keys) > SHOWN_KEYS:
        print(f"  and {len(keys) - SHOWN_KEYS} more; --json lists all")
