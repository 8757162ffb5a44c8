"""`hedgerow events export`: write events to files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import check_installation, choose_project
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, show_progress
from hedgerow.cli.service_client import (
    ServiceClient,
    load_service_settings,
    resolve_service_url,
)
from hedgerow.errors import OperatorError
from hedgerow.projects.validation import parse_date_parameter
from hedgerow.queries.export import (
    ExportFile,
    ExportManifest,
    ExportPosition,
    ExportRange,
    ExportRequest,
    RunHogQL,
    count_events,
    fetch_server_time,
    iterate_pages,
    position_of,
)

if TYPE_CHECKING:
    from hedgerow.app.commands.queries import ExportFolder
    from hedgerow.settings import Settings


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export_events(  # noqa: PLR0913 - the options of a command
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory for the files. It is created.")
    ],
    format: Annotated[
        ExportFormat, typer.Option("--format", "-f", help="Format of the files.")
    ] = ExportFormat.JSONL,
    after: Annotated[
        str, typer.Option(help="From this time on, such as 2026-01-31 (UTC) or -7d.")
    ] = "",
    before: Annotated[str, typer.Option(help="Before this time.")] = "",
    event: Annotated[str, typer.Option(help="Only events with this name.")] = "",
    events_per_file: Annotated[
        int, typer.Option(min=1, help="Maximum number of events in a file.")
    ] = 1_000_000,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write events to files, oldest first.

    If it was stopped, the same command continues from there. With a personal API key (scope
    query:read) it reads from the running service. Without one it opens the events of the data
    directory, which no running service may have open.
    """
    request = ExportRequest(format=format, project=project, after=after, before=before, event=event)
    settings = load_service_settings(server, key, data_dir=data)
    directory = commands.queries.ExportFolder(folder)
    manifest = directory.load_manifest()
    if manifest is not None and manifest.request != request:
        raise OperatorError(
            f"{folder} contains an export with other options: see export.json there. Use the same "
            "options, or another directory."
        )
    if manifest is None or not manifest.is_complete:
        try:
            with _open_source(settings, project) as run_hogql:
                if manifest is None:
                    manifest = _start_export(request, run_hogql)
                    directory.save_manifest(manifest)
                manifest = _write_files(directory, manifest, run_hogql, events_per_file)
        except KeyboardInterrupt:
            print("Stopped. Run the same command to continue.", file=sys.stderr)
            raise typer.Exit(130) from None
        except OSError as error:
            raise OperatorError(
                f"{folder} cannot be written: {error.strerror or error}. Run the same command to "
                "continue."
            ) from None
    if as_json:
        names = [file.name for file in manifest.files]
        print_json({"events": manifest.events, "directory": str(folder), "files": names})
    else:
        print(f"{manifest.events} event(s) in {len(manifest.files)} file(s) in {folder}.")


def _start_export(request: ExportRequest, run_hogql: RunHogQL) -> ExportManifest:
    now = fetch_server_time(run_hogql)
    time_range = ExportRange(
        after=parse_date_parameter(request.after, now, UTC, "--after") if request.after else None,
        before=parse_date_parameter(request.before, now, UTC, "--before")
        if request.before
        else None,
        as_of=now,
        event=request.event,
    )
    return ExportManifest(request=request, time_range=time_range)


def _write_files(
    directory: ExportFolder, manifest: ExportManifest, run_hogql: RunHogQL, per_file: int
) -> ExportManifest:
    """Write the missing files. The manifest lists a file once it is complete."""
    request, files = manifest.request, list(manifest.files)
    pages = iterate_pages(run_hogql, manifest.time_range, manifest.position)
    total = count_events(run_hogql, manifest.time_range)
    with show_progress() as progress:
        bar = progress.add_bar("events", total, manifest.events)
        page = next(pages, [])
        while page:
            name = f"events-{len(files) + 1:05}.{request.format}"
            file, count = directory.begin(name, request.format), 0
            end: ExportPosition | None = None
            try:
                while page and count < per_file:
                    rows, page = page[: per_file - count], page[per_file - count :]
                    file.write(rows)
                    count, end = count + len(rows), position_of(rows[-1])
                    bar.advance(len(rows))
                    page = page or next(pages, [])
            finally:
                file.close()
            assert end is not None
            directory.finish(name)
            files.append(ExportFile(name=name, events=count, end=end))
            directory.save_manifest(
                ExportManifest(request=request, time_range=manifest.time_range, files=files)
            )
    complete = ExportManifest(
        request=request, time_range=manifest.time_range, files=files, is_complete=True
    )
    directory.save_manifest(complete)
    return complete


@contextmanager
def _open_source(settings: Settings, project: int | None) -> Iterator[RunHogQL]:
    """Yield a function that runs HogQL on the service, or on the data directory without a key."""
    if settings.personal_key:
        service = ServiceClient(resolve_service_url(settings), settings.personal_key, project)
        yield lambda text, values: service.query(text, values, fresh=True)["results"]
        return
    check_installation(settings)
    with asyncio.Runner() as runner:
        context = commands.queries.open_queries(settings)
        try:
            queries = runner.run(context.__aenter__())
        except commands.queries.FolderInUseError as error:
            raise OperatorError(
                f"{error} If that is the service, export from it: set a personal API key with "
                "--key or HEDGEROW_PERSONAL_KEY."
            ) from None
        try:
            owner = choose_project(queries.state, project)
            yield lambda text, values: runner.run(queries.run(owner, text, values))
        finally:
            runner.run(context.__aexit__(None, None, None))
