"""Shared steps of commands for documents: read a YAML file, show a plan, ask, apply it, and write a
file, on a service or on the database of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from hedgerow.cli.config.break_glass import break_glass_for, build_headers
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.output import colorize, confirm, print_json
from hedgerow.cli.service_client import ServiceClient, find_service
from hedgerow.errors import Invalid, OperatorError
from hedgerow.lib import jsonio, yamlio
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    PlanSummary,
    ProjectDocuments,
    from_plain,
    list_variables,
    to_plain,
)

if TYPE_CHECKING:
    from hedgerow.app.state import State
    from hedgerow.settings import Settings

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
]
DocumentJsonOption = Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")]
FileArgument = Annotated[Path, typer.Argument(help="YAML file, or - for standard input.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Change nothing; exit with status 1 if anything differs.")
]

_LINE_COLORS = {"  + ": "green", "  - ": "red", "  ~ ": "yellow"}


class OpenDocuments(Protocol):
    """Documents of one kind on an open database."""

    @property
    def state(self) -> State: ...

    @property
    def documents(self) -> ProjectDocuments: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """A kind of document: its name and scope in the API, and how to open it on the database."""

    name: str
    scope: str
    open: Callable[[Settings], AbstractAsyncContextManager[OpenDocuments]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command works, as its options say."""

    project: int | None
    data: Path | None
    server: str | None
    key: str | None

    def find_service(self, scope: str) -> ServiceClient | None:
        return find_service(self.data, self.server, self.key, self.project, scope)

    def load_settings(self) -> Settings:
        return load_installation_settings(self.data)


def export_document(
    kind: DocumentKind, place: Place, output: Path | None, *, as_json: bool
) -> None:
    """Write the document of a project to a file or to stdout."""
    service = place.find_service(f"{kind.scope}:read")
    if service is not None:
        answer = service.request("GET", f"documents/{kind.name}/")
        exported = read_exported(answer)
        source = describe_project(answer["project_id"], answer["project_name"])
    else:

        async def run(settings: Settings) -> tuple[str, ExportedDocument]:
            async with kind.open(settings) as opened:
                found = choose_project(opened.state, place.project)
                exported = await opened.documents.export(found)
                return describe_project(found.id, found.name), exported

        source, exported = asyncio.run(run(place.load_settings()))
    write_document(source, exported, output, as_json=as_json)


def read_exported(answer: Mapping[str, Any]) -> ExportedDocument:
    """Return the document that a service has exported."""
    names = ("title", "count", "notes")
    return ExportedDocument(
        document=from_plain(answer["document"]), **{name: answer[name] for name in names}
    )


def apply_document(
    kind: DocumentKind,
    file: Path,
    place: Place,
    review: PlanReview,
    *,
    prune: bool = False,
    reason: str | None = None,
) -> None:
    """Show what a file would change, ask, and apply it."""
    document = read_document(file)
    service = place.find_service(f"{kind.scope}:write")
    if service is not None:
        send = partial(
            service.request, "POST", f"documents/{kind.name}/", headers=build_headers(reason)
        )
        apply_on_service(send, file, document, review, prune=prune)
        return

    async def run(settings: Settings) -> None:
        async with kind.open(settings) as opened:
            target = choose_project(opened.state, place.project)
            request = build_request(document, prune=prune)
            await review_plan(opened.documents.plan(target, request), file, review)

    with break_glass_for(reason):
        asyncio.run(run(place.load_settings()))


async def review_plan(planned: Awaitable[DocumentPlan], file: Path, review: PlanReview) -> None:
    """Show a plan, ask, and apply it here."""
    with report_invalid(file):
        plan = await planned
    is_approved = review.approve(plan.summary, plan.lines)
    if is_approved:
        with report_invalid(file):
            await plan.apply()
    review.report(plan.summary, is_applied=is_approved)


def apply_on_service(
    send: Callable[..., Any], file: Path, document: Any, review: PlanReview, *, prune: bool
) -> None:
    """Let the service plan a document, show the plan, ask, and let the service apply it."""
    body = {
        "document": to_plain(document),
        "prune": prune,
        "environment": {
            name: os.environ[name] for name in list_variables(document) if name in os.environ
        },
    }
    with report_invalid(file):
        plan = send(body=body)
    summary = PlanSummary(**{name: plan[name] for name in PlanSummary.__slots__})
    is_approved = review.approve(summary, plan["lines"])
    if is_approved:
        with report_invalid(file):
            send(body={**body, "plan": plan["plan"]})
    review.report(summary, is_applied=is_approved)


def build_request(document: Any, *, prune: bool) -> DocumentRequest:
    return DocumentRequest(
        document=document, prune=prune, environment=os.environ, actor=COMMAND_LINE, now=utc_now()
    )


def read_document(file: Path) -> Any:
    """Read a YAML or JSON file."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return from_plain(_decode(text))
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


def describe_project(id: int, name: str) -> str:
    return f"project {id}, {json.dumps(name)}"


def write_document(
    source: str, exported: ExportedDocument, output: Path | None, *, as_json: bool
) -> None:
    """Write a document as YAML or JSON to a file or to stdout."""
    for note in exported.notes:
        print(escape_control_characters(note), file=sys.stderr)
    if as_json:
        text = json.dumps(to_plain(exported.document), indent=2) + "\n"
    else:
        text = f"# {exported.title} of {source}.\n{yamlio.encode(exported.document)}"
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"{output} cannot be written: {error.strerror or error}.") from None
    print(f"Wrote {exported.count} to {output}.")


@contextmanager
def report_invalid(file: Path) -> Iterator[None]:
    """Turn a validation error into one line: the file, the field, the reason."""
    try:
        yield
    except Invalid as error:
        field = f"{error.attr}: " if error.attr else ""
        raise OperatorError(f"{file}: {escape_control_characters(field + error.detail)}") from None


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
