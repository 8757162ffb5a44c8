"""Shared steps of `flags` and `pipelines`: read a YAML file, show a plan, ask, write a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.output import colorize, confirm, format_value, print_json
from hedgerow.errors import Invalid, OperatorError
from hedgerow.lib import jsonio, yamlio
from hedgerow.lib.text import escape_control_characters

if TYPE_CHECKING:
    from hedgerow.projects.model import Project

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
]
FileArgument = Annotated[Path, typer.Argument(help="YAML file, or - for standard input.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Change nothing; exit with status 1 if anything differs.")
]

_LINE_COLORS = {"  + ": "green", "  - ": "red", "  ~ ": "yellow"}


def read_document(file: Path) -> Any:
    """Read a YAML or JSON file."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return _decode(text)
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise OperatorError(f"{file} is not UTF-8 text.") from None
    except yamlio.YamlError as error:
        raise OperatorError(f"{file} cannot be read: {error}.") from None


def _decode(text: str) -> Any:
    # JSON is YAML, except for tabs and for escapes of characters beyond U+FFFF.
    if text.lstrip().startswith("{") and ("\t" in text or "\\u" in text):
        with suppress(jsonio.JsonError):
            text = yamlio.encode(jsonio.parse(text.encode("utf-8", "surrogatepass")))
    return yamlio.decode(text)


def describe_project(project: Project) -> str:
    return f"project {project.id}, {json.dumps(project.name)}"


def write_document(source: str, title: str, document: Any, output: Path | None, count: str) -> None:
    """Write a document as YAML to a file or to stdout. `count` says how much was written."""
    header = f"# {title} of {source}.\n"
    text = header + yamlio.encode(document)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"{output} cannot be written: {error.strerror or error}.") from None
    print(f"Wrote {count} to {output}.")


@contextmanager
def report_invalid(file: Path) -> Iterator[None]:
    """Turn a validation error into one line: the file, the field, the reason."""
    try:
        yield
    except Invalid as error:
        field = f"{error.attr}: " if error.attr else ""
        raise OperatorError(f"{file}: {escape_control_characters(field + error.detail)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """Names of the flags or records that a plan creates, changes, deletes and keeps."""

    created: Sequence[str]
    changed: Sequence[str]
    deleted: Sequence[str]
    kept: Sequence[str]

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)

    def describe(self) -> str:
        if self.is_empty:
            return "Nothing to change."
        counts = len(self.created), len(self.changed), len(self.deleted)
        return "{} to create, {} to change, {} to delete.".format(*counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReview:
    """Shows a plan, asks for confirmation and reports the outcome, as the options say."""

    yes: bool
    check: bool
    as_json: bool

    def approve(self, summary: PlanSummary, lines: Iterable[str]) -> bool:
        """Show the plan and return whether to apply it."""
        if not self.as_json:
            for line in (*lines, summary.describe()):
                print(colorize(escape_control_characters(line), _LINE_COLORS.get(line[:4])))
        if summary.is_empty or self.check:
            return False
        if not self.yes and self.as_json:
            raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")
        if not self.yes:
            confirm("Apply this?")
        return True

    def report(self, summary: PlanSummary, *, is_applied: bool) -> None:
        """Print the outcome. With --check, a plan that changes something exits with status 1."""
        if self.as_json:
            print_json({**asdict(summary), "applied": is_applied})
        elif is_applied:
            print("Applied.")
        if self.check and not summary.is_empty:
            raise typer.Exit(1)


def format_kept(names: Iterable[str]) -> str:
    return f"Not in the file, and kept: {', '.join(names)}. --prune deletes them."


def format_change(label: str, before: Any, after: Any, absent: Any = None) -> str:
    """Return the line for one changed field. `absent` marks a value that is not there."""
    if before is absent:
        return f"      {label}: {format_value(after)}"
    if after is absent:
        return f"      {label}: {format_value(before)} -> cleared"
    return f"      {label}: {format_value(before)} -> {format_value(after)}"
