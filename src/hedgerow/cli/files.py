"""What verbs share that keep a project's things in a file: find the project, read, ask, write."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.app.state import State
from hedgerow.errors import Invalid, Unready
from hedgerow.lib import jsonio, yamlio
from hedgerow.lib.text import on_one_line
from hedgerow.projects.model import Project

ProjectOption = Annotated[
    int | None, typer.Option("--project", help="The project's id; not needed if there is only one.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, not to the screen.")
]
FileArgument = Annotated[Path, typer.Argument(help="The YAML file, or - for the standard input.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Change nothing; exit status 1 if something would.")
]

SHOWN_CHARS = 100


def project_of(state: State, id: int | None) -> Project:
    """The project of this id, or the only one there is."""
    everything = state.directory.all_projects()
    wanted = [project for project in everything if id in (None, project.id)]
    if len(wanted) == 1:
        return wanted[0]
    known = ", ".join(f"{project.id} ({project.name})" for project in everything[:20])
    reason = f"There is no project {id}." if id is not None else "Which project?"
    raise Unready(f"{reason} Name one with --project: {known}.")


def read(file: Path) -> Any:
    """What a YAML or JSON file holds."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return _decoded(text)
    except OSError as error:
        raise Unready(f"{file} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise Unready(f"{file} is not UTF-8 text.") from None
    except yamlio.BadYaml as error:
        raise Unready(f"{file} cannot be read: {error}.") from None


def _decoded(text: str) -> Any:
    # JSON is YAML, but for tabs and for escapes of characters beyond U+FFFF.
    if text.lstrip().startswith("{") and ("\t" in text or "\\u" in text):
        with suppress(jsonio.JsonError):
            text = yamlio.encode(jsonio.parse(text.encode("utf-8", "surrogatepass")))
    return yamlio.decode(text)


def write(project: Project, what: str, document: Any, output: Path | None, done: str) -> None:
    """What a project has into a file, or to the screen; `done` says what was written."""
    title = f"# {what} of project {project.id}, {json.dumps(project.name)}.\n"
    text = title + yamlio.encode(document)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unready(f"{output} cannot be written: {error.strerror or error}.") from None
    print(f"Wrote {done} to {output}.")


@contextmanager
def refusing(file: Path) -> Iterator[None]:
    """Says why a file cannot be applied, on one line: the file, the place, the reason."""
    try:
        yield
    except Invalid as error:
        place = f"{error.attr}: " if error.attr else ""
        raise Unready(f"{file}: {on_one_line(place + error.detail)}") from None


def is_agreed(lines: Iterable[str], *, is_empty: bool, yes: bool, check: bool) -> bool:
    """Shows a plan: is it to be carried out? With `check`, one that is not empty ends the verb."""
    for line in lines:
        print(on_one_line(line))
    if is_empty:
        return False
    if check:
        raise typer.Exit(1)
    if not yes:
        ask()
    return True


def ask(question: str = "Apply this?") -> None:
    """Go on only if somebody says so."""
    if not sys.stdin.isatty():
        raise Unready("Nothing was changed: nobody is here to ask. Say --yes to apply it.")
    if not typer.confirm(question):
        raise Unready("Nothing was changed.")


def kept_line(names: Iterable[str]) -> str:
    return f"Not in the file, and kept: {', '.join(names)}. --prune deletes them."


def change_line(label: str, before: Any, after: Any, absent: Any = None) -> str:
    """One field that differs; `absent` stands for what is not there."""
    if before is absent:
        return f"      {label}: {shown(after)}"
    if after is absent:
        return f"      {label}: {shown(before)} -> cleared"
    return f"      {label}: {shown(before)} -> {shown(after)}"


def summary(created: int, changed: int, deleted: int) -> str:
    if not (created or changed or deleted):
        return "Nothing to change."
    return f"{created} to create, {changed} to change, {deleted} to delete."


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
