"""`hedgerow events export`: all events, or those of a time, into files."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hedgerow.app.queries import opened_queries
from hedgerow.cli.files import project_of
from hedgerow.cli.options import DataOption
from hedgerow.cli.prepared import check_prepared
from hedgerow.cli.running import (
    KeyOption,
    ServerOption,
    Service,
    address,
    service_settings,
)
from hedgerow.errors import Unready
from hedgerow.events.dates import asked_moment
from hedgerow.queries.export import (
    Ask,
    Ledger,
    Place,
    Span,
    Wish,
    Written,
    count,
    pages,
    place_of,
    server_time,
)
from hedgerow.settings import Settings
from hedgerow.storage.export_files import ExportFolder
from hedgerow.storage.folder_lock import FolderInUse


class Form(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export(  # noqa: PLR0913 - the options of a verb
    folder: Annotated[Path, typer.Argument(help="A folder for the files. It is made.")],
    form: Annotated[Form, typer.Option("--format", "-f", help="The kind of files.")] = Form.JSONL,
    after: Annotated[
        str, typer.Option(help="From this moment on, such as 2026-01-31 (UTC) or -7d.")
    ] = "",
    before: Annotated[str, typer.Option(help="Before this moment.")] = "",
    event: Annotated[str, typer.Option(help="Only those of this name.")] = "",
    events_per_file: Annotated[
        int, typer.Option(min=1, help="At most so many events in a file.")
    ] = 1_000_000,
    project: Annotated[
        int | None, typer.Option("--project", help="The project's id; not needed if there is one.")
    ] = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
) -> None:
    """Write events to files, oldest first. Call it again to go on where it was stopped.

    With a key it asks the running service. Without one it opens the events itself, which it can as
    long as no service on this machine has them open.
    """
    wish = Wish(format=form, project=project, after=after, before=before, event=event)
    settings = service_settings(server, key, data)
    place = ExportFolder(folder)
    ledger = place.ledger()
    if ledger is not None and ledger.wish != wish:
        raise Unready(f"{folder} has another export in it: see export.json there.")
    if ledger is None or not ledger.is_complete:
        try:
            with _asking(settings, project) as ask:
                if ledger is None:
                    ledger = _begun(wish, ask)
                    place.keep(ledger)
                ledger = _written(place, ledger, ask, events_per_file)
        except KeyboardInterrupt:
            print("Stopped. The same command goes on from here.", file=sys.stderr)
            raise typer.Exit(130) from None
    print(f"{ledger.events} event(s) in {len(ledger.files)} file(s) in {folder}.")


def _begun(wish: Wish, ask: Ask) -> Ledger:
    now = server_time(ask)
    span = Span(
        after=asked_moment(wish.after, now, UTC, "--after") if wish.after else None,
        before=asked_moment(wish.before, now, UTC, "--before") if wish.before else None,
        as_of=now,
        event=wish.event,
    )
    return Ledger(wish=wish, span=span)


def _written(folder: ExportFolder, ledger: Ledger, ask: Ask, per_file: int) -> Ledger:
    """Each file is told in the ledger once it is complete."""
    wish, files = ledger.wish, list(ledger.files)
    left = pages(ask, ledger.span, ledger.place)
    with _progress(count(ask, ledger.span), ledger.events) as progress:
        (task,) = progress.task_ids
        page = next(left, [])
        while page:
            name = f"events-{len(files) + 1:05}.{wish.format}"
            file, number = folder.begin(name, wish.format), 0
            end: Place | None = None
            try:
                while page and number < per_file:
                    some, page = page[: per_file - number], page[per_file - number :]
                    file.write(some)
                    number, end = number + len(some), place_of(some[-1])
                    progress.advance(task, len(some))
                    page = page or next(left, [])
            finally:
                file.close()
            assert end is not None
            folder.finish(name)
            files.append(Written(name=name, events=number, end=end))
            folder.keep(Ledger(wish=wish, span=ledger.span, files=files))
    complete = Ledger(wish=wish, span=ledger.span, files=files, is_complete=True)
    folder.keep(complete)
    return complete


def _progress(total: int, done: int) -> Progress:
    progress = Progress(
        TextColumn("events"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    progress.add_task("events", total=total, completed=done)
    return progress


@contextmanager
def _asking(settings: Settings, project: int | None) -> Iterator[Ask]:
    if settings.personal_key:
        service = Service(address(settings), settings.personal_key, project)
        yield lambda text, values: service.query(text, values, fresh=True)["results"]
        return
    check_prepared(settings)
    with asyncio.Runner() as runner:
        opened = opened_queries(settings)
        try:
            rooms = runner.run(opened.__aenter__())
        except FolderInUse as error:
            raise Unready(
                f"{error} If that is the service, ask it: name a personal key with --key or "
                "HEDGEROW_PERSONAL_KEY."
            ) from None
        try:
            owner = project_of(rooms.state, project)
            yield lambda text, values: runner.run(rooms.ask(owner, text, values))
        finally:
            runner.run(opened.__aexit__(None, None, None))
